"""Rules that hold for any input.

Only `XmlPunctError` is raised. Tuples, punctuations, rejects and the error do not depend on how the bytes are fed and
cut. A single document is accepted if and only if libxml2 accepts it, apart from the restrictions in `OURS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from zlib import crc32

from lxml import etree

from tests.firehose.harness import Outcome, read, spec
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import Limits, SliceReader, StreamSpec

COLUMNS = "a INT NOT NULL, b STRING, c DECIMAL(4,2) PATH 'd/@c', e STRING PATH 'd/e'"
STREAM = spec(COLUMNS)
OURS = ("DOCTYPE", "DTDs are not read", "too large", "wrong punctuation")
"""Words in error messages of restrictions that libxml2 does not have."""


SMALL = Limits(
    depth=4, text=20, attribute=12, name=50, attributes=3, namespaces=2, inside=5, tag=80, element=120
)
WAYS = [(limits, feed, cut) for limits in (Limits(), SMALL) for feed, cut in ((5, 40), (1, 1), (None, 60))]


def check(data: bytes, ways: Sequence[tuple[Limits, int | None, int | None]] = WAYS) -> None:
    """Assert that the rules hold for ``data``, read in one piece and in each of ``ways``."""
    expected = source(data, 1 << 16)
    for size in dict.fromkeys(feed or 7 for _, feed, _ in ways):
        assert source(data, size) == expected, f"{size} bytes at a time"
    text = utf_8(data)
    for limits, feed, cut in ways:
        assert read(text, STREAM, feed, cut, limits) == read(text, STREAM, limits=limits), (feed, cut, limits)
    verdict = libxml2(text)
    if verdict is not None and not (expected.error and any(word in expected.error for word in OURS)):
        assert (expected.error is None) == verdict, f"libxml2 says {verdict}"


def check_one_way(data: bytes) -> None:
    """`check` with only one of the ways, which is faster for many inputs."""
    check(data, [WAYS[crc32(data) % len(WAYS)]])


def source(data: bytes, size: int, stream: StreamSpec = STREAM) -> Outcome:
    """The outcome of reading a source ``size`` bytes at a time."""
    outcome = Outcome()
    with closing(SliceReader(Source.of(data, "doc"), [stream])) as reader:
        while (parsed := reader.read(size)) is not None:
            outcome.tuples += parsed.slices[0].tuples.rows()
            outcome.punctuations += map(str, parsed.slices[0].punctuations)
            outcome.rejects += [f"{r} {r.text}" for r in parsed.rejects[0]]
            outcome.dropped += parsed.dropped[0]
        outcome.error = str(reader.error) if reader.error else None
    return outcome


def utf_8(data: bytes) -> bytes:
    """The bytes of a source in UTF-8; none if they are not valid in their encoding."""
    try:
        with Source.of(data).open() as reader:
            return b"".join(iter(lambda: reader.read(1 << 16), b""))
    except SourceError:
        return b""


def libxml2(data: bytes) -> bool | None:
    """Whether libxml2 accepts ``data`` as one document; None if there may be several, or none."""
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        kinds = etree.ErrorTypes
        several = error.code in (kinds.ERR_DOCUMENT_END, kinds.ERR_RESERVED_XML_NAME)
        return None if several or not data.strip() else False
    return all(entry.level_name == "WARNING" for entry in parser.error_log)

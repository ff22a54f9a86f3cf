"""What holds for whatever is read: nothing but `XmlPunctError` is ever raised; the tuples, punctuations, rejects and
the error are the same however the bytes arrive and wherever they are cut; a single document is accepted if and
only if libxml2 accepts it in one piece, apart from what only we refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from zlib import crc32

from lxml import etree

from tests.firehose.harness import Outcome, read, spec
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.source import Source
from xmlpunct.firehose import FirehoseReader, Limits, StreamSpec

COLUMNS = "a INT NOT NULL, b STRING, c DECIMAL(4,2) PATH 'd/@c', e STRING PATH 'd/e'"
STREAM = spec(COLUMNS)
OURS = ("DOCTYPE", "DTDs are not read", "too large", "wrong punctuation")
"""What we refuse and libxml2 does not, by words of the reason."""


SMALL = Limits(
    depth=4, text=20, attribute=12, name=50, attributes=3, namespaces=2, inside=5, tag=80, element=120
)
WAYS = [(limits, feed, cut) for limits in (Limits(), SMALL) for feed, cut in ((5, 40), (1, 1), (None, 60))]


def check(data: bytes, ways: Sequence[tuple[Limits, int | None, int | None]] = WAYS) -> None:
    """Assert that the rules hold for some bytes, read whole and in these ways."""
    whole = source(data, 1 << 16)
    for size in dict.fromkeys(feed or 7 for _, feed, _ in ways):
        assert source(data, size) == whole, f"{size} bytes at a time"
    text = utf_8(data)
    for limits, feed, cut in ways:
        assert read(text, STREAM, feed, cut, limits) == read(text, STREAM, limits=limits), (feed, cut, limits)
    verdict = libxml2(text)
    if verdict is not None and not (whole.error and any(word in whole.error for word in OURS)):
        assert (whole.error is None) == verdict, f"libxml2 says {verdict}"


def check_one_way(data: bytes) -> None:
    """`check`, in one of the ways: for who has many to check."""
    check(data, [WAYS[crc32(data) % len(WAYS)]])


def source(data: bytes, size: int, stream: StreamSpec = STREAM) -> Outcome:
    """All that reading a source gives, ``size`` bytes at a time."""
    found = Outcome()
    with closing(FirehoseReader(Source.of(data, "doc"), [stream])) as reader:
        while (parsed := reader.read(size)) is not None:
            found.tuples += parsed.slices[0].tuples.rows()
            found.punctuations += map(str, parsed.slices[0].punctuations)
            found.rejects += [f"{r} {r.text}" for r in parsed.rejects[0]]
            found.dropped += parsed.dropped[0]
        found.error = str(reader.error) if reader.error else None
    return found


def utf_8(data: bytes) -> bytes:
    """The bytes that a source hands on; none if they are not in their encoding."""
    try:
        with Source.of(data).open() as reader:
            return b"".join(iter(lambda: reader.read(1 << 16), b""))
    except SourceError:
        return b""


def libxml2(data: bytes) -> bool | None:
    """Whether libxml2 takes all of it as one document; None if there may be several, or none."""
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True)
    try:
        etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        kinds = etree.ErrorTypes
        several = error.code in (kinds.ERR_DOCUMENT_END, kinds.ERR_RESERVED_XML_NAME)
        return None if several or not data.strip() else False
    return all(entry.level_name == "WARNING" for entry in parser.error_log)

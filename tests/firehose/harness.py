"""Helpers that read short documents, in one piece or in many."""

from __future__ import annotations

from dataclasses import dataclass, field

from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import Limits, Parsed, Position, Split, Splitter, StreamSpec, elements_of, parse_split
from xmlpunct.punctuations.punctuation import Tuple
from xmlpunct.schema import Schema

ROOT = f'<r xmlns:p="{PUNCT_NAMESPACE}">'
"""A root's start tag, 54 bytes; ``p`` is the prefix of punctuations."""


def spec(columns: str = "a INT, b STRING", element: str = "t") -> StreamSpec:
    return StreamSpec("s", Schema.parse(columns), element)


def parse_document(
    document: str | bytes, columns: str = "a INT, b STRING", element: str = "t", **options: object
) -> Parsed:
    """Parse a document as one split, for one stream."""
    return parse_streams(document, [spec(columns, element)], **options)


def parse_streams(document: str | bytes, specs: list[StreamSpec], **options: object) -> Parsed:
    data = document.encode() if isinstance(document, str) else document
    return parse_split(Split("doc", Position(), data, True), specs, **options)  # type: ignore[arg-type]


@dataclass
class Outcome:
    """The complete outcome of reading a source."""

    tuples: list[Tuple] = field(default_factory=list)
    punctuations: list[str] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    dropped: int = 0
    error: str | None = None


def read(
    document: bytes,
    stream: StreamSpec,
    feed: int | None = None,
    cut: int | None = None,
    limits: Limits = Limits(),  # noqa: B008
) -> Outcome:
    """Read a source fed in pieces of ``feed`` bytes and cut into splits of about ``cut``."""
    splitter, outcome, feed = (
        Splitter("doc", elements_of([stream]), limits=limits),
        Outcome(),
        feed or len(document),
    )

    def drain() -> None:
        while outcome.error is None and (split := splitter.cut(cut)) is not None:
            assert split.data or split.final
            parsed = parse_split(split, [stream], limits=limits)
            (slice_,) = parsed.slices
            assert slice_.before == sorted(slice_.before)
            outcome.tuples += slice_.tuples.rows()
            outcome.punctuations += map(str, slice_.punctuations)
            outcome.rejects += [f"{r} {r.text}" for r in parsed.rejects[0]]
            outcome.dropped += parsed.dropped[0]
            outcome.error = str(parsed.error) if parsed.error else None
            assert outcome.error or split.final == splitter.finished

    for at in range(0, len(document), feed or 1):
        splitter.feed(document[at : at + (feed or 1)])
        drain()
    splitter.end()
    drain()
    assert outcome.error or splitter.finished
    return outcome

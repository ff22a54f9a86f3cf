"""A source from its beginning to its end, in one process."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.errors import SourceError
from xmlpunct.firehose.parser import Parsed, parse_split
from xmlpunct.firehose.sources import PartReader, Source
from xmlpunct.firehose.spec import PUNCT_NAMESPACE, Limits, StreamSpec, elements_of
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.slice import Slice


class FirehoseReader:
    """Reads the streams of a source, slice by slice.

    >>> from xmlpunct.schema import Schema
    >>> source = Source.of(b"<r><t><a>1</a></t><t><a>2</a></t></r>")
    >>> reader = FirehoseReader(source, [StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> while (parsed := reader.read(1000)) is not None:
    ...     print(parsed.slices[0].tuples.rows())
    [(1,), (2,)]
    []
    >>> reader.ended
    True
    """

    def __init__(
        self,
        source: Source,
        specs: Sequence[StreamSpec],
        punct_namespace: str = PUNCT_NAMESPACE,
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        self.source, self.specs = source, tuple(specs)
        self.punct_namespace, self.limits = punct_namespace, limits
        self.ended = False
        """Whether the end was reached, and in order: all roots closed and nothing wrong."""
        self.error: SourceError | None = None
        self.bytes_total: int | None = source.size
        self._elements = elements_of(specs, punct_namespace)
        self._part = 0
        self._before = 0  # bytes of the parts already read
        self._file: PartReader | None = None
        self._splitter: Splitter | None = None

    @property
    def bytes_read(self) -> int:
        """How many bytes of the source, as it is stored, have been read."""
        return self._before + (self._file.consumed if self._file else 0)

    @property
    def remaining(self) -> int | None:
        """How many bytes of the source are yet to be read; None if unknown."""
        return None if self.bytes_total is None else max(0, self.bytes_total - self.bytes_read)

    def read(self, size: int) -> Parsed | None:
        """Read about ``size`` bytes more and parse what is complete: one split, maybe with nothing in it.

        None at the end of the source and after an error, which the last result carries. It waits for bytes
        only if there are none at all.
        """
        while not (self.ended or self.error):
            try:
                parsed = self._step(size)
            except SourceError as error:
                parsed = self._nothing()
                parsed.error = error
            if parsed is None:
                continue
            if parsed.error:
                self.error = parsed.error
                self.close()
            return parsed
        return None

    def close(self) -> None:
        """Close the file being read."""
        if self._file:
            self._before += self._file.consumed
            self._file.close()
            self._file = None

    def _step(self, size: int) -> Parsed | None:
        """One split; None if a part has ended."""
        if self._file is None or self._splitter is None:
            self._file = self.source.open(self._part)
            self._splitter = Splitter(self._file.name, self._elements, limits=self.limits)
        split = self._splitter.cut()  # several documents may have come with one read
        if split is None:
            data = self._file.read(size)
            if data:
                self._splitter.feed(data)
            else:
                self._splitter.end()
            split = self._splitter.cut()
        if split is None:
            return self._nothing()
        parsed = parse_split(split, self.specs, self.punct_namespace, self.limits)
        if self._splitter.finished and not parsed.error:
            if not split.final:
                here = split.start
                parsed.error = SourceError(split.source, "malformed or too large", here.line, here.byte)
            else:
                self._next_part()
        return parsed

    def _next_part(self) -> None:
        self.close()
        self._part += 1
        self._splitter = None
        self.ended = self._part == len(self.source.parts)

    def _nothing(self) -> Parsed:
        count = len(self.specs)
        slices = [Slice(spec.schema.empty()) for spec in self.specs]
        return Parsed(slices, [[] for _ in range(count)], [0] * count, [0] * count)

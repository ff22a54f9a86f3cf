"""Finds the positions at which a large file can be cut, by scanning spans of it independently.

A span begins where the bytes look like the start tag of a tuple or punctuation. Its scan assumes that they are one, and
guesses the open elements. If the scan of the span before it ends there, with only text in between, the start is proved;
the start of the file needs no proof. A span whose start is not proved (it is in a comment, or in another tuple) is
scanned again as part of the span before it. A span with a wrong guess is scanned again with the right open elements. So
each cut is one that a `Splitter` makes that reads the file from its start, up to the first malformed byte. Cuts after
it do not matter: tuples are skipped without a check, and the task that parses the malformed piece reports the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import BinaryIO, NamedTuple
from zlib import crc32

from xmlpunct.base.errors import SourceError
from xmlpunct.engine.run.inputs.parse_ranges import AT_ONCE_BYTES
from xmlpunct.engine.run.inputs.parts import Part
from xmlpunct.engine.run.inputs.streams import Extent, ExtentStream, StreamOpener
from xmlpunct.firehose import native
from xmlpunct.firehose.native.tags import elements as opened_by
from xmlpunct.firehose.native.tags import names_only, tag_of
from xmlpunct.firehose.position import Cursor, Position
from xmlpunct.firehose.slice_reader import Cutter, ReadState
from xmlpunct.firehose.spec import ElementName, name_parts
from xmlpunct.firehose.splitter import Splitter

SPAN_BYTES = 32 * 2**20
"""The bytes that one task scans."""
PIECE_BYTES = 8 * 2**20
"""The bytes between two cuts, or one element more."""
_STEP_BYTES = 2**16
"""The bytes that a splitter reads at a time, where no tuples are skipped."""
_PROBE_BYTES, _PROBES = 2**14, 16
"""The bytes of a search for the start of a span, and the number of searches. If they fail, the span before goes on."""
_PASSES = 8
"""How often unproved spans are scanned again. The planner of the run cuts the remaining bytes."""
_MARK = re.compile(r" xmlpunct-guess='([0-9]+)'>\Z")
_NAME = rb"""<(?:[^\s<>/="'&;:!?]+:)?(?:%b)[\s/>]"""


class Piece(NamedTuple):
    """The bytes from a cut, at ``start``, to the next. ``final``: the file ends with them."""

    start: Position
    size: int
    checksum: int
    final: bool


@dataclass(frozen=True)
class Span:
    """Some bytes of a part, from ``start`` to ``stop``; it may be the ``last``."""

    part: Part
    elements: frozenset[ElementName]
    start: Position
    stop: int
    last: bool


class Scanned(NamedTuple):
    """The pieces of a span up to ``end``. ``is_complete``: that is its end; ``broken``: no piece can follow."""

    pieces: tuple[Piece, ...]
    end: Position
    is_complete: bool
    broken: bool


Scan = Callable[[Sequence[Span]], Sequence[Scanned]]
"""Scans spans, perhaps in parallel."""


def scan(span: Span) -> Scanned:
    """Scan a span. If it cannot be read, it is broken; the task that parses it reports the reason."""
    try:
        return _scan(span)
    except (OSError, SourceError):
        return Scanned((), span.start, False, True)


def _scan(span: Span) -> Scanned:
    pieces, begin, checksum, final = list[Piece](), span.start, 0, False
    with open(span.part.path, "rb") as file:
        stepper = _Stepper(span, file)
        for data, final in stepper:
            checksum, position = crc32(data, checksum), stepper.position
            if position.byte >= stepper.piece_end or final:
                pieces.append(Piece(begin, position.byte - begin.byte, checksum, final))
                begin, checksum, stepper.piece_end = position, 0, position.byte + PIECE_BYTES
        if final or stepper.broken:
            return Scanned(tuple(pieces), begin, final, not final)
        position = stepper.position
        file.seek(position.byte)
        text = file.read(span.stop - position.byte)
    is_complete = b"<" not in text
    if is_complete:
        lines = position.line + text.count(b"\n")
        position = replace(position, byte=span.stop, line=lines, started=True)
        checksum = crc32(text, checksum)
    if position.byte > begin.byte:
        pieces.append(Piece(begin, position.byte - begin.byte, checksum, False))
    return Scanned(tuple(pieces), position, is_complete, False)


class _Stepper:
    """Goes through a span from cut to cut. Iteration gives the bytes between two cuts, and whether the file ends there.

    ``position`` is that of the last cut. Consecutive tuples and punctuations are skipped, up to the first that ends at
    or after byte ``piece_end``, as if they were well formed: the task that parses them reports an error. Other bytes go
    through a `Splitter`. ``broken``: no cut can follow.
    """

    def __init__(self, span: Span, file: BinaryIO) -> None:
        self._span, self._file = span, file
        self._names = b"".join(name + b" " for name in _local_names(span.elements))
        self._window = _STEP_BYTES  # bytes to search for elements to skip
        self.position, self.piece_end, self.broken = span.start, span.start.byte + PIECE_BYTES, False

    def __iter__(self) -> Iterator[tuple[bytes, bool]]:
        section: tuple[bytes, bool] | None = b"", False
        while section is not None and not section[1]:
            section = self._pass() or self._understand()
            if section is not None:
                yield section

    def _pass(self) -> tuple[bytes, bool] | None:
        """Skip complete elements; None if there are none."""
        if not (native.COMPILED and self.position.open):
            return None
        self._file.seek(self.position.byte)
        data = self._file.read(min(self._window, self._span.stop - self.position.byte))
        size = native.skip(data, self._names, self.piece_end - self.position.byte)
        self._window = min(2 * self._window, AT_ONCE_BYTES) if 2 * size > len(data) else _STEP_BYTES
        if not size:
            return None
        at = self.position
        self.position = at.after(data[:size], at.open, doctype=at.doctype)
        return data[:size], False

    def _understand(self) -> tuple[bytes, bool] | None:
        """Cut as a `Splitter` does; None if there is no further cut."""
        span = self._span
        self._file.seek(self.position.byte)
        stream = ExtentStream(span.part.name, self._file, self.position.byte, Extent(span.stop, span.last))
        cutter = Cutter(StreamOpener(span.part, stream), span.elements)
        cutter.restore(ReadState(Cursor(0, self.position)))
        cuts = cutter.cut(_STEP_BYTES, _STEP_BYTES)
        piece = next((piece for piece in cuts.pieces if piece.split), None) if cuts else None
        if piece is None or piece.split is None:
            return None
        self.broken = piece.error is not None
        if self.broken:
            return None
        self.position = piece.state.cursor.position
        return piece.split.data, piece.split.final


def _local_names(elements: Collection[ElementName]) -> list[bytes]:
    """The names of elements, whatever their namespaces."""
    return sorted({name_parts(name)[1].encode() for name in elements})


def find_cuts(parts: Sequence[tuple[Part, frozenset[ElementName]]], scan_all: Scan) -> list[list[Piece]]:
    """The proved pieces of plain files, each with the elements of its tuples and punctuations."""
    chains = [_Chain(part, elements) for part, elements in parts]
    for _ in range(_PASSES):
        waiting = [(chain, run) for chain in chains for run in chain.waiting()]
        if not waiting:
            break
        results = scan_all([chain.span(run) for chain, run in waiting])
        for (_, run), scanned in zip(waiting, results, strict=True):
            run.take(scanned)
    return [chain.proved()[0] for chain in chains]


@dataclass
class _Run:
    """The scan of a span from its start, with a guess of the elements that are ``open`` there.

    ``is_complete``: it reached the start of the next run. ``is_overrun``: it did not, so the next start is none.
    """

    start: int
    stop: int
    open: tuple[str, ...]
    pieces: list[Piece] = field(default_factory=list)
    end: Position | None = None
    is_complete: bool = False
    broken: bool = False
    is_overrun: bool = False

    def begin(self, open_: tuple[str, ...]) -> None:
        """Start again, inside other elements."""
        self.open, self.pieces, self.end = open_, [], None
        self.is_complete = self.broken = self.is_overrun = False

    def take(self, scanned: Scanned) -> None:
        """Add the result of a scan."""
        self.pieces += scanned.pieces
        self.end, self.is_complete, self.broken = scanned.end, scanned.is_complete, scanned.broken
        self.is_overrun = not (scanned.is_complete or scanned.broken)

    @property
    def scan_start(self) -> Position:
        """Where the next scan starts. Lines are counted from the start of the span."""
        return self.end or Position(self.start, 1, _marked(self.open), self.start > 0)


class _Chain:
    """The runs of a file."""

    def __init__(self, part: Part, elements: frozenset[ElementName]) -> None:
        self.part, self.elements, self.size = part, elements, part.size or 0
        self.runs: list[_Run] = []
        with suppress(OSError):
            starts, guess = self._starts()
            for start, stop in pairwise([*starts, self.size]):
                self.runs.append(_Run(start, stop, guess if start else ()))

    def span(self, run: _Run) -> Span:
        """The span of a run that is yet to be scanned."""
        return Span(self.part, self.elements, run.scan_start, run.stop, run.stop == self.size)

    def waiting(self) -> list[_Run]:
        """The runs to scan again, past starts that are none, or inside other elements; none if all runs are proved."""
        _, end, count = self.proved()
        if count == len(self.runs):
            return []
        first = self.runs[count]
        if _shape(first.open) != _shape(end.open):  # perhaps in the following runs, too
            for run in self.runs[count:]:
                run.begin(end.open)
        elif first.broken:
            return []
        runs: list[_Run] = []
        for run in self.runs:
            if runs and runs[-1].is_overrun:
                runs[-1].stop, runs[-1].is_overrun = run.stop, False
            else:
                runs.append(run)
        self.runs = runs
        return [run for run in runs if not (run.is_complete or run.broken)]

    def proved(self) -> tuple[list[Piece], Position, int]:
        """The pieces that are proved from the start of the file, the position after them, and their number of runs."""
        pieces, at = list[Piece](), Position()
        for count, run in enumerate(self.runs):
            if _shape(run.open) != _shape(at.open):
                return pieces, at, count
            pieces += [piece._replace(start=_absolute(piece.start, at)) for piece in run.pieces]
            if not run.is_complete or run.end is None:
                return pieces, at, count
            at = _absolute(run.end, at)
        return pieces, at, len(self.runs)

    def _starts(self) -> tuple[list[int], tuple[str, ...]]:
        """The starts of spans, and the elements that are open around tuples."""
        names = b"|".join(map(re.escape, _local_names(self.elements)))
        tag, starts = re.compile(_NAME % names), [0]
        with open(self.part.path, "rb") as file:
            head = Splitter(self.part.name, self.elements)
            head.feed(file.read(_PROBE_BYTES * _PROBES))
            head.cut()
            for at in range(SPAN_BYTES, self.size, SPAN_BYTES):
                file.seek(at)
                for probe in range(_PROBES):
                    match = tag.search(file.read(_PROBE_BYTES))
                    if match is not None:
                        starts.append(at + probe * _PROBE_BYTES + match.start())
                        break
        return sorted({start for start in starts if start < self.size}), head.position.open


def _shape(open_: tuple[str, ...]) -> list[tuple[object, ...]]:
    """The properties of open elements that a search for boundaries in them depends on."""
    return [(tag_of(e.raw), e.name, sorted(e.namespaces.items()), e.declared) for e in opened_by(open_)]


def _marked(open_: tuple[str, ...]) -> tuple[str, ...]:
    """The same elements with a mark, by which `_absolute` recognises them."""
    return tuple(f"{names_only(raw)[:-1]} xmlpunct-guess='{number}'>" for number, raw in enumerate(open_))


def _absolute(relative: Position, base: Position) -> Position:
    """The position in the file of one that is relative to the start of a run."""
    marks = ((raw, _MARK.search(raw)) for raw in relative.open)
    open_ = tuple(raw if mark is None else base.open[int(mark[1])] for raw, mark in marks)
    is_in_base = relative.open and _MARK.search(relative.open[0]) is not None
    doctype = base.doctype if is_in_base else relative.doctype
    return replace(relative, line=base.line + relative.line - 1, open=open_, doctype=doctype)

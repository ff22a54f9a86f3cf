"""Where a large file can be cut, found by looking at spans of it apart from each other.

A span begins where the bytes look like the start tag of a tuple or punctuation. Whoever scans it takes that for true,
and guesses which elements are open there. A scan that ends where the next span begins, with nothing but text between,
proves that beginning; the first span begins where the file does. What is not proved (the next beginning stood in a
comment, or in another tuple) is scanned over that beginning; what was guessed wrong, once more. So a cut is one that a
`Splitter` could make which reads the file from its beginning, as far as it is well formed. Behind that nothing counts:
tuples are passed over unread, and whoever reads the piece that is malformed finds it.
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
from xmlpunct.firehose.cutter import Cutter, ReadState
from xmlpunct.firehose.native.tags import elements as opened_by
from xmlpunct.firehose.native.tags import names_only, tag_of
from xmlpunct.firehose.position import Cursor, Position
from xmlpunct.firehose.spec import ElementName, name_parts
from xmlpunct.firehose.splitter import Splitter

SPAN_BYTES = 32 * 2**20
"""How much one task scans."""
PIECE_BYTES = 8 * 2**20
"""How much lies between two cuts, or one element more."""
_STEP_BYTES = 2**16
"""How much to understand at a time of what is not passed over."""
_PROBE_BYTES, _PROBES = 2**14, 16
"""How much to look at for the beginning of a span, and how often. Without one the span before goes on."""
_PASSES = 8
"""How often to scan what was not proved. What is left, whoever plans the run has to cut."""
_MARK = re.compile(r" xmlpunct-guess='([0-9]+)'>\Z")
_NAME = rb"""<(?:[^\s<>/="'&;:!?]+:)?(?:%b)[\s/>]"""


class Piece(NamedTuple):
    """What lies from a cut, at ``start``, to the next: so many bytes, their checksum, whether the file ends there."""

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
    """A span's pieces, how far they reach, and whether that is to its end; ``broken``: nothing can follow."""

    pieces: tuple[Piece, ...]
    end: Position
    whole: bool
    broken: bool


Scan = Callable[[Sequence[Span]], Sequence[Scanned]]
"""Scans spans, perhaps elsewhere and at once."""


def scan(span: Span) -> Scanned:
    """Look at a span. What cannot be read is broken: whoever reads it tells why."""
    try:
        return _scan(span)
    except (OSError, SourceError):
        return Scanned((), span.start, False, True)


def _scan(span: Span) -> Scanned:
    pieces, begin, checksum, final = list[Piece](), span.start, 0, False
    with open(span.part.path, "rb") as file:
        stepper = _Stepper(span, file)
        for data, final in stepper:
            checksum, here = crc32(data, checksum), stepper.here
            if here.byte >= stepper.enough or final:
                pieces.append(Piece(begin, here.byte - begin.byte, checksum, final))
                begin, checksum, stepper.enough = here, 0, here.byte + PIECE_BYTES
        if final or stepper.broken:
            return Scanned(tuple(pieces), begin, final, not final)
        here = stepper.here
        file.seek(here.byte)
        rest = file.read(span.stop - here.byte)
    whole = b"<" not in rest
    if whole:
        lines = here.line + rest.count(b"\n")
        here, checksum = replace(here, byte=span.stop, line=lines, started=True), crc32(rest, checksum)
    if here.byte > begin.byte:
        pieces.append(Piece(begin, here.byte - begin.byte, checksum, False))
    return Scanned(tuple(pieces), here, whole, False)


class _Stepper:
    """Goes through a span from one place where it can be cut to another, and gives what lies between, and whether the
    file ends there.

    It is ``here`` then. Tuples and punctuations that stand one behind another are passed over, up to the first that
    ends at byte ``enough`` or behind, as if they were well formed: should they not be, whoever reads them finds it, and
    nothing behind them counts. All else a `Splitter` understands. ``broken``: nothing can follow.
    """

    def __init__(self, span: Span, file: BinaryIO) -> None:
        self._span, self._file = span, file
        self._names = b"".join(name + b" " for name in _local_names(span.elements))
        self._most = _STEP_BYTES  # to look at for what can be passed over
        self.here, self.enough, self.broken = span.start, span.start.byte + PIECE_BYTES, False

    def __iter__(self) -> Iterator[tuple[bytes, bool]]:
        found: tuple[bytes, bool] | None = b"", False
        while found is not None and not found[1]:
            found = self._pass() or self._understand()
            if found is not None:
                yield found

    def _pass(self) -> tuple[bytes, bool] | None:
        """Pass over whole elements; None if there are none."""
        if not (native.COMPILED and self.here.open):
            return None
        self._file.seek(self.here.byte)
        data = self._file.read(min(self._most, self._span.stop - self.here.byte))
        size = native.skip(data, self._names, self.enough - self.here.byte)
        self._most = min(2 * self._most, AT_ONCE_BYTES) if 2 * size > len(data) else _STEP_BYTES
        if not size:
            return None
        self.here = self.here.after(data[:size], self.here.open)
        return data[:size], False

    def _understand(self) -> tuple[bytes, bool] | None:
        """Go on as a `Splitter` does; None if nothing more can be cut."""
        span = self._span
        self._file.seek(self.here.byte)
        stream = ExtentStream(span.part.name, self._file, self.here.byte, Extent(span.stop, span.last))
        cutter = Cutter(StreamOpener(span.part, stream), span.elements)
        cutter.restore(ReadState(Cursor(0, self.here)))
        cuts = cutter.cut(_STEP_BYTES, _STEP_BYTES)
        piece = next((piece for piece in cuts.pieces if piece.split), None) if cuts else None
        if piece is None or piece.split is None:
            return None
        self.broken = piece.error is not None
        if self.broken:
            return None
        self.here = piece.state.cursor.position
        return piece.split.data, piece.split.final


def _local_names(elements: Collection[ElementName]) -> list[bytes]:
    """The names of elements, whatever their namespaces."""
    return sorted({name_parts(name)[1].encode() for name in elements})


def find_cuts(parts: Sequence[tuple[Part, frozenset[ElementName]]], scan_all: Scan) -> list[list[Piece]]:
    """The pieces of plain files, whose tuples and punctuations are some elements, as far as they are proved."""
    chains = [_Chain(part, elements) for part, elements in parts]
    for _ in range(_PASSES):
        waiting = [(chain, run) for chain in chains for run in chain.waiting()]
        if not waiting:
            break
        found = scan_all([chain.span(run) for chain, run in waiting])
        for (_, run), scanned in zip(waiting, found, strict=True):
            run.take(scanned)
    return [chain.proved()[0] for chain in chains]


@dataclass
class _Run:
    """What was scanned from the beginning of a span on, inside what was guessed to be ``open``.

    It is ``whole`` if it came to the next run's beginning, and ``overran`` if that is none.
    """

    start: int
    stop: int
    open: tuple[str, ...]
    pieces: list[Piece] = field(default_factory=list)
    end: Position | None = None
    whole: bool = False
    broken: bool = False
    overran: bool = False

    def begin(self, open_: tuple[str, ...]) -> None:
        """Be scanned anew, inside other elements."""
        self.open, self.pieces, self.end = open_, [], None
        self.whole = self.broken = self.overran = False

    def take(self, found: Scanned) -> None:
        """Go on to where a scan came."""
        self.pieces += found.pieces
        self.end, self.whole, self.broken = found.end, found.whole, found.broken
        self.overran = not (found.whole or found.broken)

    @property
    def place(self) -> Position:
        """Where to scan on. Lines are counted from the span's beginning."""
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
        """What is to be scanned of a run."""
        return Span(self.part, self.elements, run.place, run.stop, run.stop == self.size)

    def waiting(self) -> list[_Run]:
        """The runs to be scanned, over beginnings that are none, or inside other elements; none if all is proved."""
        _, end, count = self.proved()
        if count == len(self.runs):
            return []
        first = self.runs[count]
        if _shape(first.open) != _shape(end.open):  # and so, perhaps, it is behind it
            for run in self.runs[count:]:
                run.begin(end.open)
        elif first.broken:
            return []
        runs: list[_Run] = []
        for run in self.runs:
            if runs and runs[-1].overran:
                runs[-1].stop, runs[-1].overran = run.stop, False
            else:
                runs.append(run)
        self.runs = runs
        return [run for run in runs if not (run.whole or run.broken)]

    def proved(self) -> tuple[list[Piece], Position, int]:
        """What follows from the beginning of the file: the pieces, up to where they reach, and of how many runs."""
        found, at = list[Piece](), Position()
        for count, run in enumerate(self.runs):
            if _shape(run.open) != _shape(at.open):
                return found, at, count
            found += [piece._replace(start=_absolute(piece.start, at)) for piece in run.pieces]
            if not run.whole or run.end is None:
                return found, at, count
            at = _absolute(run.end, at)
        return found, at, len(self.runs)

    def _starts(self) -> tuple[list[int], tuple[str, ...]]:
        """Where spans begin, and what is open where tuples are."""
        names = b"|".join(map(re.escape, _local_names(self.elements)))
        tag, starts = re.compile(_NAME % names), [0]
        with open(self.part.path, "rb") as file:
            head = Splitter(self.part.name, self.elements)
            head.feed(file.read(_PROBE_BYTES * _PROBES))
            head.cut()
            for at in range(SPAN_BYTES, self.size, SPAN_BYTES):
                file.seek(at)
                for probe in range(_PROBES):
                    found = tag.search(file.read(_PROBE_BYTES))
                    if found is not None:
                        starts.append(at + probe * _PROBE_BYTES + found.start())
                        break
        return sorted({start for start in starts if start < self.size}), head.position.open


def _shape(open_: tuple[str, ...]) -> list[tuple[object, ...]]:
    """What matters of open elements to whoever looks for boundaries in them."""
    return [(tag_of(e.raw), e.name, sorted(e.namespaces.items()), e.declared) for e in opened_by(open_)]


def _marked(open_: tuple[str, ...]) -> tuple[str, ...]:
    """The same elements, so that they are known again."""
    return tuple(f"{names_only(raw)[:-1]} xmlpunct-guess='{number}'>" for number, raw in enumerate(open_))


def _absolute(there: Position, base: Position) -> Position:
    """A place as it is in the file, given the beginning of its run as it is."""
    known = ((raw, _MARK.search(raw)) for raw in there.open)
    open_ = tuple(raw if mark is None else base.open[int(mark[1])] for raw, mark in known)
    return replace(there, line=base.line + there.line - 1, open=open_)

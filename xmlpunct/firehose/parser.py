"""Splits into slices: the conforming reader.

libxml2 parses (through lxml's target interface, which keeps nothing), `Target` collects texts, `columns` and
`reading` turn them into values and patterns. This module joins them, and decides what is delivered when
something is wrong: everything before it, and nothing from there on.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import polars as pl
from lxml import etree

from xmlpunct.errors import Reject, SourceError
from xmlpunct.firehose import faults
from xmlpunct.firehose.columns import column
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.reading import PunctuationError, read_punctuation
from xmlpunct.firehose.shape import LimitError, Names, Shape, states
from xmlpunct.firehose.spec import (
    PUNCT_NAMESPACE,
    Limits,
    StreamSpec,
    elements_of,
    expanded,
    punctuation_element,
)
from xmlpunct.firehose.target import DoctypeError, Found, Target
from xmlpunct.punctuation import Punctuation
from xmlpunct.slice import Slice

NO_DOCTYPE = "DOCTYPE is not accepted"


@dataclass
class Parsed:
    """What was read from a split; lists are per stream.

    ``dropped`` counts punctuations left out because they constrain an attribute that is not declared,
    ``read`` all that were read, those and the empty ones included. ``error`` is what is wrong with the
    source: everything before it is in the slices, and no more will come.
    """

    slices: list[Slice] = field(default_factory=list)
    rejects: list[list[Reject]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    error: SourceError | None = None
    rejection: Callable[[int, int, str], Reject] | None = None
    """Makes a reject of a tuple that was read: of the stream of that number the one in that row, for a reason."""


def parse_split(
    split: Split,
    specs: Sequence[StreamSpec],
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> Parsed:
    """Read the tuples and punctuations of some streams from a split. Never raises for bad data.

    >>> from xmlpunct.firehose.position import Position
    >>> from xmlpunct.schema import Schema
    >>> split = Split("s", Position(), b"<r><t><a>1</a></t><t><a>x</a></t></r>", True)
    >>> found = parse_split(split, [StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> found.slices[0].tuples.rows(), str(found.rejects[0][0])
    ([(1,)], "s, line 1, byte 18: attribute a: 'x' is not of type INT")
    """
    return _Parse(split, specs, punct_namespace, limits).run()


@dataclass(frozen=True, slots=True)
class _Fatal:
    """What ends the delivery: an offset, a reason, and the start tag from which on nothing counts."""

    offset: int
    reason: str
    number: float = float("inf")


class _Parse:
    def __init__(
        self, split: Split, specs: Sequence[StreamSpec], punct_namespace: str, limits: Limits
    ) -> None:
        self.split, self.specs, self.limits = split, list(specs), limits
        self.punct_namespace = punct_namespace
        self.shapes = [Shape.of(spec.schema) for spec in specs]
        self.places = faults.Places(split)
        self.prologue = split.start.prologue
        self.found: list[Found] = [Found(0)] * len(specs)
        self.rows: list[list[int]] = []

    def run(self) -> Parsed:
        ready = _ready(self.split)
        if isinstance(ready, _Fatal):
            self.found = [Found(len(shape.paths)) for shape in self.shapes]
            return self.deliver(ready)
        fatals: list[_Fatal] = []
        for group in _groups(self.specs, self.punct_namespace):
            fatal = self.read(ready, group)
            if fatal:
                fatals.append(fatal)
        return self.deliver(min(fatals, key=lambda f: f.number) if fatals else None)

    def read(self, ready: _Ready, group: list[int]) -> _Fatal | None:
        """Parse for some of the streams, whose elements all differ."""
        target = self.target(group)
        fatal = self.parse(target, ready.data)
        if isinstance(fatal, etree._LogEntry | _Unknown):
            entry = None if isinstance(fatal, _Unknown) else fatal
            offset, right, reason = faults.malformed(self.split, ready.data, entry)
            target = self.target(group)
            again = self.parse(target, ready.data[:right])
            fatal = again if isinstance(again, _Fatal) else _Fatal(offset, reason)
        elif fatal is None:
            fatal = self.unfinished(target, ready)
        for i, found in zip(group, target.found, strict=True):
            self.found[i] = found
        return fatal

    def target(self, group: list[int]) -> Target:
        names, specs = Names(self.limits), [self.specs[i] for i in group]
        shapes = [self.shapes[i] for i in group]
        marks = [punctuation_element(spec.element, self.punct_namespace) for spec in specs]
        others = elements_of(self.specs, self.punct_namespace)
        return Target(states(specs, shapes, marks, others, names), names, [len(s.paths) for s in shapes])

    def parse(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """Run the parser. Gives what was too large or forbidden, what was malformed, or None."""
        parser = faults.new_parser(target)
        try:
            for piece in (self.prologue, *faults.pieces(data), faults.TAIL):
                target.reached = False
                if piece:
                    parser.feed(piece)
                entry = faults.complaint(parser)
                if entry is not None:
                    return entry
        except etree.XMLSyntaxError:
            return faults.complaint(parser) or _Unknown()
        except LimitError as error:
            return faults.complaint(parser) or self.at(target.starts, f"too large: {error}")
        except DoctypeError:
            return _Fatal(max(data.find(b"<!DOCTYPE"), 0), NO_DOCTYPE)
        return None if target.reached else _Unknown()

    def at(self, number: int, reason: str) -> _Fatal:
        """Something wrong with the element of a start tag, counted as the target does."""
        return _Fatal(self.places.offset(number - len(self.split.start.open)), reason, number)

    def unfinished(self, target: Target, ready: _Ready) -> _Fatal | None:
        """What is wrong at the end of data without any error."""
        split, size = self.split, len(self.split.data)
        if not split.final:
            if target.inside:
                return self.at(
                    target.row_at, f"too large: an element longer than {self.limits.element:,} bytes"
                )
            if size > self.limits.element and target.starts == len(split.start.open):
                return _Fatal(0, f"too large: more than {self.limits.element:,} bytes without an element")
            return None
        if target.stack or (ready.declared and not target.starts):
            offset, _, reason = faults.truncated(split, self.places)
            return _Fatal(offset, reason)
        if not target.starts and not split.start.started:
            return _Fatal(size, "no XML document: there is no root element")
        return None

    def deliver(self, fatal: _Fatal | None) -> Parsed:
        """Turn what was found before ``fatal``, and before any wrong punctuation, into slices."""
        punctuations: list[list[tuple[int, int, Punctuation | None]]] = []
        for i in range(len(self.specs)):
            fatal = self.oversize(self.found[i], fatal)
        for i, spec in enumerate(self.specs):
            uris = frozenset({"", self.punct_namespace, expanded(spec.element)[0]})
            read: list[tuple[int, int, Punctuation | None]] = []
            for number, before, branch in self.found[i].punctuations:
                if fatal and number >= fatal.number:
                    break
                try:
                    read.append((number, before, read_punctuation(spec.schema, self.shapes[i], branch, uris)))
                except PunctuationError as error:
                    fatal = self.at(number, str(error))
                    break
            punctuations.append(read)
        parsed, end = Parsed(), fatal.number if fatal else float("inf")
        parsed.rejection = lambda stream, row, reason: self.reject(self.rows[stream][row], reason)
        for i in range(len(self.specs)):
            self.slice(parsed, i, end, [p for p in punctuations[i] if p[0] < end])
        if fatal:
            line, byte = self.places.line(fatal.offset), self.places.byte(fatal.offset)
            parsed.error = SourceError(self.split.source, fatal.reason, line, byte)
        return parsed

    def oversize(self, found: Found, fatal: _Fatal | None) -> _Fatal | None:
        most = self.limits.text
        if len(self.split.data) > most:
            at = next((i for i, t in enumerate(found.cells) if t is not None and len(t) > most), None)
            number = found.at[at // found.width] if at is not None else float("inf")
            if at is not None and not (fatal and number >= fatal.number):
                return self.at(int(number), f"too large: a value longer than {most:,} characters")
        return fatal

    def slice(
        self, parsed: Parsed, i: int, end: float, punctuations: list[tuple[int, int, Punctuation | None]]
    ) -> None:
        """Add the slice of stream i, from items before start tag ``end``."""
        schema, shape, found = self.specs[i].schema, self.shapes[i], self.found[i]
        count = len(found.at) if end == float("inf") else bisect_left(found.at, end)
        cells = found.cells if count == len(found.at) else found.cells[: count * found.width]
        wrong: dict[int, str] = {}
        series = []
        for attribute, slot in zip(schema, shape.slots, strict=True):
            values, faulty = column(attribute, cells[slot :: found.width])
            series.append(values)
            for row, reason in faulty.items():
                wrong.setdefault(row, reason)
        for row, (slot, reason) in found.faults.items():
            if row < count:
                wrong[row] = f"attribute {schema.names[shape.slots.index(slot)]}: {reason}"
        tuples = pl.DataFrame(series) if series else schema.empty()
        bad = sorted(wrong)
        if bad:
            tuples = tuples[[row for row in range(count) if row not in wrong]]
        kept = [(before, p) for _, before, p in punctuations if p is not None and not p.is_empty]
        before = [n - bisect_left(bad, n) for n, _ in kept]
        parsed.slices.append(Slice(tuples, [p for _, p in kept], before))
        self.rows.append(
            [at for row, at in enumerate(found.at[:count]) if row not in wrong] if bad else found.at
        )
        parsed.rejects.append([self.reject(found.at[row], wrong[row]) for row in bad])
        parsed.dropped.append(sum(p is None for _, _, p in punctuations))
        parsed.read.append(len(punctuations))

    def reject(self, number: int, reason: str) -> Reject:
        number -= len(self.split.start.open)
        offset = self.places.offset(number)
        line, byte = self.places.line(offset), self.places.byte(offset)
        return Reject(self.split.source, line, byte, reason, self.places.text(number))


class _Unknown:
    """The parser failed and did not say at what."""


@dataclass(frozen=True, slots=True)
class _Ready:
    data: bytes
    declared: bool


_MISC = re.compile(rb"(?:[ \t\r\n]++|<!--.*?-->|<\?(?!xml[ \t\r\n?]).*?\?>)*+", re.DOTALL)
_ANY_DECLARATION = re.compile(rb"<\?xml[ \t\r\n].*?\?>", re.DOTALL)
_DECLARATION = re.compile(
    rb"""<\?xml \s+version\s*=\s*(?:"1\.[0-9]+"|'1\.[0-9]+')
       (?:\s+encoding\s*=\s*(?:"[A-Za-z][A-Za-z0-9._-]*"|'[A-Za-z][A-Za-z0-9._-]*'))?
       (?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))? \s*\?>""",
    re.VERBOSE,
)
_BOM = b"\xef\xbb\xbf"


def _ready(split: Split) -> _Ready | _Fatal:
    """The data as the parser is to see it, of the same length: without byte order mark and XML declaration.

    The declaration may name the encoding that the source had before it became UTF-8, and what stands between
    two documents of one source (the first one's comments, say) may come before the second's declaration.
    """
    data, declared = split.data, False
    if split.start.open:
        return _Ready(data, declared)
    misc = _MISC.match(data) if split.start.started else None
    at = misc.end() if misc else 0
    if data.startswith(_BOM, at):
        data = data[:at] + b"   " + data[at + 3 :]
        at += 3
    found = _ANY_DECLARATION.match(data, at)
    if found:
        declared = True
        if not _DECLARATION.fullmatch(found[0]):
            return _Fatal(at, "malformed XML declaration")
        data = data[:at] + re.sub(rb"[^\n]", b" ", found[0]) + data[found.end() :]
    misc = _MISC.match(data)
    at = misc.end() if misc else 0
    return _Fatal(at, NO_DOCTYPE) if data.startswith(b"<!DOCTYPE", at) else _Ready(data, declared)


def _groups(specs: list[StreamSpec], punct_namespace: str) -> list[list[int]]:
    """The streams in groups, in each of which no two want the same element."""
    groups: list[tuple[set[str], list[int]]] = []
    for i, spec in enumerate(specs):
        wanted = {spec.element, punctuation_element(spec.element, punct_namespace)}
        for names, members in groups:
            if not names & wanted:
                names |= wanted
                members.append(i)
                break
        else:
            groups.append((wanted, [i]))
    return [members for _, members in groups]

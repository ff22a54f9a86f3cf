"""Splits into slices: what the native reader does not prove goes to libxml2.

`walker` has the native reader fill rows. Else libxml2 parses (through lxml's target interface, which keeps nothing)
and `Target` collects texts. `columns` and `reading` turn them into values and patterns. This module joins them, and
decides what is delivered when something is wrong: everything before it, and nothing from there on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from lxml import etree

from xmlpunct.firehose import faults
from xmlpunct.firehose.builder import Parsed, Rows, SliceBuilder
from xmlpunct.firehose.bundling import batch_of
from xmlpunct.firehose.cells import Cells, Ints
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.dictionary import contained
from xmlpunct.firehose.markup import complete, long_tag
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.prologue import Ready, ready
from xmlpunct.firehose.reading import PunctuationError, punctuations_of, read_punctuation
from xmlpunct.firehose.shape import LimitError, Names, Shape, states
from xmlpunct.firehose.spec import (
    PUNCT_NAMESPACE,
    Limits,
    StreamSpec,
    elements_of,
    expanded,
    punctuation_element,
)
from xmlpunct.firehose.target import Branch, DoctypeError, Found, Target
from xmlpunct.firehose.walker import Walk, Walked, Walker
from xmlpunct.forks import polars_works
from xmlpunct.punctuations.batch import COLUMN_FROM
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema


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
    return Parser(specs, punct_namespace, limits).parse(split)


def parse_conforming(
    split: Split,
    specs: Sequence[StreamSpec],
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> Parsed:
    """`parse_split` by libxml2 alone: the same, at its own pace."""
    return _parse(split, _Streams(tuple(specs), punct_namespace, limits)).run()


class Parser:
    """`parse_split` for many splits: what follows from the streams is worked out once.

    Threads may share a parser, but for one that reads ``ahead``, which belongs to one reader.

    >>> from xmlpunct.firehose.position import Position
    >>> from xmlpunct.schema import Schema
    >>> parser = Parser([StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> parser.parse(Split("s", Position(), b"<r><t><a>1</a></t></r>", True)).slices[0].tuples.rows()
    [(1,)]
    """

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        punct_namespace: str = PUNCT_NAMESPACE,
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        self.specs = tuple(specs)
        self._streams = _Streams(self.specs, punct_namespace, limits)
        self._walker = Walker(self.specs, self._streams.shapes, self._streams.groups, punct_namespace, limits)

    def parse(self, split: Split) -> Parsed:
        """Read a split. Never raises for bad data."""
        walked = self._walker.walk(split)
        return (walked and self._parsed(split, walked)) or _parse(split, self._streams).run()

    def ahead(self, split: Split) -> Walk | None:
        """For a `Splitter`: reads what is to become the next split as far as it can, so that `parse` need not."""
        return self._walker.ahead(split)

    def _parsed(self, split: Split, walked: Sequence[Walked]) -> Parsed | None:
        """What is in a split that is well formed; None if a punctuation is wrong."""
        streams = self._streams
        builder = SliceBuilder(split, faults.Places(split))
        for spec, shape, found in zip(streams.specs, streams.shapes, walked, strict=True):
            try:
                said = _said(spec.schema, shape, found)
            except PunctuationError:
                return None
            offsets = partial(found.at.astype, np.int64)
            rows = Rows(len(found.at), found.cells, found.faults, partial(_place, split, found), offsets)
            before = found.before.astype(np.int64)
            builder.add(spec, shape, rows, said, before, found.overlooked)
        return builder.parsed


def _place(split: Split, found: Walked, row: int) -> tuple[int, str]:
    """Where a tuple begins, and its text."""
    at = int(found.at[row])
    return at, faults.shown(split.data, at, int(found.end[row]))


def _said(schema: Schema, shape: Shape, found: Walked) -> Sequence[Punctuation | None]:
    """The punctuations of a stream; in a column, if they make one."""
    count, slots = len(found.before), found.patterns
    if found.dropped.any():
        kept = np.flatnonzero(~found.dropped)
        said: list[Punctuation | None] = [None] * count
        listed = [cells.take(kept).listed("*") for cells in slots]
        for place, p in zip(kept.tolist(), punctuations_of(schema, shape, len(kept), listed), strict=True):
            said[place] = p
        return said
    batch = batch_of(schema, shape, slots) if count >= COLUMN_FROM and polars_works() else None
    if batch is not None:
        return batch
    return punctuations_of(schema, shape, count, [cells.listed("*") for cells in slots])


@dataclass(frozen=True, slots=True)
class _Fatal:
    """What ends the delivery: an offset, a reason, and the start tag from which on nothing counts."""

    offset: int
    reason: str
    number: float = float("inf")


class _Streams:
    """What to read, and what follows from that. It never changes."""

    def __init__(self, specs: tuple[StreamSpec, ...], punct_namespace: str, limits: Limits) -> None:
        self.specs, self.limits, self.punct_namespace = specs, limits, punct_namespace
        self.shapes = [Shape.of(spec.schema) for spec in specs]
        self.groups = _groups(specs, punct_namespace)
        self.elements = elements_of(specs, punct_namespace)

    def punctuation(self, stream: int, branch: Branch) -> Punctuation | None:
        """The punctuation of a stream that an element says. Raises `PunctuationError`."""
        spec = self.specs[stream]
        return read_punctuation(spec.schema, self.shapes[stream], branch, self._uris(spec))

    def _uris(self, spec: StreamSpec) -> frozenset[str]:
        """The namespaces in which the parts of a punctuation may be."""
        return frozenset({"", self.punct_namespace, expanded(spec.element)[0]})


class _Parse:
    """One split, ``ready`` for libxml2; ``behind`` is what is known to be wrong right behind it."""

    def __init__(self, split: Split, ready: Ready, streams: _Streams, behind: _Fatal | None) -> None:
        self.split, self.ready, self.behind = split, ready, behind
        self.streams, self.limits = streams, streams.limits
        self.places = faults.Places(split)
        self.prologue = split.start.prologue
        self.found = [Found(len(shape.paths)) for shape in streams.shapes]

    def run(self) -> Parsed:
        return self.deliver(self.find())

    def find(self) -> _Fatal | None:
        """Parse, and find out what ends the delivery."""
        ready = self.ready
        if not self.split.final and len(self.split.data) > self.limits.element:
            # What comes behind the last complete token is cut anywhere.
            ready = Ready(ready.data[: complete(ready.data)], ready.declared)
        fatals = [fatal for group in self.streams.groups if (fatal := self.read(ready, group))]
        fatal = min(fatals, key=lambda f: f.number) if fatals else None
        for found in self.found:
            fatal = self.oversize(found, fatal)
        return fatal

    def read(self, ready: Ready, group: list[int]) -> _Fatal | None:
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
            fatal = self.behind or self.unfinished(target, ready)
        for i, found in zip(group, target.found, strict=True):
            self.found[i] = found
        return fatal

    def target(self, group: list[int]) -> Target:
        names, all_ = Names(self.limits), self.streams
        specs, shapes = [all_.specs[i] for i in group], [all_.shapes[i] for i in group]
        marks = [punctuation_element(spec.element, all_.punct_namespace) for spec in specs]
        return Target(
            states(specs, shapes, marks, all_.elements, names), names, [len(s.paths) for s in shapes]
        )

    def parse(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """Run the parser. Gives what was too large or forbidden, what was malformed, or None."""
        return contained(lambda: self.feed(target, data), data, lambda: target.names.met)

    def feed(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """`parse`, in this thread."""
        with faults.new_parser(target) as parser:
            try:
                for piece in (*faults.pieces(self.prologue), *faults.pieces(data), faults.TAIL):
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
                return faults.complaint(parser) or _Unknown()
            return None if target.reached else _Unknown()

    def at(self, number: int, reason: str) -> _Fatal:
        """Something wrong with the element of a start tag, counted as the target does."""
        return _Fatal(self.places.offset(number - len(self.split.start.open)), reason, number)

    def unfinished(self, target: Target, ready: Ready) -> _Fatal | None:
        """What is wrong at the end of data without any error."""
        split, size = self.split, len(self.split.data)
        if not split.final:
            if target.inside:
                return self.at(
                    target.row_at, f"too large: an element longer than {self.limits.element:,} bytes"
                )
            if size > self.limits.element:
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
        for i, found in enumerate(self.found):
            read: list[tuple[int, int, Punctuation | None]] = []
            for number, before, branch in found.punctuations:
                if fatal and number >= fatal.number:
                    break
                try:
                    read.append((number, before, self.streams.punctuation(i, branch)))
                except PunctuationError as error:
                    fatal = self.at(number, str(error))
                    break
            punctuations.append(read)
        builder, end = SliceBuilder(self.split, self.places), fatal.number if fatal else float("inf")
        for i, found in enumerate(self.found):
            count = len(found.at) if end == float("inf") else bisect_left(found.at, end)
            width = found.width
            cells = [Cells.of(found.cells[slot : count * width : width]) for slot in range(width)]
            faults = {row: fault for row, fault in found.faults.items() if row < count}
            offsets = partial(self.offsets, found, count)
            rows = Rows(count, cells, faults, partial(self.place, found), offsets)
            said = [(before, p) for number, before, p in punctuations[i] if number < end]
            at, ps = np.array([n for n, _ in said], np.int64), [p for _, p in said]
            builder.add(
                self.streams.specs[i], self.streams.shapes[i], rows, ps, at, found.overlooked_before(end)
            )
        if fatal:
            builder.fail(fatal.offset, fatal.reason)
        return builder.parsed

    def oversize(self, found: Found, fatal: _Fatal | None) -> _Fatal | None:
        most = self.limits.text
        if len(self.split.data) > most:
            at = next((i for i, t in enumerate(found.cells) if t is not None and len(t) > most), None)
            number = found.at[at // found.width] if at is not None else float("inf")
            if at is not None and not (fatal and number >= fatal.number):
                return self.at(int(number), f"too large: a value longer than {most:,} characters")
        return fatal

    def place(self, found: Found, row: int) -> tuple[int, str]:
        """Where a tuple begins, and its text."""
        number = found.at[row] - len(self.split.start.open)
        return self.places.offset(number), self.places.text(number)

    def offsets(self, found: Found, count: int) -> Ints:
        """Where the first tuples begin."""
        return self.places.offsets(np.array(found.at[:count], np.int64) - len(self.split.start.open))


def _parse(split: Split, streams: _Streams, behind: _Fatal | None = None) -> _Parse:
    """What is to be parsed of a split: no more than what comes before anything that nobody needs to parse."""

    def until(end: int) -> Split:
        return Split(split.source, split.start, split.data[:end], False)

    found = ready(split)
    if found.refused is not None:
        return _parse(until(found.refused), streams, _Fatal(found.refused, found.reason))
    data, limits = split.data, streams.limits
    at = long_tag(data, limits.tag) if len(data) > limits.tag else None
    if at is not None or (not split.final and len(data) > limits.element):
        wrong, end = forbidden(data[: limits.element if at is None else at + limits.tag + 1])
        if wrong >= 0:  # the byte behind it may be what makes it wrong
            split = until(min(end + 1, limits.element))
            return _Parse(split, ready(split), streams, behind)
    if at is not None:
        return _parse(until(at), streams, _Fatal(at, f"too large: a tag longer than {limits.tag:,} bytes"))
    return _Parse(split, found, streams, behind)


class _Unknown:
    """The parser failed and did not say at what."""


def _groups(specs: Sequence[StreamSpec], punct_namespace: str) -> list[list[int]]:
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

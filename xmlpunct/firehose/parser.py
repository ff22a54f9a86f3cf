"""Splits into slices: what the native reader does not prove goes to libxml2.

`walker` has the native reader fill rows. Else libxml2 parses (through lxml's target interface, which keeps nothing)
and `Target` collects texts. `columns` and `reading` turn them into values and patterns. This module joins them, and
decides what is delivered when something is wrong: everything before it, and nothing from there on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain

import numpy as np
from lxml import etree

from xmlpunct.base.errors import SourceError
from xmlpunct.base.forks import polars_works
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import reading
from xmlpunct.firehose.ancestors import Ancestors, Branch
from xmlpunct.firehose.builder import Parsed, Rows, SliceBuilder
from xmlpunct.firehose.bundling import batch_of
from xmlpunct.firehose.cells import Cells, Ints
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml import malformed
from xmlpunct.firehose.libxml.dictionary import contained
from xmlpunct.firehose.libxml.parser_target import DoctypeError, Found, Target
from xmlpunct.firehose.libxml.prologue import Ready, ready
from xmlpunct.firehose.native.nested_tuples import merged
from xmlpunct.firehose.native.path_automaton import LimitError, Names, states
from xmlpunct.firehose.native.tags import complete, long_tag
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.native.walker import Known, Walk, Walker
from xmlpunct.firehose.position import Said, Split
from xmlpunct.firehose.reading import PunctuationError
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import Elements, Limits, StreamSpec, elements_of, punctuation_element
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM


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


def said_after(split: Split, elements: Elements, limits: Limits) -> Said:
    """What the elements that are open behind a split have given to tuples in them."""
    said = _parser_of(elements.specs, elements.punct_namespace, limits)._walker.said(split)
    if said is not None:
        return said
    return _parse(split, _Streams(elements.specs, elements.punct_namespace, limits)).said_behind()


@lru_cache(maxsize=16)
def _parser_of(specs: tuple[StreamSpec, ...], punct_namespace: str, limits: Limits) -> Parser:
    return Parser(specs, punct_namespace, limits)


class Parser:
    """`parse_split` for many splits: what follows from the streams is worked out once.

    Threads may share a parser. But it reads ``ahead`` for one reader only, whose `Splitter` cuts no ``elements``.

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
        self.elements = self._streams.elements
        self._walker = Walker(self.specs, self._streams.shapes, self._streams.groups, punct_namespace, limits)

    def parse(self, split: Split, known: Known | None = None) -> Parsed:
        """Read a split, of which something may be ``known``. Never raises for bad data."""
        walked = self._walker.walk(split, known)
        parsed = (walked and self._parsed(split, walked)) or _parse(split, self._streams).run()
        if split.final and parsed.error is None:
            parsed.close(split.labels)
        return parsed

    def ahead(self, split: Split) -> tuple[Walk, Said | None] | None:
        """For a `Splitter`: reads what is to become the next split as far as it can; see `known`.

        What open elements have said behind it is None if it is not known.
        """
        return self._walker.ahead(split)

    def known(self, split: Split) -> Known | None:
        """What was read ahead of a split, so that `parse` need not read that again."""
        return self._walker.known(split)

    def _parsed(self, split: Split, walked: Sequence[Walked]) -> Parsed | None:
        """What is in a split that is well formed; None if a punctuation is wrong."""
        streams = self._streams
        builder = SliceBuilder(split, malformed.Places(split))
        for spec, shape, found in zip(streams.specs, streams.shapes, walked, strict=True):
            try:
                said = _said(spec, shape, found)
            except PunctuationError:
                return None
            place = partial(_place, split, found)
            offsets = partial(found.at.astype, np.int64)
            rows = Rows(len(found.at), found.cells, found.faults, place, offsets, found.items)
            rows.late = [(at, malformed.shown(split.data, at, end), slot) for at, end, slot in found.late]
            builder.add(spec, shape, rows, said, found.before.astype(np.int64), found.overlooked)
        return builder.parsed


def _place(split: Split, found: Walked, row: int) -> tuple[int, str]:
    """Where a tuple begins, and its text."""
    at = int(found.at[row])
    return at, malformed.shown(split.data, at, int(found.end[row]))


def _said(spec: StreamSpec, shape: Shape, found: Walked) -> Sequence[Punctuation | None]:
    """The punctuations of a stream; in a column, if they make one. Raises `PunctuationError`."""
    schema, count, texts = spec.schema, len(found.before), found.patterns_of(spec.schema, shape)
    others = np.zeros(count, np.bool_)
    if spec.where is not None and len(found.patterns) > shape.width + len(shape.said):
        patterns = found.patterns[-1].listed("*")
        others = np.array([reading.is_of_others(spec.where[1], text) for text in patterns], np.bool_)
    if found.dropped.any() or others.any():
        said: list[Punctuation | None] = [None] * count
        for row in np.flatnonzero(others).tolist():
            said[row] = reading.nothing(schema)
        kept = np.flatnonzero(~(found.dropped | others))
        listed = [None if cells is None else cells.take(kept).listed("*") for cells in texts]
        for place, p in zip(kept.tolist(), reading.punctuations_of(schema, len(kept), listed), strict=True):
            said[place] = p
        return said
    batch = batch_of(schema, texts) if count >= COLUMN_FROM and polars_works() else None
    if batch is not None:
        return batch
    return reading.punctuations_of(
        schema, count, [None if cells is None else cells.listed("*") for cells in texts]
    )


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
        self.elements = elements_of(specs, punct_namespace)  # if they can be told apart

    def punctuation(self, stream: int, branch: Branch) -> Punctuation | None:
        """The punctuation of a stream that an element says. Raises `PunctuationError`."""
        spec = self.specs[stream]
        return reading.read_punctuation(spec, self.shapes[stream], branch, self.punct_namespace)


class _Parse:
    """One split, ``ready`` for libxml2; ``behind`` is what is known to be wrong right behind it."""

    def __init__(self, split: Split, ready: Ready, streams: _Streams, behind: _Fatal | None) -> None:
        self.split, self.ready, self.behind = split, ready, behind
        self.streams, self.limits = streams, streams.limits
        self.places = malformed.Places(split)
        self.said: list[list[list[tuple[int, int, tuple[str, ...], bool]]]] = []
        self.prologue = split.start.prologue
        self.found = [Found(shape.width, len(shape.tables)) for shape in streams.shapes]

    def run(self) -> Parsed:
        return self.deliver(self.find())

    def said_behind(self) -> Said:
        """What the elements that are open behind the split have given to tuples in them."""
        if self.find() is not None or not self.said:
            return ()
        return tuple(tuple(sorted(chain(*of_one))) for of_one in zip(*self.said, strict=True))

    def find(self) -> _Fatal | None:
        """Parse, and find out what ends the builder."""
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
        """Parse for some of the streams, whose elements all differ; one of nested tuples level by level."""
        fatal = self.read_level(ready, group, 0)
        level, whole = 0, [self.found[i] for i in group]
        while any(self.streams.specs[i].nested for i in group) and any(found.at for found in whole):
            level += 1
            self.read_level(ready, group, level)
            further = [self.found[i] for i in group]
            if not any(found.at for found in further):
                break
            pairs = zip(whole, further, strict=True)
            whole = [merged(self.streams.shapes[i], *both) for i, both in zip(group, pairs, strict=True)]
        for i, found in zip(group, whole, strict=True):
            self.found[i] = found
        return fatal

    def read_level(self, ready: Ready, group: list[int], level: int) -> _Fatal | None:
        """Parse for some of the streams, for tuples that are inside so many others."""
        target = self.target(group, level)
        fatal = self.parse(target, ready.data)
        if isinstance(fatal, etree._LogEntry | _Unknown):
            entry = None if isinstance(fatal, _Unknown) else fatal
            offset, right, reason = malformed.malformed(self.split, ready.data, entry)
            target = self.target(group, level)
            again = self.parse(target, ready.data[:right])
            fatal = again if isinstance(again, _Fatal) else _Fatal(offset, reason)
        elif fatal is None:
            fatal = self.behind or self.unfinished(target, ready)
        for i, found in zip(group, target.found, strict=True):
            self.found[i] = found
        if target.ancestors is not None and level == 0:
            self.said.append(
                [[(group[i], s, texts, read) for i, s, texts, read in one] for one in target.ancestors.said]
            )
        return fatal

    def target(self, group: list[int], level: int) -> Target:
        names, all_ = Names(self.limits), self.streams
        specs, shapes = [all_.specs[i] for i in group], [all_.shapes[i] for i in group]
        marks = [punctuation_element(spec.element, all_.punct_namespace) for spec in specs]
        reach = any(shape.ups for shape in shapes)
        before = tuple(
            tuple((group.index(i), *rest) for i, *rest in one if i in group) for one in self.split.start.said
        )
        ancestors = Ancestors(specs, shapes, before) if reach else None  # type: ignore[arg-type]
        outside = states(specs, shapes, marks, all_.specs, names, level)
        return Target(outside, names, shapes, ancestors)

    def parse(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """Run the parser. Gives what was too large or forbidden, what was malformed, or None."""
        return contained(lambda: self.feed(target, data), data, lambda: target.names.met)

    def feed(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """`parse`, in this thread."""
        fed = -len(self.prologue)
        with malformed.new_parser(target) as parser:
            try:
                for piece in (*malformed.pieces(self.prologue), *malformed.pieces(data), malformed.TAIL):
                    target.reached = False
                    with guarded(self.split.source, passing=(etree.XMLSyntaxError,)):
                        if piece:
                            parser.feed(piece)
                        entry = malformed.complaint(parser)
                    if entry is not None:
                        return entry
                    fed += len(piece)
            except (etree.XMLSyntaxError, DoctypeError):
                return malformed.complaint(parser) or _Unknown()
            except LimitError as error:
                return malformed.complaint(parser) or self.at(target.starts, f"too large: {error}")
            except SourceError as error:
                return _Fatal(min(max(fed, 0), len(data)), error.reason)
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
            offset, _, reason = malformed.truncated(split, self.places)
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
            cells = self.raw_cells(self.streams.shapes[i], cells, 0)
            rows = Rows(
                count, cells, faults, partial(self.place, found), offsets, self.items(i, found, count)
            )
            rows.late = [(*self.place_of(number), slot) for number, slot in found.late if number < end]
            said = [(before, p) for number, before, p in punctuations[i] if number < end]
            at, ps = np.array([n for n, _ in said], np.int64), [p for _, p in said]
            overlooked = found.overlooked_between(len(self.split.start.open), end)
            builder.add(self.streams.specs[i], self.streams.shapes[i], rows, ps, at, overlooked)
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
        return self.place_of(found.at[row])

    def place_of(self, number: int) -> tuple[int, str]:
        """Where the element of a start tag begins, and its text."""
        number -= len(self.split.start.open)
        return self.places.offset(number), self.places.text(number)

    def items(self, stream: int, found: Found, count: int) -> list[Items]:
        """The items of arrays, by table, for so many tuples."""
        shape = self.streams.shapes[stream]
        tables = [Items([], np.empty(0, np.int64))]
        kept = [count]
        for number, table in enumerate(shape.tables[1:], 1):
            of = np.array(found.of[number], np.int64)
            kept.append(int(np.searchsorted(of, kept[table.parent])))
            width, end = table.end - table.first, kept[-1] * (table.end - table.first)
            cells = [Cells.of(found.items[number][slot:end:width]) for slot in range(width)]
            tables.append(Items(self.raw_cells(shape, cells, table.first), of[: kept[-1]]))
        return tables

    def raw_cells(self, shape: Shape, cells: list[Cells], first: int) -> list[Cells]:
        """Cells from a slot on, with elements as they stood in place of the numbers of their start tags."""
        data, open_ = self.split.data, len(self.split.start.open)
        for slot in shape.raws:
            if first <= slot < first + len(cells):
                texts = [
                    data[slice(*self.places.extent(int(text) - open_))].decode("utf-8", "surrogateescape")
                    if text
                    else None
                    for text in cells[slot - first].listed()
                ]
                cells[slot - first] = Cells.of(texts)
        return cells

    def offsets(self, found: Found, count: int) -> Ints:
        """Where the first tuples begin."""
        return self.places.offsets(np.array(found.at[:count], np.int64) - len(self.split.start.open))


def _parse(split: Split, streams: _Streams, behind: _Fatal | None = None) -> _Parse:
    """What is to be parsed of a split: no more than what comes before anything that nobody needs to parse."""

    def until(end: int) -> Split:
        return replace(split, data=split.data[:end], final=False)

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
        wanted = {spec.tag, punctuation_element(spec.element, punct_namespace)}
        for names, members in () if spec.nested else groups:
            if not names & wanted:
                names |= wanted
                members.append(i)
                break
        else:
            groups.append((wanted, [i]))
    return [members for _, members in groups]

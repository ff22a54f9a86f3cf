"""Parses splits into slices, with the native reader, or with libxml2 where the native reader cannot proceed.

The native reader (`walker`) fills rows. Otherwise libxml2 parses (through lxml's target interface, which builds no
tree) and `Target` collects texts. `cells` and `reading` convert texts to values and patterns. This module
combines them. After an error, it delivers all tuples and punctuations before the error, and none after it.
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
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.firehose import reading
from xmlpunct.firehose.ancestors import Ancestors, Branch
from xmlpunct.firehose.builder import Parsed, SliceBuilder, SplitRows
from xmlpunct.firehose.cells import CellInts, Cells
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml import malformed
from xmlpunct.firehose.libxml.dictionary import contained
from xmlpunct.firehose.libxml.parser_target import DoctypeError, ParsedStream, Target
from xmlpunct.firehose.mark_reader import ParseMarks, add_marks, marks_in_split
from xmlpunct.firehose.native.nested_tuples import merged_readings
from xmlpunct.firehose.native.path_automaton import LimitError, SplitNames, states
from xmlpunct.firehose.native.tags import last_token_end, long_tag
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.native.walker import Known, Walk, Walker
from xmlpunct.firehose.position import AncestorValues, Ready, Split
from xmlpunct.firehose.reading import PunctuationError
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import (
    ElementNames,
    Limits,
    StreamSpec,
    disjoint_groups,
    elements_of,
    punctuation_element,
)
from xmlpunct.punctuations.punctuation import Punctuation


def parse_split(
    split: Split,
    specs: Sequence[StreamSpec],
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> Parsed:
    """Read the tuples and punctuations of several streams from a split. Never raises for bad data.

    >>> from xmlpunct.firehose.position import Position
    >>> from xmlpunct.schema import Schema
    >>> split = Split("s", Position(), b"<r><t><a>1</a></t><t><a>x</a></t></r>", True)
    >>> parsed = parse_split(split, [StreamSpec("s", Schema.parse("a INT"), "t")])
    >>> parsed.slices[0].tuples.rows(), str(parsed.rejects[0][0])
    ([(1,)], "s, line 1, byte 18: attribute a: 'x' is not of type INT")
    """
    return _parser_of(tuple(specs), punct_namespace, limits).parse(split)


def parse_conforming(
    split: Split,
    specs: Sequence[StreamSpec],
    punct_namespace: str = PUNCT_NAMESPACE,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> Parsed:
    """`parse_split` with libxml2 only: the same result, more slowly."""
    streams = _Streams(tuple(specs), punct_namespace, limits)
    split = split.declaring(streams.elements.dtd)
    parsed = _parse(split, streams).run()
    return _finished(split, streams, parsed, parse_conforming)


def said_after(split: Split, elements: ElementNames, limits: Limits) -> AncestorValues:
    """The values for tuples of the elements that are open after a split (`Position.said`)."""
    values = _parser_of(elements.specs, elements.punct_namespace, limits)._walker.said(split)
    if values is not None:
        return values
    return _parse(split, _Streams(elements.specs, elements.punct_namespace, limits)).saved_state_after()


@lru_cache(maxsize=16)
def _parser_of(specs: tuple[StreamSpec, ...], punct_namespace: str, limits: Limits) -> Parser:
    return Parser(specs, punct_namespace, limits)


class Parser:
    """`parse_split` for many splits: preparation for the streams is done once.

    Threads may share a parser. But `ahead` serves only one reader, whose `Splitter` must not have ``elements``.

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
        """Read a split. ``known`` has results of `ahead`, if any. Never raises for bad data."""
        split = split.declaring(self.elements.dtd)
        walked = self._walker.walk(split, known)
        parsed = (walked and self._deliver_walked(split, walked)) or _parse(split, self._streams).run()
        parsed = _finished(split, self._streams, parsed, parse_split)
        if split.final and parsed.error is None:
            parsed.close(split.labels)
        return parsed

    def ahead(self, split: Split) -> tuple[Walk, AncestorValues | None] | None:
        """For a `Splitter`: a walk of the next split, and the open elements' values after it; None if unknown."""
        return self._walker.ahead(split)

    def known(self, split: Split) -> Known | None:
        """The results of `ahead` for a split, so that `parse` need not repeat the walk."""
        return self._walker.known(split)

    def _deliver_walked(self, split: Split, walked: Sequence[Walked]) -> Parsed | None:
        """The output of a well-formed split; None if a punctuation is invalid."""
        streams = self._streams
        builder = SliceBuilder(split)
        for spec, shape, result in zip(streams.specs, streams.shapes, walked, strict=True):
            try:
                punctuations = result.punctuations(spec, shape) if len(result.before) else []
            except PunctuationError:
                return None
            locate = partial(result.tuple_at, split)
            offsets, ends = partial(result.at.astype, np.int64), partial(result.end.astype, np.int64)
            rows = SplitRows(len(result.at), result.cells, result.faults, locate, offsets, ends, result.items)
            text_of = partial(malformed.shown_xml, split.data)
            rows.late = [(at, text_of(at, end), slot) for at, end, slot in result.late]
            builder.add(spec, shape, rows, punctuations, result.before.astype(np.int64), result.overlooked)
        return builder.parsed


@dataclass(frozen=True, slots=True)
class _Fatal:
    """An error that ends the delivery. Nothing is delivered from the start tag ``number`` on."""

    offset: int
    reason: str
    number: float = float("inf")


class _Streams:
    """The streams to read, and data derived from them. Immutable."""

    def __init__(self, specs: tuple[StreamSpec, ...], punct_namespace: str, limits: Limits) -> None:
        self.specs, self.limits, self.punct_namespace = specs, limits, punct_namespace
        self.shapes = [Shape.of(spec.schema) for spec in specs]
        self.groups = disjoint_groups(specs, punct_namespace)
        self.elements = elements_of(specs, punct_namespace)  # if elements identify them

    def punctuation(self, stream: int, branch: Branch) -> Punctuation | None:
        """The punctuation of a stream that an element represents. Raises `PunctuationError`."""
        spec = self.specs[stream]
        return reading.read_punctuation(spec, self.shapes[stream], branch, self.punct_namespace)


class _Parse:
    """The parse of one split by libxml2. ``ready``: the prepared input; ``end_error``: an error directly after it."""

    def __init__(self, split: Split, ready: Ready, streams: _Streams, end_error: _Fatal | None) -> None:
        self.split, self.ready, self.end_error = split, ready, end_error
        self.streams, self.limits = streams, streams.limits
        self.positions = malformed.SplitPositions(split)
        self.element_values: list[list[list[tuple[int, int, tuple[str, ...], bool]]]] = []
        self.prologue = ready.doctype.effective + split.start.prologue
        self.results = [ParsedStream(shape.width, len(shape.tables)) for shape in streams.shapes]
        self.open_tuples: dict[
            int, int
        ] = {}  # by stream, the start tag of the tuple in which the parse ended

    def run(self) -> Parsed:
        return self.deliver(self.find())

    def saved_state_after(self) -> AncestorValues:
        """The values for tuples of the elements that are open after the split (`Position.said`)."""
        if self.find() is not None or not self.element_values:
            return ()
        return tuple(tuple(sorted(chain(*values))) for values in zip(*self.element_values, strict=True))

    def find(self) -> _Fatal | None:
        """Parse, and return the first error."""
        ready = self.ready
        if not self.split.final and len(self.split.data) > self.limits.element:
            # The data after the last complete token may end at any byte.
            ready = replace(ready, data=ready.data[: last_token_end(ready.data)])
        fatals = [fatal for group in self.streams.groups if (fatal := self.read(ready, group))]
        fatal = min(fatals, key=lambda f: f.number) if fatals else None
        for result in self.results:
            fatal = self.oversize(result, fatal)
        return fatal

    def read(self, ready: Ready, group: list[int]) -> _Fatal | None:
        """Parse for a group of streams with different elements. Nested tuples are parsed level by level."""
        fatal = self.read_level(ready, group, 0)
        level, results = 0, [self.results[i] for i in group]
        while any(self.streams.specs[i].nested for i in group) and any(result.at for result in results):
            level += 1
            self.read_level(ready, group, level)
            level_results = [self.results[i] for i in group]
            if not any(result.at for result in level_results):
                break
            pairs = zip(results, level_results, strict=True)
            shapes = [self.streams.shapes[i] for i in group]
            results = [merged_readings(s, *pair) for s, pair in zip(shapes, pairs, strict=True)]
        for i, result in zip(group, results, strict=True):
            self.results[i] = result
        return fatal

    def read_level(self, ready: Ready, group: list[int], level: int) -> _Fatal | None:
        """Parse for a group of streams, only tuples at one level of nesting."""
        target = self.target(group, level)
        fatal = self.parse(target, ready.data)
        if isinstance(fatal, etree._LogEntry | _Unknown):
            entry = None if isinstance(fatal, _Unknown) else fatal
            offset, right, reason = malformed.locate_malformed(self.split, ready.data, entry)
            target = self.target(group, level)
            second_error = self.parse(target, ready.data[:right])
            fatal = second_error if isinstance(second_error, _Fatal) else _Fatal(offset, reason)
        elif fatal is None:
            fatal = self.end_error or self.unfinished(target, ready)
        for i, result in zip(group, target.found, strict=True):
            self.results[i] = result
        if level == 0 and (open_tuple := target.open_tuple) is not None:
            self.open_tuples[group[open_tuple]] = target.row_at
        if target.ancestors is not None and level == 0:
            state = target.ancestors.said
            self.element_values.append(
                [[(group[i], s, texts, read) for i, s, texts, read in values] for values in state]
            )
        return fatal

    def target(self, group: list[int], level: int) -> Target:
        names, all_, start = SplitNames(self.limits), self.streams, self.split.start
        specs, shapes = [all_.specs[i] for i in group], [all_.shapes[i] for i in group]
        marks = [punctuation_element(spec.element, all_.punct_namespace) for spec in specs]
        reach = any(shape.ups for shape in shapes)
        ancestor_values = tuple(
            tuple((group.index(i), *value) for i, *value in values if i in group) for values in start.said
        )
        ancestors = Ancestors(specs, shapes, ancestor_values) if reach else None  # type: ignore[arg-type]
        outside = states(specs, shapes, marks, all_.specs, names, level)
        unread = [shape.unread_slots(spec.judged) for spec, shape in zip(specs, shapes, strict=True)]
        room = self.ready.attribute_room
        return Target(outside, names, shapes, unread, all_.punct_namespace, ancestors, room)

    def parse(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """Run the parser. Returns an error of size or content, a syntax error, or None."""
        return contained(lambda: self.feed(target, data), data, lambda: target.names.met)

    def feed(self, target: Target, data: bytes) -> _Fatal | etree._LogEntry | _Unknown | None:
        """`parse`, in this thread."""
        fed = -len(self.prologue)
        with malformed.new_parser(target, self.ready.doctype.has_defaults) as parser:
            try:
                pieces = [*malformed.feed_pieces(self.prologue), *malformed.feed_pieces(data)]
                for piece in (*pieces, malformed.TAIL):
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
        """An error at the element of a start tag, whose number is as in the target."""
        return _Fatal(self.positions.offset(number - len(self.split.start.open)), reason, number)

    def unfinished(self, target: Target, ready: Ready) -> _Fatal | None:
        """The error of data that ends too early; None if it is complete."""
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
            offset, _, reason = malformed.truncated(split, self.positions)
            return _Fatal(offset, reason)
        if not target.starts and not split.start.started:
            return _Fatal(size, "no XML document: there is no root element")
        return None

    def deliver(self, fatal: _Fatal | None) -> Parsed:
        """Build slices of the tuples and punctuations before ``fatal`` and before any invalid punctuation."""
        punctuations: list[list[tuple[int, int, Punctuation | None]]] = []
        for i, result in enumerate(self.results):
            stream_punctuations: list[tuple[int, int, Punctuation | None]] = []
            for number, before, branch in result.punctuations:
                if fatal and number >= fatal.number:
                    break
                try:
                    stream_punctuations.append((number, before, self.streams.punctuation(i, branch)))
                except PunctuationError as error:
                    fatal = self.at(number, str(error))
                    break
            punctuations.append(stream_punctuations)
        builder, end = SliceBuilder(self.split, self.positions), fatal.number if fatal else float("inf")
        for i, result in enumerate(self.results):
            count = len(result.at) if end == float("inf") else bisect_left(result.at, end)
            width = result.width
            cells = [Cells.of(result.cells[slot : count * width : width]) for slot in range(width)]
            faults = {row: fault for row, fault in result.faults.items() if row < count}
            offsets = partial(self.offsets, result, count)
            cells = self.raw_cells(self.streams.shapes[i], cells, 0)
            locate, items = partial(self.tuple_at, result), self.items(i, result, count)
            ends = partial(self.ends, result, count)
            rows = SplitRows(count, cells, faults, locate, offsets, ends, items)
            if i in self.open_tuples:
                rows.open_at = self.positions.offset(self.open_tuples[i] - len(self.split.start.open))
            rows.late = [(*self.element_at(number), slot) for number, slot in result.late if number < end]
            delivered = [(before, p) for number, before, p in punctuations[i] if number < end]
            before_counts, ps = np.array([n for n, _ in delivered], np.int64), [p for _, p in delivered]
            overlooked = result.overlooked_between(len(self.split.start.open), end)
            builder.add(self.streams.specs[i], self.streams.shapes[i], rows, ps, before_counts, overlooked)
        if fatal:
            builder.fail(fatal.offset, fatal.reason)
        return builder.parsed

    def oversize(self, result: ParsedStream, fatal: _Fatal | None) -> _Fatal | None:
        limit = self.limits.text
        if len(self.split.data) > limit or self.ready.doctype.effective:
            index = next((i for i, t in enumerate(result.cells) if t is not None and len(t) > limit), None)
            number = result.at[index // result.width] if index is not None else float("inf")
            if index is not None and not (fatal and number >= fatal.number):
                return self.at(int(number), f"too large: a value longer than {limit:,} characters")
        return fatal

    def tuple_at(self, result: ParsedStream, row: int) -> tuple[int, str]:
        """The offset and the text of a tuple."""
        return self.element_at(result.at[row])

    def element_at(self, number: int) -> tuple[int, str]:
        """The offset and the text of the element of a start tag."""
        number -= len(self.split.start.open)
        return self.positions.offset(number), self.positions.text(number)

    def items(self, stream: int, result: ParsedStream, count: int) -> list[Items]:
        """The items of arrays, by table, for the first ``count`` tuples."""
        shape = self.streams.shapes[stream]
        tables = [Items([], np.empty(0, np.int64))]
        counts = [count]
        for number, table in enumerate(shape.tables[1:], 1):
            owners = np.array(result.of[number], np.int64)
            counts.append(int(np.searchsorted(owners, counts[table.parent])))
            width, end = table.end - table.first, counts[-1] * (table.end - table.first)
            cells = [Cells.of(result.items[number][slot:end:width]) for slot in range(width)]
            tables.append(Items(self.raw_cells(shape, cells, table.first), owners[: counts[-1]]))
        return tables

    def raw_cells(self, shape: Shape, cells: list[Cells], first: int) -> list[Cells]:
        """Cells from slot ``first`` on, with start tag numbers replaced by the source text of their elements."""
        data, open_ = self.split.data, len(self.split.start.open)
        for slot in shape.raws:
            if first <= slot < first + len(cells):
                texts = [
                    data[slice(*self.positions.extent(int(text) - open_))].decode("utf-8", "surrogateescape")
                    if text
                    else None
                    for text in cells[slot - first].listed()
                ]
                texts = [text and self.ready.doctype.expanded(text) for text in texts]
                cells[slot - first] = Cells.of(texts)
        return cells

    def offsets(self, result: ParsedStream, count: int) -> CellInts:
        """The offsets of the first ``count`` tuples."""
        return self.positions.offsets(np.array(result.at[:count], np.int64) - len(self.split.start.open))

    def ends(self, result: ParsedStream, count: int) -> CellInts:
        """The offsets of the ends of the first ``count`` tuples."""
        open_ = len(self.split.start.open)
        return np.array([self.positions.extent(number - open_)[1] for number in result.at[:count]], np.int64)


def _parse(split: Split, streams: _Streams, end_error: _Fatal | None = None) -> _Parse:
    """The parse of a split up to the first input that is refused without parsing."""

    def until(end: int) -> Split:
        return replace(split, data=split.data[:end], final=False)

    prepared = split.ready
    if prepared.refused is not None:
        return _parse(until(prepared.refused), streams, _Fatal(prepared.refused, prepared.reason))
    data, limits = split.data, streams.limits
    at = long_tag(data, limits.tag) if len(data) > limits.tag else None
    if at is not None or (not split.final and len(data) > limits.element):
        wrong, end = forbidden(data[: limits.element if at is None else at + limits.tag + 1])
        if wrong >= 0:  # the next byte may be the invalid one
            split = until(min(end + 1, limits.element))
            return _Parse(split, split.ready, streams, end_error)
    if at is not None:
        return _parse(until(at), streams, _Fatal(at, f"too large: a tag longer than {limits.tag:,} bytes"))
    return _Parse(split, prepared, streams, end_error)


def _finished(split: Split, streams: _Streams, parsed: Parsed, parse: ParseMarks) -> Parsed:
    """The output of a split with the punctuations of its marks, up to its first misfit or wrong mark, its error."""
    limits = streams.limits
    marks = [marks_in_split(split, spec, limits, parse) if spec.marks else [] for spec in streams.specs]
    wrong = [(found.start, found.reason) for of_stream in marks for found in of_stream if found.reason]
    if (error := parsed.error) is not None and error.byte is not None:
        wrong = [(offset, reason) for offset, reason in wrong if offset < error.byte - split.start.byte]
    if parsed.misfit is not None or wrong:
        offset, reason = min([*wrong, parsed.misfit or wrong[0]])
        part = replace(split, data=split.data[:offset], final=False)
        parsed = _parse(part, streams, _Fatal(offset, reason)).run()
    error = parsed.error
    until = len(split.data) if error is None or error.byte is None else error.byte - split.start.byte
    for stream, of_stream in enumerate(marks):
        if of_stream:
            add_marks(parsed, stream, of_stream, until)
    return parsed


class _Unknown:
    """The parser failed without an error message."""

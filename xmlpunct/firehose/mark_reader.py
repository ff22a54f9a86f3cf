"""Reads the punctuations of marks: elements of a standard that close tuples (PUNCTUATE ON)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xmlpunct.base.unread import CLOSED, VALUELESS, Overlooked, add
from xmlpunct.firehose.builder import Parsed, SplitRows
from xmlpunct.firehose.cells import typed_column
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import ClosingMark, Limits, StreamSpec, name_parts
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types import SPACE
from xmlpunct.types.pattern import WILDCARD, Pattern, constant

NO_PUNCTUATIONS = "urn:xmlpunct:no-punctuations"
"""A namespace without elements. Marks have no punctuations."""
ParseMarks = Callable[[Split, Sequence[StreamSpec], str, Limits], Parsed]
"""`parse_split` or `parse_conforming`, which read the elements of a mark as tuples."""


@dataclass(frozen=True, slots=True)
class SplitMark:
    """A mark in a split: the offsets of its element, and its punctuation or the path at which its value is missing.

    ``reason`` describes an error: several values at a path, or a text that is no value of its column.
    """

    start: int
    end: int
    punctuation: Punctuation | None = None
    missing: str = ""
    reason: str = ""


def marks_in_split(split: Split, spec: StreamSpec, limits: Limits, parse: ParseMarks) -> list[SplitMark]:
    """The marks of a stream in a split, up to the first with an error, in the order of their ends."""
    marks = list[SplitMark]()
    for mark, mark_spec in spec.mark_specs:
        if name_parts(mark_spec.tag)[1].encode() in split.data:
            bare = replace(split, start=replace(split.start, said=()), labels=())
            room = replace(limits, inside=limits.element)  # a mark may contain any number of tuples
            parsed = parse(bare, (mark_spec,), NO_PUNCTUATIONS, room)
            marks += _marks_in(mark, spec.schema, Shape.of(mark_spec.schema), parsed.rows[0][0])
            if parsed.error is not None and parsed.error.byte is not None:
                offset = parsed.error.byte - split.start.byte
                marks.append(SplitMark(offset, offset, reason=parsed.error.reason))
    marks.sort(key=lambda found: found.end)
    failures = [number for number, found in enumerate(marks) if found.reason]
    return marks[: failures[0] + 1] if failures else marks


def _marks_in(mark: ClosingMark, schema: Schema, shape: Shape, rows: SplitRows) -> Iterator[SplitMark]:
    """The marks among the elements with a mark's name."""
    cells = {path: rows.cells[slot] for path, slot in zip(mark.paths(), shape.slots, strict=True)}
    numbers = np.arange(rows.count)
    if mark.where is not None:
        path, value = mark.where
        slot = shape.slots[mark.paths().index(path)]
        matches = [text.strip(SPACE) == value.strip(SPACE) for text in cells[path].listed()]
        wrong_rows = [row for row, fault in rows.faults.items() if fault[0] == slot]
        is_mark = np.array(matches, np.bool_) & ~cells[path].missing
        is_mark[wrong_rows] = True
        numbers = np.flatnonzero(is_mark)
    starts, ends = rows.offsets()[numbers].tolist(), rows.ends()[numbers].tolist()
    columns = [
        (
            path,
            *typed_column(replace(schema[column], nullable=True, domain=WILDCARD), cells[path].take(numbers)),
        )
        for column, path in mark.closes
    ]
    positions = [schema.index(column) for column, _ in mark.closes]
    for index, row in enumerate(numbers.tolist()):
        found = SplitMark(starts[index], ends[index])
        if row in rows.faults:
            slot, reason = rows.faults[row]
            yield replace(found, reason=f"mark <{mark.element}>: {shape.paths[slot]} is {reason}")
            continue
        wrong = next((reasons[index] for _, _, reasons in columns if index in reasons), None)
        missing = next((path for path, values, _ in columns if values[index] is None), None)
        if wrong is not None:
            yield replace(found, reason=f"mark <{mark.element}>: {wrong}")
        elif missing is not None:
            yield replace(found, missing=f"{mark.element}/{missing}")
        else:
            patterns: list[Pattern] = [WILDCARD] * len(schema)
            for position, (_, values, _) in zip(positions, columns, strict=True):
                patterns[position] = constant(schema.attributes[position].type, values[index])
            yield replace(found, punctuation=Punctuation(schema, patterns))


def add_marks(parsed: Parsed, stream: int, marks: Sequence[SplitMark], until: float) -> None:
    """Add the punctuations of the marks to a stream's slice that end before the offset ``until`` of an error."""
    rows, row_numbers = parsed.rows[stream]
    starts, slice_ = rows.offsets(), parsed.slices[stream]
    # Nested tuples follow the tuple around them, so the outermost tuple has the greatest end so far.
    ends = np.maximum.accumulate(rows.ends()) if rows.count else starts
    delivered = starts if row_numbers is None else starts[row_numbers]
    until = min(until, rows.open_at)
    overlooked: Overlooked = {}
    punctuations = [*zip(slice_.before, slice_.punctuations, strict=True)]
    for found in marks:
        if found.end > until or found.reason:
            break
        if found.punctuation is None:
            add(overlooked, {VALUELESS: {found.missing: 1}})
            continue
        before = int(np.searchsorted(starts, found.end))
        end = max(found.end, int(ends[before - 1]) if before else 0)
        punctuations.append((int(np.searchsorted(delivered, end)), found.punctuation))
        add(overlooked, {CLOSED: {"": 1}})
    punctuations.sort(key=lambda pair: pair[0])
    slice_.before = [before for before, _ in punctuations]
    slice_.punctuations = PunctuationBatch(p for _, p in punctuations)
    parsed.read[stream] += sum(overlooked.get(CLOSED, {}).values())
    add(parsed.overlooked[stream], overlooked)

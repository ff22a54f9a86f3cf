"""The rows that the native reader filled for one stream in a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xmlpunct.base.forks import polars_works
from xmlpunct.base.unread import Overlooked
from xmlpunct.firehose.bundling import batch_of
from xmlpunct.firehose.cells import CellFlags, CellOffsets, Cells
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.malformed import shown_xml
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.reading import PunctuationError, empty_punctuation, is_of_others, punctuations_of
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM
from xmlpunct.punctuations.single_attribute import columnar
from xmlpunct.schema import Schema


@dataclass(frozen=True, slots=True)
class Walked:
    """The tuples and punctuations of one stream, in order.

    at, end: offsets of each tuple in the split. cells: the tuples' texts, by slot. items: by array table.
    faults: by row, the slot and the reason why the tuple is malformed, as in `Found`.
    patterns: the texts of the punctuations, by slot; said: their offsets; before: the number of tuples before each;
    dropped: true for a punctuation that constrains an undeclared name.
    late: (start, end, slot) of each ancestor value that arrived after its tuple.
    """

    at: CellOffsets
    end: CellOffsets
    cells: list[Cells]
    items: list[Items]
    faults: dict[int, tuple[int, str]]
    patterns: list[Cells]
    said: CellOffsets
    before: CellOffsets
    dropped: CellFlags
    overlooked: Overlooked
    late: list[tuple[int, int, int]]

    def punctuations(self, spec: StreamSpec, shape: Shape) -> Sequence[Punctuation | None]:
        """The punctuations, as a columnar batch if possible. Raises `PunctuationError`."""
        schema, count, texts = spec.schema, len(self.before), self._patterns_of(spec.schema, shape)
        is_for_others = np.zeros(count, np.bool_)
        if spec.where is not None and len(self.patterns) > shape.width + len(shape.pattern_slots):
            patterns = self.patterns[-1].listed("*")
            is_for_others = np.array([is_of_others(spec.where[1], text) for text in patterns], np.bool_)
        if self.dropped.any() or is_for_others.any():
            punctuations: list[Punctuation | None] = [None] * count
            for row in np.flatnonzero(is_for_others).tolist():
                punctuations[row] = empty_punctuation(schema)
            rows = np.flatnonzero(~(self.dropped | is_for_others))
            columns = [None if cells is None else cells.take(rows).listed("*") for cells in texts]
            for row, p in zip(rows.tolist(), punctuations_of(schema, len(rows), columns), strict=True):
                punctuations[row] = p
            return punctuations
        batch = batch_of(schema, texts) if count >= COLUMN_FROM and polars_works() else None
        if batch is not None:
            return batch
        columns = [None if cells is None else cells.listed("*") for cells in texts]
        return columnar(punctuations_of(schema, count, columns))

    def _patterns_of(self, schema: Schema, shape: Shape) -> list[Cells | None]:
        """The texts of patterns, by attribute, from its path or its name. Raises `PunctuationError`."""
        columns: list[Cells | None] = []
        for a, slot in zip(schema, shape.slots, strict=True):
            texts = self.patterns[slot] if slot >= 0 else None
            if texts is not None and a.name in shape.pattern_slots:
                named = self.patterns[shape.pattern_slots[a.name]]
                if not named.missing.all():
                    if not (named.missing | texts.missing).all():
                        raise PunctuationError  # libxml2's reader then reports details
                    texts = texts.or_else(named)
            columns.append(texts)
        return columns

    def tuple_at(self, split: Split, row: int) -> tuple[int, str]:
        """The offset and the text of a tuple."""
        offset = int(self.at[row])
        return offset, shown_xml(split.data, offset, int(self.end[row]))

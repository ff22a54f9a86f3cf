"""The rows that the native reader filled for one stream in a split."""

from __future__ import annotations

from dataclasses import dataclass

from xmlpunct.base.unread import Overlooked
from xmlpunct.firehose.cells import CellFlags, CellOffsets, Cells
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.malformed import shown_xml
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.reading import PunctuationError
from xmlpunct.firehose.shape import Shape
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

    def patterns_of(self, schema: Schema, shape: Shape) -> list[Cells | None]:
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

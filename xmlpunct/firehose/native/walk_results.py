"""What the native reader has found of one stream in a split."""

from __future__ import annotations

from dataclasses import dataclass

from xmlpunct.base.unread import Overlooked
from xmlpunct.firehose.cells import Cells, Flags, Places
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.reading import PunctuationError
from xmlpunct.firehose.shape import Shape
from xmlpunct.schema import Schema


@dataclass(frozen=True, slots=True)
class Walked:
    """What was found of one stream. Each tuple, in order, is from ``at`` to ``end`` in the split.

    ``cells`` are the tuples' texts by slot, ``faults`` what is wrong with the form of some, as in `Found`;
    ``patterns`` those of the punctuations, each with where it was ``said`` and the number of tuples ``before`` it.
    Those ``dropped`` constrain what is not declared. What came too ``late`` for tuples is from one place to another,
    with a slot.
    """

    at: Places
    end: Places
    cells: list[Cells]
    items: list[Items]
    faults: dict[int, tuple[int, str]]
    patterns: list[Cells]
    said: Places
    before: Places
    dropped: Flags
    overlooked: Overlooked
    late: list[tuple[int, int, int]]

    def patterns_of(self, schema: Schema, shape: Shape) -> list[Cells | None]:
        """The texts of patterns by attribute: they stand at its path or under its name. Raises `PunctuationError`."""
        found: list[Cells | None] = []
        for a, slot in zip(schema, shape.slots, strict=True):
            texts = self.patterns[slot] if slot >= 0 else None
            if texts is not None and a.name in shape.said:
                named = self.patterns[shape.said[a.name]]
                if not named.missing.all():
                    if not (named.missing | texts.missing).all():
                        raise PunctuationError  # of which the other reader says more
                    texts = texts.or_else(named)
            found.append(texts)
        return found

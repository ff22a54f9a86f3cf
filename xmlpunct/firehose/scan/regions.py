"""The regions of a chunk, by template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from xmlpunct.firehose.cells import Cells, Flags, Ints, Words
from xmlpunct.firehose.scan.template import Template


@dataclass(slots=True)
class Group:
    """Regions of one template: their numbers, and by value where it begins, its size, and maybe its first words."""

    template: Template
    regions: Ints
    begin: list[Ints] = field(default_factory=list)
    size: list[Ints] = field(default_factory=list)
    head: list[tuple[Words, Words]] = field(default_factory=list)

    def of(self, which: Flags) -> Group:
        """Some of its regions."""
        begin, size = ([places[which] for places in column] for column in (self.begin, self.size))
        head = [(first[which], second[which]) for first, second in self.head]
        return Group(self.template, self.regions[which], begin, size, head)

    def cells(self, buffer: bytes, value: int | None) -> Cells:
        """The texts of a value, in each region."""
        if value is None:
            count = len(self.regions)
            return Cells(buffer, np.zeros(count, np.int64), np.full(count, -1, np.int64))
        head = self.head[value] if self.head else None
        return Cells(buffer, self.begin[value], self.size[value], head)


@dataclass(slots=True)
class Regions:
    """What `walk` and `vectors` find in a buffer: regions, each from the end of the one before to its ``end``.

    ``proven`` says which of them are of the template in whose group they are and hold no other markup, ``plain``
    which of those have values that mean what they say.
    """

    end: Ints
    proven: Flags
    plain: Flags
    groups: list[Group]


Find = Callable[[bytes, int, int, Sequence[Template]], Regions]
"""Finds the regions of a buffer from one place to another, where a ``<`` is that belongs to none of them."""

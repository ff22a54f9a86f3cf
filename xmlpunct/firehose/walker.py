"""The native reader: one walk over a split, which proves that it is well formed and fills rows; or passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xmlpunct.firehose import native
from xmlpunct.firehose.cells import Cells, Flags, Ints
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.prologue import ready
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import Limits, StreamSpec, elements_of
from xmlpunct.firehose.target import TEXT
from xmlpunct.firehose.tree import Grown, grown
from xmlpunct.overlooked import NAMESPACE, NESTED, UNDECLARED, Overlooked


@dataclass(frozen=True, slots=True)
class Walked:
    """What was found of one stream. Each tuple, in order, is from ``at`` to ``end`` in the split.

    ``cells`` are the tuples' texts by slot, ``faults`` what is wrong with the form of some, as in `Found`;
    ``patterns`` those of the punctuations, each with the number of tuples ``before`` it. Those ``dropped``
    constrain what is not declared.
    """

    at: Ints
    end: Ints
    cells: list[Cells]
    faults: dict[int, tuple[int, str]]
    patterns: list[Cells]
    before: Ints
    dropped: Flags
    overlooked: Overlooked


class Walk(NamedTuple):
    """What a walk over a split gives.

    At ``size`` all that comes before is complete, and ``depth`` elements are open: the first ``kept`` of those that
    were open at the beginning, and others, whose start tags have the places and sizes ``opened``. ``rooted`` says
    whether there has been a root. ``rows`` are, by kind, their heads and their cells; what is in ``side`` is not
    in the split. Counts are by stream those of nested elements and of texts, and by slot of all kinds those that
    are ``missed`` for their namespace; those of names have a node.
    """

    size: int
    kept: int
    depth: int
    rooted: bool
    opened: list[tuple[int, int]]
    rows: list[tuple[bytes, bytes]]
    side: bytes
    faults: list[tuple[int, int, int, str | None]]
    counts: list[int]
    missed: list[int]
    seen: list[tuple[int, bool, str, int]]


class Walker:
    """Walks over the splits of some streams, which are in groups within each of which all elements differ."""

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        shapes: Sequence[Shape],
        groups: Sequence[Sequence[int]],
        punct_namespace: str,
        limits: Limits,
    ) -> None:
        self.specs, self.shapes, self.groups, self.limits = specs, shapes, groups, limits
        elements = elements_of(specs, punct_namespace)
        self.trees: list[Grown] = []
        for group in groups if native.COMPILED else ():
            own = [specs[i] for i in group], [shapes[i] for i in group]
            self.trees.append(grown(*own, punct_namespace, elements, limits))

    def walk(self, split: Split) -> list[Walked] | None:
        """What is in a split, by stream; None if it is for libxml2."""
        made = ready(split) if self.trees else None
        if made is None or made.refused is not None or len(split.data) > self.limits.element:
            return None
        opened = split.start.prologue
        found: list[Walked | None] = [None] * len(self.specs)
        for grown_, group in zip(self.trees, self.groups, strict=True):
            given = grown_.tree.walk(made.data, opened, False)
            if given is None:
                return None
            walk = Walk(*given)
            begun = walk.rooted or (split.start.started and not made.declared)
            if split.final and (walk.depth or not begun):
                return None
            for place, i in enumerate(group):
                found[i] = self._walked(made.data, grown_, place, i, walk)
        return [walked for walked in found if walked is not None]

    def _walked(self, data: bytes, grown_: Grown, place: int, stream: int, walk: Walk) -> Walked:
        """What a walk has found of one stream, which has a place in its group."""
        paths, width = self.shapes[stream].paths, len(self.shapes[stream].paths)
        kinds = walk.rows[2 * place : 2 * place + 2]
        tuples, said = (np.frombuffer(heads, np.int32).reshape(-1, 4) for heads, _ in kinds)
        cells, patterns = (_columns(data, walk.side, width, cells) for _, cells in kinds)
        wrong = {
            row: (slot, "given more than once" if name is None else f"an element <{name}> inside its value")
            for kind, row, slot, name in walk.faults
            if kind == 2 * place
        }
        first = 2 * sum(len(self.shapes[i].paths) for i in self.groups[self.trees.index(grown_)][:place])
        nested, texts = walk.counts[2 * place : 2 * place + 2]
        missed = walk.missed[first : first + width]
        names = {NESTED: {self.specs[stream].element: nested}, NAMESPACE: dict(zip(paths, missed, strict=True))}
        undeclared = names[UNDECLARED] = {}
        for node, is_attribute, name, count in walk.seen:
            if grown_.streams[node] == place:
                label = f"{grown_.labels[node]}{'@' if is_attribute else ''}{name}"
                undeclared[label] = count
        undeclared[TEXT] = texts
        known = ((kind, {name: n for name, n in counts.items() if n}) for kind, counts in names.items())
        overlooked = {kind: counts for kind, counts in known if counts}
        at, end, before = (found.astype(np.int64) for found in (tuples[:, 0], tuples[:, 1], said[:, 2]))
        return Walked(at, end, cells, wrong, patterns, before, said[:, 3] != 0, overlooked)


def _columns(data: bytes, side: bytes, width: int, cells: bytes) -> list[Cells]:
    """Rows of cells, by slot."""
    places = np.frombuffer(cells, np.int32).reshape(-1, width, 2) if width else np.empty((0, 0, 2), np.int32)
    return [Cells(data, side, places[:, slot, 0], places[:, slot, 1]) for slot in range(width)]

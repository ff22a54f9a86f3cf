"""The native reader: one walk over a split, which proves that it is well formed and fills rows; or passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xmlpunct.firehose import native
from xmlpunct.firehose.cells import Cells, Flags, Places
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.markup import Element
from xmlpunct.firehose.position import Split
from xmlpunct.firehose.prologue import Ready, ready
from xmlpunct.firehose.reading import PunctuationError
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec
from xmlpunct.firehose.target import TEXT
from xmlpunct.firehose.tree import Grown, bare, grown
from xmlpunct.overlooked import NAMESPACE, NESTED, UNDECLARED, Overlooked
from xmlpunct.schema import Schema


@dataclass(frozen=True, slots=True)
class Walked:
    """What was found of one stream. Each tuple, in order, is from ``at`` to ``end`` in the split.

    ``cells`` are the tuples' texts by slot, ``faults`` what is wrong with the form of some, as in `Found`;
    ``patterns`` those of the punctuations, each with the number of tuples ``before`` it. Those ``dropped``
    constrain what is not declared.
    """

    at: Places
    end: Places
    cells: list[Cells]
    items: list[Items]
    faults: dict[int, tuple[int, str]]
    patterns: list[Cells]
    before: Places
    dropped: Flags
    overlooked: Overlooked

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


class Walk(NamedTuple):
    """What a walk over a split gives.

    At ``size`` all that comes before is complete. Open are the first ``kept`` of the elements that were open at the
    beginning, and others, whose start tags have the places and sizes ``opened``. The first ``outside`` of them are in
    no tuple or punctuation; the one after them begins at ``outer``, if that is not -1. ``rooted`` says whether there
    has been a root. ``rows`` are, by kind, their heads and their cells; what is in ``side`` is not
    in the split. Counts are by stream those of nested elements and of texts, and by slot of all kinds those that
    are ``missed`` for their namespace; those of names have a node.
    """

    size: int
    kept: int
    outside: int
    outer: int
    rooted: bool
    opened: list[tuple[int, int]]
    rows: list[tuple[bytes, bytes]]
    side: bytes
    faults: list[tuple[int, int, int]]
    counts: list[int]
    missed: list[int]
    seen: list[tuple[int, bool, str, int]]

    @property
    def boundary(self) -> int:
        """Where what is complete ends, that is, no tuple or punctuation is open."""
        return self.size if self.outside == self.kept + len(self.opened) else max(self.outer, 0)


def _walk(tree: native.Tree, data: bytes, opened: bytes, part: bool) -> Walk | None:
    given = tree.walk(data, opened, part)
    return None if given is None else Walk(*given)


def boundaries(
    split: Split, opened: Sequence[Element], kept: frozenset[ElementName], limits: Limits
) -> Walk | None:
    """As far as a split can be understood inside some elements, by boundaries alone; ``kept`` ones are not cut.

    None for what the native reader does not take.
    """
    made = Ready(split.data) if opened else ready(split)
    if not native.COMPILED or made.refused is not None:
        return None
    raw = "".join([e.raw for e in opened]).encode("utf-8", "surrogateescape")
    return _walk(_bare(kept, limits), made.data, raw, True)


@lru_cache(maxsize=16)
def _bare(kept: frozenset[ElementName], limits: Limits) -> native.Tree:
    """A tree without paths."""
    return bare(kept, limits)


@dataclass(frozen=True, slots=True)
class _Known:
    """A walk as far as was possible."""

    split: Split
    data: bytes
    walk: Walk

    def is_of(self, split: Split) -> bool:
        """Whether it is one over another split, which may have white space behind it."""
        size, mine = self.walk.boundary, self.split
        if mine.start != split.start or len(split.data) < size:
            return False
        if len(split.data) == size:
            return mine.data.startswith(split.data)
        return split.data.startswith(mine.data[:size]) and not split.data[size:].strip(b" \t\r\n")


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
        self._known: _Known | None = None
        self.trees: list[Grown] = []
        for group in groups if native.COMPILED else ():
            own = [specs[i] for i in group], [shapes[i] for i in group]
            made = grown(*own, punct_namespace, specs, limits)
            if made is None:
                self.trees.clear()
                break
            self.trees.append(made)

    def walk(self, split: Split) -> list[Walked] | None:
        """What is in a split, by stream; None if it is for libxml2."""
        made = ready(split) if self.trees else None
        if made is None or made.refused is not None or len(split.data) > self.limits.element:
            return None
        known, self._known = self._known, None
        if known is not None and not known.is_of(split):
            known = None
        data = known.data if known is not None else made.data  # which places are in
        found: list[Walked | None] = [None] * len(self.specs)
        for tree, group in zip(self.trees, self.groups, strict=True):
            walk = known.walk if known else _walk(tree.tree, data, split.start.prologue, False)
            if walk is None:
                return None
            begun = walk.rooted or (split.start.started and not made.declared)
            if split.final and (walk.outside or not begun):
                return None
            for place, i in enumerate(group):
                walked = self._walked(data, tree, place, i, walk)
                if self.specs[i].where and walked.dropped.any():
                    return None  # the other reader knows what of that is said by the condition
                found[i] = walked
        return [one for one in found if one is not None]

    def ahead(self, split: Split) -> Walk | None:
        """For a `Splitter`: as far as a split can be read. It is remembered until that is read."""
        made = ready(split)
        chosen = any(spec.where for spec in self.specs)  # what is not chosen is not cut either
        if len(self.trees) != 1 or chosen or made.refused is not None:
            return None
        walk = _walk(self.trees[0].tree, made.data, split.start.prologue, True)
        self._known = walk and _Known(split, made.data, walk)
        return walk

    def _walked(self, data: bytes, grown_: Grown, place: int, stream: int, walk: Walk) -> Walked:
        """What a walk has found of one stream, which has a place in its group."""
        shape = self.shapes[stream]
        paths, width, wide = shape.paths, shape.width, shape.width + len(shape.said)
        kinds = walk.rows[2 * place : 2 * place + 2]
        tuples, said = (np.frombuffer(heads, np.int32).reshape(-1, 4) for heads, _ in kinds)
        cells = _columns(data, walk.side, width, kinds[0][1])
        patterns = _columns(data, walk.side, wide, kinds[1][1])
        items, kept = [Items([], np.empty(0, np.int64))], [len(tuples)]
        for number, table in enumerate(shape.tables[1:], 1):
            heads, own = walk.rows[grown_.items[place, number]]
            of = np.frombuffer(heads, np.int32).reshape(-1, 4)[:, 0].astype(np.int64)
            kept.append(
                int(np.searchsorted(of, kept[table.parent]))
            )  # the rest are of a tuple that is still open
            across = table.end - table.first
            complete = _columns(data, walk.side, across, own[: kept[-1] * across * _CELL])
            items.append(Items(complete, of[: kept[-1]]))
        wrong = {row: (slot, "given more than once") for kind, row, slot in walk.faults if kind == 2 * place}
        group = [self.shapes[i] for i in self.groups[self.trees.index(grown_)]]
        first = sum(2 * s.width + len(s.said) for s in group[:place])
        nested, texts = walk.counts[2 * place : 2 * place + 2]
        missed = walk.missed[first : first + width]
        names = {
            NESTED: {self.specs[stream].element: nested},
            NAMESPACE: dict(zip(paths, missed, strict=True)),
        }
        undeclared = names[UNDECLARED] = {}
        for node, is_attribute, name, count in walk.seen:
            if grown_.streams[node] == place:
                label = f"{grown_.labels[node]}{'@' if is_attribute else ''}{name}"
                undeclared[label] = count
        undeclared[TEXT] = texts
        known = ((kind, {name: n for name, n in counts.items() if n}) for kind, counts in names.items())
        overlooked = {kind: counts for kind, counts in known if counts}
        dropped = said[:, 3] != 0
        return Walked(
            tuples[:, 0], tuples[:, 1], cells, items, wrong, patterns, said[:, 2], dropped, overlooked
        )


_CELL = 8
"""Bytes: a place and a size."""


def _columns(data: bytes, side: bytes, width: int, cells: bytes) -> list[Cells]:
    """Rows of cells, by slot."""
    places = np.frombuffer(cells, np.int32).reshape(-1, width, 2) if width else np.empty((0, 0, 2), np.int32)
    return [Cells(data, side, places[:, slot, 0], places[:, slot, 1]) for slot in range(width)]

"""The native reader: one walk over a split, which proves that it is well formed and fills rows; or passes it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from xmlpunct.base.unread import NAMESPACE, NESTED, STRANGER, UNDECLARED
from xmlpunct.firehose import native
from xmlpunct.firehose.cells import Cells, Places
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.parser_target import TEXT
from xmlpunct.firehose.libxml.prologue import Ready, ready
from xmlpunct.firehose.native.automaton_tables import Grown, bare, grown
from xmlpunct.firehose.native.nested_tuples import interleaved
from xmlpunct.firehose.native.tags import Element
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.position import Said, Split
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec


class Walk(NamedTuple):
    """What a walk over a split gives.

    At ``size`` all that comes before is complete. Open are the first ``kept`` of the elements that were open at the
    beginning, and others, whose start tags have the places and sizes ``opened``. The first ``outside`` of them are in
    no tuple or punctuation; the one after them begins at ``outer``, if that is not -1. ``rooted`` says whether there
    has been a root. ``rows`` are, by kind, their heads and their cells; what is in ``side`` is not
    in the split. Counts are by stream those of nested elements and of texts, and by slot of all kinds those that
    are ``missed`` for their namespace; those of names have a node. What is ``late`` has a kind of row, a slot, and the
    places of its beginning and its end. For what open elements have ``said`` of tuples, see `_said`.
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
    late: list[tuple[int, int, int, int]]
    said: list[tuple[int, int, int, int, int, int, int, int]]

    @property
    def boundary(self) -> int:
        """Where what is complete ends, that is, no tuple or punctuation is open."""
        return self.size if self.outside == self.kept + len(self.opened) else max(self.outer, 0)


_NOTHING = np.empty(0, np.int32), b""


def _walk(
    tree: native.Tree, data: bytes, opened: bytes, part: bool, said: tuple[Places, bytes] = _NOTHING
) -> Walk | None:
    given = tree.walk(data, opened, part, *said)
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
class Known:
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
        self._punct_namespace = punct_namespace
        self._known: Known | None = None
        self._levels: dict[tuple[int, int], Grown | None] = {}
        self.trees: list[Grown] = []
        for group in groups if native.COMPILED else ():
            made = self._grown(group, 0)
            if made is None:
                self.trees.clear()
                break
            self.trees.append(made)

    def walk(self, split: Split, known: Known | None = None) -> list[Walked] | None:
        """What is in a split, by stream, if not all is ``known`` yet; None if it is for libxml2."""
        made = ready(split) if self.trees else None
        if made is None or made.refused is not None or len(split.data) > self.limits.element:
            return None
        found: list[Walked | None] = [None] * len(self.specs)
        walk: Walk | None
        for number, (tree, group) in enumerate(zip(self.trees, self.groups, strict=True)):
            is_nested = self.specs[group[0]].nested
            if known is not None and number == 0 and not is_nested:
                data, walk = known.data, known.walk  # places are in these data
            else:
                data, walk = made.data, self._over(tree, group, split, made.data)
            if walk is None:
                return None
            begun = walk.rooted or (split.start.started and not made.declared)
            if split.final and (walk.outside or not begun):
                return None
            for place, i in enumerate(group):
                one = self._walked(data, tree, place, i, walk)
                found[i] = self._deeper(number, split, data, one) if is_nested else one
                if found[i] is None:
                    return None
        return [one for one in found if one is not None]

    def _deeper(self, number: int, split: Split, data: bytes, whole: Walked) -> Walked | None:
        """The tuples of the only stream of a group, with those in them, level by level."""
        level, (stream,), further = 0, self.groups[number], whole
        while len(further.at):
            level += 1
            if (number, level) not in self._levels:
                self._levels[number, level] = self._grown([stream], level)
            tree = self._levels[number, level]
            walk = None if tree is None else self._over(tree, [stream], split, data)
            if tree is None or walk is None:
                return None
            further = self._walked(data, tree, 0, stream, walk)
            if len(further.at):
                whole = interleaved(self.shapes[stream], whole, further)
        return whole

    def known(self, split: Split) -> Known | None:
        """What was read ahead of a split, if anything. It is forgotten."""
        known, self._known = self._known, None
        return known if known is not None and known.is_of(split) else None

    def ahead(self, split: Split) -> tuple[Walk, Said | None] | None:
        """For a `Splitter`: as far as a split can be read, and what is said there. It is remembered for `known`.

        What is said is None if it is not known.
        """
        made = ready(split)
        if not self.trees or made.refused is not None:
            return None
        tree, group = self.trees[0], self.groups[0]
        walk = self._over(tree, group, split, made.data, True)
        self._known = walk and Known(split, made.data, walk)
        if walk is None:
            return None
        return walk, self._said(made.data, tree, group, walk) if len(self.trees) == 1 else None

    def said(self, split: Split) -> Said | None:
        """What the elements that are open behind a split have given to tuples; None if it is for libxml2."""
        made = ready(split) if self.trees else None
        if made is None or made.refused is not None:
            return None
        found = []
        for tree, group in zip(self.trees, self.groups, strict=True):
            walk = self._over(tree, group, split, made.data)
            if walk is None:
                return None
            if tree.ups:
                found.append(self._said(made.data, tree, group, walk))
        return tuple(tuple(sorted(chain(*of_one))) for of_one in zip(*found, strict=True))

    def _grown(self, group: Sequence[int], level: int) -> Grown | None:
        own = tuple(self.specs[i] for i in group), tuple(self.shapes[i] for i in group)
        return grown(*own, self._punct_namespace, tuple(self.specs), self.limits, level)

    def _over(
        self, tree: Grown, group: Sequence[int], split: Split, data: bytes, part: bool = False
    ) -> Walk | None:
        """Walk over a split by the tree of a group."""
        numbers, texts = list[list[int]](), bytearray()
        for depth, of_one in enumerate(split.start.said if tree.ups else ()):
            for stream, slot, said, read in of_one:
                if stream not in group or (up := (group.index(stream), slot)) not in tree.ups:
                    continue
                places = [0, 0, 0, 0]
                for i, text in enumerate(said[:2]):
                    coded = text.encode("utf-8", "surrogateescape")
                    places[2 * i : 2 * i + 2] = len(texts), len(coded)
                    texts += coded
                numbers.append([depth, tree.ups.index(up), len(said[:2]), int(read), *places])
        given = (np.array(numbers, np.int32), bytes(texts)) if numbers else _NOTHING
        return _walk(tree.tree, data, split.start.prologue, part, given)

    @staticmethod
    def _said(data: bytes, tree: Grown, group: Sequence[int], walk: Walk) -> Said:
        """What the elements that are open behind a walk have given to tuples in them."""
        found: list[list[tuple[int, int, tuple[str, ...], bool]]] = [[] for _ in range(walk.outside)]
        if not tree.ups:
            return ()
        for depth, up, count, read, *places in walk.said:
            cells = Cells(data, walk.side, *np.array(places, np.int32).reshape(2, 2).T)
            stream, slot = tree.ups[up]
            texts = tuple(cells.text(i) for i in range(count))
            found[depth].append((group[stream], slot, texts, bool(read)))
        return tuple(tuple(sorted(of_one)) for of_one in found)

    def _walked(self, data: bytes, grown_: Grown, place: int, stream: int, walk: Walk) -> Walked:
        """What a walk has found of one stream, which has a place in its group."""
        spec, shape = self.specs[stream], self.shapes[stream]
        paths, width, wide = (
            shape.paths,
            shape.width,
            shape.width + len(shape.said) + (spec.where is not None),
        )
        kinds = walk.rows[2 * place : 2 * place + 2]
        tuples, said = (np.frombuffer(heads, np.int32).reshape(-1, 4) for heads, _ in kinds)
        cells = _columns(data, walk.side, width, kinds[0][1])
        patterns = _columns(data, walk.side, wide, kinds[1][1])
        items, counts = [Items([], np.empty(0, np.int64))], [len(tuples)]
        for number, table in enumerate(shape.tables[1:], 1):
            heads, own = walk.rows[grown_.items[place, number]]
            of = np.frombuffer(heads, np.int32).reshape(-1, 4)[:, 0].astype(np.int64)
            # Those of a tuple that is not complete, and come last, do not count yet.
            counts.append(int(np.searchsorted(of, counts[table.parent])))
            parts = _columns(data, walk.side, table.end - table.first, own)
            items.append(Items([part.first(counts[-1]) for part in parts], of[: counts[-1]]))
        wrong = {row: (slot, "given more than once") for kind, row, slot in walk.faults if kind == 2 * place}
        first = grown_.first_cells[2 * place]
        late = [(at, end, slot) for kind, slot, at, end in walk.late if kind == 2 * place]
        nested, texts = walk.counts[2 * place : 2 * place + 2]
        missed = walk.missed[first : first + width]
        names = {
            NESTED: {spec.tag: nested},
            NAMESPACE: dict.fromkeys(paths, 0),
        }
        for path, count in zip(
            paths, missed, strict=True
        ):  # arrays have paths of their own, perhaps the same
            names[NAMESPACE][path] += count
        undeclared = names[UNDECLARED] = {}
        strangers = names[STRANGER] = {}
        for node, is_attribute, name, count in walk.seen:
            label = grown_.labels[node]
            if grown_.streams[node] == place and label is None:
                strangers[name] = count
            elif grown_.streams[node] == place:
                undeclared[f"{label}{'@' if is_attribute else ''}{name}"] = count
        undeclared[TEXT] = texts
        known = ((kind, {name: n for name, n in counts.items() if n}) for kind, counts in names.items())
        overlooked = {kind: counts for kind, counts in known if counts}
        dropped = said[:, 3] != 0
        return Walked(
            tuples[:, 0], tuples[:, 1], cells, items, wrong, patterns, said[:, 0], said[:, 2], dropped, overlooked,
            late,
        )  # fmt: skip


def _columns(data: bytes, side: bytes, width: int, cells: bytes) -> list[Cells]:
    """Rows of cells, by slot."""
    places = np.frombuffer(cells, np.int32).reshape(-1, width, 2) if width else np.empty((0, 0, 2), np.int32)
    return [Cells(data, side, places[:, slot, 0], places[:, slot, 1]) for slot in range(width)]

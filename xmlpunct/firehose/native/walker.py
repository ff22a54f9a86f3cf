"""The native reader: one walk over a split proves that it is well formed and fills rows, or leaves it to libxml2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from xmlpunct.base.unread import NAMESPACE, NESTED, STRANGER, UNDECLARED, kind_by_namespace
from xmlpunct.firehose import native
from xmlpunct.firehose.cells import CellOffsets, Cells
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.parser_target import TEXT
from xmlpunct.firehose.native.automaton_tables import GrownTree, elements_only, grown
from xmlpunct.firehose.native.nested_tuples import interleaved
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.position import AncestorValues, Ready, Split
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec


class Walk(NamedTuple):
    """The result of a walk over a split.

    size: offset up to which all markup is complete.
    kept: how many of the initially open elements are still open; opened: (offset, size) of the start tags of
    elements opened since. outside: how many of all these are outside of tuples and punctuations; outer: offset of the
    open element after them (-1: none).
    rooted: true if a root element has begun.
    rows: by kind, the bytes of row heads and of cells; side: texts that differ from their source in the split.
    counts: by stream, the number of nested tuples and of undeclared texts.
    missed: by slot of all kinds, the values that are missing because of their namespace.
    overlooked_names: (node, is attribute, name, count).
    late: (row kind, slot, start, end) of each ancestor value that arrived after its tuple.
    ancestor_values: (depth, up, count, is read, offsets and sizes of two texts), see `_open_values`.
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
    overlooked_names: list[tuple[int, bool, str, int]]
    late: list[tuple[int, int, int, int]]
    ancestor_values: list[tuple[int, int, int, int, int, int, int, int]]

    @property
    def boundary(self) -> int:
        """The last offset at which no tuple or punctuation is open."""
        return self.size if self.outside == self.kept + len(self.opened) else max(self.outer, 0)


_NO_VALUES = np.empty(0, np.int32), b""


def _walk(
    tree: native.Tree,
    data: bytes,
    opened: bytes,
    part: bool,
    ancestor_values: tuple[CellOffsets, bytes] = _NO_VALUES,
) -> Walk | None:
    values = tree.walk(data, opened, part, *ancestor_values)
    return None if values is None else Walk(*values)


def boundaries(
    split: Split, opened: Sequence[str], uncut: frozenset[ElementName], limits: Limits
) -> Walk | None:
    """Walk as far as possible over a split inside elements with these ``opened`` start tags, for boundaries only.

    ``uncut`` are the names of elements that are not divided. None if the native reader refuses the split.
    """
    prepared = Ready(split.data) if opened else split.ready
    if not native.COMPILED or prepared.refused is not None:
        return None
    raw = "".join(opened).encode("utf-8", "surrogateescape")
    return _walk(_bare(uncut, limits), prepared.data, raw, True)


@lru_cache(maxsize=16)
def _bare(uncut: frozenset[ElementName], limits: Limits) -> native.Tree:
    """A tree without paths."""
    return elements_only(uncut, limits)


@dataclass(frozen=True, slots=True)
class Known:
    """A walk over as much of a split as is complete."""

    split: Split
    data: bytes
    walk: Walk

    def is_of(self, split: Split) -> bool:
        """True if the walk covers another split, except for white space at that split's end."""
        size, walked = self.walk.boundary, self.split
        if walked.start != split.start or len(split.data) < size:
            return False
        if len(split.data) == size:
            return walked.data.startswith(split.data)
        return split.data.startswith(walked.data[:size]) and not split.data[size:].strip(b" \t\r\n")


class Walker:
    """Walks over splits with one tree for each group of streams; the element names within a group are distinct."""

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
        self._stored: Known | None = None
        self._levels: dict[tuple[int, int], GrownTree | None] = {}
        self.trees: list[GrownTree] = []
        for group in groups if native.COMPILED else ():
            tree = self._tree(group, 0)
            if tree is None:
                self.trees.clear()
                break
            self.trees.append(tree)

    def walk(self, split: Split, earlier: Known | None = None) -> list[Walked] | None:
        """The rows of a split, by stream; None if libxml2 must read it. ``earlier``: a stored walk over the split."""
        prepared = split.ready if self.trees else None
        if prepared is None or not prepared.is_native or len(split.data) > self.limits.element:
            return None
        by_stream: list[Walked | None] = [None] * len(self.specs)
        walk: Walk | None
        for number, (tree, group) in enumerate(zip(self.trees, self.groups, strict=True)):
            is_nested = self.specs[group[0]].nested
            if earlier is not None and number == 0 and not is_nested:
                data, walk = earlier.data, earlier.walk  # offsets refer to these data
            else:
                data, walk = prepared.data, self._walk_over(tree, group, split, prepared.data)
            if walk is None:
                return None
            begun = walk.rooted or (split.start.started and not prepared.declared)
            if split.final and (walk.outside or not begun):
                return None
            for index, i in enumerate(group):
                stream_rows = self._stream_rows(data, tree, index, i, walk)
                rows = self._with_nested(number, split, data, stream_rows) if is_nested else stream_rows
                if rows is None:
                    return None
                by_stream[i] = rows
        return [stream_rows for stream_rows in by_stream if stream_rows is not None]

    def _with_nested(self, number: int, split: Split, data: bytes, outer: Walked) -> Walked | None:
        """The tuples of a group's only stream with the tuples nested in them, read level by level."""
        level, (stream,), inner = 0, self.groups[number], outer
        while len(inner.at):
            level += 1
            if (number, level) not in self._levels:
                self._levels[number, level] = self._tree([stream], level)
            tree = self._levels[number, level]
            walk = None if tree is None else self._walk_over(tree, [stream], split, data)
            if tree is None or walk is None:
                return None
            inner = self._stream_rows(data, tree, 0, stream, walk)
            if len(inner.at):
                outer = interleaved(self.shapes[stream], outer, inner)
        return outer

    def known(self, split: Split) -> Known | None:
        """The walk that `ahead` stored, if it covers this split. The stored walk is cleared."""
        stored, self._stored = self._stored, None
        return stored if stored is not None and stored.is_of(split) else None

    def ahead(self, split: Split) -> tuple[Walk, AncestorValues | None] | None:
        """For a `Splitter`: a walk as far as possible, and the ancestor values at its end (None: unknown).

        The walk is stored for `known`.
        """
        prepared = split.ready
        if not self.trees or not prepared.is_native:
            return None
        tree, group = self.trees[0], self.groups[0]
        walk = self._walk_over(tree, group, split, prepared.data, True)
        self._stored = walk and Known(split, prepared.data, walk)
        if walk is None:
            return None
        return walk, self._open_values(prepared.data, tree, group, walk) if len(self.trees) == 1 else None

    def said(self, split: Split) -> AncestorValues | None:
        """The ancestor values of the elements that are open at a split's end; None if libxml2 must read it."""
        prepared = split.ready if self.trees else None
        if prepared is None or not prepared.is_native:
            return None
        by_tree = []
        for tree, group in zip(self.trees, self.groups, strict=True):
            walk = self._walk_over(tree, group, split, prepared.data)
            if walk is None:
                return None
            if tree.ups:
                by_tree.append(self._open_values(prepared.data, tree, group, walk))
        return tuple(tuple(sorted(chain(*values))) for values in zip(*by_tree, strict=True))

    def _tree(self, group: Sequence[int], level: int) -> GrownTree | None:
        streams = tuple(self.specs[i] for i in group), tuple(self.shapes[i] for i in group)
        return grown(*streams, self._punct_namespace, tuple(self.specs), self.limits, level)

    def _walk_over(
        self, tree: GrownTree, group: Sequence[int], split: Split, data: bytes, part: bool = False
    ) -> Walk | None:
        """Walk over a split with the tree of a group."""
        numbers, texts = list[list[int]](), bytearray()
        for depth, values in enumerate(split.start.said if tree.ups else ()):
            for stream, slot, value_texts, read in values:
                if stream not in group or (up := (group.index(stream), slot)) not in tree.ups:
                    continue
                spans = [0, 0, 0, 0]
                for i, text in enumerate(value_texts[:2]):
                    coded = text.encode("utf-8", "surrogateescape")
                    spans[2 * i : 2 * i + 2] = len(texts), len(coded)
                    texts += coded
                numbers.append([depth, tree.ups.index(up), len(value_texts[:2]), int(read), *spans])
        ancestor_values = (np.array(numbers, np.int32), bytes(texts)) if numbers else _NO_VALUES
        return _walk(tree.tree, data, split.start.prologue, part, ancestor_values)

    @staticmethod
    def _open_values(data: bytes, tree: GrownTree, group: Sequence[int], walk: Walk) -> AncestorValues:
        """The ancestor values of the elements that are open at the end of a walk, by depth."""
        by_depth: list[list[tuple[int, int, tuple[str, ...], bool]]] = [[] for _ in range(walk.outside)]
        if not tree.ups:
            return ()
        for depth, up, count, read, *spans in walk.ancestor_values:
            cells = Cells(data, walk.side, *np.array(spans, np.int32).reshape(2, 2).T)
            stream, slot = tree.ups[up]
            texts = tuple(cells.text(i) for i in range(count))
            by_depth[depth].append((group[stream], slot, texts, bool(read)))
        return tuple(tuple(sorted(values)) for values in by_depth)

    def _stream_rows(self, data: bytes, tree: GrownTree, index: int, stream: int, walk: Walk) -> Walked:
        """The rows that a walk filled for one stream, which has the index ``place`` in its group."""
        spec, shape = self.specs[stream], self.shapes[stream]
        paths, width = shape.paths, shape.width
        pattern_width = width + len(shape.pattern_slots) + (spec.where is not None)
        row_kinds = walk.rows[2 * index : 2 * index + 2]
        tuples, punctuations = (np.frombuffer(heads, np.int32).reshape(-1, 4) for heads, _ in row_kinds)
        cells = _columns(data, walk.side, width, row_kinds[0][1])
        patterns = _columns(data, walk.side, pattern_width, row_kinds[1][1])
        items, counts = [Items([], np.empty(0, np.int64))], [len(tuples)]
        for number, table in enumerate(shape.tables[1:], 1):
            heads, cell_bytes = walk.rows[tree.items[index, number]]
            parents = np.frombuffer(heads, np.int32).reshape(-1, 4)[:, 0].astype(np.int64)
            # The last items may belong to a tuple that is not complete; these do not count yet.
            counts.append(int(np.searchsorted(parents, counts[table.parent])))
            parts = _columns(data, walk.side, table.end - table.first, cell_bytes)
            items.append(Items([part.first(counts[-1]) for part in parts], parents[: counts[-1]]))
        wrong = {row: (slot, "given more than once") for kind, row, slot in walk.faults if kind == 2 * index}
        first = tree.first_cells[2 * index]
        late = [(at, end, slot) for kind, slot, at, end in walk.late if kind == 2 * index]
        nested, texts = walk.counts[2 * index : 2 * index + 2]
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
        for node, is_attribute, name, count in walk.overlooked_names:
            if tree.streams[node] != index:
                continue
            label, kind = tree.labels[node], STRANGER if tree.labels[node] is None else UNDECLARED
            kind = kind if is_attribute else kind_by_namespace(kind, name, self._punct_namespace)
            name = f"{label}{'@' if is_attribute else ''}{name}" if kind == UNDECLARED else name
            counts_by_name = names.setdefault(kind, {})
            counts_by_name[name] = counts_by_name.get(name, 0) + count
        undeclared[TEXT] = texts
        nonempty = ((kind, {name: n for name, n in counts.items() if n}) for kind, counts in names.items())
        overlooked = {kind: counts for kind, counts in nonempty if counts}
        dropped = punctuations[:, 3] != 0
        return Walked(
            tuples[:, 0], tuples[:, 1], cells, items, wrong, patterns, punctuations[:, 0], punctuations[:, 2],
            dropped, overlooked, late,
        )  # fmt: skip


def _columns(data: bytes, side: bytes, width: int, cells: bytes) -> list[Cells]:
    """The cells of rows, by slot."""
    spans = np.frombuffer(cells, np.int32).reshape(-1, width, 2) if width else np.empty((0, 0, 2), np.int32)
    return [Cells(data, side, spans[:, slot, 0], spans[:, slot, 1]) for slot in range(width)]

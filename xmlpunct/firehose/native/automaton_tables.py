"""The states of `path_automaton` as flat tables of numbers for the native reader."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from xmlpunct.firehose import native
from xmlpunct.firehose.native.path_automaton import (
    WHOLE,
    ElementChoice,
    Kind,
    PathState,
    SplitNames,
    all_ups,
    states,
)
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.spec import (
    ElementName,
    Limits,
    StreamSpec,
    elements_of,
    name_parts,
    punctuation_element,
)

if native.COMPILED:
    from xmlpunct.firehose.native._native import Flag

_MOST_NODES = 10_000
"""Larger trees are left to libxml2: conditions and names that lead to tuples multiply the nodes."""
_ANY = "\0"
"""Stands for a name or namespace that is absent from a tree."""


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A native tree and the meaning of its numbers.

    streams, labels: by node, its stream, and the path that precedes overlooked names (None outside of tuples).
    items: the row kind of each (stream, table of items). first_cells: by row kind, the number of its first cell.
    ups: (stream, slot) of each ancestor value.
    """

    tree: native.Tree
    streams: Sequence[int]
    labels: Sequence[str | None]
    items: Mapping[tuple[int, int], int]
    first_cells: Sequence[int]
    ups: Sequence[tuple[int, int]]


@lru_cache(maxsize=64)
def grown(
    specs: tuple[StreamSpec, ...],
    shapes: tuple[Shape, ...],
    punct_namespace: str,
    all_specs: tuple[StreamSpec, ...],
    limits: Limits,
    level: int = 0,
) -> GrownTree | None:
    """The tree of streams whose elements all differ; ``all_specs`` are all streams of the source.

    It is for tuples inside ``level`` enclosing tuples. It is cached for all readers of these streams, because for
    small sources its construction would take most of the time. None if the native reader does not support it.
    """
    try:
        return _Tree(specs, shapes, punct_namespace, all_specs, limits, level=level).build()
    except _NotNativeError:
        return None


def elements_only(elements: Collection[ElementName], limits: Limits) -> native.Tree:
    """A tree without paths that distinguishes these elements from all other elements."""
    outside, inside = (PathState(Kind.OTHER, SplitNames(limits)) for _ in range(2))
    for name in elements:
        outside.children[name] = inside
    return _Tree((), (), "", (), limits, outside, elements).build().tree


class _NotNativeError(Exception):
    """The native reader does not support a feature of the tree."""


class _Tree:
    """Builds a `native.Tree`. Tuples of stream number i are rows of kind 2i, its punctuations of kind 2i + 1."""

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        shapes: Sequence[Shape],
        punct_namespace: str,
        all_specs: Sequence[StreamSpec],
        limits: Limits,
        outside: PathState | None = None,
        elements: Collection[ElementName] = (),
        level: int = 0,
    ) -> None:
        self.shapes, self.limits, self.punct_namespace = shapes, limits, punct_namespace
        own_spaces = [{"", punct_namespace, spec.space} for spec in specs]
        uncut = elements_of(all_specs, punct_namespace) if all_specs else frozenset[str]()
        self.ups = all_ups(specs, shapes)
        names = {*elements, *uncut, *(name for spec in all_specs for name in spec.names)}
        names |= {spec.where[0] for spec in all_specs if spec.where}
        for _, up, space in self.ups:
            names |= {name for hop in up.path.hops for name in (*hop.names(space), hop.attribute)}
            names.add(up.path.attribute or "")
        used_spaces = {name_parts(name)[0] for name in names}
        used_spaces = used_spaces.union(*own_spaces, *(_spaces(shape.root) for shape in shapes)) - {""}
        self.spaces = ["", *sorted(used_spaces), _ANY]
        self.names = bytearray()
        self.nodes: list[list[int]] = []
        self.labels: list[str] = []
        self.tables: list[tuple[int, int, int]] = []
        self.entries: list[tuple[int, int]] = []
        self.targets: list[list[int]] = []
        self.below: list[int] = []
        self.conditions: list[list[int]] = []
        self.says: list[tuple[int, int]] = []
        self.several: list[int] = []
        self.extras = [[0, 0, 0, 0]]  # entry 0: for nodes without items and raws
        self.counters: dict[str, int] = {}  # by name of the elements whose positions matter
        around = dict.fromkeys(up.path.attribute for _, up, _ in self.ups if up.path.attribute is not None)
        self.around = {name: number for number, name in enumerate(around)}
        self.unexpanded: list[PathState] = []
        self.numbers: dict[int, int] = {}  # by the identity of a node, or of shared children
        self.referenced: list[object] = []  # references, so that no identity is reused
        marks = [punctuation_element(spec.element, punct_namespace) for spec in specs]
        self.item_kinds: dict[tuple[int, int], int] = {}
        self.widths = []
        self.unread: list[int] = []  # by cell of all row kinds
        for spec, shape in zip(specs, shapes, strict=True):
            self.widths += [shape.width, shape.width + len(shape.pattern_slots) + (spec.where is not None)]
            unread = shape.unread_slots(spec.judged)
            self.unread += [slot in unread for slot in range(shape.width)] + [0] * self.widths[-1]
        self.widths = self.widths or [0, 0]
        for i, shape in enumerate(shapes):
            for number, table in enumerate(shape.tables[1:], 1):
                self.item_kinds[i, number] = len(self.widths)
                self.widths.append(table.end - table.first)
                self.unread += [0] * self.widths[-1]
        self.table([], [], 0)  # table 0: for nodes without children
        self.number(
            outside or states([*specs], [*shapes], marks, all_specs, SplitNames(limits), level, uncut)
        )
        self.nodes[0][0] |= Flag.OUTSIDE
        self.punctuation_nodes = [
            self.punctuation(2 * i + 1, shape.root, allowed, Flag.ROW, shape.pattern_slots, specs[i].where)
            for i, (shape, allowed) in enumerate(zip(shapes, own_spaces, strict=True))
        ]

    def build(self) -> GrownTree:
        """The tree, after expanding all states."""
        while self.unexpanded:
            node = self.unexpanded.pop()
            self.nodes[self.number(node)][3] = self.table_below(node)
        ups = []
        for stream, up, _ in self.ups:
            hops, attribute = len(up.path.hops), up.path.attribute
            cell = -1 if attribute is None else self.around[attribute]
            ups.append([2 * stream, up.slot, up.path.up, cell, hops, int(up.needed)])
        spaces = [self.name(uri) for uri in self.spaces[1:-1]]
        limits = self.limits
        tree = native.Tree(
            bytes(self.names),
            _numbers(self.nodes),
            _numbers(self.tables),
            _numbers(self.entries),
            _numbers(self.targets),
            _numbers(self.below),
            _numbers(self.widths),
            _numbers(spaces),
            _numbers(self.conditions),
            _numbers(ups),
            _numbers(self.says),
            _numbers(self.several),
            _numbers(self.extras),
            _numbers(self.unread),
            (len(self.around), len(self.counters)),
            (
                limits.depth,
                limits.text,
                limits.attribute,
                limits.name,
                limits.attributes,
                limits.namespaces,
                limits.inside,
                limits.tag,
            ),
        )
        return GrownTree(
            tree,
            [row // 2 for _, _, row, *_ in self.nodes],
            [
                None if f & Flag.OUTSIDE else label
                for (f, *_), label in zip(self.nodes, self.labels, strict=True)
            ],
            self.item_kinds,
            [*accumulate(self.widths, initial=0)],
            [(stream, up.slot) for stream, up, _ in self.ups],
        )

    def number(self, node: PathState, label: str = "") -> int:
        """The number of the node of a state; a new state gets a new node."""
        if node.kind == Kind.PUNCTUATION:
            return self.punctuation_nodes[node.stream]
        if node.chosen is not None and id(node) not in self.numbers:
            self.referenced.append(node)
            self.numbers[id(node)] = self.choice(node.chosen)
        if id(node) not in self.numbers:
            number = self.outside_node(node) if node.around else self.tuple_node(node, label)
            self.numbers[id(node)] = number
            self.nodes[number][0] |= Flag.COUNTS if node.counts else 0
            self.referenced.append(node)
            self.unexpanded.append(node)
        return self.numbers[id(node)]

    def outside_node(self, node: PathState) -> int:
        """A new node outside of tuples."""
        around = node.around
        assert around is not None
        flags = Flag.OUTSIDE | (Flag.KEPT if around.is_uncut else 0) | (Flag.INTO if around.into else 0)
        flags |= Flag.WRONG if around.own_text and around.all_text else 0  # one text buffer serves both
        flags |= (Flag.TEXT if around.all_text or around.own_text else 0) | (Flag.SAID if around.says else 0)
        flags |= Flag.UNDECLARED if node.stream >= 0 else 0
        number = self.add(flags, -1, 2 * max(node.stream, 0), self.around)
        self.nodes[number][5:7] = len(self.says), len(around.says)
        self.says += sorted(around.says)
        return number

    def tuple_node(self, node: PathState, label: str) -> int:
        """A new node inside a tuple."""
        values = (*node.texts, *node.owns)
        if (node.texts and node.owns) or (node.owns and node.flows == WHOLE) or len(node.raws) > 1:
            raise _NotNativeError
        flags = _kind_flag(node)
        flags |= Flag.VALUE | Flag.TEXT if values else 0
        flags |= Flag.INTO | Flag.TEXT if node.flows == WHOLE else 0
        flags |= Flag.RAW if node.raws else 0
        if node.path is not None:
            label = node.path
            flags |= Flag.GUESSED | (Flag.TEXT if node.kind == Kind.TUPLE else 0)
        attributes = {name: self.slot(slots) for name, slots in node.attributes.items()}
        number = self.add(flags, self.slot(values), 2 * max(node.stream, 0), attributes, label)
        self.nodes[number][5:7] = len(self.below), len(node.below)
        self.below += [slot for slot, _ in node.below]
        if node.items or node.raws:
            self.nodes[number][7] = len(self.extras)
            self.extras.append([*self.item(number, node), max(node.raws, default=0)])
        return number

    def slot(self, slots: Sequence[int]) -> int:
        """The slot of a value; -1: none; from -2 downwards: the position in `several` of a list of slots."""
        if len(slots) < 2:
            return slots[0] if slots else -1
        self.several += [len(slots), *slots]
        return -2 - (len(self.several) - len(slots) - 1)

    def choice(self, chosen: ElementChoice) -> int:
        """The node at which an element's position among its siblings and its attributes decide its state."""
        counted = []
        for name in chosen.positions:
            counter = self.counters.setdefault(name, len(self.counters))
            counted.append(self.condition([0, 0, counter, 0, 0]))
        first = self.choice_after(chosen, ())
        for number in reversed(counted):
            self.conditions[self.nodes[number][5]] += [first, first]
            first = number
        return first

    def choice_after(self, chosen: ElementChoice, true: tuple[bool, ...]) -> int:
        """The node that tests the remaining conditions of a choice; ``true`` answers the first ones."""
        if len(true) == len(chosen.conditions):
            return self.number(chosen.node(true))
        condition = chosen.conditions[len(true)]
        for earlier, answer in zip(chosen.conditions, true, strict=False):
            is_same = earlier.value == condition.value
            if condition.attribute and earlier.attribute == condition.attribute and (answer or is_same):
                return self.choice_after(chosen, (*true, answer and is_same))
        if condition.position:
            test = [0, 0, self.counters[condition.name], condition.position, 0]
        else:
            uri, local = name_parts(condition.attribute)
            test = [*self.name(local), self.spaces.index(uri), *self.name(condition.value)]
        number = self.condition(test)
        ends = [self.choice_after(chosen, (*true, answer)) for answer in (True, False)]
        self.conditions[self.nodes[number][5]] += ends
        return number

    def condition(self, test: list[int]) -> int:
        """A new node that tests a condition; the caller adds the two nodes to which it leads."""
        number = self.add(Flag.CHOICE, -1, 0, {})
        self.nodes[number][5] = len(self.conditions)
        self.conditions.append(test)
        return number

    def item(self, number: int, node: PathState) -> tuple[int, int, int]:
        """Mark the node of an array's items; their row kind, the parent's row kind, and their first cell."""
        if not node.items:
            return 0, 0, 0
        (table_number, *more_tables) = node.items
        if more_tables:
            raise _NotNativeError
        self.nodes[number][0] |= Flag.ITEM
        table, kinds = self.shapes[node.stream].tables[table_number], self.item_kinds
        above = kinds[node.stream, table.parent] if table.parent else 2 * node.stream
        return kinds[node.stream, table_number], above, table.first

    def add(self, flags: int, slot: int, row: int, attributes: Mapping[str, int], label: str = "") -> int:
        """A new node."""
        locals_ = [*dict.fromkeys(name_parts(name)[1] for name in attributes)]
        slots = [
            [attributes.get(f"{{{uri}}}{local}" if uri else local, -1) for uri in self.spaces]
            for local in locals_
        ]
        self.nodes.append([flags, slot, row, 0, self.table(locals_, slots, 0), 0, 0, 0])
        if len(self.nodes) > _MOST_NODES:
            raise _NotNativeError
        self.labels.append(label)
        return len(self.nodes) - 1

    def table_below(self, node: PathState) -> int:
        """The table of the names below a state."""
        below = node.children
        if id(below) not in self.numbers:
            locals_ = [*dict.fromkeys(name_parts(name)[1] for name in below)]
            rows = []
            for local in locals_:
                names = [f"{{{uri}}}{local}" if uri else local for uri in self.spaces]
                rows.append([self.child(node, name) for name in names])
            self.numbers[id(below)] = self.table(locals_, rows, self.child(node, _ANY))
            self.referenced.append(below)
        return self.numbers[id(below)]

    def child(self, node: PathState, name: ElementName) -> int:
        """The number of the state of an element below a state."""
        below = node.children.get(name) or node.children.other(name)
        return self.number(below, below.name.removesuffix(name))

    def punctuation(
        self,
        row: int,
        step: Step,
        allowed: Collection[str],
        flags: int = 0,
        columns: Mapping[str, int] = {},
        where: tuple[str, str] | None = None,
    ) -> int:
        """The node of a part of a punctuation, whose parts may be in the ``allowed`` namespaces.

        A part that can hold patterns in more than one way becomes a WRONG node, which leaves it to libxml2.
        """
        slots = [slot for slot in (step.text, step.own_text) if slot >= 0] or [step.raw]
        attributes, slot = step.attributes, -1 if flags & Flag.ROW else slots[0]
        if step.item >= 0:
            return self.open_part(row)
        if len(slots) > 1 or (slot >= 0 and step.named):
            return self.add(Flag.WRONG, -1, row, {})
        if where is not None and where[0] not in attributes:
            attributes = attributes | {where[0]: self.widths[row] - 1}
        flags |= Flag.SAYS | Flag.TEXT | (Flag.VALUE if slot >= 0 else Flag.BLANK)
        node_number = self.add(flags, slot, row, attributes)
        other = self.open_part(row) if slot < 0 else self.add(Flag.WRONG, -1, row, {})
        rows = []
        for hops in step.named.values():
            ((hop, below), *more_hops) = hops
            is_clear = hop.is_plain and not more_hops
            number = self.punctuation(row, below, allowed) if is_clear else self.add(Flag.WRONG, -1, row, {})
            spaces = {*allowed, *(name_parts(hop.name)[0] for hop, _ in hops)}
            rows.append([number if uri in spaces else other for uri in self.spaces])
        for slot in columns.values():
            number = self.add(Flag.SAYS | Flag.TEXT | Flag.VALUE, slot, row, {})
            self.nodes[number][3] = self.table([], [], self.add(Flag.WRONG, -1, row, {}))
            rows.append([number if uri == self.punct_namespace else other for uri in self.spaces])
        self.nodes[node_number][3] = self.table([*step.named, *columns], rows, other)
        return node_number

    def open_part(self, row: int) -> int:
        """The node of an undeclared part of a punctuation, which constrains nothing if its text is `*`."""
        number = self.add(Flag.SAYS | Flag.TEXT | Flag.OPEN, -1, row, {})
        self.nodes[number][3] = self.table([], [], number)
        return number

    def table(self, names: Sequence[str], targets: Sequence[list[int]], other: int) -> int:
        """A new table that maps (local name, namespace) to a node or a slot."""
        self.tables.append((len(self.entries), len(names), other))
        self.entries += map(self.name, names)
        self.targets += targets
        return len(self.tables) - 1

    def name(self, text: str) -> tuple[int, int]:
        """A new name: its offset and size."""
        coded = text.encode("utf-8", "surrogatepass")
        self.names += coded
        return len(self.names) - len(coded), len(coded)


def _kind_flag(node: PathState) -> int:
    """The flag for the kind of a state, if there is one."""
    flags: dict[int, int] = {
        Kind.TUPLE: Flag.ROW,
        Kind.FOREIGN: Flag.MARKS,
        Kind.INSIDE: Flag.NESTED,
        Kind.UNDECLARED: Flag.UNDECLARED,
    }
    return flags.get(node.kind, 0)


def _spaces(step: Step) -> set[str]:
    """The namespaces of the names in a step and below it."""
    hops = [name for hop, _ in step.below() for name in (hop.name, hop.attribute)]
    spaces = {name_parts(name)[0] for name in (*step.attributes, *hops)}
    return spaces.union(*(_spaces(below) for _, below in step.below()))


def _numbers(values: Sequence[object]) -> npt.NDArray[np.int32]:
    return np.array(values, np.int32)

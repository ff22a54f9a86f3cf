"""The paths of some streams as the native reader follows them: a flat table of nodes, laid out once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from xmlpunct.firehose import native
from xmlpunct.firehose.native.path_automaton import WHOLE, Choice, Kind, Names, Node, all_ups, states
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.spec import (
    ElementName,
    Limits,
    StreamSpec,
    elements_of,
    expanded,
    punctuation_element,
)


class Flag(IntFlag):
    """What there is to do at an element, as `native.h` has it."""

    ROW = 1
    VALUE = 2
    TEXT = 4
    MARKS = 8
    INTO = 16
    NESTED = 32
    UNDECLARED = 64
    GUESSED = 128
    SAYS = 256
    BLANK = 512
    OPEN = 1024
    WRONG = 2048
    ITEM = 8192
    CHOICE = 16384
    OUTSIDE = 32768
    KEPT = 65536
    SAID = 131072
    RAW = 262144
    COUNTS = 524288


_NONE = Flag(0)
_FLAGS = {
    Kind.TUPLE: Flag.ROW,
    Kind.FOREIGN: Flag.MARKS,
    Kind.INSIDE: Flag.NESTED,
    Kind.UNDECLARED: Flag.UNDECLARED,
}
_MOST_NODES = 10_000
"""Many conditions, or many names that lead to tuples, could make any number of them."""
_ANY = "\0"
"""Stands for any name or namespace that a tree does not know."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree, and by node the stream, and the path before the names that are overlooked there; None outside of tuples.

    ``items`` are the kinds of rows of a stream's tables of items, ``first_cells`` the numbers of the first slots of
    rows by kind. ``ups`` are the streams and slots of what tuples have of the elements around them, by number.
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
    others: tuple[StreamSpec, ...],
    limits: Limits,
    level: int = 0,
) -> Grown | None:
    """The tree of streams whose elements all differ; ``others`` are all streams of the source.

    It is for tuples that are in ``level`` other ones, and made once for all readers of these streams: of small sources
    it would take most of the time. None if the native reader does not know all that is in it.
    """
    try:
        return _Tree(specs, shapes, punct_namespace, others, limits, level=level).grown()
    except _NotNativeError:
        return None


def bare(elements: Collection[ElementName], limits: Limits) -> native.Tree:
    """A tree without paths, in which some elements are told from others."""
    outside, inside = (Node(Kind.OTHER, Names(limits)) for _ in range(2))
    for name in elements:
        outside.children[name] = inside
    return _Tree((), (), "", (), limits, outside, elements).grown().tree


class _NotNativeError(Exception):
    """There is something in a tree that the native reader does not know."""


class _Tree:
    """What a `native.Tree` is made of. Tuples of the stream of number i are rows of kind 2i, punctuations of 2i + 1."""

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        shapes: Sequence[Shape],
        punct_namespace: str,
        others: Sequence[StreamSpec],
        limits: Limits,
        outside: Node | None = None,
        elements: Collection[ElementName] = (),
        level: int = 0,
    ) -> None:
        self.shapes, self.limits, self.punct_namespace = shapes, limits, punct_namespace
        own = [{"", punct_namespace, spec.space} for spec in specs]
        kept = elements_of(others, punct_namespace) if others else frozenset[str]()
        self.ups = all_ups(specs, shapes)
        names = {*elements, *kept, *(name for spec in others for name in spec.names)}
        names |= {spec.where[0] for spec in others if spec.where}
        for _, up, space in self.ups:
            names |= {name for hop in up.path.hops for name in (*hop.names(space), hop.attribute)}
            names.add(up.path.attribute or "")
        known = {expanded(name)[0] for name in names}
        known = known.union(*own, *(_spaces(shape.root) for shape in shapes)) - {""}
        self.spaces = ["", *sorted(known), _ANY]
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
        self.more = [[0, 0, 0, 0]]  # what most nodes have
        self.counters: dict[str, int] = {}  # of elements of which positions matter
        around = dict.fromkeys(up.path.attribute for _, up, _ in self.ups if up.path.attribute is not None)
        self.around = {name: number for number, name in enumerate(around)}
        self.left: list[Node] = []
        self.numbers: dict[int, int] = {}  # by the identity of a node, or of what is below several
        self.kept: list[object] = []  # lest another gets the same identity
        marks = [punctuation_element(spec.element, punct_namespace) for spec in specs]
        self.item_kinds: dict[tuple[int, int], int] = {}
        self.widths = []
        for spec, shape in zip(specs, shapes, strict=True):
            self.widths += [shape.width, shape.width + len(shape.said) + (spec.where is not None)]
        self.widths = self.widths or [0, 0]
        for i, shape in enumerate(shapes):
            for number, table in enumerate(shape.tables[1:], 1):
                self.item_kinds[i, number] = len(self.widths)
                self.widths.append(table.end - table.first)
        self.table([], [], 0)  # of nodes that have nothing below them
        self.number(outside or states([*specs], [*shapes], marks, others, Names(limits), level, kept))
        self.nodes[0][0] |= Flag.OUTSIDE
        self.said = [
            self.punctuation(2 * i + 1, shape.root, allowed, Flag.ROW, shape.said, specs[i].where)
            for i, (shape, allowed) in enumerate(zip(shapes, own, strict=True))
        ]

    def grown(self) -> Grown:
        """All of it."""
        while self.left:
            node = self.left.pop()
            self.nodes[self.number(node)][3] = self.table_below(node)
        ups = []
        for stream, up, _ in self.ups:
            hops, attribute = len(up.path.hops), up.path.attribute
            cell = -1 if attribute is None else self.around[attribute]
            ups.append([2 * stream, up.slot, up.path.up, cell, hops, int(up.needed)])
        spaces = [self.name(uri) for uri in self.spaces[1:-1]]
        most = self.limits
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
            _numbers(self.more),
            (len(self.around), len(self.counters)),
            (
                most.depth,
                most.text,
                most.attribute,
                most.name,
                most.attributes,
                most.namespaces,
                most.inside,
                most.tag,
            ),
        )
        return Grown(
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

    def number(self, node: Node, label: str = "") -> int:
        """The number of a state of the target, which may be new."""
        if node.kind == Kind.PUNCTUATION:
            return self.said[node.stream]
        if node.chosen is not None and id(node) not in self.numbers:
            self.kept.append(node)
            self.numbers[id(node)] = self.choice(node.chosen)
        if id(node) not in self.numbers:
            number = self.numbers[id(node)] = self.beyond(node) if node.around else self.within(node, label)
            self.nodes[number][0] |= Flag.COUNTS if node.counts else 0
            self.kept.append(node)
            self.left.append(node)
        return self.numbers[id(node)]

    def beyond(self, node: Node) -> int:
        """A new node outside of tuples."""
        around = node.around
        assert around is not None
        flags = Flag.OUTSIDE | (Flag.KEPT if around.kept else 0) | (Flag.INTO if around.into else 0)
        flags |= Flag.WRONG if around.own and around.whole else 0  # there is one text for both
        flags |= (Flag.TEXT if around.whole or around.own else 0) | (Flag.SAID if around.says else 0)
        flags |= Flag.UNDECLARED if node.stream >= 0 else 0
        number = self.add(Flag(flags), -1, 2 * max(node.stream, 0), self.around)
        self.nodes[number][5:7] = len(self.says), len(around.says)
        self.says += sorted(around.says)
        return number

    def within(self, node: Node, label: str) -> int:
        """A new node inside a tuple."""
        values = (*node.texts, *node.owns)
        if (node.texts and node.owns) or (node.owns and node.flows == WHOLE) or len(node.raws) > 1:
            raise _NotNativeError
        flags = _FLAGS.get(Kind(node.kind), _NONE)
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
            self.nodes[number][7] = len(self.more)
            self.more.append([*self.item(number, node), max(node.raws, default=0)])
        return number

    def slot(self, slots: Sequence[int]) -> int:
        """The slot of a value, -1 if there is none; a number from -2 on down if there are several."""
        if len(slots) < 2:
            return slots[0] if slots else -1
        self.several += [len(slots), *slots]
        return -2 - (len(self.several) - len(slots) - 1)

    def choice(self, chosen: Choice) -> int:
        """The node at which an element's place among others and its attributes decide what it is."""
        counted = []
        for name in chosen.positions:
            counter = self.counters.setdefault(name, len(self.counters))
            counted.append(self.condition([0, 0, counter, 0, 0]))
        first = self.decided(chosen, ())
        for place in reversed(counted):
            self.conditions[self.nodes[place][5]] += [first, first]
            first = place
        return first

    def decided(self, chosen: Choice, true: tuple[bool, ...]) -> int:
        """`choice`, some conditions being decided."""
        if len(true) == len(chosen.conditions):
            return self.number(chosen.node(true))
        one = chosen.conditions[len(true)]
        for known, answer in zip(chosen.conditions, true, strict=False):
            is_same = known.value == one.value
            if one.attribute and known.attribute == one.attribute and (answer or is_same):
                return self.decided(chosen, (*true, answer and is_same))
        if one.position:
            test = [0, 0, self.counters[one.name], one.position, 0]
        else:
            uri, local = expanded(one.attribute)
            test = [*self.name(local), self.spaces.index(uri), *self.name(one.value)]
        number = self.condition(test)
        ends = [self.decided(chosen, (*true, answer)) for answer in (True, False)]
        self.conditions[self.nodes[number][5]] += ends
        return number

    def condition(self, test: list[int]) -> int:
        """A new node at which something is tested; where that leads is yet to be added."""
        number = self.add(Flag.CHOICE, -1, 0, {})
        self.nodes[number][5] = len(self.conditions)
        self.conditions.append(test)
        return number

    def item(self, number: int, node: Node) -> tuple[int, int, int]:
        """Make a node that of the items of an array, if it is: their rows, those around them, and the first cell."""
        if not node.items:
            return 0, 0, 0
        (item, *others) = node.items
        if others:
            raise _NotNativeError
        self.nodes[number][0] |= Flag.ITEM
        table, kinds = self.shapes[node.stream].tables[item], self.item_kinds
        above = kinds[node.stream, table.parent] if table.parent else 2 * node.stream
        return kinds[node.stream, item], above, table.first

    def add(self, flags: Flag, slot: int, row: int, attributes: Mapping[str, int], label: str = "") -> int:
        """A new node."""
        locals_ = [*dict.fromkeys(expanded(name)[1] for name in attributes)]
        slots = [
            [attributes.get(f"{{{uri}}}{local}" if uri else local, -1) for uri in self.spaces]
            for local in locals_
        ]
        self.nodes.append([int(flags), slot, row, 0, self.table(locals_, slots, 0), 0, 0, 0])
        if len(self.nodes) > _MOST_NODES:
            raise _NotNativeError
        self.labels.append(label)
        return len(self.nodes) - 1

    def table_below(self, node: Node) -> int:
        """The table of what is below a state."""
        below = node.children
        if id(below) not in self.numbers:
            locals_ = [*dict.fromkeys(expanded(name)[1] for name in below)]
            rows = []
            for local in locals_:
                names = [f"{{{uri}}}{local}" if uri else local for uri in self.spaces]
                rows.append([self.child(node, name) for name in names])
            self.numbers[id(below)] = self.table(locals_, rows, self.child(node, _ANY))
            self.kept.append(below)
        return self.numbers[id(below)]

    def child(self, node: Node, name: ElementName) -> int:
        """The number of the state of an element below a state."""
        below = node.children.get(name) or node.children.other(name)
        return self.number(below, below.name.removesuffix(name))

    def punctuation(
        self,
        row: int,
        step: Step,
        allowed: Collection[str],
        flags: Flag = _NONE,
        said: Mapping[str, int] = {},
        where: tuple[str, str] | None = None,
    ) -> int:
        """The node of a part of a punctuation, whose parts may be in some namespaces.

        Where it holds patterns in more ways than one, it is not for the native reader.
        """
        slots = [slot for slot in (step.text, step.own) if slot >= 0] or [step.raw]
        attributes, slot = step.attributes, -1 if Flag.ROW in flags else slots[0]
        if step.item >= 0:
            return self.open_part(row)
        if len(slots) > 1 or (slot >= 0 and step.named):
            return self.add(Flag.WRONG, -1, row, {})
        if where is not None and where[0] not in attributes:
            attributes = attributes | {where[0]: self.widths[row] - 1}
        flags |= Flag.SAYS | Flag.TEXT | (Flag.VALUE if slot >= 0 else Flag.BLANK)
        found = self.add(flags, slot, row, attributes)
        other = self.open_part(row) if slot < 0 else self.add(Flag.WRONG, -1, row, {})
        rows = []
        for hops in step.named.values():
            ((hop, below), *more) = hops
            is_clear = hop.is_plain and not more
            number = self.punctuation(row, below, allowed) if is_clear else self.add(Flag.WRONG, -1, row, {})
            known = {*allowed, *(expanded(hop.name)[0] for hop, _ in hops)}
            rows.append([number if uri in known else other for uri in self.spaces])
        for slot in said.values():
            number = self.add(Flag.SAYS | Flag.TEXT | Flag.VALUE, slot, row, {})
            self.nodes[number][3] = self.table([], [], self.add(Flag.WRONG, -1, row, {}))
            rows.append([number if uri == self.punct_namespace else other for uri in self.spaces])
        self.nodes[found][3] = self.table([*step.named, *said], rows, other)
        return found

    def open_part(self, row: int) -> int:
        """The node of a part of a punctuation that says nothing if it says `*`."""
        found = self.add(Flag.SAYS | Flag.TEXT | Flag.OPEN, -1, row, {})
        self.nodes[found][3] = self.table([], [], found)
        return found

    def table(self, names: Sequence[str], targets: Sequence[list[int]], other: int) -> int:
        """A new table of names, with what they lead to by namespace."""
        self.tables.append((len(self.entries), len(names), other))
        self.entries += map(self.name, names)
        self.targets += targets
        return len(self.tables) - 1

    def name(self, text: str) -> tuple[int, int]:
        """A new name: its place and size."""
        coded = text.encode("utf-8", "surrogatepass")
        self.names += coded
        return len(self.names) - len(coded), len(coded)


def _spaces(step: Step) -> set[str]:
    """The namespaces that are named in a step and below."""
    hops = [name for hop, _ in step.below() for name in (hop.name, hop.attribute)]
    found = {expanded(name)[0] for name in (*step.attributes, *hops)}
    return found.union(*(_spaces(below) for _, below in step.below()))


def _numbers(given: Sequence[object]) -> npt.NDArray[np.int32]:
    return np.array(given, np.int32)

"""The paths of some streams as the native reader follows them: a flat table of nodes, laid out once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from xmlpunct.firehose import native
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec, expanded, punctuation_element
from xmlpunct.firehose.states import WHOLE, Choice, Kind, Names, Node, states


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


_NONE = Flag(0)
_FLAGS = {
    Kind.TUPLE: Flag.ROW,
    Kind.FOREIGN: Flag.MARKS,
    Kind.INSIDE: Flag.NESTED,
    Kind.UNDECLARED: Flag.UNDECLARED,
}
_MOST_CONDITIONS = 4
"""So many together make not too many nodes."""
_ANY = "\0"
"""Stands for any name or namespace that a tree does not know."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree, and by node the stream and the path before the names that are overlooked there.

    ``items`` are the kinds of rows of a stream's tables of items.
    """

    tree: native.Tree
    streams: Sequence[int]
    labels: Sequence[str]
    items: Mapping[tuple[int, int], int]


@lru_cache(maxsize=64)
def grown(
    specs: tuple[StreamSpec, ...],
    shapes: tuple[Shape, ...],
    punct_namespace: str,
    others: tuple[StreamSpec, ...],
    limits: Limits,
) -> Grown | None:
    """The tree of streams whose elements all differ; ``others`` are all streams of the source.

    It is made once for all readers of these streams: of small sources it would take most of the time. None if
    the native reader does not know all that is in it.
    """
    if any(len(spec.names) > 1 or spec.nested or spec.reaches_up for spec in others):
        return None
    try:
        return _Tree(specs, shapes, punct_namespace, others, limits).grown()
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
    ) -> None:
        self.shapes, self.limits, self.punct_namespace = shapes, limits, punct_namespace
        own = [{"", punct_namespace, spec.space} for spec in specs]
        known = {expanded(e)[0] for e in (*elements, *(spec.tag for spec in others))}
        known |= {expanded(spec.where[0])[0] for spec in others if spec.where}
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
        self.left: list[Node] = []
        self.numbers: dict[int, int] = {}  # by the identity of a node, or of what is below several
        self.kept: list[object] = []  # lest another gets the same identity
        marks = [punctuation_element(spec.element, punct_namespace) for spec in specs]
        self.item_kinds: dict[tuple[int, int], int] = {}
        self.widths = [width for s in shapes for width in (s.width, s.width + len(s.said))] or [0, 0]
        for i, shape in enumerate(shapes):
            for number, table in enumerate(shape.tables[1:], 1):
                self.item_kinds[i, number] = len(self.widths)
                self.widths.append(table.end - table.first)
        self.number(outside or states([*specs], [*shapes], marks, others, Names(limits)))
        self.said = [
            self.punctuation(2 * i + 1, shape.root, allowed, Flag.ROW, shape.said)
            for i, (shape, allowed) in enumerate(zip(shapes, own, strict=True))
        ]

    def grown(self) -> Grown:
        """All of it."""
        while self.left:
            node = self.left.pop()
            self.nodes[self.number(node)][3] = self.table_below(node)
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
        return Grown(tree, [row // 2 for _, _, row, *_ in self.nodes], self.labels, self.item_kinds)

    def number(self, node: Node, label: str = "") -> int:
        """The number of a state of the target, which may be new."""
        if node.kind == Kind.PUNCTUATION:
            return self.said[node.stream]
        if node.chosen is not None and id(node) not in self.numbers:
            self.kept.append(node)
            self.numbers[id(node)] = self.choice(node.chosen, ())
        if id(node) not in self.numbers:
            values = (*node.texts, *node.owns)
            if (
                node.raws
                or node.counts
                or len(values) > 1
                or (node.owns and node.flows == WHOLE)
                or any(len(slots) > 1 for slots in node.attributes.values())
            ):
                raise _NotNativeError
            flags = _FLAGS.get(Kind(node.kind), _NONE)
            flags |= Flag.VALUE | Flag.TEXT if values else 0
            flags |= Flag.INTO | Flag.TEXT if node.flows == WHOLE else 0
            if node.path is not None:
                label = node.path
                flags |= Flag.GUESSED | (Flag.TEXT if node.kind == Kind.TUPLE else 0)
            attributes = {name: slot for name, (slot,) in node.attributes.items()}
            slot = values[0] if values else -1
            number = self.add(flags, slot, 2 * max(node.stream, 0), attributes, label)
            self.numbers[id(node)] = number
            self.nodes[number][5:7] = len(self.below), len(node.below)
            self.below += [slot for slot, _ in node.below]
            if node.items:
                self.item(number, node)
            self.kept.append(node)
            self.left.append(node)
        return self.numbers[id(node)]

    def choice(self, chosen: Choice, true: tuple[bool, ...]) -> int:
        """The node at which an element's attributes decide what it is, some conditions being decided."""
        if len(true) == len(chosen.conditions):
            return self.number(chosen.node(true))
        if chosen.positions or len(chosen.conditions) > _MOST_CONDITIONS:
            raise _NotNativeError
        number, condition = self.add(Flag.CHOICE, -1, 0, {}), chosen.conditions[len(true)]
        uri, local = expanded(condition.attribute)
        place = len(self.conditions)
        self.nodes[number][5] = place
        self.conditions.append([])
        ends = [self.choice(chosen, (*true, answer)) for answer in (True, False)]
        self.conditions[place] = [
            *self.name(local), self.spaces.index(uri), *self.name(condition.value), *ends
        ]  # fmt: skip
        return number

    def item(self, number: int, node: Node) -> None:
        """Make a node that of the items of an array."""
        tables = self.shapes[node.stream].tables
        (item, *others) = node.items
        if others or tables[item].parent:
            raise _NotNativeError
        self.nodes[number][0] |= int(Flag.ITEM)
        self.nodes[number][7:] = self.item_kinds[node.stream, item], tables[item].first

    def add(self, flags: Flag, slot: int, row: int, attributes: Mapping[str, int], label: str = "") -> int:
        """A new node."""
        locals_ = [*dict.fromkeys(expanded(name)[1] for name in attributes)]
        slots = [
            [attributes.get(f"{{{uri}}}{local}" if uri else local, -1) for uri in self.spaces]
            for local in locals_
        ]
        self.nodes.append([int(flags), slot, row, 0, self.table(locals_, slots, 0), 0, 0, 0, 0])
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
    ) -> int:
        """The node of a part of a punctuation, whose parts may be in some namespaces.

        Where it holds patterns in more ways than one, it is not for the native reader.
        """
        slot = max(step.text, step.own)
        is_root, odd = (
            Flag.ROW in flags,
            step.raw >= 0 or (slot >= 0 and bool(step.children)) or step.item >= 0,
        )
        odd |= (is_root and slot >= 0) or (step.text >= 0 and step.own >= 0)
        names = [hop.local for hop in step.children]
        if odd or len({*names}) < len(names) or not all(hop.is_plain for hop in step.children):
            return self.add(Flag.WRONG, -1, row, {})
        flags |= Flag.SAYS | Flag.TEXT | (Flag.VALUE if slot >= 0 else Flag.BLANK)
        found = self.add(flags, slot, row, step.attributes)
        if slot >= 0:
            other = self.add(Flag.WRONG, -1, row, {})
        else:
            other = self.add(Flag.SAYS | Flag.TEXT | Flag.OPEN, -1, row, {})
            self.nodes[other][3] = self.table([], [], other)
        rows = []
        for hop, below in step.children.items():
            number, own = self.punctuation(row, below, allowed), expanded(hop.name)[0]
            rows.append([number if uri in allowed or (own and uri == own) else other for uri in self.spaces])
        for slot in said.values():
            number = self.add(Flag.SAYS | Flag.TEXT | Flag.VALUE, slot, row, {})
            self.nodes[number][3] = self.table([], [], self.add(Flag.WRONG, -1, row, {}))
            rows.append([number if uri == self.punct_namespace else other for uri in self.spaces])
        self.nodes[found][3] = self.table([*names, *said], rows, other)
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
    hops = [name for hop in step.children for name in (hop.name, hop.attribute)]
    found = {expanded(name)[0] for name in (*step.attributes, *hops)}
    return found.union(*map(_spaces, step.children.values()))


def _numbers(given: Sequence[object]) -> npt.NDArray[np.int32]:
    return np.array(given, np.int32)

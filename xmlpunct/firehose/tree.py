"""The paths of some streams as the native reader follows them: a flat table of nodes, laid out once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
import numpy.typing as npt

from xmlpunct.firehose import native
from xmlpunct.firehose.shape import Kind, Names, Node, Shape, Step, states
from xmlpunct.firehose.spec import ElementName, Limits, StreamSpec, expanded, punctuation_element


class Flag(IntFlag):
    """What there is to do at an element, as `native.h` has it."""

    ROW = 1
    VALUE = 2
    TEXT = 4
    MARKS = 8
    STRAY = 16
    NESTED = 32
    UNDECLARED = 64
    GUESSED = 128
    SAYS = 256
    BLANK = 512
    OPEN = 1024
    WRONG = 2048


_NONE = Flag(0)
_FLAGS = {
    Kind.TUPLE: Flag.ROW,
    Kind.STRAY: Flag.STRAY,
    Kind.FOREIGN: Flag.MARKS,
    Kind.INSIDE: Flag.NESTED,
    Kind.UNDECLARED: Flag.UNDECLARED,
}
_ANY = "\0"
"""Stands for any name or namespace that a tree does not know."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A tree, and by node the stream and the path before the names that are overlooked there."""

    tree: native.Tree
    streams: Sequence[int]
    labels: Sequence[str]


def grown(
    specs: Sequence[StreamSpec],
    shapes: Sequence[Shape],
    punct_namespace: str,
    elements: Collection[ElementName],
    limits: Limits,
) -> Grown:
    """The tree of streams whose elements all differ; ``elements`` are those of further streams too."""
    return _Tree(specs, shapes, punct_namespace, elements, limits).grown()


class _Tree:
    """What a `native.Tree` is made of. Tuples of the stream of number i are rows of kind 2i, punctuations of 2i + 1."""

    def __init__(
        self,
        specs: Sequence[StreamSpec],
        shapes: Sequence[Shape],
        punct_namespace: str,
        elements: Collection[ElementName],
        limits: Limits,
    ) -> None:
        self.shapes, self.limits = shapes, limits
        own = [{"", punct_namespace, expanded(spec.element)[0]} for spec in specs]
        self.spaces = ["", *sorted({expanded(e)[0] for e in elements}.union(*own) - {""}), _ANY]
        self.names = bytearray()
        self.nodes: list[list[int]] = []
        self.labels: list[str] = []
        self.tables: list[tuple[int, int, int]] = []
        self.entries: list[tuple[int, int]] = []
        self.targets: list[list[int]] = []
        self.below: list[int] = []
        self.left: list[Node] = []
        self.numbers: dict[int, int] = {}  # by the identity of a node, or of what is below several
        self.kept: list[object] = []  # lest another gets the same identity
        marks = [punctuation_element(spec.element, punct_namespace) for spec in specs]
        outside = states([*specs], [*shapes], marks, elements, Names(limits))
        self.number(outside)
        self.said = [
            self.punctuation(2 * i + 1, shape.root, allowed, Flag.ROW)
            for i, (shape, allowed) in enumerate(zip(shapes, own, strict=True))
        ]

    def grown(self) -> Grown:
        """All of it."""
        while self.left:
            node = self.left.pop()
            self.nodes[self.number(node)][3] = self.table_below(node)
        widths = [len(shape.paths) for shape in self.shapes for _ in range(2)] or [0, 0]
        spaces = [self.name(uri) for uri in self.spaces[1:-1]]
        most = self.limits
        tree = native.Tree(
            bytes(self.names),
            _numbers(self.nodes),
            _numbers(self.tables),
            _numbers(self.entries),
            _numbers(self.targets),
            _numbers(self.below),
            _numbers(widths),
            _numbers(spaces),
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
        return Grown(tree, [row // 2 for _, _, row, *_ in self.nodes], self.labels)

    def number(self, node: Node, label: str = "") -> int:
        """The number of a state of the target, which may be new."""
        if node.kind == Kind.PUNCTUATION:
            return self.said[node.stream]
        if id(node) not in self.numbers:
            flags = _FLAGS.get(Kind(node.kind), _NONE)
            flags |= Flag.VALUE | Flag.TEXT if node.slot >= 0 else 0
            if node.path is not None:
                label = node.path
                flags |= Flag.GUESSED | (Flag.TEXT if node.kind == Kind.TUPLE else 0)
            self.numbers[id(node)] = self.add(
                flags, node.slot, 2 * max(node.stream, 0), node.attributes, label
            )
            self.nodes[-1][5:] = len(self.below), len(node.below)
            self.below += [slot for slot, _ in node.below]
            self.kept.append(node)
            self.left.append(node)
        return self.numbers[id(node)]

    def add(self, flags: Flag, slot: int, row: int, attributes: Mapping[str, int], label: str = "") -> int:
        """A new node."""
        same = [[slot] * len(self.spaces) for slot in attributes.values()]
        self.nodes.append([int(flags), slot, row, 0, self.table([*attributes], same, 0), 0, 0])
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

    def punctuation(self, row: int, step: Step, allowed: Collection[str], flags: Flag = _NONE) -> int:
        """The node of a part of a punctuation, whose parts may be in some namespaces."""
        flags |= Flag.SAYS | Flag.TEXT | (Flag.VALUE if step.slot >= 0 else Flag.BLANK)
        found = self.add(flags, step.slot, row, step.attributes)
        if step.slot >= 0:
            other = self.add(Flag.WRONG, -1, row, {})
        else:
            other = self.add(Flag.SAYS | Flag.TEXT | Flag.OPEN, -1, row, {})
            self.nodes[other][3] = self.table([], [], other)
        rows = []
        for below in step.children.values():
            number = self.punctuation(row, below, allowed)
            rows.append([number if uri in allowed else other for uri in self.spaces])
        self.nodes[found][3] = self.table([*step.children], rows, other)
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


def _numbers(given: Sequence[object]) -> npt.NDArray[np.int32]:
    return np.array(given, np.int32)

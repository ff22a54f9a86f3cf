"""What a tuple or a punctuation looks like in XML: the declared paths as a tree of steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from xmlpunct.errors import XmlPunctError
from xmlpunct.firehose.spec import Limits, StreamSpec, expanded
from xmlpunct.schema import Schema


@dataclass(slots=True)
class Step:
    """A place in an element: which value stands here (-1: none), and what is declared below it, by name."""

    slot: int = -1
    children: dict[str, Step] = field(default_factory=dict)
    attributes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shape:
    """The paths of a schema. Its attributes share one slot where they share a path."""

    root: Step
    paths: tuple[str, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """The shape of a schema's tuples."""
        root, paths = Step(), tuple(dict.fromkeys(a.path for a in schema))
        for slot, path in enumerate(paths):
            step = root
            *inner, last = path.split("/")
            for name in inner if last[:1] == "@" else (*inner, last):
                step = step.children.setdefault(name, Step())
            if last[:1] == "@":
                step.attributes[last[1:]] = slot
            else:
                step.slot = slot
        slots = {path: slot for slot, path in enumerate(paths)}
        return cls(root, paths, tuple(slots[a.path] for a in schema))


class Kind(IntEnum):
    """What the parser's target has to do at an element, beside following the tree."""

    PLAIN = 0
    TUPLE = 1
    PUNCTUATION = 2
    INNER = 3  # anywhere in a punctuation
    STRAY = 4  # an element where only text belongs
    NESTED = 5  # a declared path inside the text of another
    OTHER = 6  # outside of everything, or undeclared and ignored


KNOWN = 10_000
"""How many names are remembered in one place, lest they be looked at again."""


class Names:
    """The names met in a split, apart from those declared. ``met`` counts their characters."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.seen: set[str] = set()
        self.met = 0

    def add(self, name: str) -> None:
        """Take note of a name that was not remembered. Raises `LimitError`."""
        if len(expanded(name)[1]) > self.limits.name:
            raise LimitError(f"a name longer than {self.limits.name:,} characters")
        self.met += len(name)
        if len(self.seen) < KNOWN:
            self.seen.add(name)


class LimitError(XmlPunctError):
    """Something in the source is larger than allowed, at the element that has just begun."""


class _Children(dict[str, "Node"]):
    """The nodes below a node, by expanded name; ``other`` for all names not given."""

    def __init__(self, names: Names, other: Node | None = None) -> None:
        self.names, self.other = names, other

    def __missing__(self, name: str) -> Node:
        self.names.add(name)
        assert self.other is not None
        if len(self) < KNOWN:
            self[name] = self.other
        return self.other


class Node:
    """A state of the target: which element it is in, and what each element below it would be."""

    __slots__ = ("attributes", "children", "kind", "slot", "stream")

    def __init__(self, kind: Kind, names: Names, other: Node | None = None) -> None:
        self.kind, self.slot, self.stream = int(kind), -1, -1
        self.children = _Children(names, other or self)
        self.attributes: dict[str, int] = {}


def states(
    specs: list[StreamSpec], shapes: list[Shape], punctuations: list[str], others: Iterable[str], names: Names
) -> Node:
    """The state outside of all tuples and punctuations of these streams, from which all others follow.

    ``others`` are elements of further streams: what is inside them is theirs.
    """
    outside, ignored, inner = (Node(kind, names) for kind in (Kind.OTHER, Kind.OTHER, Kind.INNER))
    stray = Node(Kind.STRAY, names, ignored)
    for i, spec in enumerate(specs):
        uri = expanded(spec.element)[0]

        def grow(step: Step, kind: Kind, uri: str = uri) -> Node:
            node = Node(kind, names, ignored if step.slot < 0 else stray)
            node.slot, node.attributes = step.slot, step.attributes
            below = Kind.PLAIN if step.slot < 0 else Kind.NESTED
            for name, child in step.children.items():
                node.children[name] = grow(child, below)
                if uri:
                    node.children[f"{{{uri}}}{name}"] = node.children[name]
            return node

        found = outside.children[spec.element] = grow(shapes[i].root, Kind.TUPLE)
        found.stream = i
        found = outside.children[punctuations[i]] = Node(Kind.PUNCTUATION, names, inner)
        found.stream = i
    for other in others:
        outside.children.setdefault(other, ignored)
    return outside

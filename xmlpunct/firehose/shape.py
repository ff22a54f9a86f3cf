"""What a tuple or a punctuation looks like in XML: the declared paths as a tree of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from xmlpunct.errors import SchemaError, XmlPunctError
from xmlpunct.firehose.spec import Limits, StreamSpec, expanded
from xmlpunct.names import read_path
from xmlpunct.schema import Schema


@dataclass(slots=True)
class Step:
    """A place in an element: which value stands here (-1: none), and what is declared below it, by name."""

    slot: int = -1
    children: dict[str, Step] = field(default_factory=dict)
    attributes: dict[str, int] = field(default_factory=dict)

    def slots(self) -> Iterator[int]:
        """The values that stand here and below."""
        if self.slot >= 0:
            yield self.slot
        yield from self.attributes.values()
        for child in self.children.values():
            yield from child.slots()


@dataclass(frozen=True, slots=True)
class Shape:
    """The paths of a schema. Its attributes share one slot where they share a path."""

    root: Step
    paths: tuple[str, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """The shape of a schema's tuples. Raises `SchemaError` for a path that cannot be read."""
        root, paths = Step(), tuple(dict.fromkeys(a.path for a in schema))
        for slot, path in enumerate(paths):
            step = root
            try:
                elements, attribute = read_path(path)
            except ValueError as error:
                name = next(a.name for a in schema if a.path == path)
                raise SchemaError(f"attribute {name}: {error}") from None
            for name in elements:
                step = step.children.setdefault(name, Step())
            if attribute is not None:
                step.attributes[attribute] = slot
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
    FOREIGN = 7  # named as a declared path, in a namespace that is not read
    INSIDE = 8  # named as a tuple, inside one
    UNDECLARED = 9  # not among the columns that were guessed


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
    """The nodes below a node, by expanded name; for all names not given, ``other`` says which."""

    def __init__(self, names: Names, other: Callable[[str], Node]) -> None:
        self.names, self.other = names, other

    def __missing__(self, name: str) -> Node:
        self.names.add(name)
        found = self.other(name)
        if len(self) < KNOWN:
            self[name] = found
        return found


class Node:
    """A state of the target: which element it is in, and what each element below it would be.

    ``path`` is where it is in its tuple, if what is undeclared there counts as overlooked, and ``name`` what itself
    is overlooked as. ``below`` are the slots, with their paths, that a namespace can keep from being filled: those
    of its XML attributes or, if its own namespace is the wrong one, of all that is below it.
    """

    __slots__ = ("attributes", "below", "children", "kind", "name", "path", "slot", "stream")

    def __init__(self, kind: Kind, names: Names, other: Callable[[str], Node] | Node | None = None) -> None:
        self.kind, self.slot, self.stream = int(kind), -1, -1
        self.path: str | None = None
        self.name = ""
        self.below: tuple[tuple[int, str], ...] = ()
        inner = other or self
        self.children = _Children(names, (lambda _: inner) if isinstance(inner, Node) else inner)
        self.attributes: dict[str, int] = {}


def states(
    specs: list[StreamSpec], shapes: list[Shape], punctuations: list[str], others: Iterable[str], names: Names
) -> Node:
    """The state outside of all tuples and punctuations of these streams, from which all others follow.

    ``others`` are elements of further streams: what is inside them is theirs.
    """
    outside, ignored, inner = (Node(kind, names) for kind in (Kind.OTHER, Kind.OTHER, Kind.INNER))
    for i, spec in enumerate(specs):
        nested = ignored.children[spec.element] = Node(Kind.INSIDE, names)
        nested.children, nested.stream, nested.name = ignored.children, i, spec.element
    for i, (spec, shape) in enumerate(zip(specs, shapes, strict=True)):
        outside.children[spec.element] = _of_tuples(i, spec, shape, ignored, names)
        found = outside.children[punctuations[i]] = Node(Kind.PUNCTUATION, names, inner)
        found.stream = i
    for other in others:
        outside.children.setdefault(other, ignored)
    return outside


def _of_tuples(stream: int, spec: StreamSpec, shape: Shape, ignored: Node, names: Names) -> Node:
    """The state of a tuple, with all that follow; ``ignored`` is what is of no interest inside one."""
    uri, stray = expanded(spec.element)[0], Node(Kind.STRAY, names, ignored)
    nested = dict(ignored.children)

    def grow(step: Step, kind: Kind, path: str) -> Node:
        node = Node(kind, names, partial(strange, step, path) if step.slot < 0 else stray)
        node.stream, node.slot, node.attributes = stream, step.slot, step.attributes
        node.path = path if spec.guessed else None
        node.below = tuple((slot, shape.paths[slot]) for slot in step.attributes.values())
        below = Kind.NESTED if step.slot >= 0 or spec.guessed else Kind.PLAIN
        for name, child in step.children.items():
            node.children[name] = grow(child, below, f"{path}{name}/")
            if uri:
                node.children[f"{{{uri}}}{name}"] = node.children[name]
        if step.slot < 0:
            node.children.update(nested | node.children)
        return node

    def strange(step: Step, path: str, name: str) -> Node:
        """The state of an element below a step that is no declared one."""
        same = step.children.get(expanded(name)[1])
        if same is None and not spec.guessed:
            return ignored
        node = Node(Kind.UNDECLARED if spec.guessed else Kind.FOREIGN, names, ignored)
        node.children, node.stream, node.name = ignored.children, stream, path + name
        node.below = tuple((slot, shape.paths[slot]) for slot in same.slots()) if same else ()
        return node

    return grow(shape.root, Kind.TUPLE, "")

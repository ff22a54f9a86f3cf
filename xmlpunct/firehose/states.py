"""The states of who reads tuples: which element it is in, and what each element below it would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from xmlpunct.errors import XmlPunctError
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.spec import Limits, StreamSpec, expanded
from xmlpunct.paths import Hop


class Kind(IntEnum):
    """What the parser's target has to do at an element, beside following the tree."""

    PLAIN = 0  # no more than to take its text, if it is a value
    TUPLE = 1
    PUNCTUATION = 2
    INNER = 3  # anywhere in a punctuation
    RICH = 4  # a declared place with more to do
    OUTSIDE = 5  # outside of all tuples and punctuations
    OTHER = 6  # undeclared and ignored
    CHOICE = 7  # which one it is depends on its attributes and on what came before it
    FOREIGN = 8  # named as a declared path, in a namespace that is not read
    INSIDE = 9  # named as a tuple, inside one
    UNDECLARED = 10  # not among the columns that were guessed


KNOWN = 10_000
"""How many names are remembered in one place, lest they be looked at again."""


WHOLE = 2
"""How text in a child flows that is part of the text around it; 1 is how it does that is only told from it."""


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
    """A state.

    All text in the element goes to the slots ``texts``, what is in no child to ``owns``; its number to ``raws``. A
    PLAIN one has a single ``slot`` instead. It is a row of the tables ``items``. What is in it is told from the text
    around it if it ``flows``, and part of all text of that if it flows `WHOLE`. Below a node that ``counts``, positions
    matter.

    ``path`` is where it is in its tuple, if what is undeclared there counts as overlooked, and ``name`` what itself
    is overlooked as. ``below`` are the slots, with their paths, that a namespace can keep from being filled: those
    of its XML attributes or, if its own namespace is the wrong one, of all that is below it.
    """

    __slots__ = (
        "attributes", "below", "children", "chosen", "counts", "flows", "items", "kind", "name", "owns", "path", "raws",
        "said", "slot", "stream", "texts",
    )  # fmt: skip

    def __init__(self, kind: Kind, names: Names, other: Callable[[str], Node] | Node | None = None) -> None:
        self.kind, self.slot, self.stream = int(kind), -1, -1
        self.texts: tuple[int, ...] = ()
        self.owns: tuple[int, ...] = ()
        self.raws: tuple[int, ...] = ()
        self.items: tuple[int, ...] = ()
        self.flows = 0
        self.counts = self.said = False
        self.chosen: Choice | None = None
        self.path: str | None = None
        self.name = ""
        self.below: tuple[tuple[int, str], ...] = ()
        inner = other or self
        self.children = _Children(names, (lambda _: inner) if isinstance(inner, Node) else inner)
        self.attributes: dict[str, tuple[int, ...]] = {}


class Choice:
    """What an element may be: each condition goes with an answer, and ``of`` says what all true ones come to."""

    def __init__(self, conditions: Sequence[Hop], of: Callable[[tuple[bool, ...]], Node]) -> None:
        self.conditions, self._of = conditions, of
        self.positions = sorted({hop.name for hop in conditions if hop.position})
        self._known: dict[tuple[bool, ...], Node] = {}

    def node(self, true: tuple[bool, ...]) -> Node:
        """What it is."""
        if true not in self._known:
            self._known[true] = self._of(true)
        return self._known[true]


def states(
    specs: list[StreamSpec],
    shapes: list[Shape],
    punctuations: list[str],
    others: Iterable[StreamSpec],
    names: Names,
    level: int = 0,
) -> Node:
    """The state outside of all tuples and punctuations of these streams, from which all others follow.

    ``others`` are all streams of the source: what is inside their tuples is theirs. In ``level`` other tuples are
    those that are looked for; at level 0 there are punctuations too.
    """
    return _States(specs, shapes, punctuations, others, names, level).outside(frozenset(), False, level)


Progress = frozenset[tuple[int, int]]
"""By stream how many of the names that lead to its element are open, where some are."""


class _States:
    def __init__(
        self,
        specs: list[StreamSpec],
        shapes: list[Shape],
        punctuations: list[str],
        others: Iterable[StreamSpec],
        names: Names,
        level: int,
    ) -> None:
        self.specs, self.shapes, self.names, self.level = specs, shapes, names, level
        self.all = [*specs, *(other for other in others if other not in specs)]
        self.inner = Node(Kind.INNER, names)
        self.outsides: dict[tuple[Progress, bool, int], Node] = {}
        self.grown: dict[tuple[object, ...], Node] = {}
        self.ignored = [self.ignore(flows) for flows in range(WHOLE + 1)]
        self.said = frozenset[str]().union(*(spec.said for spec in specs))
        self.marks: dict[str, Node] = {}
        for i, mark in enumerate(punctuations):
            found = self.marks[mark] = Node(Kind.PUNCTUATION, names, self.inner)
            found.stream = i

    def ignore(self, flows: int) -> Node:
        """What is of no interest inside a tuple."""
        ignored = Node(Kind.OTHER, self.names)
        ignored.flows = flows
        for i, spec in enumerate(self.specs):
            if spec.nested:
                continue
            nested = ignored.children[spec.tag] = Node(Kind.INSIDE, self.names)
            nested.children, nested.stream, nested.name, nested.flows = ignored.children, i, spec.tag, flows
        return ignored

    def outside(self, progress: Progress, said: bool, level: int) -> Node:
        """A state outside; ``said`` inside of what a tuple may say of its ancestors."""
        key = progress, said, level
        if key not in self.outsides:
            node = Node(Kind.OUTSIDE, self.names, lambda name: self.beyond(key, name))
            node.said = said
            self.outsides[key] = node
            for name in (*(spec.tag for spec in self.all), *self.marks):
                node.children[name] = self.beyond(key, name)
        return self.outsides[key]

    def beyond(self, key: tuple[Progress, bool, int], name: str) -> Node:
        """What an element is that begins outside."""
        progress, said, level = key
        if name in self.marks:
            return self.marks[name] if self.level == 0 else self.outside(frozenset(), said, level)
        reached, found = set[tuple[int, int]](), list[int]()
        for i, spec in enumerate(self.all):
            for count in (0, *(n for j, n in progress if j == i)):
                if spec.names[count] == name:
                    if count + 1 < len(spec.names):
                        reached.add((i, count + 1))
                    elif i not in found:
                        found.append(i)
        goes_on = frozenset(reached), said or name in self.said
        conditions = [
            Hop("", attribute=where[0], value=where[1]) for i in found if (where := self.all[i].where)
        ]

        def choose(true: tuple[bool, ...]) -> Node:
            answers = iter(true)
            mine = [i for i in found if self.all[i].where is None or next(answers)]
            own = next((i for i in mine if i < len(self.specs)), None)
            if own is not None and level == 0:
                return self.of_tuple(own)
            if own is not None:
                return self.outside(*goes_on, level - 1)
            return self.ignored[0] if mine else self.outside(*goes_on, level)

        if not conditions:
            return choose(())
        node = Node(Kind.CHOICE, self.names)
        node.chosen = Choice(conditions, choose)
        return node

    def of_tuple(self, stream: int) -> Node:
        """The state of a tuple."""
        return self.grow(stream, (self.shapes[stream].root,), Kind.TUPLE, "", 0)

    def grow(self, stream: int, steps: tuple[Step, ...], kind: Kind, path: str, flows: int) -> Node:
        """The state of an element at which several steps arrive."""
        key = (stream, *map(id, steps), kind, flows)
        if key in self.grown:
            return self.grown[key]
        spec, shape = self.specs[stream], self.shapes[stream]
        hops = [hop for step in steps for hop in step.children]
        node = Node(kind, self.names, lambda name: self.below(node, stream, steps, path, name))
        node.stream, node.flows = stream, flows
        node.texts = tuple(step.text for step in steps if step.text >= 0)
        node.owns = tuple(step.own for step in steps if step.own >= 0)
        node.raws = tuple(step.raw for step in steps if step.raw >= 0)
        node.items = tuple(step.item for step in steps if step.item >= 0)
        node.counts = any(hop.position for hop in hops)
        attributes: dict[str, list[int]] = {}
        for step in steps:
            for name, slot in step.attributes.items():
                attributes.setdefault(name, []).append(slot)
        node.attributes = {name: tuple(slots) for name, slots in attributes.items()}
        node.path = path if spec.guessed else None
        node.below = tuple((slot, shape.paths[slot]) for slots in node.attributes.values() for slot in slots)
        if kind == Kind.PLAIN and (
            flows or node.owns or node.raws or node.items or node.counts or len(node.texts) > 1
        ):
            node.kind = int(Kind.RICH)
        elif kind == Kind.PLAIN and node.texts:
            node.slot = node.texts[0]
        self.grown[key] = node
        for hop in hops:
            for name in hop.names(spec.space):
                if name not in node.children:
                    node.children[name] = self.below(node, stream, steps, path, name)
        for other in self.specs:
            if not other.nested:
                node.children.setdefault(other.tag, self.below(node, stream, steps, path, other.tag))
        return node

    def below(self, node: Node, stream: int, steps: tuple[Step, ...], path: str, name: str) -> Node:
        """What an element below a declared place is."""
        spec, local = self.specs[stream], expanded(name)[1]
        apart = bool(node.owns) or (spec.guessed and node.kind == Kind.TUPLE)
        flows = WHOLE if node.texts else max(node.flows, int(apart))
        found = [
            (hop, child)
            for step in steps
            for hop, child in step.named.get(local, ())
            if name in hop.names(spec.space)
        ]
        conditions = [hop for hop, _ in found if not hop.is_plain]

        def choose(true: tuple[bool, ...]) -> Node:
            answers = iter(true)
            reached = tuple(child for hop, child in found if hop.is_plain or next(answers))
            if reached:
                return self.grow(stream, reached, Kind.PLAIN, f"{path}{name}/", flows)
            return self.strange(stream, steps, path, name, flows)

        if not conditions:
            return choose(())
        choice = Node(Kind.CHOICE, self.names)
        choice.chosen = Choice(conditions, choose)
        return choice

    def strange(self, stream: int, steps: tuple[Step, ...], path: str, name: str, flows: int) -> Node:
        """The state of an element below declared places that is none itself."""
        spec, shape, ignored = self.specs[stream], self.shapes[stream], self.ignored[flows]
        if any(step.text >= 0 for step in steps) and spec.guessed:
            return ignored
        if any(name == other.tag and not other.nested for other in self.specs):
            return ignored.children[name]
        local = expanded(name)[1]
        same = [
            child
            for step in steps
            for hop, child in step.named.get(local, ())
            if name not in hop.names(spec.space)
        ]
        if not same and not spec.guessed:
            return ignored
        node = Node(Kind.UNDECLARED if spec.guessed else Kind.FOREIGN, self.names, ignored)
        node.children, node.stream, node.name, node.flows = ignored.children, stream, path + name, flows
        node.below = tuple((slot, shape.paths[slot]) for child in same for slot in child.slots())
        return node

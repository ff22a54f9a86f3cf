"""The states of who reads tuples: which element it is in, and what each element below it would be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.base.paths import Hop
from xmlpunct.firehose.shape import Shape, Step, Up
from xmlpunct.firehose.spec import Limits, StreamSpec, expanded


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
    of its XML attributes or, if its own namespace is the wrong one, of all that is below it. An OUTSIDE one says
    what is ``around`` there.
    """

    __slots__ = (
        "around", "attributes", "below", "children", "chosen", "counts", "flows", "items", "kind", "name", "owns",
        "path", "raws", "said", "slot", "stream", "texts",
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
        self.around: Around | None = None
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
    kept: Collection[str] = (),
) -> Node:
    """The state outside of all tuples and punctuations of these streams, from which all others follow.

    ``others`` are all streams of the source: what is inside their tuples is theirs. In ``level`` other tuples are
    those that are looked for; at level 0 there are punctuations too. Elements that are ``kept`` are never cut.
    """
    return _States(specs, shapes, punctuations, others, names, level, kept).outside(Around(level=level))


class Around(NamedTuple):
    """What is around a place outside of all tuples.

    ``progress`` is by stream how many of the names that lead to its element are open, where some are. ``says`` are the
    numbers of the values that tuples have of the elements around them (in the order of `all_ups`), of which so many
    hops lead here, this one included. Inside of all that tuples may have so it is ``said``, and for
    a value that is text, all of it is ``whole`` and what is in no child its ``own``; it goes ``into`` the text around
    it if that is whole. An element that is ``kept`` is not cut. So many ``level``s of tuples are yet to be entered. A
    ``stranger`` has the name of a stream's tuples in a namespace of neither tuples nor punctuations.
    """

    progress: frozenset[tuple[int, int]] = frozenset()
    says: frozenset[tuple[int, int]] = frozenset()
    said: bool = False
    into: bool = False
    whole: bool = False
    own: bool = False
    kept: bool = False
    level: int = 0
    stranger: int = -1


def all_ups(specs: Sequence[StreamSpec], shapes: Sequence[Shape]) -> list[tuple[int, Up, str]]:
    """What tuples have of the elements around them, with the numbers and the namespaces of their streams."""
    both = zip(specs, shapes, strict=True)
    return [(i, up, spec.space) for i, (spec, shape) in enumerate(both) for up in shape.ups]


class _States:
    def __init__(
        self,
        specs: list[StreamSpec],
        shapes: list[Shape],
        punctuations: list[str],
        others: Iterable[StreamSpec],
        names: Names,
        level: int,
        kept: Collection[str],
    ) -> None:
        self.specs, self.shapes, self.names, self.level, self.kept = specs, shapes, names, level, kept
        self.all = [*specs, *(other for other in others if other not in specs)]
        self.inner = Node(Kind.INNER, names)
        self.outsides: dict[Around, Node] = {}
        self.grown: dict[tuple[object, ...], Node] = {}
        self.ignored = [self.ignore(flows) for flows in range(WHOLE + 1)]
        self.said = frozenset[str]().union(*(spec.said for spec in specs))
        self.ups = all_ups(specs, shapes)
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

    def outside(self, around: Around) -> Node:
        """A state outside."""
        if around not in self.outsides:
            node = Node(Kind.OUTSIDE, self.names, lambda name: self.beyond(around, name))
            node.said, node.around, node.stream = around.said, around, around.stranger
            self.outsides[around] = node
            leading = [name for spec in self.all for name in spec.names]
            below = self.hops(around)
            node.counts = any(hop.position for _, _, hop in below)
            hop_names = [name for number, _, hop in below for name in hop.names(self.ups[number][2])]
            for name in (*leading, *self.marks, *self.kept, *hop_names):
                node.children[name] = self.beyond(around, name)
        return self.outsides[around]

    def beyond(self, around: Around, name: str) -> Node:
        """What an element is that begins outside."""
        is_mark = name in self.marks
        if is_mark and self.level == 0:
            return self.marks[name]
        reached, found = set[tuple[int, int]](), list[int]()
        for i, spec in enumerate(() if is_mark else self.all):
            for count in (0, *(n for j, n in around.progress if j == i)):
                if spec.names[count] == name:
                    if count + 1 < len(spec.names):
                        reached.add((i, count + 1))
                    elif i not in found:
                        found.append(i)
        says = [
            (number, count, hop)
            for number, count, hop in self.hops(around)
            if name in hop.names(self.ups[number][2])
        ]
        wheres = [(i, Hop("", attribute=w[0], value=w[1])) for i in found if (w := self.all[i].where)]
        tested = [hop for _, _, hop in says if not hop.is_plain]

        def choose(true: tuple[bool, ...]) -> Node:
            answers = iter(true)
            mine = [i for i in found if self.all[i].where is None or next(answers)]
            own = next((i for i in mine if i < len(self.specs)), None)
            if own is not None and around.level == 0:
                return self.of_tuple(own)
            if own is None and mine:
                return self.ignored[0]
            said = frozenset((n, count) for n, count, hop in says if hop.is_plain or next(answers))
            inside = self.inside(around, name, frozenset(reached), said, around.level - bool(mine))
            is_known = bool(found or reached or says or name in self.kept) or is_mark
            return self.outside(inside if is_known else inside._replace(stranger=self.stranger(name)))

        conditions = [*(hop for _, hop in wheres), *tested]
        if not conditions:
            return choose(())
        node = Node(Kind.CHOICE, self.names)
        node.chosen = Choice(conditions, choose)
        return node

    def stranger(self, name: str) -> int:
        """The stream whose tuples have this name in another namespace; -1 if there is none, or it was told before."""
        if self.level or any(spec.tag == name for spec in self.all):
            return -1
        local = expanded(name)[1]
        return next((i for i, spec in enumerate(self.specs) if expanded(spec.tag)[1] == local), -1)

    def hops(self, around: Around) -> list[tuple[int, int, Hop]]:
        """The hops below a place outside on the way to what tuples have: of which value, and how many they are."""
        found = [(number, up.path.hops, 0) for number, (_, up, _) in enumerate(self.ups)]
        found += [(number, self.ups[number][1].path.hops, count) for number, count in sorted(around.says)]
        return [(number, count + 1, hops[count]) for number, hops, count in found if count < len(hops)]

    def inside(
        self,
        around: Around,
        name: str,
        progress: frozenset[tuple[int, int]],
        says: frozenset[tuple[int, int]],
        level: int,
    ) -> Around:
        """What is around in an element that begins outside, and is no tuple."""
        ends = [self.ups[n][1].path for n, count in says if count == len(self.ups[n][1].path.hops)]
        texts = [path for path in ends if path.attribute is None]
        return Around(
            progress,
            says,
            around.said or name in self.said,
            around.whole,
            around.whole or not all(path.own for path in texts),
            any(path.own for path in texts),
            name in self.kept,
            level,
        )

    def of_tuple(self, stream: int) -> Node:
        """The state of a tuple."""
        return self.grow(stream, (self.shapes[stream].root,), Kind.TUPLE, "", 0)

    def grow(self, stream: int, steps: tuple[Step, ...], kind: Kind, path: str, flows: int) -> Node:
        """The state of an element at which several steps arrive."""
        key = (stream, *map(id, steps), kind, flows)
        if key in self.grown:
            return self.grown[key]
        spec, shape = self.specs[stream], self.shapes[stream]
        hops = [hop for step in steps for hop, _ in step.below()]
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

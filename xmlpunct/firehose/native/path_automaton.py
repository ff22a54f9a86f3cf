"""The states of a reader of tuples: each state stands for an element and maps the names below it to states."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.base.paths import ChildStep
from xmlpunct.firehose.shape import Shape, Step, Up
from xmlpunct.firehose.spec import Limits, StreamSpec, name_parts


class Kind(IntEnum):
    """Action of the parser's target at an element, besides following the tree."""

    PLAIN = 0  # only take its text, if it is a value
    TUPLE = 1
    PUNCTUATION = 2
    INNER = 3  # anywhere in a punctuation
    RICH = 4  # a declared element that needs more actions than PLAIN
    OUTSIDE = 5  # outside of all tuples and punctuations
    OTHER = 6  # undeclared and ignored
    CHOICE = 7  # its attributes and preceding siblings decide its state
    FOREIGN = 8  # has the local name of a declared path, but a namespace that is not read
    INSIDE = 9  # has the name of a tuple, inside a tuple
    UNDECLARED = 10  # not among the inferred columns


KNOWN = 10_000
"""Maximum number of names that a node, or `SplitNames`, caches."""


WHOLE = 2
"""`PathState.flows` of a child whose text is part of its parent's text; 1: its text is separate."""


class SplitNames:
    """The undeclared names in a split. ``met`` counts their characters."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cached: set[str] = set()
        self.met = 0

    def add(self, name: str) -> None:
        """Check, count and cache a name that is not cached yet. Raises `LimitError`."""
        if len(name_parts(name)[1]) > self.limits.name:
            raise LimitError(f"a name longer than {self.limits.name:,} characters")
        self.met += len(name)
        if len(self.cached) < KNOWN:
            self.cached.add(name)


class LimitError(XmlPunctError):
    """The source exceeds a limit at the element that has just begun."""


class _Children(dict[str, "PathState"]):
    """The nodes below a node, by expanded name; ``other`` computes the node of a name that is absent."""

    def __init__(self, names: SplitNames, other: Callable[[str], PathState]) -> None:
        self.names, self.other = names, other

    def __missing__(self, name: str) -> PathState:
        self.names.add(name)
        node = self.other(name)
        if len(self) < KNOWN:
            self[name] = node
        return node


class PathState:
    """A state.

    texts: slots that receive all text in the element; a PLAIN node has a single ``slot`` instead.
    owns: slots that receive the text outside of its children. raws: slots that receive its start tag's number.
    items: tables in which the element is a row.
    flows: 0, or 1 if its text is kept apart from its parent's text, or `WHOLE` if it is also part of that.
    counts: positions of elements below it matter.
    path: its path in the tuple, if undeclared names in it count as overlooked; name: the name under which the
    element itself counts as overlooked.
    below: (slot, path) of values that are missing because of a wrong namespace: the values of its XML attributes or,
    if the element itself has a wrong namespace, all values below it.
    around: the context of an OUTSIDE node. is_retained: libxml2's target retains its text for tuples that follow.
    """

    __slots__ = (
        "around", "attributes", "below", "children", "chosen", "counts", "flows", "is_retained", "items", "kind",
        "name", "owns", "path", "raws", "slot", "stream", "texts",
    )  # fmt: skip

    def __init__(
        self, kind: Kind, names: SplitNames, other: Callable[[str], PathState] | PathState | None = None
    ) -> None:
        self.kind, self.slot, self.stream = int(kind), -1, -1
        self.texts: tuple[int, ...] = ()
        self.owns: tuple[int, ...] = ()
        self.raws: tuple[int, ...] = ()
        self.items: tuple[int, ...] = ()
        self.flows = 0
        self.counts = self.is_retained = False
        self.chosen: ElementChoice | None = None
        self.around: Around | None = None
        self.path: str | None = None
        self.name = ""
        self.below: tuple[tuple[int, str], ...] = ()
        inner = other or self
        self.children = _Children(names, (lambda _: inner) if isinstance(inner, PathState) else inner)
        self.attributes: dict[str, tuple[int, ...]] = {}


class ElementChoice:
    """The possible states of an element: ``resolve`` maps the answers to its conditions to a state."""

    def __init__(
        self, conditions: Sequence[ChildStep], resolve: Callable[[tuple[bool, ...]], PathState]
    ) -> None:
        self.conditions, self._resolve = conditions, resolve
        self.positions = sorted({hop.name for hop in conditions if hop.position})
        self._cache: dict[tuple[bool, ...], PathState] = {}

    def node(self, true: tuple[bool, ...]) -> PathState:
        """The state for these answers."""
        if true not in self._cache:
            self._cache[true] = self._resolve(true)
        return self._cache[true]


def states(
    specs: list[StreamSpec],
    shapes: list[Shape],
    punctuations: list[str],
    all_specs: Iterable[StreamSpec],
    names: SplitNames,
    level: int = 0,
    uncut: Collection[str] = (),
) -> PathState:
    """The initial state, outside of all tuples and punctuations of these streams.

    all_specs: all streams of the source; the content of their tuples is not read for these streams.
    level: number of tuples that enclose the tuples to read; punctuations are read at level 0 only.
    uncut: names of elements that are never divided between splits.
    """
    return _States(specs, shapes, punctuations, all_specs, names, level, uncut).outside(Around(level=level))


class Around(NamedTuple):
    """The context of an element outside of all tuples.

    progress: (stream, count): the first ``count`` of the names that lead to the stream's element are open.
    says: (number, count): ``count`` hops of an ancestor value's path end here; numbers are in the order of `all_ups`.
    is_retained: in an element from which tuples take values.
    all_text, own_text: an ancestor value is all text of the element, or its text outside of children.
    into: its text is part of its parent's ``all_text``.
    is_uncut: the element is never divided between splits.
    level: number of enclosing tuples that are still to be entered.
    stranger: the stream whose tuples have this local name in another namespace (-1: none).
    """

    progress: frozenset[tuple[int, int]] = frozenset()
    says: frozenset[tuple[int, int]] = frozenset()
    is_retained: bool = False
    into: bool = False
    all_text: bool = False
    own_text: bool = False
    is_uncut: bool = False
    level: int = 0
    stranger: int = -1


def all_ups(specs: Sequence[StreamSpec], shapes: Sequence[Shape]) -> list[tuple[int, Up, str]]:
    """The values that tuples take from their ancestors: (stream, value, namespace of the stream)."""
    streams = enumerate(zip(specs, shapes, strict=True))
    return [(i, up, spec.space) for i, (spec, shape) in streams for up in shape.ups]


class _States:
    def __init__(
        self,
        specs: list[StreamSpec],
        shapes: list[Shape],
        punctuations: list[str],
        all_specs: Iterable[StreamSpec],
        names: SplitNames,
        level: int,
        uncut: Collection[str],
    ) -> None:
        self.specs, self.shapes, self.names, self.level, self.uncut = specs, shapes, names, level, uncut
        self.all = [*specs, *(other for other in all_specs if other not in specs)]
        self.inner = PathState(Kind.INNER, names)
        self.outsides: dict[Around, PathState] = {}
        self.grown: dict[tuple[object, ...], PathState] = {}
        self.retained_names = frozenset[str]().union(*(spec.said for spec in specs))
        self.ups = all_ups(specs, shapes)
        self.marks: dict[str, PathState] = {}
        for i, mark in enumerate(punctuations):
            node = self.marks[mark] = PathState(Kind.PUNCTUATION, names, self.inner)
            node.stream = i
        self.ignored = [self.ignore(flows) for flows in range(WHOLE + 1)]
        self.misnamed = {name: i for i, mark in enumerate(punctuations) for name in _other_cases(mark)}
        for name in (*self.marks, *uncut, *(spec.tag for spec in self.all)):
            self.misnamed.pop(name, None)

    def ignore(self, flows: int) -> PathState:
        """The state of an ignored element inside a tuple."""
        ignored = PathState(Kind.OTHER, self.names)
        ignored.flows = flows
        for i, spec in enumerate(self.specs):
            if spec.nested:
                continue
            nested = ignored.children[spec.tag] = PathState(Kind.INSIDE, self.names)
            nested.children, nested.stream, nested.name, nested.flows = ignored.children, i, spec.tag, flows
        for mark, punctuation in self.marks.items() if self.level == 0 else ():
            inner = ignored.children[mark] = PathState(Kind.UNDECLARED, self.names, ignored)
            inner.children, inner.stream, inner.name, inner.flows = (
                ignored.children,
                punctuation.stream,
                mark,
                flows,
            )
        return ignored

    def outside(self, around: Around) -> PathState:
        """The state of an element outside of tuples."""
        if around not in self.outsides:
            node = PathState(Kind.OUTSIDE, self.names, lambda name: self.element_outside(around, name))
            node.is_retained, node.around, node.stream = around.is_retained, around, around.stranger
            self.outsides[around] = node
            leading = [name for spec in self.all for name in spec.names]
            below = self.hops(around)
            node.counts = any(hop.position for _, _, hop in below)
            hop_names = [name for number, _, hop in below for name in hop.names(self.ups[number][2])]
            for name in (*leading, *self.marks, *self.misnamed, *self.uncut, *hop_names):
                node.children[name] = self.element_outside(around, name)
        return self.outsides[around]

    def element_outside(self, around: Around, name: str) -> PathState:
        """The state of an element that begins outside of tuples."""
        is_mark = name in self.marks
        if is_mark and self.level == 0:
            return self.marks[name]
        reached, matches = set[tuple[int, int]](), list[int]()
        for i, spec in enumerate(() if is_mark else self.all):
            for count in (0, *(n for j, n in around.progress if j == i)):
                if spec.names[count] == name:
                    if count + 1 < len(spec.names):
                        reached.add((i, count + 1))
                    elif i not in matches:
                        matches.append(i)
        hops = [
            (number, count, hop)
            for number, count, hop in self.hops(around)
            if name in hop.names(self.ups[number][2])
        ]
        wheres = [(i, ChildStep("", attribute=w[0], value=w[1])) for i in matches if (w := self.all[i].where)]
        tested = [hop for _, _, hop in hops if not hop.is_plain]

        def choose(true: tuple[bool, ...]) -> PathState:
            answers = iter(true)
            tuples = [i for i in matches if self.all[i].where is None or next(answers)]
            read_stream = next((i for i in tuples if i < len(self.specs)), None)
            if read_stream is not None and around.level == 0:
                return self.of_tuple(read_stream)
            if read_stream is None and tuples:
                return self.ignored[0]
            values = frozenset((n, count) for n, count, hop in hops if hop.is_plain or next(answers))
            inside = self.inside(around, name, frozenset(reached), values, around.level - bool(tuples))
            is_expected = bool(matches or reached or hops or name in self.uncut) or is_mark
            return self.outside(inside if is_expected else inside._replace(stranger=self.stranger(name)))

        conditions = [*(hop for _, hop in wheres), *tested]
        if not conditions:
            return choose(())
        node = PathState(Kind.CHOICE, self.names)
        node.chosen = ElementChoice(conditions, choose)
        return node

    def stranger(self, name: str) -> int:
        """The stream whose tuples have this name in another namespace; -1 if none, or if level 0 counted it."""
        if self.level or any(spec.tag == name for spec in self.all):
            return -1
        if name in self.misnamed:
            return self.misnamed[name]
        local = name_parts(name)[1]
        return next((i for i, spec in enumerate(self.specs) if name_parts(spec.tag)[1] == local), -1)

    def hops(self, around: Around) -> list[tuple[int, int, ChildStep]]:
        """The next hops to ancestor values: (number of the value, hops so far with this one, hop)."""
        starts = [(number, up.path.hops, 0) for number, (_, up, _) in enumerate(self.ups)]
        starts += [(number, self.ups[number][1].path.hops, count) for number, count in sorted(around.says)]
        return [(number, count + 1, hops[count]) for number, hops, count in starts if count < len(hops)]

    def inside(
        self,
        around: Around,
        name: str,
        progress: frozenset[tuple[int, int]],
        says: frozenset[tuple[int, int]],
        level: int,
    ) -> Around:
        """The context of an element that begins outside of tuples and is no tuple."""
        ends = [self.ups[n][1].path for n, count in says if count == len(self.ups[n][1].path.hops)]
        texts = [path for path in ends if path.attribute is None]
        return Around(
            progress,
            says,
            around.is_retained or name in self.retained_names,
            around.all_text,
            around.all_text or not all(path.own_text for path in texts),
            any(path.own_text for path in texts),
            name in self.uncut,
            level,
        )

    def of_tuple(self, stream: int) -> PathState:
        """The state of a tuple."""
        return self.grow(stream, (self.shapes[stream].root,), Kind.TUPLE, "", 0)

    def grow(self, stream: int, steps: tuple[Step, ...], kind: Kind, path: str, flows: int) -> PathState:
        """The state of an element that several declared steps match."""
        key = (stream, *map(id, steps), kind, flows)
        if key in self.grown:
            return self.grown[key]
        spec, shape = self.specs[stream], self.shapes[stream]
        hops = [hop for step in steps for hop, _ in step.below()]
        node = PathState(kind, self.names, lambda name: self.below(node, stream, steps, path, name))
        node.stream, node.flows = stream, flows
        node.texts = tuple(step.text for step in steps if step.text >= 0)
        node.owns = tuple(step.own_text for step in steps if step.own_text >= 0)
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
        for mark in self.marks:
            if mark not in node.children:
                node.children[mark] = self.below(node, stream, steps, path, mark)
        return node

    def below(self, node: PathState, stream: int, steps: tuple[Step, ...], path: str, name: str) -> PathState:
        """The state of an element below a declared element."""
        spec, local = self.specs[stream], name_parts(name)[1]
        apart = bool(node.owns) or (spec.guessed and node.kind == Kind.TUPLE)
        flows = WHOLE if node.texts else max(node.flows, int(apart))
        matches = [
            (hop, child)
            for step in steps
            for hop, child in step.named.get(local, ())
            if name in hop.names(spec.space)
        ]
        conditions = [hop for hop, _ in matches if not hop.is_plain]

        def choose(true: tuple[bool, ...]) -> PathState:
            answers = iter(true)
            reached = tuple(child for hop, child in matches if hop.is_plain or next(answers))
            if reached:
                return self.grow(stream, reached, Kind.PLAIN, f"{path}{name}/", flows)
            return self.strange(stream, steps, path, name, flows)

        if not conditions:
            return choose(())
        choice = PathState(Kind.CHOICE, self.names)
        choice.chosen = ElementChoice(conditions, choose)
        return choice

    def strange(self, stream: int, steps: tuple[Step, ...], path: str, name: str, flows: int) -> PathState:
        """The state of an undeclared element below declared elements."""
        spec, shape, ignored = self.specs[stream], self.shapes[stream], self.ignored[flows]
        if any(step.text >= 0 for step in steps) and spec.guessed:
            return ignored
        if any(name == other.tag and not other.nested for other in self.specs):
            return ignored.children[name]
        if name in self.marks and self.level == 0:
            return ignored.children[name]
        local = name_parts(name)[1]
        same = [
            child
            for step in steps
            for hop, child in step.named.get(local, ())
            if name not in hop.names(spec.space)
        ]
        if not same and not spec.guessed:
            return ignored
        node = PathState(Kind.UNDECLARED if spec.guessed else Kind.FOREIGN, self.names, ignored)
        node.children, node.stream, node.name, node.flows = ignored.children, stream, path + name, flows
        node.below = tuple((slot, shape.paths[slot]) for child in same for slot in child.slots())
        return node


def _other_cases(name: str) -> set[str]:
    """An expanded name with its local name in other common spellings of upper and lower case."""
    namespace, local = name_parts(name)
    first, rest = local[:1], local[1:]
    cases = {local.lower(), local.upper(), first.upper() + rest, first.lower() + rest, local.capitalize()}
    return {f"{{{namespace}}}{case}" for case in cases - {local}}

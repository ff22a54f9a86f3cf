"""Inner joins of several inputs: which orders there are, and whether one of them stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from xmlpunct.engine.plan.join_nodes import Join
from xmlpunct.engine.plan.node import Node, column
from xmlpunct.engine.plan.outlooks import outlook_of
from xmlpunct.engine.plan.schemes import Outlook
from xmlpunct.engine.plan.tuple_nodes import Project, Select
from xmlpunct.expressions.conjunctions import conjunction, conjuncts
from xmlpunct.expressions.expression import Column, Expression

MOST = 6
"""All orders of so many inputs are tried; of more, one input after the other."""


@dataclass(frozen=True)
class Part:
    """A join of some inputs, by their places: ``names`` has the output's column for each of theirs."""

    inputs: frozenset[int]
    node: Node
    names: dict[str, str]
    outlook: Outlook


@dataclass(frozen=True)
class JoinTree:
    """Inner joins on equalities, one over the other.

    ``inputs`` are what they read. ``equated`` are classes of columns, one at most of each input. ``columns`` maps the
    output's columns to the inputs'. ``conditions`` are the residuals, over the inputs' columns.
    """

    root: Node
    inputs: tuple[Node, ...]
    equated: tuple[frozenset[str], ...]
    columns: dict[str, str]
    conditions: tuple[Expression, ...]

    @classmethod
    def of(cls, root: Node) -> JoinTree | None:
        """The tree below a node, if it has three inputs or more."""
        inputs: list[Node] = []
        pairs: list[tuple[str, str]] = []
        conditions: list[Expression] = []
        columns = _taken_apart(root, inputs, pairs, conditions)
        names = [name for below in inputs for name in below.schema.names]
        if len(inputs) < 3 or len(set(names)) < len(names):
            return None
        classes: list[set[str]] = []
        for pair in pairs:
            met = [known for known in classes if known & set(pair)]
            classes = [known for known in classes if known not in met] + [set(pair).union(*met)]
        for below in inputs:
            if any(len(known & set(below.schema.names)) > 1 for known in classes):
                return None
        return cls(root, tuple(inputs), tuple(map(frozenset, classes)), columns, tuple(conditions))

    @property
    def joins(self) -> list[Node]:
        """The nodes above the inputs."""
        below = {id(n) for top in self.inputs for n in top.walk()}
        return [n for n in self.root.walk() if id(n) not in below]

    def parts(self, outlooks: Sequence[Outlook]) -> list[Part]:
        """The inputs, of which these are the outlooks."""
        return [
            Part(frozenset([i]), below, {name: name for name in below.schema.names}, outlook)
            for i, (below, outlook) in enumerate(zip(self.inputs, outlooks, strict=True))
        ]

    def joined(self, left: Part, right: Part) -> Part | None:
        """Two parts joined; None if no equality is between them."""
        mine = {left.names[n]: known for known in self.equated for n in known if n in left.names}
        keys = {(name, right.names[n]) for name, known in mine.items() for n in known if n in right.names}
        if not keys:
            return None
        pairs = tuple(sorted(keys))
        join = Join(left.node, right.node, pairs)
        shared = {theirs: own for own, theirs in pairs}
        names = left.names | {n: shared.get(name, name) for n, name in right.names.items()}
        return Part(left.inputs | right.inputs, join, names, outlook_of(join, [left.outlook, right.outlook]))

    def safe(self, outlooks: Sequence[Outlook]) -> Node | None:
        """The joins in an order in which each of them stays bounded; None if there is none."""
        singles = self.parts(outlooks)
        found = self._all(singles) if len(singles) <= MOST else self._greedy(singles)
        for part in found:
            source = {name: part.names[n] for name, n in self.columns.items()}
            assert isinstance(part.node, Join)
            top: Node = replace(part.node, reordered=True)
            if self.conditions:
                tested = {n: column(top, name) for n, name in part.names.items()}
                top = Select(top, conjunction([_renamed(c, tested) for c in self.conditions]))
            whole = Project(top, tuple((name, column(top, source[name])) for name in self.root.schema.names))
            if whole.schema == self.root.schema:
                return whole
        return None

    def _all(self, singles: Sequence[Part]) -> list[Part]:
        """The safe joins of all inputs, of those that offer the same the first."""
        known: dict[frozenset[int], list[Part]] = {part.inputs: [part] for part in singles}
        for size in range(2, len(singles) + 1):
            for chosen in map(frozenset, combinations(range(len(singles)), size)):
                found: list[Part] = []
                for left in _halves(chosen):
                    for x in known.get(left, ()):
                        for y in known.get(chosen - left, ()):
                            part = self.joined(x, y)
                            if (
                                part is not None
                                and part.outlook.fate is None
                                and part.outlook not in [other.outlook for other in found]
                            ):
                                found.append(part)
                known[chosen] = found
        return known[frozenset(range(len(singles)))]

    def _greedy(self, singles: Sequence[Part]) -> list[Part]:
        """The safe joins of all inputs that are found by joining one after the other."""
        found: list[Part] = []
        for first in singles:
            part, waiting = first, [other for other in singles if other is not first]
            while waiting:
                ways = ((other, self.joined(part, other)) for other in waiting)
                way = next(((o, p) for o, p in ways if p is not None and p.outlook.fate is None), None)
                if way is None:
                    break
                waiting.remove(way[0])
                part = way[1]
            else:
                found.append(part)
        return found

    def is_safe_at_once(self, outlooks: Sequence[Outlook]) -> bool:
        """Whether one join of all inputs would stay bounded.

        The closure of an input takes in each other input of which a scheme has all its attributes equated to attributes
        of members. The input's tuples can be forgotten if that reaches all.
        """

        def closure(first: int) -> set[int]:
            members = {first}
            while True:
                names = {name for i in members for name in self.inputs[i].schema.names}
                met = {name for known in self.equated if known & names for name in known}
                more = {i for i, told in enumerate(outlooks) if any(s <= met for s in told.offers)} - members
                if not more:
                    return members
                members |= more

        return all(len(closure(i)) == len(self.inputs) for i in range(len(self.inputs)))


def join_trees(root: Node) -> Iterator[JoinTree]:
    """The trees of joins in a plan, as large as they are."""
    inside = set[int]()
    for node in reversed(list(root.walk())):
        if id(node) not in inside and isinstance(node, Join) and (tree := JoinTree.of(node)) is not None:
            yield tree
            inside.update(map(id, tree.joins))


def _taken_apart(
    node: Node, inputs: list[Node], pairs: list[tuple[str, str]], conditions: list[Expression]
) -> dict[str, str]:
    """For each column of a node the input's that it is; inputs, equalities and residuals are added to the lists."""
    if isinstance(node, Join) and node.inner and node.keys and type(node) is Join and not node.can_fail:
        left, right = (_taken_apart(side, inputs, pairs, conditions) for side in node.inputs)
        pairs += [(left[a], right[b]) for a, b in node.keys]
        for part in conjuncts(node.residual):
            sources = {name: (left | right)[name] for name in part.columns()}
            conditions.append(_renamed(part, {n: _column(inputs, source) for n, source in sources.items()}))
        return {name: (left | right)[name] for name in node.schema.names}
    plain = isinstance(node, Project) and not node.derived and len(node.copies) == len(node.columns)
    if isinstance(node, Project) and plain and _is_over_join(node.input):
        below = _taken_apart(node.input, inputs, pairs, conditions)
        return {name: below[source] for name, source in node.copies.items()}
    inputs.append(node)
    return {name: name for name in node.schema.names}


def _column(inputs: Sequence[Node], name: str) -> Column:
    return next(column(below, name) for below in inputs if name in below.schema)


def _renamed(expression: Expression, columns: Mapping[str, Column]) -> Expression:
    return expression.rewrite(lambda e: columns[e.name] if isinstance(e, Column) else None)


def _is_over_join(node: Node) -> bool:
    return isinstance(node, Join) or (isinstance(node, Project) and _is_over_join(node.input))


def _halves(chosen: frozenset[int]) -> Iterator[frozenset[int]]:
    """One side of each way to divide some inputs in two, larger sides first."""
    for size in range(len(chosen) - 1, 0, -1):
        yield from map(frozenset, combinations(sorted(chosen), size))

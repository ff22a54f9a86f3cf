"""Inner joins of several inputs: the search for a join order with bounded state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from xmlpunct.engine.plan.join_nodes import Join
from xmlpunct.engine.plan.node import Node, node_column
from xmlpunct.engine.plan.outlooks import outlook_of
from xmlpunct.engine.plan.schemes import Outlook
from xmlpunct.engine.plan.tuple_nodes import Project, Select
from xmlpunct.expressions.conjunctions import conjunction, conjuncts
from xmlpunct.expressions.expression import Column, Expression

MOST = 6
"""Up to this number of inputs all join orders are tried; beyond it, the search is greedy."""


@dataclass(frozen=True)
class JoinPart:
    """A join of the inputs with these indices; ``names`` maps their columns to output columns."""

    inputs: frozenset[int]
    node: Node
    names: dict[str, str]
    outlook: Outlook


@dataclass(frozen=True)
class JoinTree:
    """A tree of inner equijoins.

    ``inputs`` are its leaves. ``equated`` are classes of equal columns, with at most one column of each input.
    ``columns`` maps output columns to input columns. ``conditions`` are the residuals, over input columns.
    """

    root: Node
    inputs: tuple[Node, ...]
    equated: tuple[frozenset[str], ...]
    columns: dict[str, str]
    conditions: tuple[Expression, ...]

    @classmethod
    def of(cls, root: Node) -> JoinTree | None:
        """The join tree below a node, or None if it has fewer than three inputs."""
        inputs: list[Node] = []
        pairs: list[tuple[str, str]] = []
        conditions: list[Expression] = []
        columns = _flatten(root, inputs, pairs, conditions)
        names = [name for below in inputs for name in below.schema.names]
        if len(inputs) < 3 or len(set(names)) < len(names):
            return None
        classes: list[set[str]] = []
        for pair in pairs:
            overlapping = [group for group in classes if group & set(pair)]
            classes = [group for group in classes if group not in overlapping]
            classes.append(set(pair).union(*overlapping))
        for below in inputs:
            if any(len(group & set(below.schema.names)) > 1 for group in classes):
                return None
        return cls(root, tuple(inputs), tuple(map(frozenset, classes)), columns, tuple(conditions))

    @property
    def joins(self) -> list[Node]:
        """The nodes above the inputs."""
        below = {id(n) for top in self.inputs for n in top.walk()}
        return [n for n in self.root.walk() if id(n) not in below]

    def parts(self, outlooks: Sequence[Outlook]) -> list[JoinPart]:
        """A part for each input, with these outlooks."""
        return [
            JoinPart(frozenset([i]), below, {name: name for name in below.schema.names}, outlook)
            for i, (below, outlook) in enumerate(zip(self.inputs, outlooks, strict=True))
        ]

    def joined(self, left: JoinPart, right: JoinPart) -> JoinPart | None:
        """The join of two parts; None if no equality connects them."""
        groups = {left.names[n]: group for group in self.equated for n in group if n in left.names}
        keys = {(name, right.names[n]) for name, group in groups.items() for n in group if n in right.names}
        if not keys:
            return None
        pairs = tuple(sorted(keys))
        join = Join(left.node, right.node, pairs)
        shared = {right_name: left_name for left_name, right_name in pairs}
        names = left.names | {n: shared.get(name, name) for n, name in right.names.items()}
        return JoinPart(
            left.inputs | right.inputs, join, names, outlook_of(join, [left.outlook, right.outlook])
        )

    def safe(self, outlooks: Sequence[Outlook]) -> Node | None:
        """The joins in an order with bounded state; None if no order is bounded."""
        singles = self.parts(outlooks)
        candidates = self._all(singles) if len(singles) <= MOST else self._greedy(singles)
        for part in candidates:
            source = {name: part.names[n] for name, n in self.columns.items()}
            assert isinstance(part.node, Join)
            top: Node = replace(part.node, reordered=True)
            if self.conditions:
                tested = {n: node_column(top, name) for n, name in part.names.items()}
                top = Select(top, conjunction([_renamed(c, tested) for c in self.conditions]))
            plan = Project(
                top, tuple((name, node_column(top, source[name])) for name in self.root.schema.names)
            )
            if plan.schema == self.root.schema:
                return plan
        return None

    def _all(self, singles: Sequence[JoinPart]) -> list[JoinPart]:
        """The bounded joins of all inputs; of several with the same outlook, the first."""
        parts_by_inputs: dict[frozenset[int], list[JoinPart]] = {part.inputs: [part] for part in singles}
        for size in range(2, len(singles) + 1):
            for chosen in map(frozenset, combinations(range(len(singles)), size)):
                safe_parts: list[JoinPart] = []
                for left in _halves(chosen):
                    for x in parts_by_inputs.get(left, ()):
                        for y in parts_by_inputs.get(chosen - left, ()):
                            part = self.joined(x, y)
                            if (
                                part is not None
                                and part.outlook.fate is None
                                and part.outlook not in [other.outlook for other in safe_parts]
                            ):
                                safe_parts.append(part)
                parts_by_inputs[chosen] = safe_parts
        return parts_by_inputs[frozenset(range(len(singles)))]

    def _greedy(self, singles: Sequence[JoinPart]) -> list[JoinPart]:
        """The bounded joins of all inputs that a greedy search finds, one from each first input."""
        complete_joins: list[JoinPart] = []
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
                complete_joins.append(part)
        return complete_joins

    def is_safe_at_once(self, outlooks: Sequence[Outlook]) -> bool:
        """True if one multiway join of all inputs would stay bounded.

        The closure of an input contains each input with a scheme whose attributes are all equated to attributes of
        members. The tuples of an input can be purged if its closure contains all inputs.
        """

        def closure(first: int) -> set[int]:
            members = {first}
            while True:
                names = {name for i in members for name in self.inputs[i].schema.names}
                equal = {name for group in self.equated if group & names for name in group}
                added = {
                    i for i, outlook in enumerate(outlooks) if any(s <= equal for s in outlook.offers)
                } - members
                if not added:
                    return members
                members |= added

        return all(len(closure(i)) == len(self.inputs) for i in range(len(self.inputs)))


def join_trees(root: Node) -> Iterator[JoinTree]:
    """The maximal join trees of a plan."""
    inside = set[int]()
    for node in reversed(list(root.walk())):
        if id(node) not in inside and isinstance(node, Join) and (tree := JoinTree.of(node)) is not None:
            yield tree
            inside.update(map(id, tree.joins))


def _flatten(
    node: Node, inputs: list[Node], pairs: list[tuple[str, str]], conditions: list[Expression]
) -> dict[str, str]:
    """Map columns of a node to input columns; appends inputs, equalities and residuals to the lists."""
    if isinstance(node, Join) and node.inner and node.keys and node.instants is None and not node.can_fail:
        left, right = (_flatten(side, inputs, pairs, conditions) for side in node.inputs)
        pairs += [(left[a], right[b]) for a, b in node.keys]
        for part in conjuncts(node.residual):
            sources = {name: (left | right)[name] for name in part.columns()}
            conditions.append(_renamed(part, {n: _column(inputs, source) for n, source in sources.items()}))
        return {name: (left | right)[name] for name in node.schema.names}
    plain = isinstance(node, Project) and not node.derived and len(node.copies) == len(node.columns)
    if isinstance(node, Project) and plain and _is_over_join(node.input):
        below = _flatten(node.input, inputs, pairs, conditions)
        return {name: below[source] for name, source in node.copies.items()}
    inputs.append(node)
    return {name: name for name in node.schema.names}


def _column(inputs: Sequence[Node], name: str) -> Column:
    return next(node_column(below, name) for below in inputs if name in below.schema)


def _renamed(expression: Expression, columns: Mapping[str, Column]) -> Expression:
    return expression.rewrite(lambda e: columns[e.name] if isinstance(e, Column) else None)


def _is_over_join(node: Node) -> bool:
    if isinstance(node, Join):
        return not node.left_only
    return isinstance(node, Project) and _is_over_join(node.input)


def _halves(chosen: frozenset[int]) -> Iterator[frozenset[int]]:
    """One half of each division of the inputs into two, larger halves first."""
    for size in range(len(chosen) - 1, 0, -1):
        yield from map(frozenset, combinations(sorted(chosen), size))

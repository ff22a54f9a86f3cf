"""Joins: splits conditions into equality keys and a residual, and combines two relations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.plan import (
    Join,
    Node,
    Project,
    Select,
    attributes,
    is_changing,
    node_column,
    plain,
    timing,
)
from xmlpunct.engine.sql.planner.relation_planner import joined_relations
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation, Unused
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.conjunctions import conjunction, conjuncts, tolerant
from xmlpunct.expressions.expression import Column, Expression, Literal
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join.join_bounds import bounds_of
from xmlpunct.operators.join.join_keys import LEFT, RIGHT
from xmlpunct.operators.join.join_output import PRESERVED
from xmlpunct.schema.sql_errors import at, refuse
from xmlpunct.types import DOUBLE, Type


@dataclass(frozen=True)
class Equality:
    """``left = right``, each over the columns of its side; ``node`` is the syntax."""

    left: Expression
    right: Expression
    node: exp.Expr


def conditions(node: exp.Expr | None) -> list[exp.Expr]:
    """The conjuncts of a condition, without parentheses around them.

    >>> from sqlglot import parse_one
    >>> [part.sql() for part in conditions(parse_one("a = 1 AND ((b = 2) AND (c OR d))"))]
    ['a = 1', 'b = 2', 'c OR d']
    """
    parts: list[exp.Expr] = []
    waiting = [] if node is None else [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren):
            waiting += take(part, "this")
        elif isinstance(part, exp.And):
            waiting += reversed(take(part, "this", "expression"))
        else:
            parts.append(part)
    return parts


def split_conditions(
    nodes: Iterable[exp.Expr], scalars: Scalars, left: Node, right: Node
) -> tuple[list[Equality], list[Expression]]:
    """Split conditions into equalities between the two sides, and other conditions except TRUE."""
    equalities: list[Equality] = []
    residual: list[Expression] = []
    for node in nodes:
        if isinstance(node, exp.EQ):
            sides = [scalars.read(operand) for operand in take(node, "this", "expression")]
            origins = [_side(e, left, right) for e in sides]
            if origins in ([LEFT, RIGHT], [RIGHT, LEFT]):
                equalities.append(Equality(sides[origins.index(LEFT)], sides[origins.index(RIGHT)], node))
                continue
        condition = scalars.condition(node)
        if not (isinstance(condition, Literal) and condition.value is True):
            residual.append(condition)
    return equalities, residual


def _side(expression: Expression, left: Node, right: Node) -> int | None:
    """The side with all columns of an expression; None if there is none."""
    names = set(expression.columns())
    if not names:
        return None
    return next((i for i, n in enumerate((left, right)) if names <= set(n.schema.names)), None)


class Sides:
    """The two inputs of a join, and the keys from its equalities.

    An operand that is not a column of the key's type becomes a computed column below the join. No column is in two
    keys: the second equality goes to the residual.
    """

    def __init__(self, left: Node, right: Node, equalities: Iterable[Equality]) -> None:
        self._nodes = (left, right)
        self._extra: tuple[dict[str, Expression], ...] = ({}, {})
        self._unused = Unused([*left.schema.names, *right.schema.names])
        self._pairs: dict[tuple[str, str], None] = {}
        self._keys: tuple[set[str], ...] = (set(), set())
        self.residual: list[Expression] = []
        for equality in equalities:
            self._add(equality)

    def _add(self, equality: Equality) -> None:
        left, right = equality.left, equality.right
        with at(equality.node):
            if isinstance(left, Literal) or isinstance(right, Literal):
                left, right = fn.call("=", left, right).arguments  # a literal gets the other type
            type_ = key_type(left, right)
            left, right = fn.cast(left, type_), fn.cast(right, type_)
        if isinstance(left, Column) and isinstance(right, Column):
            if (left.name, right.name) in self._pairs:
                return
            if self._used(LEFT, left) or self._used(RIGHT, right):
                self.residual.append(fn.call("=", left, right))
                return
        pair = (self._column(LEFT, left), self._column(RIGHT, right))
        self._pairs[pair] = None
        for side in (LEFT, RIGHT):
            self._keys[side].add(pair[side])

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a left and a right column."""
        return tuple(self._pairs)

    def _used(self, side: int, e: Expression) -> bool:
        return isinstance(e, Column) and e.name in self._keys[side]

    def _column(self, side: int, e: Expression) -> str:
        if isinstance(e, Column) and not self._used(side, e):
            return e.name
        name = self._unused.take(f"({e})")
        self._extra[side][name] = e
        return name

    def node(self, side: int) -> Node:
        """An input with its computed columns."""
        below, extra = self._nodes[side], self._extra[side]
        return computed(below, extra) if extra else below


def computed(below: Node, extra: Mapping[str, Expression]) -> Project:
    """A node with additional computed columns."""
    return Project(below, (*plain(below, attributes(below)), *extra.items(), *timing(below)))


def key_type(left: Expression, right: Expression) -> Type:
    """The common type of two join keys. Raises ValueError if no type represents both exactly."""
    a, b = left.type, right.type
    if not (a.comparable and b.comparable):
        raise ValueError(f"{a.kind} = {b.kind} makes no sense: values of these types cannot be compared")
    if a == b:
        return a
    if not (a.numeric and b.numeric):
        raise ValueError(f"{a} = {b} makes no sense: CAST one of them")
    if DOUBLE in (a, b):
        raise ValueError(f"{a} = {b} is not exact beyond 2^53, so it cannot join: CAST one of them")
    return fn.common_type((left, right))


def joined(
    left: PlannedRelation,
    right: PlannedRelation,
    kind: str,
    equalities: Iterable[Equality] = (),
    extra: Sequence[Expression] = (),
) -> PlannedRelation:
    """Join two relations with disjoint column names; ``kind`` may also be semi or anti."""
    sides = Sides(left.node, right.node, equalities)
    inputs, keys = (sides.node(LEFT), sides.node(RIGHT)), sides.keys
    parts = [*sides.residual, *extra]
    residual = conjunction(parts) if parts else None
    if is_changing(left.node):
        return joined_relations(left, right, kind, inputs, keys, residual)
    node = Join(*inputs, keys, kind, residual)
    if node.left_only:
        return replace(left, node=node)
    shared = {r: le for le, r in keys} if kind == "inner" else {}
    fields = (*left.fields, *(replace(f, column=shared.get(f.column, f.column)) for f in right.fields))
    return PlannedRelation(node, fields, left.outer)


def selected(node: Node, tests: Sequence[Expression]) -> Node:
    """Select the tuples that satisfy all tests. Tests over an inner join are added to its condition.

    An outer join becomes a narrower kind if a test, a comparison of both sides, rejects its null-filled rows.
    """
    if not isinstance(node, Join) or node.left_only or node.instants is not None:
        return Select(node, conjunction(tests))
    tests = [part for test in tests for part in conjuncts(test)]
    schemas = [below.schema for below in node.inputs]
    pairs = [t for t in tests if _side(t, node.left, node.right) is None]
    preserved = [
        side
        for side in node.preserved
        if not any(bounds_of(test, schemas[side], schemas[1 - side])[0] for test in pairs)
    ]
    kind = next(kind for kind, sides in PRESERVED.items() if list(sides) == preserved)
    if kind != node.kind:
        inner, source = replace(node, kind=kind), {}
        if kind == "inner":
            source = {right: left for left, right in node.keys}
        columns = [(name, node_column(inner, source.get(name, name))) for name in node.schema.names]
        return Project(selected(inner, tests), tuple(columns))
    if not node.inner:
        return Select(node, conjunction(tests))
    inputs = []
    # A condition that can fail is evaluated here. A tolerant copy of it on a lower join drops tuples earlier.
    for below in node.inputs:
        lower = [tolerant(t) for t in tests if can_fail(t) and set(t.columns()) <= set(below.schema.names)]
        is_inner = isinstance(below, Join) and below.inner and below.instants is None
        inputs.append(selected(below, lower) if lower and is_inner else below)
    node = replace(node, left=inputs[LEFT], right=inputs[RIGHT])
    if node.can_fail:
        return replace(node, residual=conjunction([*conjuncts(node.residual), *tests]))
    return Select(node, conjunction(tests))


def side_by_side(left: PlannedRelation, right: PlannedRelation) -> PlannedRelation:
    """The relation in scope of a condition between two relations."""
    if is_changing(left.node):
        return joined_relations(left, right, "inner", (left.node, right.node), (), None)
    return PlannedRelation(Join(left.node, right.node, ()), (*left.fields, *right.fields), left.outer)


class SubqueryValues(Protocol):
    """Collects the scalar subqueries in conditions."""

    def add(self, node: exp.Expr) -> Expression:
        """The value of a scalar subquery."""

    def with_columns(
        self, left: PlannedRelation, right: PlannedRelation
    ) -> tuple[PlannedRelation, PlannedRelation]:
        """The two sides of a join, with the columns of the subqueries."""


def join_on(
    left: PlannedRelation,
    right: PlannedRelation,
    kind: str,
    nodes: Iterable[exp.Expr],
    values_over: Callable[[PlannedRelation], SubqueryValues] | None = None,
) -> PlannedRelation:
    """left kind JOIN right ON the conditions. ``values_over`` creates a collector of scalar subqueries."""
    scope = side_by_side(left, right)
    values = values_over(scope) if values_over is not None else None
    scalars = Scalars(scope, "ON", subquery=values.add if values is not None else None)
    equalities, residual = split_conditions(nodes, scalars, left.node, right.node)
    if values is not None:
        left, right = values.with_columns(left, right)
    return joined(left, right, kind, equalities, residual)


def join_using(
    left: PlannedRelation, right: PlannedRelation, kind: str, names: Iterable[exp.Expr]
) -> PlannedRelation:
    """left kind JOIN right USING (names). Each name becomes one column; the columns of the tables are hidden."""
    equalities, pairs = [], []
    for name in names:
        a, b = (side.find(name, None, name) for side in (left, right))
        if a is None or b is None:
            side, which = (left, "left") if a is None else (right, "right")
            hint = did_you_mean(name.name, (field.name for field in side.fields))
            refuse(f"USING: there is no column {name.name} on the {which}{hint}", name)
        pairs.append((a, b))
        equalities.append(Equality(left.column(a), right.column(b), name))
    both_ = joined(left, right, kind, equalities)
    if kind in ("semi", "anti"):
        return both_
    new = dict(zip((*left.fields, *right.fields), both_.fields, strict=True))
    merged: list[Field] = []
    extra: dict[str, Expression] = {}
    unused = Unused(both_.node.schema.names)
    for (a, b), equality in zip(pairs, equalities, strict=True):
        column = (new[b] if kind == "right" else new[a]).column
        if kind == "full":
            with at(equality.node):
                either = fn.call("COALESCE", both_.column(new[a]), both_.column(new[b]))
            column = unused.take(a.name)
            extra[column] = either
        merged.append(Field(None, a.name, column, equality.node))
    hidden = {f for pair in pairs for f in pair}
    remaining = (
        replace(new[f], hidden=True) if f in hidden else new[f] for f in new if f.table or f not in hidden
    )
    node = computed(both_.node, extra) if extra else both_.node
    return replace(both_, node=node, fields=(*merged, *remaining))

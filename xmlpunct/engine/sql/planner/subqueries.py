"""IN and EXISTS: conditions of WHERE with a subquery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from xmlpunct.engine.plan import NotIn, is_changing
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.from_clause import Context
from xmlpunct.engine.sql.planner.join_planner import Equality, Sides, joined, split_conditions
from xmlpunct.engine.sql.planner.relation_planner import check_alike, not_in
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import PlannedRelation
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.join.join_keys import LEFT, RIGHT
from xmlpunct.schema.sql_errors import refuse


@dataclass(frozen=True)
class Inner:
    """A subquery: its input, its selected columns, and its conditions on the enclosing query."""

    relation: PlannedRelation
    columns: list[Expression]
    correlated: list[exp.Expr]


InnerPlanner = Callable[[exp.Expr, Context], Inner]


def is_subquery(node: exp.Expr) -> bool:
    """True if a condition is [NOT] IN (SELECT ...), = ANY, <> ALL, or [NOT] EXISTS (SELECT ...)."""
    _, node = _positive(node)
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def restrict(
    relation: PlannedRelation,
    node: exp.Expr,
    context: Context,
    plan: InnerPlanner,
    aliases: Aliases | None = None,
) -> PlannedRelation:
    """Select the tuples of a relation by a condition with a subquery."""
    negated, condition = _positive(node)
    values: list[exp.Expr] = []
    if isinstance(condition, exp.In):
        subject, query = take(condition, "this", "query")
        while isinstance(subject, exp.Paren):
            subject = only(subject, "this")
        values = only(subject, "expressions") if isinstance(subject, exp.Tuple) else [subject]
    else:
        query = only(condition, "this")
    inner = plan(query, replace(context, outer=relation))
    scalars = Scalars(relation, "WHERE", aliases=aliases)
    read = [scalars.read(value) for value in values]
    if values and len(read) != len(inner.columns):
        refuse(f"IN compares {len(read)} with {len(inner.columns)} columns", condition)
    check_alike([(relation, condition), (inner.relation, condition)])
    equalities = [Equality(a, b, condition) for a, b in zip(read, inner.columns, strict=False)]
    outside = Scalars(inner.relation, "WHERE", outer=True)
    keys, residual = split_conditions(inner.correlated, outside, relation.node, inner.relation.node)
    nullable = any(e.left.nullable or e.right.nullable for e in equalities)
    changing = is_changing(relation.node)
    if negated and nullable:
        if len(equalities) > 1 or residual or (keys and not changing):
            kind = "correlated" if inner.correlated else "of several columns"
            refuse(
                f"NOT IN where nulls can occur cannot be {kind}: use NOT EXISTS, or columns that are NOT NULL",
                condition,
            )
        sides = Sides(relation.node, inner.relation.node, equalities)
        ((left, right),) = sides.keys
        if changing:
            outer = Sides(sides.node(LEFT), sides.node(RIGHT), keys)
            return not_in(relation, (outer.node(LEFT), outer.node(RIGHT)), (left, right), outer.keys)
        return replace(relation, node=NotIn(sides.node(LEFT), sides.node(RIGHT), left, right))
    # correlations first: of two equalities of a column the first one becomes the key, as in `not_in`
    return joined(relation, inner.relation, "anti" if negated else "semi", [*keys, *equalities], residual)


def _positive(node: exp.Expr) -> tuple[bool, exp.Expr]:
    """A condition without NOT and parentheses, and whether it was negated."""
    negated = False
    while isinstance(node, exp.Not | exp.Paren):
        negated ^= isinstance(node, exp.Not)
        node = only(node, "this")
    if isinstance(node, exp.EQ | exp.NEQ):
        value, query = take(node, "this", "expression")
        if isinstance(query, exp.Any if isinstance(node, exp.EQ) else exp.All) and isinstance(
            query.this, exp.Query
        ):
            return negated ^ isinstance(node, exp.NEQ), exp.In(this=value, query=only(query, "this"))
    return negated, node

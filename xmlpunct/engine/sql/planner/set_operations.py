"""UNION, INTERSECT and EXCEPT: column types of their sides, and plan nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from xmlpunct.engine.plan import (
    Difference,
    Intersect,
    Merge,
    Node,
    Pointwise,
    Project,
    Union,
    is_changing,
    timing,
)
from xmlpunct.engine.sql.planner.from_clause import Context
from xmlpunct.engine.sql.planner.relation_planner import check_alike
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation
from xmlpunct.engine.sql.planner.stars import matched
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Column
from xmlpunct.schema.sql_errors import at, check_comparable, refuse

_UNITED = (Union, Merge)
FieldTuple = tuple[Field, ...]


def plan_set(
    node: exp.SetOperation,
    context: Context,
    plan_query: Callable[[exp.Expr, Context], PlannedRelation],
    with_: Callable[[exp.Expr | None, Context], Context],
) -> PlannedRelation:
    """Plan UNION, INTERSECT, EXCEPT. In sqlglot INTERSECT binds tighter, as in standard SQL.

    The left side of ``a UNION b UNION c`` is ``a UNION b``. All three become one node, without recursion.
    """
    levels: list[tuple[exp.SetOperation, Context]] = []
    first: exp.Expr = node
    while isinstance(first, exp.SetOperation):
        context = with_(first.args.get("with_"), context)
        levels.append((first, context))
        first = first.this
    relation, syntax, inputs = plan_query(first, context), first, list[Node]()
    for level, context in reversed(levels):
        right = plan_query(level.expression, context)
        sides, fields = _sides(level, (relation, right), syntax)
        if inputs and not (sides[0] is relation.node and _kind(level, sides) is type(relation.node)):
            relation, inputs = _over(relation, inputs), []
            sides, fields = _sides(level, (relation, right), syntax)
        if inputs:  # the relation over the first two inputs has the same columns as one over all inputs
            inputs += sides[1:]
        else:
            relation = PlannedRelation(_planned(level, sides, context), fields)
            inputs = sides if isinstance(relation.node, _UNITED) else []
        syntax = level
    return _over(relation, inputs)


def _over(relation: PlannedRelation, inputs: Sequence[Node]) -> PlannedRelation:
    """The relation over these inputs; without inputs, the relation itself."""
    return PlannedRelation(relation.node.over(inputs), relation.fields) if inputs else relation


def _kind(node: exp.SetOperation, sides: Sequence[Node]) -> type[Node]:
    """The node class of a set operation."""
    distinct, is_union = node.args.get("distinct"), isinstance(node, exp.Union)
    if is_changing(sides[0]) and (distinct or not is_union):
        return Pointwise
    if is_union:
        return Union if distinct else Merge
    return Intersect if isinstance(node, exp.Intersect) else Difference


def _planned(node: exp.SetOperation, sides: Sequence[Node], context: Context) -> Node:
    """The node of a set operation."""
    kind = _kind(node, sides)
    if kind is Pointwise:
        function = f"{node.key}{'' if node.args.get('distinct') else ' all'}"
        return Pointwise(tuple(sides), function, context.instants)
    if kind is Union or kind is Merge:
        return kind(tuple(sides))
    return kind(*sides)


def _sides(
    node: exp.SetOperation, sides: Sequence[PlannedRelation], left: exp.Expr
) -> tuple[list[Node], FieldTuple]:
    """The two sides of a set operation, with columns of the same types, and its fields.

    ``left`` is the syntax of the left side.
    """
    name = node.key.upper()
    right, distinct, by_name = take(node, "expression", "distinct", "by_name", unread=("this", "with_"))
    check_alike(zip(sides, (left, right), strict=True))
    if by_name:
        sides = matched(*sides)
    changing = is_changing(sides[0].node)
    if not (distinct or changing or isinstance(node, exp.Union)):
        refuse(f"{name} ALL is not supported: {name} emits each tuple once", node)
    a, b = (side.fields for side in sides)
    if len(a) != len(b):
        refuse(f"{name} of {len(a)} columns with {len(b)}", node)
    columns: list[tuple[Column, Column]] = [
        (sides[0].column(x), sides[1].column(y)) for x, y in zip(a, b, strict=True)
    ]
    wider = []
    for x, pair in zip(a, columns, strict=True):
        with at(node):
            try:
                wider.append(fn.common_type(pair))
            except ValueError as error:
                raise ValueError(f"column {x.name} of this {name}: {error}") from None
        if distinct:
            check_comparable(wider[-1], name, node)
    nodes: list[Node] = []
    for side, read in zip(sides, zip(*columns, strict=True), strict=True):
        if all(column.type == type_ for column, type_ in zip(read, wider, strict=True)):
            nodes.append(side.node)
        else:
            casts = tuple((c.name, fn.cast(c, t)) for c, t in zip(read, wider, strict=True))
            nodes.append(Project(side.node, (*casts, *timing(side.node))))
    return nodes, a

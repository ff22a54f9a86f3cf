"""Queries: from syntax to plan nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from xmlpunct.engine.plan import (
    DupElim,
    Merge,
    Node,
    Pointwise,
    Project,
    Select,
    is_changing,
    timing,
)
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.from_clause import Context, FromClause, Named, relabel
from xmlpunct.engine.sql.planner.grouping import Grouping
from xmlpunct.engine.sql.planner.grouping_sets import KeySet, key_sets
from xmlpunct.engine.sql.planner.join_planner import conditions, selected
from xmlpunct.engine.sql.planner.ordering import Ordering, arranged
from xmlpunct.engine.sql.planner.over_planner import Overs
from xmlpunct.engine.sql.planner.relation_planner import NO_ORDER, canonical_changes, to_stream
from xmlpunct.engine.sql.planner.scalar_subqueries import (
    ONE_COLUMN,
    Single,
    SingleValues,
    of_each_key,
    of_one_column,
)
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation, unique
from xmlpunct.engine.sql.planner.set_operations import plan_set
from xmlpunct.engine.sql.planner.stars import select_columns
from xmlpunct.engine.sql.planner.subqueries import Inner, is_subquery, restrict
from xmlpunct.engine.sql.syntax.aggregate_syntax import is_aggregate
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.stream_syntax import CreateView
from xmlpunct.engine.sql.syntax.window_syntax import StreamOf
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import check_comparable, refuse

__all__ = ["Context", "plan_outermost", "plan_query", "with_views"]


def plan_outermost(node: exp.Expr, context: Context, has_labels: bool = False) -> PlannedRelation:
    """The plan of an outermost query; only this one may have ORDER BY and LIMIT, and labels of unnamed columns."""
    order = node.args.get("order") or node.args.get("limit")
    ordering = Ordering.of(node)
    if isinstance(node, exp.Select):
        relation = _plan_select(node, context, ordering, has_labels)
    else:
        relation = plan_query(node, context)
    if is_changing(relation.node):
        if order is not None:
            refuse(NO_ORDER, order)
        return canonical_changes(relation, node)
    return arranged(relation if isinstance(node, exp.Select) else ordering.over(relation), ordering)


def plan_query(node: exp.Expr, context: Context) -> PlannedRelation:
    """The plan of a query, and its output columns, without table names."""
    if isinstance(node, exp.Select):
        return _plan_select(node, context)
    if isinstance(node, exp.SetOperation):
        return plan_set(node, context, plan_query, _with)
    if isinstance(node, exp.Values):
        return _plan_values(node, context)
    if isinstance(node, exp.Subquery):
        inner, with_ = take(node, "this", "with_")
        if isinstance(inner, exp.Query | exp.Values | StreamOf):
            return plan_query(inner, _with(with_, context))
    if isinstance(node, StreamOf):
        return _plan_stream(node, context)
    if isinstance(node, exp.Paren):  # as sqlglot reads (ISTREAM(...))
        return plan_query(only(node, "this"), context)
    return refuse("this is not a query: write SELECT ..., VALUES, UNION, INTERSECT, EXCEPT, WITH", node)


def _plan_values(node: exp.Values, context: Context) -> PlannedRelation:
    """VALUES as a query of its own."""
    read = FromClause(context, plan_query, False).table(node)
    names = [field.name for field in read.fields]
    columns = tuple((f.name, read.column(f)) for f in read.fields)
    fields = (Field(None, name, name, node) for name in names)
    return PlannedRelation(Project(read.node, columns), tuple(fields))


def _plan_stream(node: StreamOf, context: Context) -> PlannedRelation:
    """ISTREAM, DSTREAM or RSTREAM of a query."""
    inner, kind, with_ = take(node, "this", "kind", "with_", unread=("every", "origin"))
    context = _with(with_, context)
    query = inner
    while isinstance(query, exp.Subquery):
        query = query.this
    if (order := query.args.get("order") or query.args.get("limit")) is not None:
        refuse(NO_ORDER, order)
    return to_stream(node, kind, plan_query(inner, replace(context, unbounded=True)), context.instants)


def _with(node: exp.Expr | None, context: Context) -> Context:
    """The context with the queries of a WITH clause. Each is planned once here, to report its errors."""
    if node is None:
        return context
    names: set[str] = set()
    for cte in only(node, "expressions"):
        query, alias = take(cte, "this", "alias", unread=("materialized",))
        name, columns = take(alias, "this", "columns")
        if name.name in names:
            refuse(f"two queries of WITH have the name {name.name}", name)
        names.add(name.name)
        context = _with_named(name, query, columns, context)
    return context


def with_views(views: Iterable[CreateView], context: Context) -> Context:
    """The context with the queries of CREATE VIEW; each can read earlier views."""
    for view in views:
        name, columns, query = take(view, "this", "columns", "expression")
        if name.name in context.streams or name.name in context.named:
            refuse(f"two streams, relations or views have the name {name.name}", name)
        context = _with_named(name, query, columns, context)
    return context


def _with_named(name: exp.Expr, query: exp.Expr, columns: list[exp.Expr] | None, context: Context) -> Context:
    """The context with an additional named query."""
    named = Named(query, tuple(columns or ()), context)
    relabel(plan_query(query, context), name.name, named.columns)
    return replace(context, named=context.named.extended(name.name, named))


def _plan_select(
    node: exp.Select, context: Context, ordering: Ordering | None = None, has_labels: bool = False
) -> PlannedRelation:
    """One SELECT. Expressions of ``ordering`` that are not in SELECT become columns without fields."""
    context = _with(node.args.get("with_"), context)
    return _plan_items(node, _read(node, context, False, has_labels), context, ordering)


def _plan_items(
    node: exp.Select, read: SelectInput, context: Context, ordering: Ordering | None = None
) -> PlannedRelation:
    """Apply grouping, OVER, SELECT and DISTINCT to the input of a SELECT."""
    group, having, distinct, windows, qualify = take(
        node, "group", "having", "distinct", "windows", "qualify", unread=_READ
    )
    relation, listed, aliases = read.relation, read.listed, read.aliases
    inner = SingleValues(relation, context, plan_single)
    sets = _key_sets(group, read, inner)
    of_keys = inner.nodes
    grouping = Grouping(relation, sets, aliases, inner.add)
    overs = Overs(relation, windows or (), aliases)
    values = SingleValues(relation, context, plan_single, inner)

    def value(node: exp.Expr) -> Expression:
        return (inner if node in of_keys else values).add(node)

    scalars, keys = (
        Scalars(relation, clause, grouping.add_aggregate, over=overs.add, aliases=aliases, subquery=value)
        for clause in ("SELECT", "ORDER BY")
    )
    columns = aliases.read(scalars.read)
    hidden = ordering.resolve(listed, columns, keys) if ordering is not None else []
    tests = Scalars(relation, "HAVING", grouping.add_aggregate, aliases=aliases, subquery=value)
    condition = tests.condition(only(having, "this")) if having is not None else None
    qualified = None
    if qualify is not None:
        qualifying = Scalars(relation, "QUALIFY", over=overs.add, aliases=aliases, subquery=values.add)
        qualified = qualifying.condition(only(qualify, "this"))
        if not overs:
            refuse("QUALIFY is for results of OVER: write WHERE", qualify)
    overs.check()
    is_grouped = bool(grouping.keys or grouping.aggregates or group is not None or having is not None)
    if is_grouped and overs:
        refuse("OVER and GROUP BY in one SELECT: put the GROUP BY in a subquery", overs.first)
    names = unique([*(name for name, _ in listed), *(f"({column})" for column in hidden)])

    def projected(below: Node, columns: Iterable[Expression]) -> Node:
        return Project(below, (*zip(names, columns, strict=True), *timing(below)))

    if is_grouped:
        grouping.relation = replace(relation, node=inner.joined(relation.node))
        parts = []
        for chosen in grouping.sets:
            below: Node = values.joined(grouping.plan(chosen), partial(grouping.above, chosen=chosen))
            if condition is not None:
                below = Select(below, grouping.above(condition, tests.syntax_by_column, chosen))
            shown = [grouping.above(column, scalars.syntax_by_column, chosen) for column in columns]
            parts.append(
                projected(
                    below, [*shown, *(grouping.above(e, keys.syntax_by_column, chosen) for e in hidden)]
                )
            )
        planned = parts[0] if len(parts) == 1 else Merge(tuple(parts))
    else:
        below = values.joined(overs.plan() if overs else relation.node)
        if qualified is not None:
            below = Select(below, qualified)
        planned = projected(below, [*columns, *hidden])
    if distinct is not None:
        if hidden and ordering is not None:
            extra = next(
                item
                for item, k in zip(ordering.items, ordering.key_indices, strict=True)
                if k >= len(columns)
            )
            refuse("with SELECT DISTINCT, ORDER BY takes only columns of SELECT", extra)
        if (on := distinct.args.get("on")) is not None:
            refuse(DISTINCT_ON, on)
        take(distinct)
        for (_, item), expression in zip(listed, columns, strict=True):
            check_comparable(expression.type, "DISTINCT", item)
        changing = is_changing(planned)
        planned = Pointwise((planned,), "distinct", context.instants) if changing else DupElim(planned)
    fields = []
    for (name, item), column in zip(listed, names, strict=False):
        alias = item.parent if isinstance(item.parent, exp.Alias) else item
        fields.append(Field(None, name, column, alias))
    return PlannedRelation(planned, tuple(fields))


def _key_sets(group: exp.Expr | None, read: SelectInput, values: SingleValues) -> list[KeySet]:
    """The grouping sets of GROUP BY, whose items are positions, aliases, columns, expressions, and sets of these."""
    scalars = Scalars(read.relation, "GROUP BY", aliases=read.aliases, subquery=values.add)
    listed = read.listed
    if group is not None and group.args.get("all"):
        take(group, unread=("all",))
        return [tuple(dict.fromkeys(scalars.read(item) for _, item in listed if not _aggregates(item)))]

    def key(item: exp.Expr) -> Expression:
        node = item
        if isinstance(item, exp.Literal):
            if item.is_string or not item.name.isdigit() or not 1 <= int(item.name) <= len(listed):
                refuse(f"GROUP BY {item.sql()}: positions are 1 to {len(listed)}", item)
            node = listed[int(item.name) - 1][1]
        expression = scalars.read(node)
        check_comparable(expression.type, "GROUP BY", item)
        return expression

    return key_sets(group, key)


DISTINCT_ON = (
    "DISTINCT ON is not supported: write GROUP BY with ARG_MIN(x, y), or QUALIFY ROW_NUMBER() OVER (...) = 1"
)
_READ = ("expressions", "from_", "joins", "where", "with_")
"""The clauses that `_read` reads."""


@dataclass(frozen=True)
class SelectInput:
    """The input of a SELECT after WHERE, its items, and conditions that refer to the enclosing query."""

    relation: PlannedRelation
    listed: list[tuple[str, exp.Expr]]
    aliases: Aliases
    correlated: list[exp.Expr]


def _read(node: exp.Select, context: Context, correlated: bool, has_labels: bool = False) -> SelectInput:
    """The input of a SELECT: FROM, restricted by WHERE.

    ``correlated``: return conditions that refer to the enclosing query, instead of refusing them.
    """
    items, from_, joins, where = take(
        node,
        "expressions",
        "from_",
        "joins",
        "where",
        unread=("group", "having", "distinct", "with_", "windows", "qualify"),
    )
    if not items:
        refuse("SELECT needs columns", node)
    if from_ is None:
        refuse("a query reads from a stream: FROM is missing; for constants write VALUES (1, 'a')", node)
    parts = conditions(only(where, "this")) if where is not None else []
    plain = [part for part in parts if not is_subquery(part)]
    tables = FromClause(
        context, plan_query, correlated, lambda relation: SingleValues(relation, context, plan_single)
    )
    relation, plain = tables.read(only(from_, "this"), joins or (), plain)
    listed = select_columns(items, relation, has_labels)
    aliases = Aliases(listed)
    values = SingleValues(relation, context, plan_single)
    scalars = Scalars(relation, "WHERE", outer=correlated, aliases=aliases, subquery=values.add)
    tests, left = [], []
    for part in plain:
        condition = scalars.condition(part)
        if set(condition.columns()) <= {*relation.node.schema.names, *values.names}:
            tests.append(condition)
        else:
            left.append(part)
    if values:
        relation = replace(relation, node=values.joined(relation.node))
    if tests:
        relation = replace(relation, node=selected(relation.node, tests))
    for part in parts:
        if is_subquery(part):
            relation = restrict(relation, part, context, plan_inner, aliases)
    return SelectInput(relation, listed, aliases, left)


def plan_inner(node: exp.Expr, context: Context) -> Inner:
    """The query of IN or EXISTS. Its column names differ from those of the enclosing query."""
    while isinstance(node, exp.Subquery):
        node, with_ = take(node, "this", "with_")
        context = _with(with_, context)
    assert context.outer is not None
    around = context.outer.node.schema.names
    if not isinstance(node, exp.Select) or _is_grouped(node):
        planned = plan_query(node, context).apart(around)
        return Inner(planned, [planned.column(field) for field in planned.fields], [])
    distinct, with_ = take(node, "distinct", "with_", unread=_READ)
    if distinct is not None:
        take(distinct)  # DISTINCT has no effect here
    read = _read(node, _with(with_, context), True)
    return Inner(
        read.relation,
        read.aliases.read(Scalars(read.relation, "SELECT", aliases=read.aliases).read),
        read.correlated,
    )


def plan_single(node: exp.Expr, context: Context) -> Single:
    """Plan a scalar subquery."""
    while isinstance(node, exp.Subquery):
        node, with_ = take(node, "this", "with_")
        context = _with(with_, context)
    if not isinstance(node, exp.Select):
        return of_one_column(plan_query(node, context), node)
    if (order := node.args.get("order") or node.args.get("limit")) is not None:
        refuse("a scalar subquery has no order: write MIN or MAX", order)
    context = _with(node.args.get("with_"), context)
    read = _read(node, context, True)
    if not read.correlated:
        return of_one_column(_plan_items(node, read, context), node)
    if (group := node.args.get("group")) is not None:
        refuse(
            "a scalar subquery needs no GROUP BY: its conditions with the outer query define the groups",
            group,
        )
    (having,) = take(node, "having", unread=_READ)
    if len(read.listed) != 1:
        refuse(ONE_COLUMN.format(len(read.listed)), node)
    return of_each_key(read.relation, read.aliases, read.correlated, having)


def _is_grouped(node: exp.Select) -> bool:
    """True if a query groups, aggregates, or has OVER."""
    if node.args.get("group") or node.args.get("having") or node.args.get("qualify"):
        return True
    return any(map(_aggregates, node.expressions))


def _aggregates(node: exp.Expr) -> bool:
    """True if an expression has an aggregate or OVER."""
    parts = node.walk(prune=lambda n: isinstance(n, exp.Query))
    return any(is_aggregate(n) or isinstance(n, exp.Window) for n in parts)

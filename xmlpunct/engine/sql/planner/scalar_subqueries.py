"""Scalar subqueries: ``(SELECT MAX(price) FROM bids WHERE bids.item = items.item)``.

Each becomes a left join. If it may have more than one value for a tuple, its values are counted, and a tuple with
several values is rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import GroupBy, Node, Project, is_changing, node_column
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.from_clause import Context
from xmlpunct.engine.sql.planner.grouping import Grouping
from xmlpunct.engine.sql.planner.join_planner import Equality, joined, split_conditions
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import PlannedRelation, Unused, unique
from xmlpunct.engine.sql.syntax.arguments import only
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Column, Expression, replaced
from xmlpunct.expressions.functions.conditions import CASE, COALESCE, SINGLE
from xmlpunct.schema.sql_errors import check_comparable, refuse

ONE_COLUMN = "a scalar subquery has one column, and this one has {}"

ExpressionsByName = Mapping[str, exp.Expr]
Above = Callable[[Expression, ExpressionsByName], Expression]
"""Rewrites an expression over the input of a query as one over its groups, given the syntax of columns by name."""


@dataclass(frozen=True)
class Single:
    """A planned scalar subquery, to be joined by ``equalities``, whose right sides are over its ``node``.

    ``value`` is over its columns. Without a join partner the columns are null, or have the values in ``empty``.
    ``syntax_by_column`` has the syntax of the columns in the equalities.
    """

    node: Node
    value: Expression
    equalities: tuple[Equality, ...] = ()
    empty: Mapping[str, Expression] = field(default_factory=dict)
    syntax_by_column: ExpressionsByName = field(default_factory=dict)


SubqueryPlanner = Callable[[exp.Expr, Context], Single]


class SingleValues:
    """Collects the scalar subqueries in clauses of a query that reads ``relation``.

    ``names`` are the names of added columns, which differ from those that ``other`` adds.
    """

    def __init__(
        self,
        relation: PlannedRelation,
        context: Context,
        plan: SubqueryPlanner,
        other: SingleValues | None = None,
    ) -> None:
        self._relation, self._plan = relation, plan
        self._context = Context(context.streams, context.named, relation, context.files, context.instants)
        self._unused: Unused = Unused(relation.node.schema.names) if other is None else other._unused
        self._values: dict[exp.Expr, tuple[Single, Expression]] = {}
        self.names = set[str]()

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, node: exp.Expr) -> Expression:
        """The value of a scalar subquery."""
        if node in self._values:
            return self._values[node][1]
        single = self._plan(node, self._context)
        if is_changing(self._relation.node) or is_changing(single.node):
            refuse("scalar subqueries over relations are not supported: use a join", node)
        columns = [node_column(single.node, name) for name in single.node.schema.names]
        new = {c: self._unused.take(f"(subquery).{c.name}") for c in columns}
        self.names.update(new.values())
        renamed: dict[Expression, Expression] = {c: Column(c.type, True, name) for c, name in new.items()}
        values = {
            c: COALESCE(e, single.empty[c.name]) if isinstance(c, Column) and c.name in single.empty else e
            for c, e in renamed.items()
        }
        equalities = tuple(Equality(e.left, replaced(e.right, renamed), e.node) for e in single.equalities)
        below = Project(single.node, tuple((name, c) for c, name in new.items()))
        value = replaced(single.value, values)
        self._values[node] = Single(below, value, equalities, syntax_by_column=single.syntax_by_column), value
        return value

    @property
    def nodes(self) -> tuple[exp.Expr, ...]:
        """The syntax of the subqueries."""
        return tuple(self._values)

    def joined(self, below: Node, above: Above = lambda expression, syntax_by_column: expression) -> Node:
        """A node joined with the subqueries. ``above`` rewrites expressions over the relation for that node."""
        for single, _ in self._values.values():
            equalities = [
                Equality(above(e.left, single.syntax_by_column), e.right, e.node) for e in single.equalities
            ]
            below = _with_value(below, single, equalities)
        return below

    def with_columns(
        self, left: PlannedRelation, right: PlannedRelation
    ) -> tuple[PlannedRelation, PlannedRelation]:
        """The two sides of a join, each with its correlated subqueries; the left one also with uncorrelated ones."""
        sides = [left, right]
        for node, (single, _) in self._values.items():
            read = {name for e in single.equalities for name in e.left.columns()}
            index = next((i for i, side in enumerate(sides) if read <= set(side.node.schema.names)), None)
            if index is None:
                refuse(
                    "a subquery in ON can refer to one side of the join only: put its condition into WHERE",
                    node,
                )
            below = _with_value(sides[index].node, single, single.equalities)
            sides[index] = replace(sides[index], node=below)
        return sides[0], sides[1]


def _with_value(below: Node, single: Single, equalities: Iterable[Equality]) -> Node:
    return joined(PlannedRelation(below, ()), PlannedRelation(single.node, ()), "left", equalities).node


def of_one_column(relation: PlannedRelation, node: exp.Expr) -> Single:
    """A scalar subquery without correlation."""
    if len(relation.fields) != 1:
        refuse(ONE_COLUMN.format(len(relation.fields)), node)
    value = relation.column(relation.fields[0])
    if relation.node.distinct_key == frozenset():
        return Single(Project(relation.node, ((value.name, value),)), value)
    return _counted(relation.node, value, (), (), {}, node)


def of_each_key(
    relation: PlannedRelation, aliases: Aliases, correlated: Iterable[exp.Expr], having: exp.Expr | None
) -> Single:
    """A correlated scalar subquery: one value for each key of its equalities."""
    assert relation.outer is not None
    outside = Scalars(relation, "WHERE", outer=True, aliases=aliases)
    equalities: list[Equality] = []
    for part in correlated:
        equal, residual = split_conditions([part], outside, relation.outer.node, relation.node)
        if residual:
            refuse(
                "a scalar subquery can refer to the outer query by equalities only: otherwise use a join and GROUP BY",
                part,
            )
        equalities += equal
    keys = tuple(dict.fromkeys(e.right for e in equalities))
    grouping = Grouping(relation, [keys], aliases)
    scalars, tests = (
        Scalars(relation, clause, grouping.add_aggregate, aliases=aliases) for clause in ("SELECT", "HAVING")
    )
    (value,) = aliases.read(scalars.read)
    condition = None if having is None else tests.condition(only(having, "this"))
    node = aliases.syntax(0)
    if not grouping.aggregates and having is None:
        return _counted(relation.node, value, keys, equalities, outside.syntax_by_column, node)
    value = grouping.above(value, scalars.syntax_by_column, keys)
    if condition is not None:
        value = CASE(grouping.above(condition, tests.syntax_by_column, keys), value, fn.NULL)
    below = grouping.plan(keys)
    empty = {
        a.name: fn.literal(below.schema[a.name].type, 0)
        for a in grouping.aggregates
        if not a.attribute(below.input.schema, False).nullable
    }
    by_key = tuple(Equality(e.left, grouping.keys[e.right], e.node) for e in equalities)
    return Single(below, value, by_key, empty, outside.syntax_by_column)


def _counted(
    below: Node,
    value: Expression,
    keys: tuple[Expression, ...],
    equalities: Iterable[Equality],
    syntax_by_column: ExpressionsByName,
    node: exp.Expr,
) -> Single:
    """The value by key: a single one if keys are unique, otherwise the smallest one, and the number of values."""
    names = unique([*map(str, keys), str(value)])
    columns = Project(below, tuple(zip(names, [*keys, value], strict=True)))
    *of_keys, of_value = (node_column(columns, name) for name in names)
    by_key = dict(zip(keys, of_keys, strict=True))
    joins = tuple(Equality(e.left, by_key[e.right], e.node) for e in equalities)
    is_unique = columns.distinct_key is not None and columns.distinct_key <= {*names[:-1]}
    if is_unique:
        return Single(columns, of_value, joins, syntax_by_column=syntax_by_column)
    check_comparable(of_value.type, "a scalar subquery without a unique key", node)
    least, count = unique([f"MIN({of_value})", "COUNT(*)"], names)
    aggregates = (
        ops.Aggregate("MIN", of_value.name, False, least),
        ops.Aggregate("COUNT", None, False, count),
    )
    grouped = GroupBy(columns, tuple(names[:-1]), aggregates)
    single = SINGLE(node_column(grouped, least), node_column(grouped, count))
    return Single(grouped, single, joins, syntax_by_column=syntax_by_column)

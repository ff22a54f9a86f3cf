"""Scalar expressions: from syntax to typed trees."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.base.trampoline import unrolled
from xmlpunct.engine.plan import is_changing
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.constructors import Reading, forest, plan_element
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation
from xmlpunct.engine.sql.syntax.aggregate_syntax import is_aggregate
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.unsupported import PARAMETER, SUBQUERY, instead
from xmlpunct.engine.sql.syntax.xml_syntax import XmlForest
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import FUNCTIONS, Expression, Function
from xmlpunct.expressions.functions import interval_arithmetic, time_buckets
from xmlpunct.expressions.functions.arithmetic import NEGATIVE
from xmlpunct.expressions.functions.conditions import BETWEEN, CASE, EQUAL, IS_NULL, NOT, NOT_DISTINCT, OR
from xmlpunct.expressions.functions.matching import ILIKE, LIKE
from xmlpunct.expressions.functions.moment_functions import part_of
from xmlpunct.expressions.functions.text_functions import LTRIM, RTRIM, TRIM
from xmlpunct.schema.sql_errors import at, refuse
from xmlpunct.schema.sql_literals import type_of
from xmlpunct.types import BOOLEAN, STRING

FIELD = "field"
"""Metadata key of a column's syntax for its resolved field."""

AggregateHandler = Callable[[exp.Expr], Expression]
SubqueryHandler = Callable[[exp.Expr], Expression]


class Scalars:
    """Reads expressions over one relation.

    ``aggregate`` reads an aggregate, ``over`` an OVER call, ``subquery`` a scalar subquery; without a handler they are
    refused, and ``where`` names the clause. A name may be a column, one of the ``aliases``, or with ``outer`` a column
    of the enclosing query. ``syntax_by_column`` has the first reference to each column, for later errors.
    """

    def __init__(
        self,
        relation: PlannedRelation,
        where: str,
        aggregate: AggregateHandler | None = None,
        outer: bool = False,
        over: AggregateHandler | None = None,
        aliases: Aliases | None = None,
        subquery: SubqueryHandler | None = None,
    ) -> None:
        self.relation, self.where, self.aggregate, self.over = relation, where, aggregate, over
        self._outer = relation.outer if outer else None
        self._aliases, self._subquery = aliases, subquery
        self._aliased: dict[int, Expression] = {}
        self.syntax_by_column: dict[str, exp.Expr] = {}

    def read(self, node: exp.Expr) -> Expression:
        """The typed expression of a syntax tree. Refuses unsupported or ill-typed syntax."""
        return unrolled(self._reading, node)

    def _reading(self, node: exp.Expr) -> Reading:
        kind = type(node)
        if isinstance(node, exp.In) and node.args.get("query"):
            refuse(SUBQUERY, node)
        if is_aggregate(node):
            if self.aggregate is None:
                refuse(f"an aggregate is not allowed in {self.where}", node)
            return self.aggregate(node)
        if kind is exp.Window:
            if self.over is None:
                refuse(
                    f"OVER is not allowed in {self.where}: put it in a subquery, or its condition in QUALIFY",
                    node,
                )
            return self.over(node)
        if isinstance(node, exp.Subquery):
            if self._subquery is None:
                refuse(
                    f"a scalar subquery is not allowed in {self.where}: compute it in FROM (SELECT ...)", node
                )
            return self._subquery(node)
        if kind in _LEAVES:
            return _LEAVES[kind](self, node)
        if kind in _READERS:
            return (yield from _READERS[kind](self, node))
        if kind not in _FUNCTIONS:
            refuse(instead(node), node)
        return (yield from self._function(node, _FUNCTIONS[kind]))

    def condition(self, node: exp.Expr) -> Expression:
        """A BOOLEAN expression."""
        expression = self.read(node)
        with at(node):
            return fn.of_type(self.where, expression, BOOLEAN)

    def _function(self, node: exp.Expr, record: Function, *extra: exp.Expr | None) -> Reading:
        """A function call: its operands are the arguments that its record names, then ``extra``."""
        assert record.syntax is not None
        _, names, unread = record.syntax
        return (
            yield from self._call(node, record, *take(node, *names.split(), unread=unread.split()), *extra)
        )

    def _call(self, node: exp.Expr, record: Function, *operands: exp.Expr | list[exp.Expr] | None) -> Reading:
        arguments = []
        for operand in operands:
            for part in operand if isinstance(operand, list) else [operand]:
                if part is not None:
                    arguments.append((yield part))
        with at(node):
            return record(*arguments)

    def _column(self, node: exp.Expr) -> Reading:
        name, table = take(node, "this", "table")
        if isinstance(name, exp.Star):
            refuse("* is not allowed in an expression", node)
        if FIELD in node.meta:
            return self._field_column(self.relation, node.meta[FIELD], node)
        if self.relation.sees(name, table, node):
            return self._field_column(self.relation, self.relation.find(name, table, node), node)
        index = None if table is not None or self._aliases is None else self._aliases.index(name)
        if index is not None:
            return (yield from self._alias(index))
        if self._outer is not None and self._outer.sees(name, table, node):
            return self._field_column(self._outer, self._outer.find(name, table, node), node)
        around = self.relation.outer
        while around is not None:
            if around.sees(name, table, node):
                refuse(
                    f"{node.sql()} belongs to the outer query: only conditions combined by AND can refer to it, in "
                    "WHERE of a scalar subquery, or of an IN or EXISTS subquery without aggregates, one level deep",
                    node,
                )
            around = around.outer
        field = self.relation.find(name, table, node)
        if field is None and name.name.startswith("$") and not name.args.get("quoted"):
            refuse(PARAMETER, node)
        if field is None:
            column_names = dict.fromkeys(f.name for f in self.relation.fields)
            hint = did_you_mean(name.name, column_names)
            if is_changing(self.relation.node):
                hint = (
                    ". The timestamp is not a column of a relation: copy it in a subquery, "
                    "(SELECT ts AS t0, ts ...) [...]"
                )
            refuse(f"no column {node.sql()} here: there are {', '.join(column_names)}{hint}", node)
        return self._field_column(self.relation, field, node)

    def _alias(self, index: int) -> Reading:
        """The item of SELECT at an index; it may refer to earlier aliases."""
        assert self._aliases is not None
        if index not in self._aliased:
            visible, self._aliases.visible = self._aliases.visible, index
            self._aliased[index] = yield self._aliases.syntax(index)
            self._aliases.visible = visible
        return self._aliased[index]

    def _field_column(self, relation: PlannedRelation, field: Field | None, node: exp.Expr) -> Expression:
        assert field is not None
        self.syntax_by_column.setdefault(field.column, node)
        return relation.column(field)

    def _literal(self, node: exp.Expr) -> Expression:
        text, quoted = take(node, "this", "is_string")
        with at(node):
            return fn.literal(STRING, text) if quoted else fn.number(text)

    def _negative(self, node: exp.Expr) -> Reading:
        operand = only(node, "this")
        if isinstance(operand, exp.Literal) and not operand.is_string:
            with at(node):
                return fn.number(f"-{only(operand, 'this', unread=('is_string',))}")
        return (yield from self._call(node, NEGATIVE, operand))

    def _cast(self, node: exp.Expr) -> Reading:
        operand, to = take(node, "this", "to", unread=("safe",))
        expression = yield operand
        with at(node):
            return (fn.cast if type(node) is exp.Cast else fn.try_cast)(expression, type_of(to))

    def _is(self, node: exp.Expr) -> Reading:
        operand, right = take(node, "this", "expression")
        if isinstance(right, exp.Null):
            return (yield from self._call(node, IS_NULL, operand))
        if isinstance(right, exp.Boolean):
            return (yield from self._call(node, NOT_DISTINCT, operand, right))
        return refuse("IS needs NULL, TRUE, FALSE or DISTINCT FROM", node)

    def _case(self, node: exp.Expr) -> Reading:
        subject, branches, default = take(node, "this", "ifs", "default")
        pairs = []
        value = (yield subject) if subject else None
        for branch in branches:
            when, then = take(branch, "this", "true")
            test = yield when
            if value is not None:
                with at(when):
                    test = EQUAL(value, test)
            pairs += [test, (yield then)]
        other = (yield default) if default else fn.NULL
        with at(node):
            return CASE(*pairs, other)

    def _if(self, node: exp.Expr) -> Reading:
        when, then, other = take(node, "this", "true", "false")
        if other is None:
            refuse("IF takes 3 arguments: a condition, the value if it is true, and the value if not", node)
        return (yield from self._call(node, CASE, when, then, other))

    def _between(self, node: exp.Expr) -> Reading:
        subject, low, high, symmetric = take(node, "this", "low", "high", "symmetric")
        between = yield from self._call(node, BETWEEN, subject, low, high)
        if not symmetric:
            return between
        with at(node):
            return OR(between, (yield from self._call(node, BETWEEN, subject, high, low)))

    def _like(self, node: exp.Expr) -> Reading:
        like, escape = take(node, "this", "expression") if isinstance(node, exp.Escape) else (node, None)
        record = _LIKES.get(type(like))
        if record is None:
            refuse("ESCAPE needs LIKE or ILIKE", node)
        test = yield from self._function(like, record, escape)
        return NOT(test) if like.args.get("negate") else test

    def _extract(self, node: exp.Expr) -> Reading:
        unit, operand = take(node, "this", "expression")
        value = yield operand
        with at(node):
            return part_of(unit.name, value)

    def _called_by_name(self, node: exp.Expr) -> Reading:
        """A function that is identified by its name only."""
        name, operands = take(node, "this", "expressions")
        if str(name).upper() == "DATE_ADD" and len(operands) == 2 and isinstance(operands[1], exp.Interval):
            return (yield from self._shifted(node, "+", *operands))
        if str(name).upper() == "TIME_BUCKET" and operands and isinstance(operands[0], exp.Interval):
            return (yield from self._bucket(node, *operands))
        record = CALLED.get(str(name).upper())
        if record is None:
            refuse(instead(node), node)
        return (yield from self._call(node, record, operands))

    def _sum(self, node: exp.Expr) -> Reading:
        """``+`` or ``-``, possibly with an interval."""
        operator = "+" if isinstance(node, exp.Add) else "-"
        a, b = take(node, "this", "expression")
        if operator == "+" and isinstance(a, exp.Interval):
            a, b = b, a
        if isinstance(b, exp.Interval):
            return (yield from self._shifted(node, operator, a, b))
        return (yield from self._call(node, FUNCTIONS[operator], a, b))

    def _shifted(self, node: exp.Expr, operator: str, moment: exp.Expr, interval: exp.Expr) -> Reading:
        """A moment plus or minus an interval."""
        value = yield moment
        count, units = yield from self._interval(interval)
        with at(node):
            return interval_arithmetic.shifted(operator, value, count, units)

    def _bucket(self, node: exp.Expr, interval: exp.Expr, *operands: exp.Expr) -> Reading:
        """TIME_BUCKET of an interval, a moment, and an optional origin."""
        if not 1 <= len(operands) <= 2:
            refuse("TIME_BUCKET takes an interval, a DATE or TIMESTAMP, and optionally an origin", node)
        count, units = yield from self._interval(interval)
        moment = yield operands[0]
        origin = (yield operands[1]) if len(operands) > 1 else None
        with at(node):
            return time_buckets.bucket(moment, count, units, origin)

    def _interval(self, interval: exp.Expr) -> Generator[exp.Expr, Expression, tuple[Expression, str]]:
        """The amount and unit of an INTERVAL."""
        amount, unit = take(interval, "this", "unit")
        if amount is None or unit is None:
            refuse("an INTERVAL has a number and a unit: INTERVAL '10' MINUTE; add several with +", interval)
        negative = isinstance(amount, exp.Neg) and isinstance(amount.this, exp.Literal)
        constant = amount.this if negative else amount
        with at(interval):
            if isinstance(constant, exp.Literal):
                return interval_arithmetic.interval_units(f"{'-' * negative}{constant.name}", unit.name)
            return (yield amount), interval_arithmetic.unit_of(unit.name)

    def _trim(self, node: exp.Expr) -> Reading:
        text, characters, position = take(node, "this", "expression", "position")
        record = {"LEADING": LTRIM, "TRAILING": RTRIM}.get(str(position).upper(), TRIM)
        return (yield from self._call(node, record, text, characters))


_FUNCTIONS = {getattr(exp, f.syntax.node): f for f in FUNCTIONS.values() if f.syntax}
"""Functions with a node type in sqlglot."""

CALLED = {name: f for f in FUNCTIONS.values() for name in f.called}
"""Functions that are identified by name only."""

_LIKES: dict[type[exp.Expr], Function] = {exp.Like: LIKE, exp.ILike: ILIKE}

Reader = Callable[[Scalars, Any], Reading]


def _inside(self: Scalars, node: exp.Expr) -> Reading:
    """The expression in parentheses."""
    return (yield only(node, "this"))


_LEAVES: dict[type[exp.Expr], Callable[[Scalars, Any], Expression]] = {
    exp.Literal: Scalars._literal,
    exp.Boolean: lambda self, node: fn.literal(BOOLEAN, bool(node.this)),
    exp.Null: lambda self, node: fn.NULL,
}

_READERS: dict[type[exp.Expr], Reader] = {
    exp.Column: Scalars._column,
    exp.Paren: _inside,
    exp.Neg: Scalars._negative,
    exp.Cast: Scalars._cast,
    exp.TryCast: Scalars._cast,
    exp.If: Scalars._if,
    exp.Between: Scalars._between,
    exp.Is: Scalars._is,
    exp.Case: Scalars._case,
    exp.Like: Scalars._like,
    exp.ILike: Scalars._like,
    exp.Escape: Scalars._like,
    exp.Extract: Scalars._extract,
    exp.Anonymous: Scalars._called_by_name,
    exp.Add: Scalars._sum,
    exp.Sub: Scalars._sum,
    exp.Trim: Scalars._trim,
    exp.XMLElement: lambda self, node: plan_element(node, self.relation),
    XmlForest: lambda self, node: forest(node, self.relation),
}

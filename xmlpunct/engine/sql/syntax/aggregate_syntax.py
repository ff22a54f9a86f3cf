"""Calls of aggregates: sqlglot's different nodes for them become one record."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.dialect import AggregateCall
from xmlpunct.engine.sql.syntax.xml_syntax import XmlAgg
from xmlpunct.operators.group.aggregate import FUNCTIONS, AggregateFunction
from xmlpunct.schema.sql_errors import refuse

_NODES: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    XmlAgg: "XMLAGG",
}
"""The aggregates that sqlglot has a node for."""

AGGREGATES = (*_NODES, AggregateCall)
"""The nodes of aggregates."""

_CALLED = {name: f for f in FUNCTIONS.values() for name in f.called}
_ARITY = {
    "ARG_MIN": (2, 2),
    "ARG_MAX": (2, 2),
    "QUANTILE_CONT": (2, 2),
    "QUANTILE_DISC": (2, 2),
    "STRING_AGG": (1, 2),
}


_WITHIN_ONLY = ("PERCENTILE_CONT", "PERCENTILE_DISC")
_OF_ONE_ORDER = ("QUANTILE_CONT", "QUANTILE_DISC", "MEDIAN", "MODE")
"""Aggregates that go by the order of their values."""


class AggregateParts(NamedTuple):
    """A parsed aggregate: its function, operands, DISTINCT, items of ORDER BY, and condition of FILTER."""

    record: AggregateFunction
    operands: list[exp.Expr]
    distinct: bool
    items: list[exp.Expr]
    condition: exp.Expr | None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate, perhaps with FILTER, or GROUPING."""
    return (
        isinstance(node, exp.Filter | exp.WithinGroup | exp.Grouping | exp.GroupingId)
        or type(node) in AGGREGATES
    )


def aggregate_parts(node: exp.Expr) -> AggregateParts:
    """The parts of a call of an aggregate; calls without a meaning are refused."""
    call, condition = node, None
    if isinstance(call, exp.Filter):
        call, where = take(call, "this", "expression")
        condition = only(where, "this")
    within: list[exp.Expr] = []
    if isinstance(call, exp.WithinGroup):
        call, order = take(call, "this", "expression")
        within = only(order, "expressions")
    if type(call) not in AGGREGATES:
        refuse(f"{' '.join(call.sql().split())[:40]} is not supported here", node)
    if isinstance(call, AggregateCall):
        name, operands = take(call, "this", "expressions")
        record = _CALLED[name]
    else:
        record = FUNCTIONS[_NODES[type(call)]]
        operand = only(call, "this", unread=("big_int",))
        operands = [] if operand is None else [operand]
    items: list[exp.Expr] = []
    operands = list(operands)
    if within:
        operands, items = _within(record, operands, within, node)
    elif record.name in _OF_ONE_ORDER and operands and isinstance(operands[-1], exp.Order):
        refuse(f"ORDER BY in {record.name} has no effect: it orders by its argument", operands[-1])
    elif isinstance(call, AggregateCall) and name in _WITHIN_ONLY:
        refuse(
            f"{name} is written {name}(0.5) WITHIN GROUP (ORDER BY x); or write {record.name}(x, 0.5)", node
        )
    if not operands and record.name == "COUNT":
        operands = [exp.Star()]
    if operands and record.gathers and isinstance(operands[-1], exp.Order):
        operands[-1], items = take(operands[-1], "this", "expressions")
    distinct = bool(operands) and isinstance(operands[0], exp.Distinct)
    if distinct:
        operands[:1] = only(operands[0], "expressions")
    minimum, maximum = _ARITY.get(record.name, (1, 1))
    if not operands:
        refuse(f"{record.name} needs an argument", node)
    if not minimum <= len(operands) <= maximum:
        count = (
            "one argument"
            if maximum == 1
            else f"{minimum} to {maximum} arguments"
            if minimum < maximum
            else f"{maximum} arguments"
        )
        refuse(f"{record.name}({'DISTINCT ...' if distinct else '...'}) takes {count}", node)
    return AggregateParts(record, operands, distinct, items, condition)


def _within(
    record: AggregateFunction, operands: list[exp.Expr], within: list[exp.Expr], node: exp.Expr
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """The operands and the items of ORDER BY of a call with WITHIN GROUP (ORDER BY ...)."""
    if record.name not in _OF_ONE_ORDER:
        if not record.gathers or record.name == "XMLAGG":
            refuse("WITHIN GROUP needs PERCENTILE_CONT, PERCENTILE_DISC, MODE or LISTAGG", node)
        return operands, within
    if len(within) > 1:
        refuse(f"{record.name} orders by one value: WITHIN GROUP (ORDER BY x)", within[1])
    (item,) = within
    return [item.this, *operands], within if item.args.get("desc") else []

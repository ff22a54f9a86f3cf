"""Which columns of one side a join's condition bounds, given a tuple of the other side."""

from __future__ import annotations

from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.expressions.functions.conditions import AND
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.schema import Schema


def bounded_by(condition: Expression | None, schema: Schema, others: Schema) -> tuple[list[str], list[str]]:
    """The columns of a schema that a condition holds in an interval with both ends, or from above.

    The ends are what the other side's columns give. Only a discrete column has finitely many values between two.

    >>> from xmlpunct.expressions.functions import call, number
    >>> from xmlpunct.types import INT
    >>> u, ts = Column(INT, False, "u"), Column(INT, False, "ts")
    >>> bounded_by(call("<=", ts, u), Schema.parse("u INT"), Schema.parse("ts INT"))
    ([], [])
    >>> bounded_by(call("<=", u, ts), Schema.parse("u INT"), Schema.parse("ts INT"))
    ([], ['u'])
    >>> both = call("AND", call("<=", ts, u), call(">=", call("+", ts, number("5")), u))
    >>> bounded_by(both, Schema.parse("ts INT"), Schema.parse("u INT"))
    (['ts'], ['ts'])
    """
    parts = condition.operands if isinstance(condition, Call) and condition.record is AND else [condition]
    below, above, equal = set[str](), set[str](), set[str]()
    for part in parts:
        if not isinstance(part, Call) or part.record.holds is None:
            continue
        first, second = part.args
        for mine, other, (less, _, more) in (
            (first, second, part.record.holds),
            (second, first, part.record.holds[::-1]),
        ):
            found = _column(mine, schema)
            if found is not None and set(other.columns()) <= set(others.names):
                name, rises = found
                if not (less or more):
                    equal.add(name)
                elif not (less and more):
                    (below if more == rises else above).add(name)
    around = {a.name for a in schema if a.type.discrete} & below & above | equal
    return [n for n in schema.names if n in around], [n for n in schema.names if n in above | equal]


def _column(expression: Expression, schema: Schema) -> tuple[str, bool] | None:
    """The one column that an expression follows both ways without an end, and whether it rises with that."""
    if isinstance(expression, Column):
        return (expression.name, True) if expression.name in schema else None
    known = Monotone.of(expression)
    if known is None or known.source not in schema or not known.is_finite_to_one(schema[known.source]):
        return None
    return known.source, known.rises

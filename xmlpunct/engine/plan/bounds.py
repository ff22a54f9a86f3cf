"""Which columns of one side a join's condition bounds, given a tuple of the other side."""

from __future__ import annotations

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.join_boxes import bounds_of
from xmlpunct.schema import Schema


def bounded_by(condition: Expression | None, schema: Schema, others: Schema) -> tuple[list[str], list[str]]:
    """The columns of a schema that a condition holds in an interval with both ends, or from above.

    The ends are what the other side's columns give. Only a discrete column has finitely many values between two.

    >>> from xmlpunct.expressions.expression import Column
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
    bounds = [] if condition is None else bounds_of(condition, others, schema)[0]
    below, above = ({(b.attribute, b.own) for b in bounds if b.is_low is low} for low in (True, False))
    equal = {name for name, _ in below & above}
    lows, highs = {name for name, _ in below}, {name for name, _ in above}
    around = {a.name for a in schema if a.type.discrete} & lows & highs | equal
    return [n for n in schema.names if n in around], [n for n in schema.names if n in highs]

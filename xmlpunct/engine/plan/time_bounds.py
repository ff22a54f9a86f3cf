"""The columns of one join side that the condition bounds, for a tuple of the other side."""

from __future__ import annotations

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.join.join_bounds import Bound, bounds_of
from xmlpunct.schema import Schema


def bounded_by(condition: Expression | None, schema: Schema, other: Schema) -> tuple[list[str], list[str]]:
    """The columns that a condition bounds from both sides, and those that it bounds from above.

    The bounds are values of the other side. Only a discrete column has finitely many values between two bounds.

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
    bounds = bounds_of(condition, other, schema)[0]
    below, above = (
        [b for b in bounds if b.bounds_below is low and _reaches(b, schema)] for low in (True, False)
    )
    lows, highs = {b.attribute for b in below}, {b.attribute for b in above}
    around = {a.name for a in schema if a.type.discrete} & lows & highs | {
        b.attribute
        for b in below
        if any(b.subject == c.subject and b.limit == c.limit for c in above) and not b.image
    }
    return [n for n in schema.names if n in around], [n for n in schema.names if n in highs]


def _reaches(bound: Bound, schema: Schema) -> bool:
    """True if a bound excludes some values, for every value of the other side."""
    image, attribute = bound.image, schema[bound.attribute]
    return image is None or image.goes_on(attribute, not bound.bounds_below)

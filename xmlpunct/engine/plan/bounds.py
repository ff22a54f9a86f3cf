"""Which columns of one side a join's condition bounds, given a tuple of the other side."""

from __future__ import annotations

from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.expressions.functions.conditions import AND
from xmlpunct.schema import Schema


def bounded_by(condition: Expression | None, schema: Schema, others: Schema) -> tuple[list[str], list[str]]:
    """The columns of a schema that a condition holds in an interval with both ends, or from above.

    The ends are what the other side's columns give. Only a discrete column has finitely many values between two.

    >>> from xmlpunct.expressions.functions import call
    >>> from xmlpunct.types import INT
    >>> u, ts = Column(INT, False, "u"), Column(INT, False, "ts")
    >>> bounded_by(call("<=", ts, u), Schema.parse("u INT"), Schema.parse("ts INT"))
    ([], [])
    >>> bounded_by(call("<=", u, ts), Schema.parse("u INT"), Schema.parse("ts INT"))
    ([], ['u'])
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
            if isinstance(mine, Column) and mine.name in schema and set(other.columns()) <= set(others.names):
                if not (less or more):
                    equal.add(mine.name)
                elif not less:
                    below.add(mine.name)
                elif not more:
                    above.add(mine.name)
    names = [a.name for a in schema]
    around = {a.name for a in schema if a.type.discrete} & below & above | equal
    return [n for n in names if n in around], [n for n in names if n in above | equal]

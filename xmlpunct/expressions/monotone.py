"""Monotone expressions: what closed values of one attribute say about values computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from xmlpunct.expressions.expression import Call, Column, Expression, Literal
from xmlpunct.expressions.program import compiled
from xmlpunct.punctuations import pattern as pt
from xmlpunct.punctuations.cuts import Cut, first_value, value_at
from xmlpunct.punctuations.joint_cover import whole
from xmlpunct.punctuations.pattern import EMPTY, Pattern
from xmlpunct.schema import Attribute
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, DecimalType, Type, Value


@dataclass(frozen=True)
class Monotone:
    """``expression``, which never falls (``rises``) or never rises as its one column ``source`` grows."""

    expression: Expression
    source: str
    rises: bool

    @classmethod
    def of(cls, expression: Expression) -> Monotone | None:
        """An expression as a monotone one, if it is recognised as that. A plain column is none."""
        at, rises = expression, True
        while isinstance(at, Call):
            step = _step(at)
            if step is None:
                return None
            at, up = step
            rises = rises == up
        if at is expression or not isinstance(at, Column):
            return None
        return cls(expression, at.name, rises)

    def image(self, attribute: Attribute, low: Cut, high: Cut) -> Pattern:
        """The results that only values of ``attribute`` from one place to another can give.

        A rising f maps [a,b] to the open interval (f(a-1), f(b+1)) of discrete values, to (f(a), f(b)) of dense
        ones: what lies beyond may give the bound itself. A falling f maps it to the mirror image. What is
        unbounded stays so; so is a bound where f fails, for all tuples beyond it are rejects.
        """
        allowed = whole(attribute).intervals
        outside = [
            None if low <= allowed[0][0] else self._beside(attribute.type, low, False),
            None if high >= allowed[-1][1] else self._beside(attribute.type, high, True),
        ]
        inside = [first_value(attribute.type, low, high, down) for down in (False, True)]
        values = [v for v in (*outside, *inside) if v is not None]
        results = dict(
            zip(map(attribute.type.key, values), self._results(attribute.type, values), strict=True)
        )
        found = [None if v is None else results[attribute.type.key(v)] for v in outside]
        failed = any(v is not None and at is None for v, at in zip(outside, found, strict=True))
        if failed and not any(v is not None and results[attribute.type.key(v)] is not None for v in inside):
            return EMPTY  # on which side of this f works nobody knows
        bottom, top = found if self.rises else reversed(found)
        type_ = self.expression.type
        if top is None and not self.rises and type_ is DOUBLE:
            return pt.interval(type_, bottom, float("inf"), False, True)  # NaN stays NaN
        return pt.interval(type_, bottom, top, False, False)

    def _beside(self, type_: Type, cut: Cut, after: bool) -> Value | None:
        """The value next to a place, outside: of a dense type the bound."""
        if type_.discrete:
            return type_.at(cut[1] if after else cut[1] - 1)
        return value_at(type_, cut)

    def _results(self, type_: Type, values: Sequence[Value]) -> list[Value | None]:
        """What the expression gives for some values (None: it fails)."""
        frame = pl.DataFrame({self.source: values}, schema={self.source: type_.dtype})
        (results,), reasons = compiled(self.expression).run(frame)
        return [v if reasons is None or reasons[i] is None else None for i, v in enumerate(results)]


def _step(call: Call) -> tuple[Expression, bool] | None:
    """The argument that a call is monotone in, and whether it rises with it."""
    args, name = call.args, call.function
    if name == "NEG":
        return args[0], False
    if name == "YEAR":
        return args[0], True
    if name == "DATE_TRUNC":
        return args[1], True
    if name == "CAST":
        return (args[0], True) if _keeps_order(args[0].type, call.type) else None
    if name not in ("+", "-", "*", "/"):
        return None
    a, b = args
    if isinstance(b, Literal) and _is_finite(b):
        if name in ("*", "/"):
            return None if b.value == 0 else (a, b.value > 0)
        return a, True
    if isinstance(a, Literal) and _is_finite(a) and name != "/":
        if name == "*":
            return None if a.value == 0 else (b, a.value > 0)
        return b, name == "+"
    return None


def _is_finite(literal: Literal) -> bool:
    value = literal.value
    return value is not None and (literal.type is not DOUBLE or abs(value) < float("inf"))


def _keeps_order(source: Type, target: Type) -> bool:
    """Whether a conversion never falls. Those of numbers round or truncate, those of DOUBLE fail on NaN."""
    numbers = [t in (INT, DOUBLE) or isinstance(t, DecimalType) for t in (source, target)]
    return all(numbers) or (source, target) in ((DATE, TIMESTAMP), (TIMESTAMP, DATE), (BOOLEAN, INT))

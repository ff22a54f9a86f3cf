"""Monotone expressions: the closed values of an attribute imply closed values of an expression over it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from xmlpunct.expressions.expression import Call, Expression
from xmlpunct.expressions.program import compiled, facts
from xmlpunct.punctuations.grid import whole
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DOUBLE, Type, Value
from xmlpunct.types import pattern as pt
from xmlpunct.types.cut_points import Cut, cuts, ends, first_value, hull, value_at
from xmlpunct.types.pattern import EMPTY, Pattern

_INF = 0x7FF << 52
"""The position of the DOUBLE INF in the order of DOUBLEs, in which 0 has position 0."""


def _double(position: int) -> float:
    """The DOUBLE at a position in the order of all DOUBLEs but NaN.

    >>> _double(0), _double(-1), _double(_INF)
    (0.0, -5e-324, inf)
    """
    (value,) = struct.unpack("<d", struct.pack("<q", abs(position)))
    return float(value if position >= 0 else -value)


@dataclass(frozen=True)
class Monotone:
    """An expression that never falls (``rises``), or never rises, as its only column ``source`` grows."""

    expression: Expression
    source: str
    rises: bool

    @classmethod
    def of(cls, expression: Expression) -> Monotone | None:
        """An expression as a monotone one; None if it is not recognised, or is a plain column."""
        monotone = facts(expression).monotone if isinstance(expression, Call) else None
        return None if monotone is None else cls(expression, *monotone)

    def goes_on(self, attribute: Attribute, upward: bool = True) -> bool:
        """Whether results keep changing as ``attribute`` rises (or falls) to its last value: none is final before."""
        return self._changes(attribute, 1 if upward else -1)

    def some_value(self, attribute: Attribute) -> Value | None:
        """A value of ``attribute`` for which f does not fail; None if no probed value is one."""
        type_ = attribute.type
        probes: list[Value] = [0.0] if type_ is DOUBLE else []
        if type_.discrete:
            first, last = type_.ordinal(type_.lowest), type_.ordinal(type_.highest)
            numbers = {end >> n for end in (first, last) for n in range(end.bit_length() + 1)}
            probes = [type_.at(n) for n in sorted(numbers, key=abs) if first <= n <= last]
        results = zip(probes, self._results(type_, probes), strict=True) if probes else ()
        return next((value for value, result in results if result is not None), None)

    def is_finite_to_one(self, attribute: Attribute) -> bool:
        """Whether each result has finitely many values of ``attribute``."""
        return attribute.type.discrete and self._changes(attribute, 1) and self._changes(attribute, -1)

    def _changes(self, attribute: Attribute, sign: int) -> bool:
        """Whether f differs between its two outermost valid probes, each of which is twice the next one."""
        type_ = attribute.type
        if type_.discrete:
            last = type_.ordinal(type_.highest if sign > 0 else type_.lowest)
            probes = [type_.at(last >> n) for n in range(last.bit_length() // 2)]
        elif type_ is DOUBLE:
            probes = [sign * 2.0**n for n in range(1000, 0, -1)]
        else:
            return False  # STRING has no greatest value
        results = [self.expression.type.key(r) for r in self._results(type_, probes) if r is not None][:2]
        return len(results) == 2 and results[0] != results[1]

    def image(self, attribute: Attribute, low: Cut, high: Cut) -> Pattern:
        """The results that only values of ``attribute`` between two cuts can have.

        A rising f maps [a,b] to the open interval (f(a-1), f(b+1)) for discrete values, and to (f(a), f(b)) for dense
        ones: values outside [a,b] may have the bound itself as their result. A falling f maps it to the mirror image.
        An unbounded end is unbounded in the image too. So is an end at which f fails, because all tuples beyond it are
        rejected.
        """
        allowed = whole(attribute).intervals
        outside = [
            None if low <= allowed[0][0] else self._neighbour(attribute.type, low, False),
            None if high >= allowed[-1][1] else self._neighbour(attribute.type, high, True),
        ]
        inside = [first_value(attribute.type, low, high, down) for down in (False, True)]
        values = [v for v in (*outside, *inside) if v is not None]
        results = dict(
            zip(map(attribute.type.key, values), self._results(attribute.type, values), strict=True)
        )
        bounds = [None if v is None else results[attribute.type.key(v)] for v in outside]
        failed = any(v is not None and bound is None for v, bound in zip(outside, bounds, strict=True))
        if failed and not any(v is not None and results[attribute.type.key(v)] is not None for v in inside):
            return EMPTY  # f may succeed on either side of these values
        bottom, top = bounds if self.rises else reversed(bounds)
        type_ = self.expression.type
        if top is None and not self.rises and type_ is DOUBLE:
            return pt.interval(type_, bottom, float("inf"), False, True)  # NaN stays NaN
        return pt.interval(type_, bottom, top, False, False)

    @lru_cache(maxsize=1024)  # noqa: B019
    def end_image(self, attribute: Attribute, cut: Cut, is_low: bool) -> Pattern:
        """The results that only values of ``attribute`` above a cut (``is_low``), or below it, can have.

        They are bounded at one end at most. The pattern is EMPTY if that cannot be proved.

        >>> from xmlpunct.expressions.functions import call, literal
        >>> from xmlpunct.expressions.expression import Column
        >>> from xmlpunct.types import INT
        >>> hour = Monotone.of(call("/", Column(INT, False, "ts"), literal(INT, 3600)))
        >>> print(hour.end_image(Attribute("ts", INT, False), (0, 7000, 0), True))
        [2,)
        """
        first, last = ends(attribute.type)
        image = self.image(attribute, *((cut, last) if is_low else (first, cut)))
        if image is EMPTY:
            return EMPTY
        open_end = int(is_low == self.rises)
        return image if cuts(image)[0][open_end] == ends(self.expression.type)[open_end] else EMPTY

    def preimage(self, attribute: Attribute, pattern: Pattern) -> Pattern:
        """The smallest range of ``attribute`` whose image covers a pattern; ``*`` if the search fails.

        A binary search finds each end. Where f fails, a negative position counts as below the range, others as above.

        >>> from xmlpunct.expressions.functions import call, literal
        >>> from xmlpunct.expressions.expression import Column
        >>> from xmlpunct.types import INT
        >>> hour = Monotone.of(call("/", Column(INT, False, "ts"), literal(INT, 3600)))
        >>> print(hour.preimage(Attribute("ts", INT, False), pt.constant(INT, 17)))
        [61200,64799]
        """
        type_ = attribute.type
        if pattern is EMPTY:
            return EMPTY
        hull_ = hull(self.expression.type, [pattern])
        if hull_ is pt.WILDCARD or not (type_.discrete or type_ is DOUBLE):
            return pt.WILDCARD
        first, last = (-_INF, _INF + 1) if type_ is DOUBLE else (int(cut[1]) for cut in ends(type_))
        value = _double if type_ is DOUBLE else type_.at
        low, high = cuts(hull_)[0]
        lower, upper = (low, high) if self.rises else (high, low)

        def is_before(position: int, cut: Cut, starts: bool) -> bool:
            (result,) = self._results(type_, [value(position)])
            if result is None:
                return position < 0
            interval = cuts(pt.constant(self.expression.type, result))[0]
            if self.rises:
                return interval[0] < cut if starts else interval[1] <= cut
            return interval[1] > cut if starts else interval[0] >= cut

        def search(cut: Cut, starts: bool) -> int:
            a, b = first, last
            while a < b:
                middle = (a + b) // 2
                a, b = (middle + 1, b) if is_before(middle, cut, starts) else (a, middle)
            return a

        start, stop = search(lower, True), search(upper, True)
        if type_ is DOUBLE:  # the neighbours of the range bound its image
            below, above = (
                value(position) if first <= position < last else None for position in (start - 1, stop)
            )
            source = pt.interval(type_, below, above, True, True)
        else:
            source = pt.ordinals(type_, start, stop - 1)
        images = [self.image(attribute, *piece) for piece in cuts(source)]
        return source if images and pt.covers(images[0], pattern) else pt.WILDCARD

    def _neighbour(self, type_: Type, cut: Cut, after: bool) -> Value | None:
        """The value just outside a cut; for a dense type the bound itself."""
        if type_.discrete:
            return type_.at(cut[1] if after else cut[1] - 1)
        return value_at(type_, cut)

    def _results(self, type_: Type, values: Sequence[Value]) -> list[Value | None]:
        """The results of the expression for some values (None: it fails)."""
        frame = pl.DataFrame({self.source: values}, schema={self.source: type_.dtype})
        (results,), reasons = compiled(self.expression).run(frame)
        return [v if reasons is None or reasons[i] is None else None for i, v in enumerate(results)]

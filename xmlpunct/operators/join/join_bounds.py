"""Bounds: the limits that join conditions like ``y.u BETWEEN x.ts AND x.ts + 5`` set to a tuple's partners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from xmlpunct.expressions.conjunctions import condition, conjuncts, strict
from xmlpunct.expressions.expression import Call, Column, Expression, Function, Literal
from xmlpunct.expressions.functions.arithmetic import ABS, MINUS, NEGATIVE, PLUS
from xmlpunct.expressions.functions.casts import TRY, cast, common_type, literal
from xmlpunct.expressions.functions.conditions import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    IS_NULL,
    LESS,
    NOT,
    OR,
)
from xmlpunct.expressions.functions.interval_arithmetic import DATE_DIFF
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import Program, can_fail
from xmlpunct.schema import Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, Type

_MIRRORED = {EQUAL: EQUAL, LESS: GREATER, AT_MOST: AT_LEAST, GREATER: LESS, AT_LEAST: AT_MOST}
"""The comparisons that set bounds, each with the equivalent one for swapped operands."""
_DAY, _WEEK = literal(DATE, date(1970, 1, 1)), literal(STRING, "WEEK")

Term = tuple[bool, Expression]
"""An expression, and whether it is added (or else subtracted)."""


@dataclass(frozen=True)
class BoundCondition:
    """``subject compared_by limit``: the subject reads only columns of one side, the limit none of them."""

    subject: Expression
    compared_by: Function
    limit: Expression

    @property
    def expression(self) -> Expression:
        """The comparison as a condition."""
        return self.compared_by.call(BOOLEAN, self.subject, self.limit)


@dataclass(frozen=True)
class Bound:
    """The other side's ``subject`` is at least (``is_low``) or at most the stored tuple's ``limit``.

    The subject is the column ``attribute``, or its ``image``. With ``strict``, it is not equal to ``limit``.
    """

    attribute: str
    subject: Expression
    image: Monotone | None
    limit: Expression
    is_low: bool
    strict: bool

    @property
    def rises(self) -> bool:
        """Whether the subject rises with the attribute."""
        return self.image is None or self.image.rises

    @property
    def bounds_below(self) -> bool:
        """Whether it bounds the attribute from below."""
        return self.is_low == self.rises


def bounds_of(
    residual: Expression | None, stored: Schema, other: Schema
) -> tuple[list[Bound], list[Expression]]:
    """The bounds that a residual sets to the partners of a stored tuple; and its conditions on that tuple only.

    A condition of another form sets no bound.

    >>> from xmlpunct.expressions.functions import call, number
    >>> u, ts = Column(INT, False, "u"), Column(INT, False, "ts")
    >>> x, y = Schema.parse("ts INT"), Schema.parse("u INT")
    >>> [(str(b.subject), b.is_low, str(b.limit)) for b in bounds_of(call("<", call("-", u, ts), number("5")), x, y)[0]]
    [('u', False, 'ts + 5')]
    """
    bounds, conditions = list[Bound](), list[Expression]()
    for part in conjuncts(residual):
        if set(part.columns()) <= set(stored.names):
            conditions.append(part)
        else:
            bounds += (b for c in comparisons(part, other) for b in _bounds(c, other))
    return list(dict.fromkeys(bounds)), conditions


def program_of(residual: Expression, sides: Sequence[Schema]) -> Program:
    """The program of a residual, as a `condition`. It does not fail for pairs outside of a bound."""
    implied = list[Expression]()
    for part in conjuncts(residual) if can_fail(residual) else ():
        for other in sides:
            for c in comparisons(part, other):
                implied += [
                    c.expression,
                    *(fits for b in _bounds(c, other) for fits in _has_value_outside(b, other)),
                ]
    return condition(residual, list(dict.fromkeys(implied)))


def comparisons(part: Expression, other: Schema) -> Iterator[BoundCondition]:
    """Comparisons of the other side's expressions with expressions of this side that a condition implies.

    If a comparison fails, a condition that is `tolerant` of that may hold: then there is no bound.
    """
    part = strict(part)
    if not isinstance(part, Call) or part.record not in _MIRRORED:
        return
    for (a, b), compared_by in ((part.args, part.record), (part.args[::-1], _MIRRORED[part.record])):
        if compared_by in (EQUAL, AT_MOST, LESS) and isinstance(a, Call) and a.record is ABS:
            (inner,) = a.args
            for e in (inner, NEGATIVE(inner)):
                yield from _isolate_subject(e, LESS if compared_by is LESS else AT_MOST, b, other)
    a, b = part.args
    yield from _isolate_subject(a, part.record, b, other)


def _isolate_subject(
    a: Expression, compared_by: Function, b: Expression, other: Schema
) -> Iterator[BoundCondition]:
    """A comparison with all columns of the other side on its left; none if a term reads both sides.

    Terms of exact types are moved: ``ts - u <= 5`` is ``u >= ts - 5``.
    """
    names = set(other.names)
    terms: list[Term] = [(True, a), (False, b)]
    if DOUBLE not in (a.type, b.type):
        terms = [term for plus, e in terms for term in _terms(e, plus)]
    subjects = [(plus, e) for plus, e in terms if names & set(e.columns())]
    if len(subjects) != 1 or not set(subjects[0][1].columns()) <= names:
        return
    ((plus, subject),) = subjects
    other_terms = [(added != plus, e) for added, e in terms if e is not subject]
    try:
        limit = _sum(other_terms)
        converted, exact = _common_type(subject, limit)
    except ValueError:  # no type holds it
        return
    compared_by = compared_by if plus else _MIRRORED[compared_by]
    if not exact:
        compared_by = {LESS: AT_MOST, GREATER: AT_LEAST}.get(compared_by, compared_by)
    yield BoundCondition(converted, compared_by, cast(limit, converted.type))


def _terms(e: Expression, plus: bool) -> Iterator[Term]:
    """The terms of a sum of exact types. A difference of two moments becomes a difference of two numbers."""
    waiting = [(plus, e)]
    while waiting:
        added, part = waiting.pop()
        record, args = part.record if isinstance(part, Call) else None, part.arguments
        if record in (PLUS, MINUS):
            waiting += [((record is PLUS) == added, args[1]), (added, args[0])]
        elif record is NEGATIVE:
            waiting.append((not added, args[0]))
        elif record is DATE_DIFF and not any(isinstance(a, Literal) for a in args[1:]) and args[0] != _WEEK:
            first, last = (DATE_DIFF(args[0], _DAY, a) for a in args[1:])
            waiting += [(not added, first), (added, last)]
        else:
            yield added, part


def _sum(terms: Sequence[Term]) -> Expression:
    """The sum of terms. Raises ValueError if it has no type."""
    added = [e for plus, e in terms if plus]
    total = added[0] if added else literal(INT, 0)
    for e in added[1:]:
        total = PLUS(total, e)
    for e in (e for plus, e in terms if not plus):
        total = MINUS(total, e)
    return total


def _common_type(subject: Expression, limit: Expression) -> tuple[Expression, bool]:
    """The subject, cast to a type that ``limit`` can be cast to, and whether that is exact. Raises ValueError."""
    if subject.type == limit.type:
        return subject, True
    try:
        type_: Type = common_type((subject, limit))
    except ValueError:
        type_ = DOUBLE
    return cast(subject, type_), type_ is not DOUBLE


def _bounds(c: BoundCondition, other: Schema) -> Iterator[Bound]:
    """The bounds that a comparison sets."""
    image = None if isinstance(c.subject, Column) else Monotone.of(c.subject)
    attribute = (
        c.subject.name if isinstance(c.subject, Column) else image.source if image is not None else None
    )
    if attribute is None or attribute not in other or not other[attribute].type.comparable:
        return
    assert c.compared_by.holds is not None
    below, at, above = c.compared_by.holds
    for is_low, is_open in ((True, below), (False, above)):
        bound = Bound(attribute, c.subject, image, c.limit, is_low, not at)
        # a decreasing f of NaN, the greatest value, is NaN: no bound from above
        has_nan = other[attribute].type is DOUBLE and not bound.rises and not bound.bounds_below
        if not is_open and not has_nan:
            yield bound


def _has_value_outside(bound: Bound, other: Schema) -> Iterator[Expression]:
    """The condition that the subject has a value if the attribute is well outside of the bound.

    ``a + INTERVAL '5' DAY <= limit`` does not hold for the last days, although the sum has no value there.
    """
    if bound.image is None or not can_fail(bound.subject):
        return
    attribute = other[bound.attribute]
    value = bound.image.some_value(attribute)
    if value is not None:
        column = Column(attribute.type, attribute.nullable, attribute.name)
        is_within = AT_LEAST if bound.bounds_below else AT_MOST
        has_value = NOT(IS_NULL(TRY(bound.subject)))
        yield OR(has_value, is_within.call(BOOLEAN, column, literal(attribute.type, value)))

"""Conjuncts of conditions, and the program of a condition that tuples must satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from xmlpunct.expressions.expression import Call, Expression, Literal
from xmlpunct.expressions.functions.casts import TRY, literal
from xmlpunct.expressions.functions.conditions import AND, COALESCE
from xmlpunct.expressions.program import Program, can_fail, compiled
from xmlpunct.types import BOOLEAN


def conjuncts(predicate: Expression | None) -> list[Expression]:
    """The conjuncts of a predicate (None: no conjunct)."""
    if isinstance(predicate, Call) and predicate.record is AND:
        return list(predicate.operands)
    return [] if predicate is None else [predicate]


def conjunction(parts: Iterable[Expression]) -> Expression:
    """The conjunction of ``parts``, of which there must be at least one."""
    return reduce(lambda a, b: AND.call(BOOLEAN, a, b), parts)


def condition(predicate: Expression, implied: Sequence[Expression] = ()) -> Program:
    """The program of a predicate that a tuple must satisfy. Its result is null or false for other tuples.

    It fails if one conjunct fails and no other conjunct is false or null. ``implied`` are further conditions that
    follow from the predicate: where one of them is false, the program does not fail.

    >>> import polars as pl
    >>> from xmlpunct.expressions.expression import Column
    >>> from xmlpunct.expressions.functions import call, number
    >>> from xmlpunct.types import INT
    >>> a, b = Column(INT, True, "a"), Column(INT, True, "b")
    >>> both = call("AND", call(">", call("/", number("6"), a), number("1")), call(">", b, number("0")))
    >>> condition(both).run(pl.DataFrame({"a": [3, 0, 0, 0], "b": [1, 1, 0, None]})).reasons.to_list()
    [None, 'division by zero: 6 / a', None, None]
    """
    if not can_fail(predicate):
        return compiled(predicate)
    no = literal(BOOLEAN, False)
    parts = [COALESCE(part, no) if part.nullable else part for part in conjuncts(predicate)]
    return compiled(conjunction([*parts, *map(tolerant, implied)]))


def tolerant(part: Expression) -> Expression:
    """A condition that holds where ``part`` holds or fails."""
    return COALESCE(TRY(part), literal(BOOLEAN, True)) if can_fail(part) else part


def strict(part: Expression) -> Expression:
    """The inverse of `tolerant`; the condition itself if it has another form."""
    match part:
        case Call(function="COALESCE", args=(Call(function="TRY", args=(inner,)), Literal(value=True))):
            return inner
    return part

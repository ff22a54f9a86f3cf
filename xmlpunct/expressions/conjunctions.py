"""Conditions as the parts that AND joins, and the program of a condition that tuples have to satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from xmlpunct.expressions.expression import Call, Expression, Literal
from xmlpunct.expressions.functions.casts import TRY, literal
from xmlpunct.expressions.functions.conditions import AND, COALESCE
from xmlpunct.expressions.program import Program, can_fail, compiled
from xmlpunct.types import BOOLEAN


def conjuncts(predicate: Expression | None) -> list[Expression]:
    """The parts that AND joins (None: no part)."""
    if isinstance(predicate, Call) and predicate.record is AND:
        return list(predicate.operands)
    return [] if predicate is None else [predicate]


def conjunction(parts: Iterable[Expression]) -> Expression:
    """The parts, at least one, joined by AND."""
    return reduce(lambda a, b: AND.call(BOOLEAN, a, b), parts)


def condition(predicate: Expression, implied: Sequence[Expression] = ()) -> Program:
    """The program of a predicate that a tuple has to satisfy. It is null or false of tuples that do not.

    It fails where one part fails and no other part is false or null. ``implied`` are further conditions that hold
    wherever the predicate does: it does not fail where one of them is false.

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
    """A condition that holds where another one does, and where that fails."""
    return COALESCE(TRY(part), literal(BOOLEAN, True)) if can_fail(part) else part


def strict(part: Expression) -> Expression:
    """The inverse of `tolerant`: what a condition is made of, if it is made so."""
    match part:
        case Call(function="COALESCE", args=(Call(function="TRY", args=(inner,)), Literal(value=True))):
            return inner
    return part

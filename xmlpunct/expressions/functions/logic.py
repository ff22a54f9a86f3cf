"""Logic of three values, and what depends on conditions and nulls."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.expressions.compiler import branches, until
from xmlpunct.expressions.expression import (
    Call,
    Expression,
    Function,
    Notation,
    Outcome,
    Pieces,
    Syntax,
    Typing,
    any_null,
    infix,
)
from xmlpunct.expressions.functions.arguments import check_count, of_type
from xmlpunct.expressions.functions.casts import unify
from xmlpunct.types import BOOLEAN


def never_null(args: Sequence[Expression]) -> bool:
    """Never null."""
    return False


def all_null(args: Sequence[Expression]) -> bool:
    """Null only where all of the arguments are."""
    return all(a.nullable for a in args)


def _typed(count: int) -> Typing:
    def typed(record: Function, args: tuple[Expression, ...]) -> Expression:
        check_count(record.name, args, count)
        return record.call(BOOLEAN, *(of_type(record.name, a, BOOLEAN) for a in args))

    return typed


def _typed_test(record: Function, args: tuple[Expression, ...]) -> Expression:
    check_count(record.name, args, 1)
    return record.call(BOOLEAN, *args)


def _typed_case(record: Function, args: tuple[Expression, ...]) -> Expression:
    *results, other = unify([*args[1::2], args[-1]])
    tests = [of_type("CASE WHEN", test, BOOLEAN) for test in args[:-1:2]]
    pairs = [part for pair in zip(tests, results, strict=True) for part in pair]
    return record.call(other.type, *pairs, other)


def _typed_coalesce(record: Function, args: tuple[Expression, ...]) -> Expression:
    check_count(record.name, args, 1, 1000)
    found = unify(args)
    return record.call(found[0].type, *found)


def _chosen(call: Call, *operands: pl.Expr) -> Outcome:
    tests, results = operands[:-1:2], [*operands[1::2], operands[-1]]

    def chosen(low: int, high: int) -> pl.Expr:
        """The result of one of these branches, by halves, which are not deep."""
        if high - low == 1:
            return results[low]
        middle = (low + high) // 2
        early = pl.any_horizontal(tests[low:middle])
        return pl.when(early).then(chosen(low, middle)).otherwise(chosen(middle, high))

    return Outcome(chosen(0, len(results)))


def _written_case(call: Call) -> Pieces:
    pairs = zip(call.args[::2], call.args[1::2], strict=False)
    whens = [piece for when, then in pairs for piece in (" WHEN ", when, " THEN ", then)]
    return ["CASE", *whens, " ELSE ", call.args[-1], " END"]


OR = Function(
    "OR",
    _typed(2),
    lambda call, *operands: Outcome(pl.any_horizontal(operands)),
    Syntax("Or", "this expression"),
    infix(1),
    compile=until(lambda v: v),
    associative=True,
    idempotent=True,
)
AND = Function(
    "AND",
    _typed(2),
    lambda call, *operands: Outcome(pl.all_horizontal(operands)),
    Syntax("And", "this expression"),
    infix(2),
    compile=until(lambda v: ~v),
    associative=True,
    idempotent=True,
)
NOT = Function(
    "NOT",
    _typed(1),
    lambda call, value: Outcome(~value),
    Syntax("Not"),
    Notation(lambda call: ["NOT ", *call.operand(0)], 3),
)
IS_NULL = Function(
    "IS NULL",
    _typed_test,
    lambda call, value: Outcome(value.is_null()),
    notation=Notation(lambda call: [*call.operand(0), " IS NULL"], 5),
    nullable=never_null,
)
CASE = Function(
    "CASE",
    _typed_case,
    _chosen,
    notation=Notation(_written_case),
    nullable=lambda args: any_null([*args[1::2], args[-1]]),
    compile=branches,
)
COALESCE = Function(
    "COALESCE",
    _typed_coalesce,
    lambda call, *operands: Outcome(pl.coalesce(operands)),
    Syntax("Coalesce", "this expressions", unread="is_nvl is_null"),
    nullable=all_null,
    compile=until(lambda v: v.is_not_null()),
)

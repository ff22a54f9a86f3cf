"""Conditions in three-valued logic, and functions that depend on them.

Comparisons are exact across numeric types: 2^53 + 1 is greater than 9007199254740992e0, as INT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import eq, ge, gt, le, lt, ne
from sys import maxsize

import polars as pl

from xmlpunct.expressions.compiler import branches, decided, in_pairs, until
from xmlpunct.expressions.expression import (
    MANY,
    Call,
    CallText,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Literal,
    Notation,
    Syntax,
    any_null,
    comma_separated,
    infix,
)
from xmlpunct.expressions.functions.casts import cast, fold, literal, of_type, unify
from xmlpunct.expressions.int128 import int128, unscaled
from xmlpunct.expressions.non_null import (
    NonNull,
    intersection,
    of_all,
    of_any,
    of_first,
    union,
)
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type


def _never_null(args: Sequence[Expression]) -> bool:
    """The nullability of results that are never null."""
    return False


def _all_null(args: Sequence[Expression]) -> bool:
    """The nullability of results that are null only if all arguments are."""
    return all(a.nullable for a in args)


def _type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(BOOLEAN, *(of_type(record.name, a, BOOLEAN) for a in args))


def _type_case(record: Function, args: tuple[Expression, ...]) -> Expression:
    *results, otherwise = unify([*args[1::2], args[-1]])
    tests = [of_type("CASE WHEN", test, BOOLEAN) for test in args[:-1:2]]
    pairs = [part for pair in zip(tests, results, strict=True) for part in pair]
    return record.call(otherwise.type, *pairs, otherwise)


def _type_unified(record: Function, args: tuple[Expression, ...]) -> Expression:
    """Typing of functions of any number of arguments of one type."""
    unified = unify(args)
    return record.call(unified[0].type, *unified)


def _case(call: Call, *operands: pl.Expr) -> FunctionResult:
    tests, results = operands[:-1:2], [*operands[1::2], operands[-1]]

    def branch(low: int, high: int) -> pl.Expr:
        """The result of the first true branch in a range. A balanced tree, so that calls are not nested deeply."""
        if high - low == 1:
            return results[low]
        middle = (low + high) // 2
        is_early = pl.any_horizontal(tests[low:middle])
        return pl.when(is_early).then(branch(low, middle)).otherwise(branch(middle, high))

    return FunctionResult(branch(0, len(results)))


def _single(call: Call, value: pl.Expr, count: pl.Expr) -> FunctionResult:
    return FunctionResult(value, [(count > 1, "a scalar subquery returned more than one row")])


def _write_case(call: Call) -> CallText:
    pairs = zip(call.args[::2], call.args[1::2], strict=False)
    whens = [piece for when, then in pairs for piece in (" WHEN ", when, " THEN ", then)]
    return ["CASE", *whens, " ELSE ", call.args[-1], " END"]


# comparisons


def _type_comparison(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(BOOLEAN, *_comparable(record.name, *args))


def _comparable(name: str, a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Two operands, cast so that they have one type or are exactly comparable numbers."""
    a, b = _convert_literal(b.type, a), _convert_literal(a.type, b)
    if a.type == b.type:
        return a, b
    if not (a.type.numeric and b.type.numeric):
        raise ValueError(f"{a.type} {name} {b.type} makes no sense: CAST one of them")
    if DOUBLE in (a.type, b.type) and INT not in (a.type, b.type):
        return cast(a, DOUBLE), cast(b, DOUBLE)
    return a, b


def _convert_literal(type_: Type, argument: Expression) -> Expression:
    """A literal converted to the type of the other operand, if that has the value."""
    if not isinstance(argument, Literal) or argument.type == type_:
        return argument
    if argument.value is None or (argument.type is STRING and type_ in (DATE, TIMESTAMP)):
        return cast(argument, type_)
    if type_ is DOUBLE and argument.type is INT and abs(argument.value) <= 2**53:
        return cast(argument, DOUBLE)
    if isinstance(type_, DecimalType) and argument.type.numeric and argument.type is not DOUBLE:
        return fold(argument, type_) or argument
    return argument


def _type_in(record: Function, args: tuple[Expression, ...]) -> Expression:
    if len(args) < 2:
        raise ValueError("IN needs a list of values")
    subject, *members = args
    pairs = [_comparable("=", subject, member) for member in members]
    if all(isinstance(m, Literal) and m.type == s.type == subject.type for s, m in pairs):
        return record.call(BOOLEAN, subject, *(m for _, m in pairs))
    tests = [EQUAL(*pair) for pair in pairs]
    return reduce(lambda a, b: OR(a, b), tests)


def _type_between(record: Function, args: tuple[Expression, ...]) -> Expression:
    subject, low, high = args
    return AND(AT_LEAST(subject, low), AT_MOST(subject, high))


def _type_nullif(record: Function, args: tuple[Expression, ...]) -> Expression:
    a, b = args
    return CASE(EQUAL(a, b), literal(a.type, None), a)


# columns that are not null (semantics 7)


def _non_null_and(call: Call, args: Sequence[NonNull]) -> NonNull:
    true, false = union(a.true for a in args), intersection(a.false for a in args)
    return NonNull(intersection([true, false]), true, false)


def _non_null_or(call: Call, args: Sequence[NonNull]) -> NonNull:
    return _non_null_and(call, [a.negated for a in args]).negated


def _non_null_is_null(call: Call, args: Sequence[NonNull]) -> NonNull:
    return NonNull(frozenset(), frozenset(), args[0].value)


def _non_null_case(call: Call, args: Sequence[NonNull]) -> NonNull:
    """CASE has the value of some branch's THEN, and the WHEN of that branch is true."""
    branches_ = [
        NonNull(*(union([when.true, names]) for names in then))
        for when, then in zip(args[:-1:2], args[1::2], strict=True)
    ]
    return of_any(call, [*branches_, args[-1]])


def _non_null_distinct(call: Call, args: Sequence[NonNull]) -> NonNull:
    """If the operands are distinct, one is not null. If not, and one is never null, neither is null."""
    a, b = args
    differ = intersection([a.value, b.value])
    equal = intersection([union([a.true, b.true]), union([a.false, b.false])])
    return NonNull(frozenset(), differ, frozenset() if _all_null(call.args) else equal)


def _non_null_in(call: Call, args: Sequence[NonNull]) -> NonNull:
    subject, *members = (a.value for a in args)
    true, false = union([subject, intersection(members)]), union([subject, *members])
    return NonNull(intersection([true, false]), true, false)


# evaluation

Comparison = Callable[[pl.Expr, pl.Expr], pl.Expr]
Mixed = Callable[[Type, Type, pl.Expr, pl.Expr], pl.Expr]
"""A comparison of numbers of two types, from the types and the operands."""


def _equal(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    (a, a_fraction), (b, b_fraction) = _parts(s, t, a), _parts(t, s, b)
    return (a == b) & (a_fraction == b_fraction)


def _less(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    (a, a_fraction), (b, b_fraction) = _parts(s, t, a), _parts(t, s, b)
    return (a < b) | ((a == b) & (a_fraction < b_fraction))


def _distinct(s: Type, t: Type, a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return pl.when(a.is_null() | b.is_null()).then(a.is_null() != b.is_null()).otherwise(~_equal(s, t, a, b))


def _parts(type_: Type, other: Type, value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """A number as its floor and a fraction, in units that are comparable between both operands."""
    if DOUBLE in (type_, other):
        if type_ is INT:
            return value.cast(pl.Int128), pl.when(value.is_not_null()).then(0.0)
        too_high = value.is_nan() | (value >= 2.0**63)
        in_range = ~too_high & (value >= -(2.0**63))
        floor = pl.when(in_range).then(value).otherwise(0.0).floor()
        edge = pl.when(too_high).then(int128(2**63)).otherwise(int128(-(2**63) - 1))
        integer = pl.when(in_range).then(floor.cast(pl.Int128)).when(value.is_not_null()).then(edge)
        return integer, pl.when(in_range).then(value - floor).when(value.is_not_null()).then(0.0)
    scales = [t.scale if isinstance(t, DecimalType) else 0 for t in (type_, other)]
    wide = unscaled(value) if isinstance(type_, DecimalType) else value.cast(pl.Int128)
    unit = int128(10 ** scales[0])
    # polars divides integers rounding down
    return wide // unit, (wide % unit) * int128(10 ** (max(scales) - scales[0]))


def _is_member(call: Call, subject: pl.Expr, *_: pl.Expr) -> FunctionResult:
    members = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    values = pl.Series([m for m in members if m is not None], dtype=call.args[0].type.dtype)
    is_member = subject.is_in(values.implode())
    return FunctionResult(is_member if len(values) == len(members) else pl.when(is_member).then(True))


def _extreme(worse: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[..., FunctionResult]:
    """Evaluation of the greatest or least operand that is not null. ``worse`` compares two operands."""

    def better(a: pl.Expr, b: pl.Expr) -> pl.Expr:
        return pl.when(a.is_null() | worse(a, b)).then(b).otherwise(a)

    return lambda call, *operands: FunctionResult(reduce(better, operands))


# fmt: off
OR = Function(
    "OR", _type_call, lambda call, *operands: FunctionResult(pl.any_horizontal(operands)),
    Syntax("Or", "this expression"), infix(1), compile=decided(lambda v: v), associative=True, idempotent=True,
    non_null=_non_null_or,
    doc=Doc("a OR b",
            "True if an operand is true. Then a failure of the other operand does not count.",
            "1 = 2 OR 2 = 2"))
AND = Function(
    "AND", _type_call, lambda call, *operands: FunctionResult(pl.all_horizontal(operands)),
    Syntax("And", "this expression"), infix(2), compile=decided(lambda v: ~v), associative=True, idempotent=True,
    non_null=_non_null_and,
    doc=Doc("a AND b",
            "True if both operands are true. If one is false, a failure of the other does not count.",
            "1 = 2 AND 2 = 2"))
NOT = Function(
    "NOT", _type_call, lambda call, value: FunctionResult(~value), Syntax("Not"), arity=(1, 1),
    notation=Notation(lambda call: ["NOT ", *call.operand(0)], 3), non_null=lambda call, args: args[0].negated,
    doc=Doc("NOT a",
            "True if a is false.",
            "NOT 1 = 2"))
IS_NULL = Function(
    "IS NULL", lambda record, args: record.call(BOOLEAN, *args), lambda call, value: FunctionResult(value.is_null()),
    arity=(1, 1), takes_whole=True, nullable=_never_null, non_null=_non_null_is_null,
    notation=Notation(lambda call: [*call.operand(0), " IS NULL"], 5),
    doc=Doc("a IS [NOT] NULL",
            "True if a is null.",
            "NULLIF(1, 1) IS NULL"))
CASE = Function(
    "CASE", _type_case, _case, arity=(1, maxsize), notation=Notation(_write_case), compile=branches,
    nullable=lambda args: any_null([*args[1::2], args[-1]]), non_null=_non_null_case,
    doc=Doc("CASE WHEN a THEN x ... [ELSE y] END, CASE v WHEN a THEN x ... END, IF(a, x, y)",
            "The x of the first condition that is true, else y.",
            "CASE WHEN 1 < 2 THEN 'less' ELSE 'more' END"))
SINGLE = Function(
    "SINGLE", lambda record, args: record.call(args[0].type, args[0], of_type(record.name, args[1], INT)), _single,
    nullable=lambda args: True, non_null=of_first)
"""A value, and the number of rows of the scalar subquery it comes from. It cannot be written in SQL."""
COALESCE = Function(
    "COALESCE", _type_unified, lambda call, *operands: FunctionResult(pl.coalesce(operands)),
    Syntax("Coalesce", "this expressions", unread="is_nvl is_null"), arity=MANY, nullable=_all_null,
    non_null=of_any, compile=until(lambda v: v.is_not_null()),
    doc=Doc("COALESCE(a, b, ...)",
            "The first argument that is not null.",
            "COALESCE(NULLIF(1, 1), 2)"))


NON_NULL = {
    "IS DISTINCT FROM": _non_null_distinct,
    "IS NOT DISTINCT FROM": lambda call, args: _non_null_distinct(call, args).negated,
}
"""The rules for comparisons that are not strict."""


def _comparison(
    name: str, node: str, compare: Comparison, mixed: Mixed, holds: tuple[bool, bool, bool], meaning: str
) -> Function:
    def evaluate(call: Call, a: pl.Expr, b: pl.Expr) -> FunctionResult:
        s, t = (argument.type for argument in call.args)
        if s != t:
            return FunctionResult(mixed(s, t, a, b))
        if isinstance(call.args[0], Literal):  # column > literal: polars may give literal < column one row
            return FunctionResult(_MIRRORED.get(compare, compare)(b, a))
        return FunctionResult(compare(a, b))

    return Function(
        name, _type_comparison, evaluate, Syntax(node, "this expression"), infix(4, joins=False), holds=holds,
        nullable=_never_null if "DISTINCT" in name else any_null,
        non_null=NON_NULL.get(name, of_all),
        doc=Doc(f"a {name} b", meaning, f"1 {name} 2.5"))


_MIRRORED: dict[Comparison, Comparison] = {lt: gt, le: ge, gt: lt, ge: le}

EQUAL = _comparison("=", "EQ", eq, _equal, (False, True, False),
    "True if a equals b. Numbers of different types are compared exactly.")
UNEQUAL = _comparison("<>", "NEQ", ne, lambda s, t, a, b: ~_equal(s, t, a, b), (True, False, True),
    "True if a and b differ.")
LESS = _comparison("<", "LT", lt, _less, (True, False, False),
    "True if a is less than b. NaN is the greatest DOUBLE.")
AT_MOST = _comparison("<=", "LTE", le, lambda s, t, a, b: ~_less(t, s, b, a), (True, True, False),
    "True if a is at most b.")
GREATER = _comparison(">", "GT", gt, lambda s, t, a, b: _less(t, s, b, a), (False, False, True),
    "True if a is greater than b.")
AT_LEAST = _comparison(">=", "GTE", ge, lambda s, t, a, b: ~_less(s, t, a, b), (False, True, True),
    "True if a is at least b.")
DISTINCT = _comparison("IS DISTINCT FROM", "NullSafeNEQ", pl.Expr.ne_missing, _distinct, (True, False, True),
    "True if a and b differ; null equals null.")
NOT_DISTINCT = _comparison(
    "IS NOT DISTINCT FROM", "NullSafeEQ", pl.Expr.eq_missing, lambda s, t, a, b: ~_distinct(s, t, a, b),
    (False, True, False),
    "True if a equals b; null equals null.")
IN = Function(
    "IN", _type_in, _is_member, Syntax("In", "this expressions"), arity=(0, maxsize), non_null=_non_null_in,
    notation=Notation(lambda call: [*call.operand(0), " IN (", *comma_separated(call.args[1:]), ")"], 5),
    doc=Doc("a [NOT] IN (b, c, ...)",
            "True if a equals a value of the list.",
            "2 IN (1, 2)"))
BETWEEN = Function("BETWEEN", _type_between, syntax=Syntax("Between", "this low high"), arity=(3, 3),
    doc=Doc("a [NOT] BETWEEN [SYMMETRIC] b AND c",
            "a >= b AND a <= c. With SYMMETRIC, b may be greater than c.",
            "2 BETWEEN 1 AND 3"))
NULLIF = Function("NULLIF", _type_nullif, syntax=Syntax("Nullif", "this expression"),
    doc=Doc("NULLIF(a, b)",
            "Null if a = b, else a.",
            "NULLIF(2, 3)"))
GREATEST = Function(
    "GREATEST", _type_unified, _extreme(lambda a, b: b > a),  # NaN is greatest
    Syntax("Greatest", "this expressions", unread="ignore_nulls"), arity=MANY, nullable=_all_null, compile=in_pairs,
    non_null=of_any,
    doc=Doc("GREATEST(a, b, ...)",
            "The greatest argument that is not null.",
            "GREATEST(1, 3, 2)"))
LEAST = Function(
    "LEAST", _type_unified, _extreme(lambda a, b: a > b),
    Syntax("Least", "this expressions", unread="ignore_nulls"), arity=MANY, nullable=_all_null, compile=in_pairs,
    non_null=of_any,
    doc=Doc("LEAST(a, b, ...)",
            "The least argument that is not null.",
            "LEAST(1, 3, 2)"))

"""Functions of text."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import polars as pl

from xmlpunct.expressions.expression import (
    Call,
    Expression,
    Function,
    Literal,
    Notation,
    Outcome,
    Pieces,
    Syntax,
    Typing,
    infix,
)
from xmlpunct.expressions.functions.arguments import check_count, of_type
from xmlpunct.types import BOOLEAN, INT, STRING, Type


def _typed(type_: Type, least: int = 1, most: int | None = None) -> Typing:
    """Typing of functions of one string, perhaps followed by whole numbers."""

    def typed(record: Function, args: tuple[Expression, ...]) -> Expression:
        check_count(record.name, args, least, most)
        numbers = (of_type(record.name, a, INT) for a in args[1:])
        return record.call(type_, of_type(record.name, args[0], STRING), *numbers)

    return typed


def _plain(method: Callable[[pl.Expr], pl.Expr]) -> Callable[[Call, pl.Expr], Outcome]:
    return lambda call, text: Outcome(method(text))


def _joined(record: Function, args: tuple[Expression, ...]) -> Expression:
    check_count(record.name, args, 1, 1000)
    return reduce(lambda a, b: JOIN.call(STRING, a, b), [of_type(JOIN.name, a, STRING) for a in args])


def _substring(call: Call, text: pl.Expr, *places: pl.Expr) -> Outcome:
    first = places[0].cast(pl.Int128) - 1
    known = text.is_not_null() & first.is_not_null()
    start = first.clip(0, 2**62).cast(pl.Int64)
    if len(places) == 1:
        return Outcome(pl.when(known).then(text.str.slice(start)))
    length = places[1].cast(pl.Int128)
    size = (first + length - first.clip(0, 2**62)).clip(0, 2**62).cast(pl.UInt64)
    value = pl.when(known & length.is_not_null()).then(text.str.slice(start, size))
    return Outcome(value, [(length < 0, "negative length")])


def _typed_like(record: Function, args: tuple[Expression, ...]) -> Expression:
    check_count(record.name, args, 2, 3)
    text, *constants = (of_type(record.name, a, STRING) for a in args)
    known = [a.value for a in constants if isinstance(a, Literal) and a.value is not None]
    if len(known) < len(constants):
        raise ValueError("LIKE wants a literal pattern")
    if len(known) == 2 and len(known[1]) != 1:
        raise ValueError("ESCAPE wants one character")
    return record.call(BOOLEAN, text, *constants)


def _like(call: Call, text: pl.Expr, *_: pl.Expr) -> Outcome:
    pattern, *rest = (a.value for a in call.args[1:] if isinstance(a, Literal))
    return Outcome(text.str.contains(like_regex(pattern, rest[0] if rest else "")))


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern; ``escape`` is the escape character, if there is one.

    >>> like_regex("50!%_", "!")
    '^(?s:50%.)$'
    """
    out, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == escape and at + 1 < len(pattern):
            at += 1
            out.append(pl.escape_regex(pattern[at]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or pl.escape_regex(char))
        at += 1
    return f"^(?s:{''.join(out)})$"


def _written_like(call: Call) -> Pieces:
    if len(call.args) == 3:
        return [*call.operand(0), " LIKE ", call.args[1], " ESCAPE ", call.args[2]]
    return [*call.operand(0), " LIKE ", *call.operand(1)]


UPPER = Function("UPPER", _typed(STRING), _plain(lambda v: v.str.to_uppercase()), Syntax("Upper"))
LOWER = Function("LOWER", _typed(STRING), _plain(lambda v: v.str.to_lowercase()), Syntax("Lower"))
TRIM = Function("TRIM", _typed(STRING), _plain(lambda v: v.str.strip_chars(" ")), Syntax("Trim"))
LENGTH = Function("LENGTH", _typed(INT), _plain(lambda v: v.str.len_chars().cast(pl.Int64)), Syntax("Length"))
SUBSTRING = Function("SUBSTRING", _typed(STRING, 2, 3), _substring, Syntax("Substring", "this start length"))
JOIN = Function(
    "||",
    _joined,
    lambda call, *texts: Outcome(pl.concat_str(texts)),
    Syntax("DPipe", "this expression", unread="safe"),
    infix(6),
    associative=True,
)
CONCAT = Function("CONCAT", _joined, syntax=Syntax("Concat", "expressions", unread="safe coalesce"))
LIKE = Function(
    "LIKE",
    _typed_like,
    _like,
    Syntax("Like", "this expression", unread="negate"),
    Notation(_written_like, 5, joins=True),
)

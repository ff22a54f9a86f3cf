"""Functions of text."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import polars as pl

from xmlpunct.expressions.expression import (
    MANY,
    Call,
    Doc,
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
from xmlpunct.expressions.functions.casts import of_type
from xmlpunct.expressions.functions.lists import items
from xmlpunct.types import BOOLEAN, INT, STRING, Type


def _typed(type_: Type) -> Typing:
    """Typing of functions of one string, perhaps followed by whole numbers."""

    def typed(record: Function, args: tuple[Expression, ...]) -> Expression:
        numbers = (of_type(record.name, a, INT) for a in args[1:])
        return record.call(type_, of_type(record.name, args[0], STRING), *numbers)

    return typed


def _of_one(name: str, type_: Type, method: Callable[[pl.Expr], pl.Expr], meaning: str) -> Function:
    """A function of one string."""
    return Function(
        name, _typed(type_), lambda call, text: Outcome(method(text)), Syntax(name.capitalize()), arity=(1, 1),
        doc=Doc(f"{name}(s)", meaning, f"{name}('Tromsø')"),
    )  # fmt: skip


def _joined(record: Function, args: tuple[Expression, ...]) -> Expression:
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


def _typed_texts(type_: Type) -> Typing:
    """Typing of functions of strings alone."""
    return lambda record, args: record.call(type_, *(of_type(record.name, a, STRING) for a in args))


def _trim(name: str, cut: Callable[[pl.Expr, pl.Expr], pl.Expr], where: str, *called: str) -> Function:
    def evaluate(call: Call, text: pl.Expr, chars: pl.Expr | None = None) -> Outcome:
        if chars is None:
            return Outcome(cut(text, pl.lit(" ")))
        return Outcome(pl.when(chars.is_not_null()).then(cut(text, chars)))  # to polars null is white space

    return Function(
        name, _typed_texts(STRING), evaluate, called=called, arity=(1, 2),
        doc=Doc(f"{name}(s [, characters])", f"s without spaces, or without any of the characters, at {where}.",
                f"{name}('xxabxx', 'x')"),
    )  # fmt: skip


def _typed_part(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, separator = (of_type(record.name, a, STRING) for a in args[:2])
    return record.call(STRING, text, separator, of_type(record.name, args[2], INT))


def _part(call: Call, text: pl.Expr, separator: pl.Expr, place: pl.Expr) -> Outcome:
    at = pl.when(place > 0).then(place - 1).otherwise(place)
    size = items(text, separator).list.len().cast(pl.Int64)
    found = items(text, separator).list.get(at.clip(-(2**31), 2**31), null_on_oob=True)
    is_there = (place != 0) & at.is_between(-size, size - 1)
    known = text.is_not_null() & separator.is_not_null() & place.is_not_null()
    return Outcome(pl.when(known).then(pl.when(is_there).then(found).otherwise(pl.lit(""))))


# fmt: off
UPPER = _of_one("UPPER", STRING, lambda v: v.str.to_uppercase(), "s in capital letters.")
LOWER = _of_one("LOWER", STRING, lambda v: v.str.to_lowercase(), "s in small letters.")
TRIM = _trim("TRIM", lambda s, c: s.str.strip_chars(c), "both ends")
LTRIM = _trim("LTRIM", lambda s, c: s.str.strip_chars_start(c), "its beginning", "LTRIM")
RTRIM = _trim("RTRIM", lambda s, c: s.str.strip_chars_end(c), "its end", "RTRIM")
SPLIT_PART = Function(
    "SPLIT_PART", _typed_part, _part, called=("SPLIT_PART",), arity=(3, 3),
    doc=Doc("SPLIT_PART(s, separator, n)",
            "The n-th part of s, from its end if n is negative; empty where there is none.",
            "SPLIT_PART('a,b,c', ',', 2)"))
LENGTH = _of_one("LENGTH", INT, lambda v: v.str.len_chars().cast(pl.Int64), "How many characters s has.")
SUBSTRING = Function(
    "SUBSTRING", _typed(STRING), _substring, Syntax("Substring", "this start length"), arity=(2, 3),
    doc=Doc("SUBSTRING(s, first [, length]), SUBSTRING(s FROM first FOR length)",
            "A part of s, from a place on that counts from 1.",
            "SUBSTRING('abcd', 2, 2)"))
JOIN = Function(
    "||", _joined, lambda call, *texts: Outcome(pl.concat_str(texts)),
    Syntax("DPipe", "this expression", unread="safe"), infix(6), arity=MANY, associative=True,
    doc=Doc("s || t",
            "Both texts as one.",
            "'a' || 'b'"))
CONCAT = Function("CONCAT", _joined, syntax=Syntax("Concat", "expressions", unread="safe coalesce"), arity=MANY,
    doc=Doc("CONCAT(s, t, ...)",
            "All texts as one; null where one is.",
            "CONCAT('a', 'b', 'c')"))
LIKE = Function(
    "LIKE", _typed_like, _like, Syntax("Like", "this expression", unread="negate"), arity=(2, 3),
    notation=Notation(_written_like, 5, joins=True),
    doc=Doc("s [NOT] LIKE pattern [ESCAPE c]",
            "Whether s is like a pattern, in which % is any text and _ any character.",
            "'Oslo' LIKE 'O%'"))

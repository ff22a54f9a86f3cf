"""Functions of text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import cache, reduce
from typing import Any

import polars as pl

from xmlpunct.expressions.expression import (
    MANY,
    Call,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Syntax,
    Typing,
    infix,
)
from xmlpunct.expressions.functions.casts import cast, each, of_type
from xmlpunct.expressions.functions.lists import items
from xmlpunct.expressions.non_null import of_first, of_none
from xmlpunct.types import INT, STRING, Type


def _type_call(type_: Type) -> Typing:
    """Typing of functions of one string and any number of INTs."""

    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        numbers = (of_type(record.name, a, INT) for a in args[1:])
        return record.call(type_, of_type(record.name, args[0], STRING), *numbers)

    return type_call


def _unary(
    name: str, type_: Type, method: Callable[[pl.Expr], pl.Expr], meaning: str, node: bool = False
) -> Function:
    """A function of one string."""
    return Function(
        name, _type_call(type_), lambda call, text: FunctionResult(method(text)),
        Syntax(name.capitalize()) if node else None,
        called=() if node else (name,), arity=(1, 1),
        doc=Doc(f"{name}(s)", meaning, f"{name}('Tromsø')"),
    )  # fmt: skip


@cache
def _upper_forms() -> dict[str, str]:
    """DuckDB's single-character capitals of letters that Unicode capitalises to several characters (ß: SS).

    The capital is the title form of the letter, if that is one character, or else the letter itself; for ß it is ẞ.
    """
    letters = (chr(i) for i in (*range(0x80, 0x2000), *range(0xFB00, 0xFB18)))
    wide = [letter for letter in letters if len(letter.upper()) > 1]
    return {c: c.title() if len(c.title()) == 1 else c for c in wide} | {"ß": "ẞ"}


def _lower_forms() -> dict[str, str]:
    """Lower-case forms of capitals for which Unicode has two characters, or one that depends on the position."""
    return {"İ": "i", "Σ": "σ"}


def _case_function(
    convert: Callable[[pl.Series], pl.Series], exceptions: Callable[[], dict[str, str]]
) -> Callable[[pl.Expr], pl.Expr]:
    """A change of case that maps each character to one, as in DuckDB. polars differs for ``exceptions``."""

    def run(column: pl.Series) -> pl.Series:
        converted, forms = convert(column), exceptions()
        special = f"([{''.join(forms)}])"
        rows = column.str.contains(special).arg_true()
        if not len(rows):
            return converted
        texts = [re.split(special, text) for text in column.gather(rows)]
        pieces = iter(convert(pl.Series([p for pieces in texts for p in pieces], dtype=pl.String)))
        joined = [
            "".join(forms.get(p, converted_piece) for p, converted_piece in zip(text, pieces, strict=False))
            for text in texts
        ]
        return converted.scatter(rows, joined)

    return lambda value: value.map_batches(run, pl.String(), is_elementwise=True)


_upper = _case_function(lambda column: column.str.to_uppercase(), _upper_forms)
_lower = _case_function(lambda column: column.str.to_lowercase(), _lower_forms)


def lowered(text: str) -> str:
    """A text in lower case, as LOWER returns it.

    >>> lowered("ΟΔΟΣ")
    'οδοσ'
    """
    return str(pl.select(_lower(pl.lit(text))).item())


def _type_join(record: Function, args: tuple[Expression, ...]) -> Expression:
    return reduce(lambda a, b: JOIN.call(STRING, a, b), [cast(a, STRING) for a in args])


def _type_concat(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(STRING, *(cast(a, STRING) for a in args))


def _substring(call: Call, text: pl.Expr, *range_: pl.Expr) -> FunctionResult:
    count, first = text.str.len_chars().cast(pl.Int128), range_[0].cast(pl.Int128)
    start = pl.when(first < 0).then(count + first).otherwise(first - 1)
    end = start + range_[1].cast(pl.Int128) if len(range_) > 1 else pl.max_horizontal(start, count)
    low, high = (extreme(start, end).clip(0, 2**62) for extreme in (pl.min_horizontal, pl.max_horizontal))
    no_nulls = text.is_not_null() & start.is_not_null() & end.is_not_null()
    return FunctionResult(
        pl.when(no_nulls).then(text.str.slice(low.cast(pl.Int64), (high - low).cast(pl.UInt64)))
    )


def _type_texts(type_: Type) -> Typing:
    """Typing of functions of strings alone."""
    return lambda record, args: record.call(type_, *(of_type(record.name, a, STRING) for a in args))


def _trim_function(
    name: str, cut: Callable[[pl.Expr, pl.Expr], pl.Expr], where: str, *called: str
) -> Function:
    def evaluate(call: Call, text: pl.Expr, chars: pl.Expr | None = None) -> FunctionResult:
        if chars is None:
            return FunctionResult(cut(text, pl.lit(" ")))
        # For null, polars would strip white space.
        return FunctionResult(pl.when(chars.is_not_null()).then(cut(text, chars)))

    return Function(
        name, _type_texts(STRING), evaluate, called=called, arity=(1, 2),
        doc=Doc(f"{name}(s [, characters])",
                f"s without the spaces at {where}; with characters, without any of these instead of spaces.",
                f"{name}('xxabxx', 'x')"),
    )  # fmt: skip


def _type_part(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, separator = (of_type(record.name, a, STRING) for a in args[:2])
    return record.call(STRING, text, separator, of_type(record.name, args[2], INT))


def _part(call: Call, text: pl.Expr, separator: pl.Expr, number: pl.Expr) -> FunctionResult:
    index = pl.when(number > 0).then(number - 1).otherwise(number)
    size = items(text, separator).list.len().cast(pl.Int64)
    part = items(text, separator).list.get(index.clip(-(2**31), 2**31), null_on_oob=True)
    exists = (number != 0) & index.is_between(-size, size - 1)
    no_nulls = text.is_not_null() & separator.is_not_null() & number.is_not_null()
    return FunctionResult(pl.when(no_nulls).then(pl.when(exists).then(part).otherwise(pl.lit(""))))


def _part_function(
    name: str, cut: Callable[[pl.Expr, pl.Expr], pl.Expr], which: str, example: str
) -> Function:
    return Function(
        name, _type_call(STRING), lambda call, text, count: FunctionResult(cut(text, count.clip(-LONGEST, LONGEST))),
        called=(name,),
        doc=Doc(f"{name}(s, n)", f"The {which} n characters of s. {name}(s, -2) leaves out two.",
                f"{name}('Oslo', 2)"),
    )  # fmt: skip


LONGEST = 2**24
"""The greatest length of results of REPEAT, LPAD and RPAD."""


def _repeated_text(text: pl.Expr, count: pl.Expr) -> pl.Expr:
    """A text repeated ``count`` times; null if one of the two is."""
    no_nulls = text.is_not_null() & count.is_not_null()
    return pl.when(no_nulls).then(text.repeat_by(count.fill_null(0)).list.join(""))


def _repeat(call: Call, text: pl.Expr, count: pl.Expr) -> FunctionResult:
    is_too_long = count.clip(0) > LONGEST // text.str.len_bytes().clip(1)
    times = pl.when(is_too_long).then(0).otherwise(count.clip(0))
    return FunctionResult(_repeated_text(text, times), [(is_too_long, _TOO_LONG)])


_TOO_LONG = f"a text of more than {LONGEST:,} bytes"


def _padding_function(
    name: str, joined: Callable[[pl.Expr, pl.Expr], list[pl.Expr]], where: str, example: str
) -> Function:
    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        text, length, padding = args
        return record.call(
            STRING, of_type(name, text, STRING), of_type(name, length, INT), of_type(name, padding, STRING)
        )

    def evaluate(call: Call, text: pl.Expr, length: pl.Expr, padding: pl.Expr) -> FunctionResult:
        missing = length - text.str.len_chars().cast(pl.Int64)
        is_too_long, size = length > LONGEST // 4, padding.str.len_chars().cast(pl.Int64)
        padding_length = pl.when(is_too_long).then(0).otherwise(missing.clip(0))
        filling = _repeated_text(padding, -(-padding_length // size.clip(1))).str.head(padding_length)
        no_nulls = text.is_not_null() & length.is_not_null() & padding.is_not_null()
        value = (
            pl.when(missing > 0)
            .then(pl.concat_str(joined(text, filling)))
            .otherwise(text.str.head(length.clip(0, LONGEST)))
        )
        return FunctionResult(
            pl.when(no_nulls).then(value),
            [(is_too_long, _TOO_LONG), ((missing > 0) & (size == 0), "nothing to pad with")],
        )

    return Function(
        name, type_call, evaluate, called=(name,), arity=(3, 3),
        doc=Doc(f"{name}(s, n, t)",
                f"s filled up to n characters with t {where}. A longer s is cut to its first n characters.",
                f"{name}('17', 3, 'x')"),
    )  # fmt: skip


def _replace(call: Call, text: pl.Expr, old: pl.Expr, new: pl.Expr) -> FunctionResult:
    no_nulls = text.is_not_null() & old.is_not_null() & new.is_not_null()
    # Give a literal the height of the frame: polars joins a single list with a single separator.
    text = pl.when(no_nulls).then(text)
    return FunctionResult(pl.when(old == "").then(text).otherwise(text.str.split(old).list.join(new)))


def _with_separators(separator: pl.Expr, *texts: pl.Expr) -> pl.Expr:
    # The separator is included for the height of the frame: see `_replace`.
    lists = pl.concat_list(separator, *texts)
    return lists.list.slice(1).list.drop_nulls().list.join(separator)


def _hash_function(name: str, digest: Callable[[bytes], Any]) -> Function:
    return _unary(
        name, STRING, lambda v: each(v, lambda text: str(digest(text.encode()).hexdigest()), STRING),
        f"The {name} of s in hexadecimal digits.",
    )  # fmt: skip


# fmt: off
UPPER = _unary(
    "UPPER", STRING, _upper, "s in capitals. Each letter becomes one letter: ß becomes ẞ, and ﬁ stays.", node=True)
LOWER = _unary(
    "LOWER", STRING, _lower,
    "s in lower case. Each letter becomes one letter: Σ becomes σ, also at the end of a word.", node=True)
TRIM = _trim_function("TRIM", lambda s, c: s.str.strip_chars(c), "both ends")
LTRIM = _trim_function("LTRIM", lambda s, c: s.str.strip_chars_start(c), "its beginning", "LTRIM")
RTRIM = _trim_function("RTRIM", lambda s, c: s.str.strip_chars_end(c), "its end", "RTRIM")
SPLIT_PART = Function(
    "SPLIT_PART", _type_part, _part, called=("SPLIT_PART",), arity=(3, 3),
    doc=Doc("SPLIT_PART(s, separator, n)",
            "The n-th part of s; a negative n counts from the end. Empty if s has fewer parts.",
            "SPLIT_PART('a,b,c', ',', 2)"))
LENGTH = _unary("LENGTH", INT, lambda v: v.str.len_chars().cast(pl.Int64), "The number of characters of s.", node=True)
SUBSTRING = Function(
    "SUBSTRING", _type_call(STRING), _substring, Syntax("Substring", "this start length"), arity=(2, 3),
    doc=Doc("SUBSTRING(s, first [, length]), SUBSTRING(s FROM first FOR length)",
            "The characters of s from position first on. 1 is the first position; -1 is the last one.",
            "SUBSTRING('abcd', 2, 2)"))
JOIN = Function(
    "||", _type_join, lambda call, *texts: FunctionResult(pl.concat_str(texts)),
    Syntax("DPipe", "this expression", unread="safe"), infix(6), arity=MANY, associative=True,
    doc=Doc("s || t",
            "s followed by t. A value of another type is cast to STRING.",
            "'a' || 'b'"))
CONCAT = Function(
    "CONCAT", _type_concat, lambda call, *texts: FunctionResult(pl.concat_str(texts, ignore_nulls=True)),
    called=("CONCAT",), arity=MANY, nullable=lambda args: False, non_null=of_none,
    doc=Doc("CONCAT(s, t, ...)",
            "The arguments joined, without nulls. A value of another type is cast to STRING.",
            "CONCAT('a', NULLIF(1, 1), 2)"))
CONCAT_WS = Function(
    "CONCAT_WS", _type_concat,
    lambda call, *texts: FunctionResult(_with_separators(*texts)),
    called=("CONCAT_WS",), arity=(2, MANY[1]), nullable=lambda args: args[0].nullable, non_null=of_first,
    doc=Doc("CONCAT_WS(separator, s, t, ...)",
            "The arguments joined, without nulls, with the separator between them.",
            "CONCAT_WS('-', 'a', NULLIF(1, 1), 'b')"))
LEFT = _part_function("LEFT", lambda s, n: s.str.head(n), "first", "Os")
RIGHT = _part_function("RIGHT", lambda s, n: s.str.tail(n), "last", "lo")
REPEAT = Function(
    "REPEAT", _type_call(STRING), _repeat, called=("REPEAT",),
    doc=Doc("REPEAT(s, n)", "s repeated n times.", "REPEAT('ab', 2)"))
LPAD = _padding_function("LPAD", lambda text, padding: [padding, text], "before it", "'x17'")
RPAD = _padding_function("RPAD", lambda text, padding: [text, padding], "after it", "'17x'")
REPLACE = Function(
    "REPLACE", _type_texts(STRING), _replace, called=("REPLACE",), arity=(3, 3),
    doc=Doc("REPLACE(s, old, new)", "s with every old replaced by new.", "REPLACE('17,5', ',', '.')"))
REVERSE = _unary("REVERSE", STRING, lambda v: v.str.reverse(), "The characters of s in reverse order.")
MD5 = _hash_function("MD5", hashlib.md5)
SHA256 = _hash_function("SHA256", hashlib.sha256)

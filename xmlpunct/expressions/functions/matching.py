"""Matching of texts: LIKE and ILIKE, STARTS_WITH, CONTAINS, STRPOS."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xmlpunct.expressions.expression import (
    Call,
    CallText,
    Doc,
    Expression,
    Function,
    FunctionResult,
    Literal,
    Notation,
    Syntax,
)
from xmlpunct.expressions.functions.casts import of_type
from xmlpunct.expressions.functions.text_functions import LOWER, lowered
from xmlpunct.types import BOOLEAN, INT, STRING, Type


def _type_like(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, *constants = (of_type(record.name, a, STRING) for a in args)
    values = [a.value for a in constants if isinstance(a, Literal) and a.value is not None]
    if len(values) < len(constants):
        raise ValueError(
            f"{record.name} needs a literal pattern: else say CONTAINS, STARTS_WITH or ENDS_WITH"
        )
    if len(values) == 2 and len(values[1]) != 1:
        raise ValueError("ESCAPE needs one character")
    return record.call(BOOLEAN, text, *constants)


def _type_any_case(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, pattern, *escape = (of_type(record.name, a, STRING) for a in args)
    if isinstance(pattern, Literal) and pattern.value is not None:
        pattern = Literal(STRING, False, lowered(pattern.value))
    return LIKE(LOWER(text), pattern, *escape)


def _like(call: Call, text: pl.Expr, *_: pl.Expr) -> FunctionResult:
    pattern, *escape = (a.value for a in call.args[1:] if isinstance(a, Literal))
    return FunctionResult(text.str.contains(like_regex(pattern, escape[0] if escape else "")))


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern; ``escape`` is the escape character, if there is one.

    >>> like_regex("50!%_", "!")
    '^(?s:50%.)$'
    """
    out, index = [], 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape and index + 1 < len(pattern):
            index += 1
            out.append(pl.escape_regex(pattern[index]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or pl.escape_regex(char))
        index += 1
    return f"^(?s:{''.join(out)})$"


def _write_like(call: Call) -> CallText:
    if len(call.args) == 3:
        return [*call.operand(0), " LIKE ", call.args[1], " ESCAPE ", call.args[2]]
    return [*call.operand(0), " LIKE ", *call.operand(1)]


def _search_function(
    name: str,
    type_: Type,
    compute: Callable[[pl.Expr, pl.Expr], pl.Expr],
    form: str,
    meaning: str,
    example: str,
    *called: str,
    syntax: Syntax | None = None,
) -> Function:
    """A function of a text and a text to find in it."""

    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        return record.call(type_, *(of_type(name, a, STRING) for a in args))

    def evaluate(call: Call, text: pl.Expr, part: pl.Expr) -> FunctionResult:
        return FunctionResult(pl.when(part.is_not_null()).then(compute(text, part.fill_null(""))))

    return Function(
        name, type_call, evaluate, syntax, called=(name, *called), doc=Doc(form, meaning, example)
    )


def _position(text: pl.Expr, part: pl.Expr) -> pl.Expr:
    """The position at which a part begins, counted from 1; 0 if the text does not have it."""
    before = pl.when(part == "").then(pl.lit("")).otherwise(text.str.split(part).list.first())
    position = before.str.len_chars().cast(pl.Int64) + 1
    return pl.when(text.str.contains(part, literal=True)).then(position).when(text.is_not_null()).then(0)


# fmt: off
LIKE = Function(
    "LIKE", _type_like, _like, Syntax("Like", "this expression", unread="negate"), arity=(2, 3),
    notation=Notation(_write_like, 5, joins=True),
    doc=Doc("s [NOT] LIKE pattern [ESCAPE c]",
            "True if s matches the pattern, in which % is any text and _ any one character.",
            "'Oslo' LIKE 'O%'"))
ILIKE = Function(
    "ILIKE", _type_any_case, syntax=Syntax("ILike", "this expression", unread="negate"), arity=(2, 3),
    doc=Doc("s [NOT] ILIKE pattern [ESCAPE c]",
            "LIKE that ignores case.",
            "'OSLO' ILIKE 'o%'"))
STARTS_WITH = _search_function(
    "STARTS_WITH", BOOLEAN, lambda s, t: s.str.starts_with(t), "STARTS_WITH(s, t), s ^@ t",
    "True if s begins with t.", "STARTS_WITH('Oslo', 'Os')", "PREFIX", syntax=Syntax("StartsWith", "this expression"))
ENDS_WITH = _search_function(
    "ENDS_WITH", BOOLEAN, lambda s, t: s.str.ends_with(t), "ENDS_WITH(s, t)",
    "True if s ends with t.", "ENDS_WITH('Oslo', 'lo')", "SUFFIX")
CONTAINS = _search_function(
    "CONTAINS", BOOLEAN, lambda s, t: s.str.contains(t, literal=True), "CONTAINS(s, t)",
    "True if t occurs in s.", "CONTAINS('Oslo', 'sl')")
STRPOS = _search_function(
    "STRPOS", INT, _position, "STRPOS(s, t), POSITION(t IN s)",
    "The position of the first t in s, counted from 1; 0 if there is none.",
    "STRPOS('Oslo', 'l')", "INSTR", syntax=Syntax("StrPosition", "this substr"))

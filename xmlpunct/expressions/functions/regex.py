"""Regular expressions: literal patterns in the syntax of RE2, matched without backtracking."""

from __future__ import annotations

import re

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal, Syntax
from xmlpunct.expressions.functions.casts import is_null, of_type
from xmlpunct.expressions.functions.re2 import of_polars
from xmlpunct.types import BOOLEAN, INT, STRING

_FLAGS = {"c": "", "i": "i", "s": "s", "m": "m", "n": "m", "p": "m"}
"""DuckDB's flags, with the corresponding flags inside a pattern."""


def _constants(name: str, args: tuple[Expression, ...], noun: str) -> list[str]:
    """The texts of literal arguments. Raises ValueError for other arguments."""
    texts = []
    for a in args:
        if not isinstance(of_type(name, a, STRING), Literal) or is_null(a):
            raise ValueError(f"{name} needs a literal {noun}")
        texts.append(a.value)  # type: ignore[attr-defined]
    return texts


def _pattern(name: str, pattern: str, flags: str = "") -> str:
    """A pattern with its flags in front. Raises ValueError if it is malformed."""
    unknown = set(flags) - _FLAGS.keys() - {"l"}
    if unknown:
        raise ValueError(f"{name} has the flags c, i, l, m and s, not {min(unknown)}")
    if "l" in flags:
        pattern = pl.escape_regex(pattern)
    elif "\\Q" in pattern.rpartition("\\E")[2]:
        pattern += "\\E"  # close an open quotation at the end of the pattern
    inline_flags = "".join(sorted({_FLAGS.get(flag, "") for flag in flags}))
    with_flags = f"(?{inline_flags}){pattern}" if inline_flags else pattern
    try:
        pl.Series([""]).str.contains(of_polars(with_flags))
    except pl.exceptions.ComputeError as error:
        reason = str(error).rpartition("\nerror: ")[2].splitlines()[0]
        raise ValueError(f"{pattern!r} is no regular expression: {reason}") from None
    return with_flags


def _literal(text: str) -> Literal:
    return Literal(STRING, False, text)


def _text(call: Call, position: int) -> str:
    argument = call.args[position]
    assert isinstance(argument, Literal)
    return str(argument.value)


def _type_test(record: Function, args: tuple[Expression, ...]) -> Expression:
    text = of_type(record.name, args[0], STRING)
    if any(map(is_null, args[1:])):
        return Literal(BOOLEAN, True, None)
    return record.call(
        BOOLEAN, text, _literal(_pattern(record.name, *_constants(record.name, args[1:], "pattern")))
    )


def _type_full_match(record: Function, args: tuple[Expression, ...]) -> Expression:
    test = _type_test(record, args)
    if not isinstance(test, Call):
        return test
    return REGEXP_LIKE.call(BOOLEAN, test.args[0], _literal(f"^(?:{_text(test, 1)})$"))


def _type_replacement(record: Function, args: tuple[Expression, ...]) -> Expression:
    text = of_type(record.name, args[0], STRING)
    if any(map(is_null, args[1:])):
        return Literal(STRING, True, None)
    pattern, replacement, *flags = _constants(record.name, args[1:], "pattern, replacement and flags")
    is_global = "g" in "".join(flags)
    pattern = _pattern(record.name, pattern, "".join(flags).replace("g", ""))
    _rewrite(record.name, replacement, _groups(pattern))
    return record.call(
        STRING, text, _literal(pattern), _literal(replacement), *([_literal("g")] if is_global else [])
    )


def _groups(pattern: str) -> int:
    """The number of groups of a pattern."""
    return len(pl.select(pl.lit("").str.extract_groups(of_polars(pattern))).to_series().struct.fields)


def _rewrite(name: str, replacement: str, groups: int) -> str:
    r"""A replacement in the syntax of polars, where group ``\1`` is written ``${1}``."""

    def rewrite(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped == "\\":
            return "\\"
        if not escaped.isdecimal():
            raise ValueError(f"after \\ in the replacement of {name} must be a digit or another \\")
        if int(escaped) > groups:
            raise ValueError(f"the pattern has {groups} groups, no group \\{escaped}")
        return f"${{{escaped}}}"

    return re.sub(r"\\(.?)", rewrite, replacement.replace("$", "$$"), flags=re.DOTALL)


def _replace(call: Call, text: pl.Expr, *_: pl.Expr) -> FunctionResult:
    value = _rewrite(call.function, _text(call, 2), _groups(_text(call, 1)))
    pattern = of_polars(_text(call, 1))
    return FunctionResult(
        text.str.replace_all(pattern, value) if len(call.args) > 3 else text.str.replace(pattern, value)
    )


def _type_extraction(record: Function, args: tuple[Expression, ...]) -> Expression:
    text = of_type(record.name, args[0], STRING)
    group = of_type(record.name, args[2], INT) if len(args) > 2 else Literal(INT, False, 0)
    if is_null(args[1]) or is_null(group):
        return Literal(STRING, True, None)
    pattern = _pattern(record.name, *_constants(record.name, args[1:2], "pattern"))
    if not isinstance(group, Literal):
        raise ValueError(f"{record.name} needs a literal number of a group")
    if not 0 <= group.value <= _groups(pattern):
        raise ValueError(f"the pattern has {_groups(pattern)} groups, and so no {group.value}")
    return record.call(STRING, text, _literal(pattern), group)


def _extract(call: Call, text: pl.Expr, *_: pl.Expr) -> FunctionResult:
    (group,) = (a.value for a in call.args[2:] if isinstance(a, Literal))
    value = text.str.extract(of_polars(_text(call, 1)), group).fill_null("")
    return FunctionResult(pl.when(text.is_not_null()).then(value))


# fmt: off
REGEXP_LIKE = Function(
    "REGEXP_LIKE", _type_test, lambda call, text, *_: FunctionResult(text.str.contains(of_polars(_text(call, 1)))),
    called=("REGEXP_LIKE", "REGEXP_MATCHES"), arity=(2, 3),
    doc=Doc("REGEXP_LIKE(s, pattern [, flags])",
            "True if a part of s matches the pattern, in the syntax of RE2; \\d, \\w, \\s and \\b mean ASCII. Flags: i "
            "ignores case, s lets . match a line end, m lets ^ and $ match at each line.",
            "REGEXP_LIKE('Oslo', '^os', 'i')"))
REGEXP_FULL_MATCH = Function(
    "REGEXP_FULL_MATCH", _type_full_match, syntax=Syntax("SimilarTo", "this expression"),
    called=("REGEXP_FULL_MATCH",), arity=(2, 3),
    doc=Doc("REGEXP_FULL_MATCH(s, pattern [, flags]), s [NOT] SIMILAR TO pattern",
            "True if the whole of s matches the pattern.",
            "'Oslo' SIMILAR TO '[A-Z][a-z]+'"))
REGEXP_REPLACE = Function(
    "REGEXP_REPLACE", _type_replacement, _replace, called=("REGEXP_REPLACE",), arity=(3, 4),
    doc=Doc("REGEXP_REPLACE(s, pattern, replacement [, flags])",
            "s with the first match replaced; with the flag g, every match. \\1 in the replacement is a group.",
            "REGEXP_REPLACE('17:30', '(\\d+):(\\d+)', '\\2 past \\1')"))
REGEXP_EXTRACT = Function(
    "REGEXP_EXTRACT", _type_extraction, _extract, called=("REGEXP_EXTRACT",), arity=(2, 3),
    doc=Doc("REGEXP_EXTRACT(s, pattern [, group])",
            "The first match in s, or a group of it. Empty if nothing matches.",
            "REGEXP_EXTRACT('lane 42', '[0-9]+')"))

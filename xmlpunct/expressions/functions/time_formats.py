"""Moments to and from text, by a format in the syntax of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal
from xmlpunct.expressions.functions.casts import cast, is_null, literal, of_type
from xmlpunct.types import DATE, STRING, TIMESTAMP

_SAME = [*"YmdHMSyjbBaAIpuwUWGV%", *(f"-{sign}" for sign in "dmyHIMSj")]
_WRITTEN = {
    **{f"%{sign}": f"%{sign}" for sign in _SAME},
    "%f": "%6f", "%g": "%3f", "%x": "%Y-%m-%d", "%X": "%H:%M:%S", "%c": "%Y-%m-%d %H:%M:%S",
}  # fmt: skip
"""The specifiers of STRFTIME, with the ones of polars."""
_READ = {
    "%Y": r"\d{1,4}", **dict.fromkeys(("%m", "%d", "%H", "%M", "%I"), r"\d{1,2}"), "%S": r"[0-5]?\d",
    ".%f": r"\.\d{1,6}", "%b": r"\w+", "%B": r"\w+", "%p": "[AaPp][Mm]", "%%": "%",
}  # fmt: skip
"""The specifiers of STRPTIME, with the texts that they match. polars accepts more: signs, a 60th second."""
_SPECIFIER = re.compile(r"\.%f|%-?.|%")


def _format(name: str, argument: Expression, specifiers: Mapping[str, str]) -> str:
    """The text of a literal format. Raises ValueError for a specifier that is not in ``specifiers``."""
    if not isinstance(argument, Literal) or argument.value is None:
        raise ValueError(f"{name} needs a literal format: '%Y-%m-%d'")
    text = str(argument.value)
    for part in _SPECIFIER.findall(text):
        if part not in specifiers and not (part == ".%f" and "%f" in specifiers):
            raise ValueError(f"{name} knows {' '.join(specifiers)}, not {part}")
    return text


def _type_strftime(record: Function, args: tuple[Expression, ...]) -> Expression:
    moment, text = args
    if moment.type is STRING and text.type in (DATE, TIMESTAMP):
        moment, text = text, moment
    if moment.type not in (DATE, TIMESTAMP) and not is_null(moment):
        raise ValueError(f"{record.name} needs DATE or TIMESTAMP, not {moment.type}")
    if is_null(text):
        return literal(STRING, None)
    _format(record.name, text, _WRITTEN)
    return record.call(STRING, cast(moment, TIMESTAMP), text)


def _strftime(call: Call, moment: pl.Expr, _: pl.Expr) -> FunctionResult:
    pattern = _SPECIFIER.sub(
        lambda match: match[0].replace("%f", "%6f") if match[0] == ".%f" else _WRITTEN[match[0]],
        _format(call.function, call.args[1], _WRITTEN),
    )
    return FunctionResult(moment.dt.strftime(pattern))


def _type_strptime(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, form = (of_type(record.name, a, STRING) for a in args)
    if is_null(form):
        return literal(TIMESTAMP, None)
    parts = {*_SPECIFIER.findall(_format(record.name, form, _READ))}
    hour = {"%H"} if "%H" in parts else {"%I", "%p"} if parts & {"%I", "%p"} else set[str]()
    if not ({"%Y", "%d"} <= parts and parts & {"%m", "%b", "%B"}):
        raise ValueError(f"{record.name} needs a year, a month and a day: '%Y-%m-%d'")
    if not hour <= parts or bool(hour) != ("%M" in parts) or ({"%S", ".%f"} & parts and not hour):
        raise ValueError(f"{record.name} reads a time as %H:%M, %H:%M:%S, %H:%M:%S.%f or %I:%M %p")
    return record.call(TIMESTAMP, text, form)


def _strptime(call: Call, text: pl.Expr) -> pl.Expr:
    """The moments of texts, null where a text has none."""
    form = _format(call.function, call.args[1], _READ)
    patterns, end = list[str](), 0
    for match in _SPECIFIER.finditer(form):
        patterns += [pl.escape_regex(form[end : match.start()]), _READ[match[0]]]
        end = match.end()
    shape = f"^{''.join([*patterns, pl.escape_regex(form[end:])])}$"
    trimmed = text.str.strip_chars(" ")
    well_formed = pl.when(trimmed.str.contains(shape)).then(trimmed)
    return well_formed.str.strptime(
        pl.Datetime("us"), form.replace(".%f", "%.f"), strict=False
    ).dt.replace_time_zone("UTC")


def _month_or_day(name: str, form: str, meaning: str) -> Function:
    def type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
        return STRFTIME(args[0], literal(STRING, form))

    return Function(
        name,
        type_call,
        called=(name,),
        arity=(1, 1),
        doc=Doc(f"{name}(t)", meaning, f"{name}(DATE '2024-02-29')"),
    )


# fmt: off
STRFTIME = Function(
    "STRFTIME", _type_strftime, _strftime, called=("STRFTIME",),
    doc=Doc("STRFTIME(t, format)", f"A DATE or TIMESTAMP as text. Specifiers: `{' '.join(_WRITTEN)}`.",
            "STRFTIME(TIMESTAMP '2024-02-29 17:05:00', '%d.%m.%Y %H:%M')"))
STRPTIME = Function(
    "STRPTIME", _type_strptime,
    lambda call, text, _: FunctionResult(_strptime(call, text), [
        (_strptime(call, text).is_null(), "the text does not match the format")]),
    called=("STRPTIME",),
    doc=Doc("STRPTIME(s, format)", f"The TIMESTAMP in a text of that format. Specifiers: `{' '.join(_READ)}`.",
            "STRPTIME('29.2.2024 17:05', '%d.%m.%Y %H:%M')"))
TRY_STRPTIME = Function(
    "TRY_STRPTIME", _type_strptime, lambda call, text, _: FunctionResult(_strptime(call, text)),
    called=("TRY_STRPTIME",), nullable=lambda args: True,
    doc=Doc("TRY_STRPTIME(s, format)", "As STRPTIME, but null if the text does not match the format.",
            "TRY_STRPTIME('today', '%Y-%m-%d')"))
MONTHNAME = _month_or_day("MONTHNAME", "%B", "The English name of the month.")
DAYNAME = _month_or_day("DAYNAME", "%A", "The English name of the day of the week.")

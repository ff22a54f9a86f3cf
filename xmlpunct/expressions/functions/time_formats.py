"""Moments to and from text, by a format in the syntax of DuckDB."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

import polars as pl
from polars.exceptions import ComputeError

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
    ".%f": r"\.\d{1,6}", "%j": r"\d{1,3}", "%b": r"\w+", "%B": r"\w+", "%p": "[AaPp][Mm]", "%%": "%",
    "%a": "(?i:sun|mon|tue|wed|thu|fri|sat)",
    "%A": "(?i:sunday|monday|tuesday|wednesday|thursday|friday|saturday)",
    "%z": r"[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?", "%Z": r"[\w/+-]+",
}  # fmt: skip
"""The specifiers of STRPTIME, with the texts that they match. polars accepts more: signs, a 60th second."""
_ZONES = ("%z", "%Z")
_SHORT_NAMES = {"CST": "America/Chicago", "JST": "Asia/Tokyo", "PST": "America/Los_Angeles"}
"""Time zones with a name that DuckDB reads and that is not in the IANA database."""
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
    found = _SPECIFIER.findall(_format(record.name, form, _READ))
    parts = {*found}
    hour = {"%H"} if "%H" in parts else {"%I", "%p"} if parts & {"%I", "%p"} else set[str]()
    day_of_month = parts & {"%d", "%m", "%b", "%B"}
    complete = not day_of_month if "%j" in parts else "%d" in parts and len(day_of_month) > 1
    if "%Y" not in parts or not complete:
        raise ValueError(f"{record.name} needs a year, a month and a day: '%Y-%m-%d', or '%Y-%j'")
    if not hour <= parts or bool(hour) != ("%M" in parts) or ({"%S", ".%f"} & parts and not hour):
        raise ValueError(f"{record.name} reads a time as %H:%M, %H:%M:%S, %H:%M:%S.%f or %I:%M %p")
    if sum(part in _ZONES for part in found) > 1:
        raise ValueError(f"{record.name} reads one time zone, %z or %Z")
    return record.call(TIMESTAMP, text, form)


def _strptime(call: Call, text: pl.Expr) -> pl.Expr:
    """The moments of texts, null where a text has none.

    polars reads neither zones as DuckDB does, nor days of the week that are not those of the date: they are cut out.
    """
    form = _format(call.function, call.args[1], _READ)
    shape, replacement, rest, zone, end = "", "", "", None, 0
    for group, match in enumerate(_SPECIFIER.finditer(form), 1):
        specifier, between = match[0], form[end : match.start()]
        cut = specifier in ("%a", "%A", *_ZONES)
        shape += f"{pl.escape_regex(between)}({_READ[specifier]})"
        replacement += between.replace("$", "$$") + ("" if cut else f"${{{group}}}")
        rest += between + ("" if cut else specifier.replace(".%f", "%.f"))
        zone = (specifier, group) if specifier in _ZONES else zone
        end = match.end()
    shape = f"^{shape}{pl.escape_regex(form[end:])}$"
    trimmed = text.str.strip_chars(" ")
    well_formed = pl.when(trimmed.str.contains(shape)).then(trimmed)
    without = well_formed.str.replace(shape, replacement + form[end:].replace("$", "$$"))
    moments = without.str.strptime(pl.Datetime("us"), rest + form[end:], strict=False)
    if zone is None:
        return moments.dt.replace_time_zone("UTC")
    specifier, group = zone
    name = well_formed.str.extract(shape, group)
    utc = (
        moments.dt.replace_time_zone("UTC") - _offset(name) if specifier == "%z" else _of_zone(moments, name)
    )
    return pl.when(utc.dt.year().is_between(1, 9999)).then(utc)


def _offset(text: pl.Expr) -> pl.Expr:
    """The durations of offsets such as +01, +0130 or -01:30:15."""
    digits = text.str.replace_all(":", "")
    hours, minutes, seconds = (
        digits.str.slice(start, 2).cast(pl.Int64, strict=False).fill_null(0) for start in (1, 3, 5)
    )
    size = pl.duration(hours=hours, minutes=minutes, seconds=seconds)
    return pl.when(digits.str.starts_with("-")).then(-size).otherwise(size)


def _of_zone(moments: pl.Expr, name: pl.Expr) -> pl.Expr:
    """Local moments of named time zones in UTC; null where the name is unknown.

    As in DuckDB, a moment that occurs twice is the later one, and one that a change of the clock leaves out is read
    with the offset before the change.
    """

    def convert(pairs: pl.Series) -> pl.Series:
        rows = pairs.struct.unnest().with_row_index("row")
        none = rows.clear().select("row", utc=pl.lit(None, pl.Datetime("us", "UTC")))
        parts = [
            part.select("row", utc=_in_utc(part["local"], zone)) for (zone,), part in rows.group_by("zone")
        ]
        return pl.concat([none, *parts]).sort("row")["utc"].rename(pairs.name)

    local = pl.struct(moments.alias("local"), name.alias("zone"))
    return local.map_batches(convert, pl.Datetime("us", "UTC"), is_elementwise=True)


def _in_utc(local: pl.Series, zone: str | None) -> pl.Series:
    for name in () if zone is None else (zone, zone.upper(), _SHORT_NAMES.get(zone.upper(), zone)):
        with contextlib.suppress(ComputeError):  # the name is unknown
            utc, day_later = (
                moments.dt.replace_time_zone(
                    name, ambiguous="latest", non_existent="null"
                ).dt.convert_time_zone("UTC")
                for moments in (local, local.dt.offset_by("-1d"))
            )
            return utc.fill_null(day_later.dt.offset_by("1d"))
    return pl.repeat(None, len(local), dtype=pl.Datetime("us", "UTC"), eager=True)


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

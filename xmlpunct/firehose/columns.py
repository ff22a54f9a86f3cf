"""Texts to typed columns: common lexical forms are converted at once, the others by `Type.read`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from xmlpunct.doubles import canonical_column
from xmlpunct.firehose.cells import Cells
from xmlpunct.forks import polars_works
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.punctuations.set import pattern_expression
from xmlpunct.schema import Attribute
from xmlpunct.types import STRING, XML, DecimalType, Type, Value

FEW = 32
"""So few texts are read sooner one by one."""
SHOWN = 60
"""How much of a wrong value a reason shows."""


def column(attribute: Attribute, cells: Cells, wanted: bool = True) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute's values, and what is wrong by row (where the column has a null).

    A null where none may be, a text that is no value of the type, and a value outside the declared domain
    are wrong. A column that is not ``wanted`` is only looked at for what may be wrong in it; what is in it
    where nothing can be are nulls.

    >>> from xmlpunct.schema import Schema
    >>> hour = Schema.parse("hour INT NOT NULL")["hour"]
    >>> values, wrong = column(hour, Cells.of(["17", " 18\\n", "x", None]))
    >>> values.to_list(), sorted(wrong)
    ([17, 18, None, None], [2, 3])
    """
    name, type_, bound = attribute.name, attribute.type, attribute.domain is not WILDCARD
    if not polars_works():
        values, found = _one_by_one(type_, cells, name)
    elif type_ in (STRING, XML) and not wanted and not bound:
        found = {}
        values = pl.Series(name, [None], dtype=pl.String()).new_from_index(0, len(cells))
    else:
        values, found = convert(type_, cells, name)
    wrong = {row: f"attribute {name}: {reason}" for row, reason in found.items()}
    if not attribute.nullable:
        for row in np.flatnonzero(cells.missing).tolist():
            wrong[row] = f"attribute {name}: missing, and it is NOT NULL"
    if bound:
        for row in _outside(attribute, values):
            text = shown(cells.text(row))
            wrong[row] = f"attribute {name}: {text} is outside its domain {attribute.domain}"
    return values, wrong


def _outside(attribute: Attribute, values: pl.Series) -> list[int]:
    """The rows whose values are outside the declared domain."""
    if polars_works():
        inside = values.to_frame().select(pattern_expression(attribute.name, attribute.domain)).to_series()
        return (values.is_not_null() & ~inside).arg_true().to_list()
    matches = attribute.domain.matches
    return [row for row, value in enumerate(values) if value is not None and not matches(value)]


def convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    """The values of texts in XML Schema's form, exactly as ``type_.read`` reads each, and what is wrong."""
    if type_ in (STRING, XML):
        return cells.texts(name), {}
    read = cells.numbers(type_, name)
    if read is None:
        return _convert(type_, cells, name)
    values, left = read
    rows = np.flatnonzero(left & ~cells.missing)
    if not len(rows):
        return values, {}
    others, reasons = _convert(type_, cells.take(rows), name)
    return values.scatter(rows, others), {int(rows[row]): reason for row, reason in reasons.items()}


def _convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    return (_one_by_one if len(cells) <= FEW else _together)(type_, cells, name)


def _one_by_one(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    values: list[Value] = []
    wrong: dict[int, str] = {}
    for row, (text, missing) in enumerate(zip(cells.listed(), cells.missing.tolist(), strict=True)):
        value = None if missing else _parse(type_, text)
        if isinstance(value, ValueError):
            wrong[row], value = _reason(type_, text, value), None
        values.append(value)
    return pl.Series(name, values, dtype=type_.dtype), wrong


def _together(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    texts = cells.texts(name)
    values = _fast(type_, texts.str.strip_chars(" \t\r\n"))
    left = values.is_null() & texts.is_not_null()
    wrong: dict[int, str] = {}
    if left.any():
        rows: list[int] = []
        read: list[Value] = []
        known: dict[str, Value | ValueError] = {}
        for row in left.arg_true().to_list():
            text = texts[row]
            if text not in known:
                known[text] = _parse(type_, text)
            value = known[text]
            if isinstance(value, ValueError):
                wrong[row] = _reason(type_, text, value)
            else:
                rows.append(row)
                read.append(value)
        if rows:
            values = values.scatter(rows, pl.Series(read, dtype=type_.dtype))
    return values.rename(texts.name), wrong


def _reason(type_: Type, text: str, error: ValueError) -> str:
    """Why a text is no value, in not too many words."""
    reason = str(error)
    return reason if len(reason) <= 2 * SHOWN else f"{shown(text)} is not of type {type_}"


def shown(text: str) -> str:
    """A text as a reason shows it: quoted, and cut short."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")


def _parse(type_: Type, text: str) -> Value | ValueError:
    try:
        return type_.accept(type_.read(text))
    except ValueError as error:
        return error


def _fast(type_: Type, texts: pl.Series) -> pl.Series:
    """The values of the texts that have the type's common form; null for the others, right or wrong."""
    form, cast = _FORMS[type_.name] if type_.name in _FORMS else _decimal(type_)
    common = texts.str.contains(form).fill_null(False)
    if not common.all():
        texts = texts.to_frame("t").select(pl.when(common).then(pl.col("t"))).to_series()
    return cast(texts)


def _decimal(type_: Type) -> tuple[str, Callable[[pl.Series], pl.Series]]:
    assert isinstance(type_, DecimalType)
    whole, scale = type_.precision - type_.scale, type_.scale
    digits = rf"[0-9]{{1,{whole}}}" if whole else "0"
    return rf"^[+-]?{digits}(?:\.[0-9]{{0,{scale}}})?$", lambda s: s.cast(type_.dtype, strict=False)


def _double(texts: pl.Series) -> pl.Series:
    return canonical_column(texts.cast(pl.Float64, strict=False))


def _boolean(texts: pl.Series) -> pl.Series:
    yes = texts.is_in(["true", "1"])
    return yes.set(texts.is_null(), None)


def _date(texts: pl.Series) -> pl.Series:
    return texts.str.to_date("%Y-%m-%d", strict=False)


def _timestamp(texts: pl.Series) -> pl.Series:
    bare = texts.str.strip_suffix("Z").str.head(len("2026-01-31T12:00:00.123456"))
    read = bare.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
    return read.dt.replace_time_zone("UTC")


_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # Python's dates begin with year 1
_DAY = rf"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_FORMS: dict[str, tuple[str, Callable[[pl.Series], pl.Series]]] = {
    "INT": ("^[+-]?[0-9]{1,18}$", lambda s: s.cast(pl.Int64, strict=False)),
    "DOUBLE": (r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?$", _double),
    "BOOLEAN": ("^(?:true|false|1|0)$", _boolean),
    "DATE": (f"^{_DAY}$", _date),
    "TIMESTAMP": (f"^{_DAY}T{_CLOCK}Z?$", _timestamp),
}

"""Converts texts to typed columns, and reports invalid texts."""

from __future__ import annotations

import numpy as np
import polars as pl

from xmlpunct.base.forks import polars_works
from xmlpunct.firehose.cells import Cells
from xmlpunct.punctuations.pattern_expressions import pattern_expression
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING, XML, Type, Value
from xmlpunct.types.pattern import WILDCARD

_NO_ROWS = np.empty(0, np.int64)
FEW = 32
"""Up to this number, texts are converted faster one by one."""
SHOWN = 60
"""Maximum length of an invalid value in a message."""


def typed_column(
    attribute: Attribute, cells: Cells, is_needed: bool = True
) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute's values, and faults by row (where the column is null or has the default).

    Faults are a null in a NOT NULL column without a default, a text that is not a value of the type, and a value
    outside the declared domain. A column that is not needed is only validated. If its values cannot be invalid, it
    consists of nulls.

    >>> from xmlpunct.schema import Schema
    >>> hour = Schema.parse("hour INT NOT NULL")["hour"]
    >>> values, wrong = typed_column(hour, Cells.of(["17", " 18\\n", "x", None]))
    >>> values.to_list(), sorted(wrong)
    ([17, 18, None, None], [2, 3])
    """
    name, type_, bound = attribute.name, attribute.type, attribute.domain is not WILDCARD
    if not polars_works():
        values, reasons = _one_by_one(type_, cells, name)
    elif type_ in (STRING, XML) and not is_needed and not bound:
        reasons = {}
        values = nulls(name, type_, len(cells))
    else:
        values, reasons = convert(type_, cells, name)
    wrong = {row: f"attribute {name}: {reason}" for row, reason in reasons.items()}
    if attribute.default is not None:
        values = with_default(values, attribute)
    elif not attribute.nullable:
        for row in np.flatnonzero(cells.missing).tolist():
            wrong[row] = f"attribute {name}: missing, but NOT NULL"
    if bound:
        for row in outside_domain(attribute, values):
            text = shown_text(cells.text(row))
            wrong[row] = f"attribute {name}: {text} is outside its domain {attribute.domain}"
    return values, wrong


def nulls(name: str, type_: Type, count: int) -> pl.Series:
    """A column of nulls."""
    if not polars_works():
        return pl.Series(name, [None] * count, dtype=type_.dtype)
    return pl.Series(name, [None], dtype=type_.dtype).new_from_index(0, count)


def with_default(values: pl.Series, attribute: Attribute) -> pl.Series:
    """The values, with the attribute's default for each null."""
    if polars_works():
        return values.fill_null(pl.lit(attribute.default, dtype=attribute.type.dtype))
    filled = [attribute.default if value is None else value for value in values]
    return pl.Series(values.name, filled, dtype=values.dtype)


def outside_domain(attribute: Attribute, values: pl.Series) -> list[int]:
    """The rows whose values are outside the declared domain."""
    if polars_works():
        inside = values.to_frame().select(pattern_expression(attribute.name, attribute.domain)).to_series()
        return (values.is_not_null() & ~inside).arg_true().to_list()
    matches = attribute.domain.matches
    return [row for row, value in enumerate(values) if value is not None and not matches(value)]


def convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    """The values of texts in XML Schema's form, exactly as ``type_.read`` converts each, and faults by row."""
    if type_ in (STRING, XML):
        return cells.texts(name), {}
    read = cells.numbers(type_, name)
    if read is None:
        return _convert(type_, cells, name)
    values, left = read
    rows = np.flatnonzero(left & ~cells.missing) if left.any() else _NO_ROWS
    if not len(rows):
        return values, {}
    slow_values, reasons = _convert(type_, cells.take(rows), name)
    return values.scatter(rows, slow_values), {int(rows[row]): reason for row, reason in reasons.items()}


def _convert(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    if len(cells) <= FEW:
        return _one_by_one(type_, cells, name)
    texts = cells.texts(name)
    values = type_.read_column(texts)
    wrong: dict[int, str] = {}
    if values.null_count() > texts.null_count():
        for row in (values.is_null() & texts.is_not_null()).arg_true().to_list():
            _, wrong[row] = _read(type_, texts[row])
    return values, wrong


def _one_by_one(type_: Type, cells: Cells, name: str) -> tuple[pl.Series, dict[int, str]]:
    values: list[Value] = []
    wrong: dict[int, str] = {}
    for row, (text, missing) in enumerate(zip(cells.listed(), cells.missing.tolist(), strict=True)):
        value, reason = (None, "") if missing else _read(type_, text)
        if reason:
            wrong[row] = reason
        values.append(value)
    return pl.Series(name, values, dtype=type_.dtype), wrong


def _read(type_: Type, text: str) -> tuple[Value, str]:
    """The value of a text and "", or None and the reason why the text is invalid."""
    try:
        return type_.read(text), ""
    except ValueError as error:
        reason = str(error)
        return None, reason if len(reason) <= 2 * SHOWN else f"{shown_text(text)} is not of type {type_}"


def shown_text(text: str) -> str:
    """A text for a message: quoted and shortened."""
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "...")

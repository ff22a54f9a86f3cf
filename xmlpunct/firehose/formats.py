"""Columns of values as columns of text: what all writers share."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

import polars as pl

from xmlpunct.arrays import ArrayType
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import STRING, XML, Type

_FEW = 500
"""So few lines are joined sooner one by one."""


def text(attribute: Attribute) -> pl.Expr:
    """A polars expression: the attribute's values in XML Schema's form (null stays null)."""
    return _text(attribute.type, pl.col(attribute.name))


def _text(type_: Type, values: pl.Expr) -> pl.Expr:
    kind = type_.name
    if type_ in (STRING, XML):
        return values
    if kind == "DOUBLE":
        plain = values.cast(pl.String)
        infinite = pl.when(values > 0).then(pl.lit("INF")).otherwise(pl.lit("-INF"))
        number = pl.when(values.is_infinite()).then(infinite).otherwise(plain)
        return pl.when(values.is_nan()).then(pl.lit("NaN")).otherwise(number)
    if kind == "DATE":
        return values.dt.to_string("%Y-%m-%d")
    if kind == "TIMESTAMP":
        whole, part = "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%.6fZ"
        is_whole = values.dt.microsecond() == 0
        return pl.when(is_whole).then(values.dt.to_string(whole)).otherwise(values.dt.to_string(part))
    return values.cast(pl.String)


def json_text(attribute: Attribute) -> pl.Expr:
    """A polars expression: the attribute's values as JSON (null is ``null``)."""
    return _json(attribute.type, pl.col(attribute.name))


def _json(type_: Type, values: pl.Expr) -> pl.Expr:
    kind, plain = type_.name, _text(type_, values) if not isinstance(type_, ArrayType) else values
    if isinstance(type_, ArrayType):
        found = pl.concat_str(pl.lit("["), values.list.eval(_item(type_)).list.join(", "), pl.lit("]"))
    elif kind in ("INT", "BOOLEAN") or kind.startswith("DECIMAL"):
        found = plain
    elif kind == "DOUBLE":
        quoted = pl.concat_str(pl.lit('"'), plain, pl.lit('"'))
        found = pl.when(values.is_finite()).then(plain).otherwise(quoted)
    elif type_ in (STRING, XML):
        found = json_string(values)
    else:
        found = pl.concat_str(pl.lit('"'), plain, pl.lit('"'))
    return found.fill_null("null")


def _item(type_: ArrayType) -> pl.Expr:
    """A polars expression: an item of an array as a JSON object."""
    parts: list[pl.Expr] = []
    for a in type_.schema:
        start = "{" if not parts else ", "
        parts += [pl.lit(f"{start}{json.dumps(a.name, ensure_ascii=False)}: ")]
        parts += [_json(a.type, pl.element().struct.field(a.name))]
    return pl.concat_str(*parts, pl.lit("}"))


def json_string(values: pl.Expr) -> pl.Expr:
    """A polars expression: strings as JSON strings (null stays null)."""
    encoded = pl.struct(values.alias("")).struct.json_encode()
    return pl.when(values.is_not_null()).then(encoded.str.strip_prefix('{"":').str.strip_suffix("}"))


class Lines(Protocol):
    """How a form of output says a punctuation in a line."""

    def punctuation(self, p: Punctuation) -> str:
        """The line of a punctuation."""

    def around(self, place: int) -> tuple[str, str]:
        """What stands around the number in the line of a punctuation that says one, of the attribute at a place."""


def line(parts: Iterable[pl.Expr]) -> pl.Expr:
    """A polars expression: the line of a tuple, the concatenation of ``parts``, none of them null."""
    return pl.concat_str(*parts, pl.lit("\n")).alias("line")


def lines(given: Slice, of_tuple: pl.Expr, form: Lines) -> bytes:
    """The lines of a slice, where ``of_tuple`` is that of a tuple.

    The lines of its punctuations (none for ``<*, ..., *>``) stand where the punctuations stood, if the slice
    remembers that, else at the end.
    """
    found = given.tuples.with_columns(of_tuple)["line"]  # one for each tuple, though it may have no columns
    if not given.before:
        return (_joined(found) + _said(given.punctuations, form)).encode()
    pieces, at = [], 0
    for place, p in zip(given.before, given.punctuations, strict=True):
        if place > at:
            pieces.append(_joined(found[at:place]))
            at = place
        if not p.is_everything:
            pieces.append(form.punctuation(p))
    if at < len(found):
        pieces.append(_joined(found[at:]))
    return "".join(pieces).encode()


def _joined(found: pl.Series) -> str:
    """Lines, one behind the other."""
    return "".join(found.to_list()) if len(found) < _FEW else str(found.str.join("").item())


def _said(batch: PunctuationBatch, form: Lines) -> str:
    """The lines of some punctuations."""
    if batch.place is None or batch.ranged or batch.values.dtype != pl.Int64():
        return "".join(form.punctuation(p) for p in batch if not p.is_everything)
    before, after = map(pl.lit, form.around(batch.place))
    numbers = batch.values.alias("n").to_frame()
    return str(numbers.select(pl.concat_str(before, "n", after).str.join("")).item())

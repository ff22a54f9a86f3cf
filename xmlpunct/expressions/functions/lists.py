"""Arrays computed by expressions: lists of values of one type."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult
from xmlpunct.expressions.functions.casts import of_type
from xmlpunct.expressions.non_null import of_first
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING, Type

ITEM = "value"
"""The column of these arrays."""


def list_of(type_: Type) -> ArrayType:
    """The type of arrays of single values. Each item is a separate element in XML.

    >>> list_of(STRING)
    ARRAY(value STRING PATH '.')
    """
    return array_of([Attribute(ITEM, type_, path=".")])


def _type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
    return record.call(list_of(STRING), *(of_type(record.name, a, STRING) for a in args))


def items(text: pl.Expr, separator: pl.Expr) -> pl.Expr:
    """The parts of a text between separators. An empty separator splits the text into its characters."""
    whole = pl.concat_list(text)
    return (
        pl.when(separator.is_null())
        .then(whole)
        .when(text == "")
        .then(pl.when(separator == "").then(whole.list.head(0)).otherwise(whole))
        .otherwise(text.str.split(separator))
    )


def _split(call: Call, text: pl.Expr, separator: pl.Expr) -> FunctionResult:
    rows = items(text, separator).list.eval(pl.struct(pl.element().alias(ITEM)))
    return FunctionResult(pl.when(text.is_not_null()).then(rows))


SPLIT = Function(
    "SPLIT", _type_call, _split, called=("SPLIT", "STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY"),
    nullable=lambda args: args[0].nullable, non_null=of_first,
    doc=Doc("SPLIT(s, separator)", "The parts of s: an array of rows with one column, `value`, for UNNEST.",
            "SPLIT('a,b', ',')"),
)  # fmt: skip

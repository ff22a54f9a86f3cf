"""Python tables as constant relations of a query: all tuples, then the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pyexpat import ExpatError, ParserCreate
from typing import Protocol

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.doubles import canonical_column
from xmlpunct.base.errors import Reject, SourceError, UsageError
from xmlpunct.firehose.cells import outside_domain, shown_text, with_default
from xmlpunct.firehose.items import lists
from xmlpunct.operators.iterator import as_text
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.provenance import is_attribute
from xmlpunct.slice import Slice
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, XML, DecimalType, Type, decimal
from xmlpunct.types.pattern import WILDCARD

SLICE_ROWS = 2**16
"""The number of rows of a table that a slice takes."""
_DIGITS: dict[pl.DataType, int] = {
    pl.Int8(): 3,
    pl.UInt8(): 3,
    pl.Int16(): 5,
    pl.UInt16(): 5,
    pl.Int32(): 10,
    pl.UInt32(): 10,
    pl.Int64(): 19,
}
"""The integer types that are read as INT, with their greatest numbers of digits."""
_DOUBLE_DIGITS = 15
"""A DOUBLE holds all integers with this number of digits."""


class ArrowStream(Protocol):
    """An object with Arrow data, such as a table, a reader or a data frame of many libraries."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Tabular = pl.DataFrame | pl.LazyFrame | ArrowStream
"""The objects that `Table.of` accepts. A pandas DataFrame has Arrow data, too."""


@dataclass(frozen=True)
class Table:
    """A table with a name. Each run computes its rows when it reads them."""

    name: str
    frame: pl.LazyFrame
    dtypes: pl.Schema

    @classmethod
    def of(cls, table: object, name: str) -> Table | None:
        """The table of an object; None if it is not a table. A stream of Arrow data is read here, to its end.

        Raises `UsageError` for data that polars cannot hold.
        """
        try:
            if (frame := _frame(table)) is None:
                return None
            return cls(name, frame.lazy(), frame.collect_schema())
        except Exception as error:  # of any kind, from the object's library
            raise UsageError(f"{name} cannot be read as a table: {error}") from None

    @property
    def schema(self) -> Schema:
        """The columns as the attributes of a stream. Raises `UsageError` for an unsupported type.

        >>> table = Table.of(pl.DataFrame({"sku": ["a7"], "price": [2.5]}), "prices")
        >>> [(a.name, a.type) for a in table.schema]
        [('sku', STRING), ('price', DOUBLE)]
        """
        return Schema.of(Attribute(name, self._type(name, dtype)) for name, dtype in self.dtypes.items())

    def check(self, schema: Schema) -> None:
        """Raise `UsageError` unless the table has a stream's columns, with values that fit the stream's types."""
        for a in schema:
            if a.name not in self.dtypes:
                raise UsageError(f"{self.name} has no column {a.name}: there are {', '.join(self.dtypes)}")
            if not _fits(self.dtypes[a.name], a.type):
                raise UsageError(
                    f"column {a.name} of {self.name} is {self.dtypes[a.name]}, which does not fit {a.type}: cast it"
                )

    def slices(self, schema: Schema) -> Iterator[tuple[Slice, list[Reject]]]:
        """The rows as tuples of a schema that passed `check`, and rejects. Raises `SourceError`."""
        try:
            rows = self.frame.select(schema.names).collect()
        except Exception as error:  # whatever computes it may raise
            raise SourceError(self.name, f"cannot be computed: {error}") from None
        for part in rows.iter_slices(SLICE_ROWS):
            tuples, wrong = _read(part, schema)
            rejects = [
                Reject(self.name, None, None, reason, as_text(schema.as_written(tuples.row(row, named=True))))
                for row, reason in sorted(wrong.items())
            ]
            if wrong:
                good = np.ones(part.height, np.bool_)
                good[[*wrong]] = False
                tuples = tuples.filter(booleans(good))
            yield Slice(tuples), rejects

    def _type(self, name: str, dtype: pl.DataType) -> Type:
        type_ = _type_of(dtype)
        if type_ is None:
            raise UsageError(
                f"column {name} of {self.name} is {dtype}, which is not supported: cast it, or drop it"
            )
        if not is_attribute(name):
            raise UsageError(f"column {name!r} of {self.name} cannot have this name: rename it")
        return type_


def _frame(table: object) -> pl.DataFrame | pl.LazyFrame | None:
    if isinstance(table, pl.DataFrame | pl.LazyFrame):
        return table
    # Nobody has a data frame of a pandas that another thread is still importing.
    pandas_frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if pandas_frame is not None and isinstance(table, pandas_frame):
        return pl.from_pandas(table)  # its Arrow data would have its index, too
    if hasattr(table, "__arrow_c_stream__"):
        return pl.DataFrame(table)
    return None


def _type_of(dtype: pl.DataType) -> Type | None:
    """The type of a polars column; None if it is not supported."""
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return STRING
    if dtype in _DIGITS:
        return INT
    if dtype.is_float():
        return DOUBLE
    if isinstance(dtype, pl.Decimal):
        return decimal(dtype.precision or 38, dtype.scale)
    if isinstance(dtype, pl.List | pl.Array) and isinstance(dtype.inner, pl.Struct):
        fields = {name: _type_of(inner) for name, inner in pl.Schema(dtype.inner.to_schema()).items()}
        supported = {name: type_ for name, type_ in fields.items() if type_ is not None}
        if not supported or len(supported) < len(fields):
            return None
        return array_of(Attribute(name, type_) for name, type_ in supported.items())
    return {pl.Boolean(): BOOLEAN, pl.Date(): DATE}.get(dtype) or (
        TIMESTAMP if dtype == pl.Datetime else None
    )


def _fits(dtype: pl.DataType, type_: Type) -> bool:
    """Whether all possible values of a polars column are values of a type."""
    if dtype == pl.Null:
        return True
    if isinstance(type_, ArrayType):
        if not isinstance(dtype, pl.List | pl.Array) or not isinstance(dtype.inner, pl.Struct):
            return False
        fields = pl.Schema(dtype.inner.to_schema())
        return all(a.name in fields and _fits(fields[a.name], a.type) for a in type_.attributes)
    if isinstance(type_, DecimalType):
        digits, scale = _DIGITS.get(dtype, 39), 0
        if isinstance(dtype, pl.Decimal):
            digits, scale = (dtype.precision or 38) - dtype.scale, dtype.scale
        return digits <= type_.precision - type_.scale and scale <= type_.scale
    if type_ is DOUBLE and _DIGITS.get(dtype, 39) <= _DOUBLE_DIGITS:
        return True
    return _type_of(dtype) is (STRING if type_ is XML else type_)


def _read(rows: pl.DataFrame, schema: Schema, prefix: str = "") -> tuple[pl.DataFrame, dict[int, str]]:
    """Rows as tuples of a schema, and faults by row. Messages show the ``prefix`` before a column's name."""
    wrong: dict[int, str] = {}
    columns = []
    for a in schema:
        values, faulty = _column(rows[a.name], replace(a, name=prefix + a.name))
        columns.append(values.alias(a.name))
        for row, reason in faulty.items():
            wrong.setdefault(row, reason)
    return pl.DataFrame(columns), wrong


def _column(values: pl.Series, attribute: Attribute) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute, and faults by row, worded as in `xmlpunct.firehose.cells`."""
    name, type_ = attribute.name, attribute.type
    if isinstance(type_, ArrayType):
        return _arrays(values, attribute, type_)
    read = _converted(values, type_)
    wrong: dict[int, str] = {}
    for row in (read.is_null() & values.is_not_null()).arg_true():
        wrong[row] = f"attribute {name}: {_value_text(values, row)} is not of type {type_}"
    if attribute.default is not None:
        read = with_default(read, attribute)
    elif not attribute.nullable:
        wrong |= dict.fromkeys(values.is_null().arg_true(), f"attribute {name}: missing, but NOT NULL")
    if attribute.domain is not WILDCARD:
        for row in outside_domain(attribute, read.alias(name)):
            text = shown_text(type_.format(read[row]))
            wrong[row] = f"attribute {name}: {text} is outside its domain {attribute.domain}"
    return read, wrong


def _value_text(values: pl.Series, row: int) -> str:
    """The text of a value outside its type; Python's dates and times cannot represent all of them."""
    if not values.dtype.is_temporal():
        return shown_text(str(values[row]))
    unit = values.dtype.time_unit if isinstance(values.dtype, pl.Datetime) else "days"
    return f"{values.to_physical()[row]} {unit} since 1970"


def _arrays(values: pl.Series, attribute: Attribute, type_: ArrayType) -> tuple[pl.Series, dict[int, str]]:
    """`_column` for arrays. Null is an array without items, as it is in XML."""
    name = attribute.name
    if values.dtype == pl.Null:
        values = values.cast(type_.dtype)
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    counts = values.list.len().fill_null(0).to_numpy()
    item_rows = np.repeat(np.arange(len(values)), counts)
    items = values.explode(empty_as_null=False, keep_nulls=False)
    schema = Schema.of(type_.attributes)
    fields, faulty = _read(items.struct.unnest(), schema, f"{name}/")
    wrong = {int(item_rows[item]): reason for item, reason in sorted(faulty.items(), reverse=True)}
    for item in items.is_null().arg_true():
        wrong[int(item_rows[item])] = f"attribute {name}: an item is null"
    return lists(name, schema, fields.get_columns(), item_rows, len(values)), wrong


def _converted(values: pl.Series, type_: Type) -> pl.Series:
    """The values of a column that fits a type; null for a value outside the type, such as the year 10000."""
    if type_ is DOUBLE:
        return canonical_column(values.cast(pl.Float64()))
    if type_ is XML:
        return values.cast(pl.String()).to_frame("").select(pl.when(_are_xml(values)).then("")).to_series()
    if type_ in (DATE, TIMESTAMP) and values.dtype != pl.Null:
        return _moments(values, type_)
    return values.cast(type_.dtype)


def _moments(values: pl.Series, type_: Type) -> pl.Series:
    """Days and instants. An instant without a zone is in UTC; a finer one is cut down to the microsecond below it."""
    dtype = values.dtype
    if isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns":
        values = values.dt.cast_time_unit("us")
    step = 1000 if isinstance(dtype, pl.Datetime) and dtype.time_unit == "ms" else 1
    ends = pl.Series([type_.lowest, type_.highest], dtype=type_.dtype).to_physical()
    inside = values.to_physical().is_between(-(-ends[0] // step), ends[1] // step)
    values = values.to_frame("").select(pl.when(inside).then("")).to_series()
    if isinstance(dtype, pl.Datetime):
        is_bare = dtype.time_zone is None
        values = values.dt.replace_time_zone("UTC") if is_bare else values.dt.convert_time_zone("UTC")
    return values.cast(type_.dtype)


def _are_xml(values: pl.Series) -> pl.Series:
    """Whether each text is well-formed inside an element, whatever prefixes are declared around it."""
    return pl.Series([text is not None and _is_xml(text) for text in values], dtype=pl.Boolean())


def _is_xml(text: str) -> bool:
    try:
        ParserCreate().Parse(f"<x>{text}</x>".encode(), True)
    except ExpatError:
        return False
    return True

"""Conversion between Spark's columns and ours: types, and nested columns, which are structs in Spark and paths here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from xmlpunct.base.arrow_memory import from_arrow
from xmlpunct.base.errors import SchemaError
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, XML, DecimalType, Type, decimal

_OUR_TYPES: dict[spark.DataType, Type] = {
    spark.StringType(): STRING,
    spark.LongType(): INT,
    spark.IntegerType(): INT,
    spark.ShortType(): INT,
    spark.ByteType(): INT,
    spark.DoubleType(): DOUBLE,
    spark.FloatType(): DOUBLE,
    spark.BooleanType(): BOOLEAN,
    spark.DateType(): DATE,
    spark.TimestampType(): TIMESTAMP,
}
"""Our types for Spark's types."""
_SPARK_TYPES: dict[Type, spark.DataType] = {
    STRING: spark.StringType(),
    XML: spark.StringType(),
    INT: spark.LongType(),
    DOUBLE: spark.DoubleType(),
    BOOLEAN: spark.BooleanType(),
    DATE: spark.DateType(),
    TIMESTAMP: spark.TimestampType(),
}
_NARROW: dict[spark.DataType, int] = {
    spark.IntegerType(): 31,
    spark.ShortType(): 15,
    spark.ByteType(): 7,
}
"""Number of bits of a value, without the sign."""
_INSTEAD = {
    "timestamp_ntz": "TIMESTAMP",
    "binary": "STRING (base64 text)",
    "map": "STRUCT or ARRAY<STRUCT<...>>",
    "variant": "STRUCT",
    "void": "STRING",
}


def type_of_spark(dtype: spark.DataType, name: str) -> Type:
    """Our type for an atomic Spark type, in the column ``name``. Raises `SchemaError`.

    >>> type_of_spark(spark.DecimalType(5, 2), "price"), type_of_spark(spark.ShortType(), "n")
    (DECIMAL(5,2), INT)
    """
    if isinstance(dtype, spark.DecimalType):
        return decimal(dtype.precision, dtype.scale)
    if dtype in _OUR_TYPES:
        return _OUR_TYPES[dtype]
    kind = dtype.typeName()
    instead = f": declare it {_INSTEAD[kind]}" if kind in _INSTEAD else ""
    raise SchemaError(f"column {name}: XML cannot represent Spark's type {dtype.simpleString()}{instead}")


def spark_type(type_: Type) -> spark.DataType:
    """The Spark type for one of our types.

    >>> from xmlpunct.schema import Schema
    >>> [spark_type(a.type).simpleString() for a in Schema.parse("a INT, line ARRAY(qty INT)")]
    ['bigint', 'array<struct<qty:bigint>>']
    """
    if isinstance(type_, ArrayType):
        return spark.ArrayType(spark_schema(type_.attributes))
    if isinstance(type_, DecimalType):
        return spark.DecimalType(type_.precision, type_.scale)
    return _SPARK_TYPES[type_]


def spark_schema(attributes: Iterable[Attribute]) -> spark.StructType:
    """Spark's columns for attributes: the same names, all nullable."""
    return spark.StructType([spark.StructField(a.name, spark_type(a.type)) for a in attributes])


@dataclass(frozen=True)
class SparkField:
    """A Spark column, or a field of a struct: its ``type``, and the attribute ``source`` of its values.

    A struct has ``fields`` instead of a source. An array of structs has both: ``fields`` refer to the attributes of the
    array's rows. An array of atomic items has no fields: its rows have a single attribute.
    """

    name: str
    type: spark.DataType
    source: str | None
    fields: tuple[SparkField, ...] = ()

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type that Spark expects."""
        return to_arrow_type(self.type, timezone="UTC")

    def sources(self) -> Iterator[str]:
        """The source attributes, including those of nested fields."""
        if self.source is not None:
            yield self.source
        else:
            for field in self.fields:
                yield from field.sources()

    def array(self, columns: Mapping[str, pa.Array], height: int) -> pa.Array:
        """The column's values, from the values of attributes."""
        if self.source is None:
            return _struct(self.fields, columns, height, has_nulls=True)
        values = columns[self.source]
        if not isinstance(self.type, spark.ArrayType):
            return values.cast(self.arrow)
        rows = values.flatten()
        inside = {rows.type.field(i).name: rows.field(i) for i in range(rows.type.num_fields)}
        if self.fields:
            items = _struct(self.fields, inside, len(rows), has_nulls=False)
        else:
            (item,) = inside.values()
            items = item.cast(self.arrow.value_type)
        counts = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.zeros(height + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        # Null instead of an empty array, as in Spark's own source.
        is_empty = np.append(counts == 0, False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=is_empty), items).cast(self.arrow)

    def expressions(self, value: pl.Expr, attributes: Mapping[str, Type]) -> Iterator[pl.Expr]:
        """The inverse of `array`: polars expressions of the attributes over the column's value."""
        if self.source is None:
            for field in self.fields:
                yield from field.expressions(value.struct.field(field.name), attributes)
            return
        type_ = attributes[self.source]
        if isinstance(type_, ArrayType):
            inside = {a.name: a.type for a in type_.attributes}
            if self.fields:
                parts = (f.expressions(pl.element().struct.field(f.name), inside) for f in self.fields)
                by_name = {part.meta.output_name(): part for of_field in parts for part in of_field}
                item = pl.struct([by_name[name] for name in inside])
            else:
                ((name, of_item),) = inside.items()
                item = pl.struct(pl.element().cast(of_item.dtype).alias(name))
            value = value.list.eval(item)
        yield value.cast(type_.dtype).alias(self.source)

    def outside(self, value: pl.Expr) -> pl.Expr | None:
        """Test for values that are too large for Spark's type, over the attribute's ``value``; None if all fit."""
        if isinstance(self.type, spark.ArrayType):
            inside = self.fields or (SparkField("", self.type.elementType, _ITEM),)
            tests = [_outside(field, pl.element()) for field in inside]
            if not (possible_tests := [test for test in tests if test is not None]):
                return None
            return value.list.eval(pl.any_horizontal(possible_tests)).list.any().fill_null(False)
        bits = _NARROW.get(self.type)
        if bits is None:
            return None
        return ~value.is_between(-(2**bits), 2**bits - 1).fill_null(True)


_ITEM = "."
"""The attribute of the rows of an array of atomic items."""


def _outside(field: SparkField, row: pl.Expr) -> pl.Expr | None:
    """`SparkField.outside` for a field in a row of an array."""
    if field.source is None:
        tests = [_outside(inner, row) for inner in field.fields]
        possible_tests = [test for test in tests if test is not None]
        return pl.any_horizontal(possible_tests) if possible_tests else None
    return field.outside(row.struct.field(field.source))


def _struct(
    fields: Iterable[SparkField], columns: Mapping[str, pa.Array], height: int, has_nulls: bool
) -> pa.Array:
    """A struct's values; with ``has_nulls``, a struct of null fields is null."""
    fields = tuple(fields)
    arrays = [field.array(columns, height) for field in fields]
    mask = None
    if has_nulls:
        mask = pa.array(np.logical_and.reduce([a.is_null().to_numpy(zero_copy_only=False) for a in arrays]))
    typed = [pa.field(field.name, field.arrow) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=typed, mask=mask)


@dataclass(frozen=True)
class Layout:
    """The columns of a Spark data frame, and the schema of its tuples.

    >>> layout = Layout.flat(Schema.parse("sid STRING, hour INT"))
    >>> tuples = layout.schema.frame([("S1", 17)])
    >>> layout.batch(tuples).to_pylist()
    [{'sid': 'S1', 'hour': 17}]
    >>> layout.frame(layout.batch(tuples)).equals(tuples)
    True
    """

    fields: tuple[SparkField, ...]
    schema: Schema

    @classmethod
    def flat(cls, schema: Schema) -> Layout:
        """The layout of columns with the names of the attributes."""
        return cls(tuple(_flat_fields(schema)), schema)

    @property
    def columns(self) -> spark.StructType:
        """The columns as Spark types."""
        return spark.StructType([spark.StructField(field.name, field.type) for field in self.fields])

    def batch(self, tuples: pl.DataFrame) -> pa.RecordBatch:
        """Convert tuples for Spark."""
        columns = {name: _exported(tuples[name]) for name in self.schema.names}
        arrays = [field.array(columns, tuples.height) for field in self.fields]
        fields = [pa.field(field.name, field.arrow) for field in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def frame(self, batch: pa.RecordBatch) -> pl.DataFrame:
        """Convert tuples from Spark."""
        names = [field.name for field in self.fields]
        raw_columns = pl.DataFrame([from_arrow(name, batch.column(name)) for name in names])
        attributes = {a.name: a.type for a in self.schema}
        parts = (field.expressions(pl.col(field.name), attributes) for field in self.fields)
        return raw_columns.select([part for of_field in parts for part in of_field]).select(self.schema.names)

    @property
    def listed(self) -> Schema:
        """The schema in the order of Spark's columns."""
        return Schema.of(self.schema[name] for field in self.fields for name in field.sources())

    def outside(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple, the Spark column that is too narrow for its value, or null; None if all tuples fit."""
        tests = [(test, field.name) for field in self.fields if (test := _too_large(field)) is not None]
        if not tests or not tuples.height:
            return None
        named = pl.coalesce(pl.when(test).then(pl.lit(name)) for test, name in tests)
        too_narrow = tuples.select(named.alias("column")).to_series()
        return too_narrow if too_narrow.null_count() < len(too_narrow) else None


def _too_large(field: SparkField) -> pl.Expr | None:
    """Test for tuples with values that are too large for a column; None if all fit."""
    if field.source is None:
        possible_tests = [test for inner in field.fields if (test := _too_large(inner)) is not None]
        return pl.any_horizontal(possible_tests) if possible_tests else None
    return field.outside(pl.col(field.source))


def _flat_fields(attributes: Iterable[Attribute]) -> Iterator[SparkField]:
    for a in attributes:
        inside = tuple(_flat_fields(a.type.attributes)) if isinstance(a.type, ArrayType) else ()
        yield SparkField(a.name, spark_type(a.type), a.name, inside)


def _exported(series: pl.Series) -> pa.Array:
    """A column as one Arrow array, of types that Spark supports."""
    array = series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

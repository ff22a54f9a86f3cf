"""Spark's columns and ours: the types of both, and nested columns, which are paths here and structs there."""

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

_SAME: dict[spark.DataType, Type] = {
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
"""Spark's types and those that hold their values here."""
_OURS: dict[Type, spark.DataType] = {
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
"""The bits of a value without its sign."""
_INSTEAD = {
    "timestamp_ntz": "TIMESTAMP",
    "binary": "STRING (base64 text)",
    "map": "STRUCT or ARRAY<STRUCT<...>>",
    "variant": "STRUCT",
    "void": "STRING",
}


def type_of(given: spark.DataType, name: str) -> Type:
    """The type here for values of an atomic type of Spark's, in the column of that name. Raises `SchemaError`.

    >>> type_of(spark.DecimalType(5, 2), "price"), type_of(spark.ShortType(), "n")
    (DECIMAL(5,2), INT)
    """
    if isinstance(given, spark.DecimalType):
        return decimal(given.precision, given.scale)
    if given in _SAME:
        return _SAME[given]
    kind = given.typeName()
    instead = f": declare it {_INSTEAD[kind]}" if kind in _INSTEAD else ""
    raise SchemaError(f"column {name}: no XML holds values of Spark's type {given.simpleString()}{instead}")


def spark_type(given: Type) -> spark.DataType:
    """Spark's type for values of a type here.

    >>> from xmlpunct.schema import Schema
    >>> [spark_type(a.type).simpleString() for a in Schema.parse("a INT, line ARRAY(qty INT)")]
    ['bigint', 'array<struct<qty:bigint>>']
    """
    if isinstance(given, ArrayType):
        return spark.ArrayType(spark_schema(given.attributes))
    if isinstance(given, DecimalType):
        return spark.DecimalType(given.precision, given.scale)
    return _OURS[given]


def spark_schema(attributes: Iterable[Attribute]) -> spark.StructType:
    """Spark's columns for attributes: of the same names, all nullable, since it checks nothing."""
    return spark.StructType([spark.StructField(a.name, spark_type(a.type)) for a in attributes])


@dataclass(frozen=True)
class Field:
    """A column of Spark's, or a field of one: of type ``type``, from the attribute ``source``.

    A struct has no source, but ``fields``. An array has both: its items' rows have the attributes that its fields are
    from, or, if it has none, one, which is its item.
    """

    name: str
    type: spark.DataType
    source: str | None
    fields: tuple[Field, ...] = ()

    @cached_property
    def arrow(self) -> pa.DataType:
        """The type of its values where Spark takes them from Arrow."""
        return to_arrow_type(self.type, timezone="UTC")

    def sources(self) -> Iterator[str]:
        """The attributes that it is from."""
        if self.source is not None:
            yield self.source
        else:
            for field in self.fields:
                yield from field.sources()

    def array(self, columns: Mapping[str, pa.Array], height: int) -> pa.Array:
        """Its values, from those of attributes."""
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
        # Spark's own source has null where there is none, and so has this.
        nothing = np.append(counts == 0, False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=nothing), items).cast(self.arrow)

    def expressions(self, value: pl.Expr, attributes: Mapping[str, Type]) -> Iterator[pl.Expr]:
        """The other way: the attributes' values as polars expressions over those of the column."""
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
        """Whether a value is too large for Spark's type; None if none can be. ``value`` is the attribute's."""
        if isinstance(self.type, spark.ArrayType):
            inside = self.fields or (Field("", self.type.elementType, _ITEM),)
            tests = [_outside(field, pl.element()) for field in inside]
            if not (known := [test for test in tests if test is not None]):
                return None
            return value.list.eval(pl.any_horizontal(known)).list.any().fill_null(False)
        bits = _NARROW.get(self.type)
        if bits is None:
            return None
        return ~value.is_between(-(2**bits), 2**bits - 1).fill_null(True)


_ITEM = "."
"""The attribute of an array's rows whose items are no structs."""


def _outside(field: Field, row: pl.Expr) -> pl.Expr | None:
    """The same for a field in a row."""
    if field.source is None:
        tests = [_outside(inner, row) for inner in field.fields]
        known = [test for test in tests if test is not None]
        return pl.any_horizontal(known) if known else None
    return field.outside(row.struct.field(field.source))


def _struct(
    fields: Iterable[Field], columns: Mapping[str, pa.Array], height: int, has_nulls: bool
) -> pa.Array:
    """A struct's values; with ``has_nulls``, null where all of its fields are."""
    fields = tuple(fields)
    arrays = [field.array(columns, height) for field in fields]
    mask = None
    if has_nulls:
        mask = pa.array(np.logical_and.reduce([a.is_null().to_numpy(zero_copy_only=False) for a in arrays]))
    typed = [pa.field(field.name, field.arrow) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=typed, mask=mask)


@dataclass(frozen=True)
class Layout:
    """The columns of a data frame of Spark's, and the schema of the tuples in it.

    >>> layout = Layout.flat(Schema.parse("sid STRING, hour INT"))
    >>> tuples = layout.schema.frame([("S1", 17)])
    >>> layout.batch(tuples).to_pylist()
    [{'sid': 'S1', 'hour': 17}]
    >>> layout.frame(layout.batch(tuples)).equals(tuples)
    True
    """

    fields: tuple[Field, ...]
    schema: Schema

    @classmethod
    def flat(cls, schema: Schema) -> Layout:
        """That of columns with the names that the attributes have."""
        return cls(tuple(_named(schema)), schema)

    @property
    def columns(self) -> spark.StructType:
        """The columns as Spark has them."""
        return spark.StructType([spark.StructField(field.name, field.type) for field in self.fields])

    def batch(self, tuples: pl.DataFrame) -> pa.RecordBatch:
        """Tuples for Spark."""
        columns = {name: _exported(tuples[name]) for name in self.schema.names}
        arrays = [field.array(columns, tuples.height) for field in self.fields]
        fields = [pa.field(field.name, field.arrow) for field in self.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def frame(self, batch: pa.RecordBatch) -> pl.DataFrame:
        """Tuples from Spark."""
        names = [field.name for field in self.fields]
        given = pl.DataFrame([from_arrow(name, batch.column(name)) for name in names])
        attributes = {a.name: a.type for a in self.schema}
        parts = (field.expressions(pl.col(field.name), attributes) for field in self.fields)
        return given.select([part for of_field in parts for part in of_field]).select(self.schema.names)

    @property
    def listed(self) -> Schema:
        """The schema in the order in which Spark has the columns."""
        return Schema.of(self.schema[name] for field in self.fields for name in field.sources())

    def outside(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple, the column of Spark's that cannot hold its value, null if all can; None: all can."""
        tests = [(test, field.name) for field in self.fields if (test := _too_large(field)) is not None]
        if not tests or not tuples.height:
            return None
        named = pl.coalesce(pl.when(test).then(pl.lit(name)) for test, name in tests)
        found = tuples.select(named.alias("column")).to_series()
        return found if found.null_count() < len(found) else None


def _too_large(field: Field) -> pl.Expr | None:
    """Whether a column cannot hold what its attributes say."""
    if field.source is None:
        known = [test for inner in field.fields if (test := _too_large(inner)) is not None]
        return pl.any_horizontal(known) if known else None
    return field.outside(pl.col(field.source))


def _named(attributes: Iterable[Attribute]) -> Iterator[Field]:
    for a in attributes:
        inside = tuple(_named(a.type.attributes)) if isinstance(a.type, ArrayType) else ()
        yield Field(a.name, spark_type(a.type), a.name, inside)


def _exported(series: pl.Series) -> pa.Array:
    """A column as one array of Arrow's oldest forms, which Spark knows."""
    array = series.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

"""The data source ``xmlpunct``, the entry point for Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource

from xmlpunct.base.paths import read_element
from xmlpunct.connectors.source import Source
from xmlpunct.engine.spark.table.stream import TableStreamReader
from xmlpunct.engine.spark.table.table_batch import TableReader
from xmlpunct.engine.spark.table.table_files import table_parts
from xmlpunct.engine.spark.table.table_options import READING, WATCHING, WRITING, TableOptions
from xmlpunct.engine.spark.table.table_writer import TableStreamWriter, TableWriter
from xmlpunct.engine.spark.table.tasks import TableRead
from xmlpunct.firehose.infer.columns import Inferred
from xmlpunct.firehose.infer.document import infer, take_sample
from xmlpunct.firehose.infer.xsd_columns import XsdFile
from xmlpunct.firehose.spec import name_parts
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

NAME = "xmlpunct"
ELEMENT = "element"
"""Metadata key of an inferred column with the tuples' element, if the option has only its local name."""


class XmlTable(DataSource):  # type: ignore[misc]
    """XML as a table: see docs/pyspark.md for its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> spark.StructType:
        return inferred_columns(TableOptions.read(self.options, WATCHING))

    def reader(self, schema: spark.StructType) -> TableReader:
        return TableReader(TableRead(schema, self._reading(schema, READING)))

    def streamReader(self, schema: spark.StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        return TableStreamReader(TableRead(schema, self._reading(schema, WATCHING)))

    def writer(self, schema: spark.StructType, overwrite: bool) -> TableWriter:
        return TableWriter(
            schema, TableOptions.read(self.options, WRITING - {"checkpointLocation"}), overwrite
        )

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> TableStreamWriter:  # noqa: N802
        return TableStreamWriter(schema, TableOptions.read(self.options, WRITING), overwrite)

    def _reading(self, schema: spark.StructType, allowed: frozenset[str]) -> TableOptions:
        options = TableOptions.read(self.options, allowed)
        if options.element is None:
            return replace(options, element=_sampled(options).element)
        recorded = {field.metadata[ELEMENT] for field in schema.fields if ELEMENT in (field.metadata or {})}
        by_local_name = {name_parts(element)[1]: element for element in recorded}
        return replace(options, element=by_local_name.get(options.element, options.element))


def inferred_columns(options: TableOptions) -> spark.StructType:
    """Infer the columns of a table, with the names that Spark's own source uses.

    Raises `SourceError` and `UsageError` if they cannot be inferred.
    """
    inferred = _inferred(options)
    schema = inferred.schema if options.infers else _texts(inferred.schema)
    columns = options.naming.columns(schema, inferred.prefixes)
    if columns.fields and inferred.element != options.element is not None:
        columns.fields[0].metadata = {**(columns.fields[0].metadata or {}), ELEMENT: inferred.element}
    for name in [options.punctuation, options.corrupt if options.names_corrupt else None]:
        if name is not None and name not in columns.names:
            columns.add(name, spark.StringType())
    return columns


def _inferred(options: TableOptions) -> Inferred:
    if options.xsd is not None and options.element is not None:
        columns = XsdFile(options.xsd).infer(read_element(options.element)[-1])
        return replace(columns, element=options.element)
    return _sampled(options)


def _sampled(options: TableOptions) -> Inferred:
    parts = table_parts(options.paths)
    source = Source(
        ", ".join(options.paths),
        tuple((part.name, part.size) for part in parts),
        lambda number: parts[number].open().opener(0),
        texts=tuple(part.texts for part in parts) if any(part.texts for part in parts) else (),
    )
    sample, _ = take_sample(source, options.infer_bytes, options.element)
    inferred = infer(sample, options.element, options.punct_namespace, any_namespace=True)
    if inferred.error is not None:
        raise inferred.error
    return inferred


def _texts(attributes: Iterable[Attribute]) -> Schema:
    """The same columns, all of type STRING."""
    return Schema.of(
        replace(a, type=array_of(_texts(a.type.attributes)) if isinstance(a.type, ArrayType) else STRING)
        for a in attributes
    )

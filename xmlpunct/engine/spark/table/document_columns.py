"""XML documents in a column: a document's root is a tuple, or contains tuples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from lxml import etree
from pyspark.sql import Column
from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import arrow_udf

from xmlpunct.base.errors import StrictError, UsageError
from xmlpunct.engine.spark.table.table_options import DOCUMENTS, Mode, TableOptions
from xmlpunct.engine.spark.table.tasks import TableRead
from xmlpunct.firehose import Parser, Position, Split

_NAME = "<document>"
"""Name of a document in messages."""
_MOST_ROOTS = 64
"""Maximal number of cached parsers, one per root name."""
_STEP = 2**12
"""Bytes to parse per step of the search for the root."""


def read_documents(
    column: Column | str, schema: spark.StructType | str, options: Mapping[str, str]
) -> Column:
    """See `xmlpunct.spark.from_xml`."""
    columns = spark.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    read = TableOptions.read({name: str(value) for name, value in options.items()}, DOCUMENTS)
    if read.mode is Mode.DROPMALFORMED:
        raise UsageError(
            "mode DROPMALFORMED drops rows, which is not possible for a column: use PERMISSIVE, and filter by the "
            "column of corrupt records"
        )
    documents = Documents(columns, read)
    row = spark.StructType([spark.StructField(c.name, c.dataType) for c in columns])
    reads: Any = arrow_udf(documents.read, row if read.element is None else spark.ArrayType(row))
    parsed: Column = reads(column)
    return parsed


class Documents:
    """Reads documents into Spark columns.

    >>> columns = spark.StructType().add("_id", "integer").add("city", "string")
    >>> documents = Documents(columns, TableOptions())
    >>> documents.read(pa.array(["<o id='1'><city>Oslo</city></o>", None, "<o"])).to_pylist()
    [{'_id': 1, 'city': 'Oslo'}, None, {'_id': None, 'city': None}]
    """

    def __init__(self, columns: spark.StructType, options: TableOptions) -> None:
        self.options, self._columns = options, columns
        self._parsers: dict[str, tuple[TableRead, Parser]] = {}
        self._parser(options.element or "row")  # raises errors of the columns early

    def __reduce__(self) -> tuple[type[Documents], tuple[spark.StructType, TableOptions]]:
        return Documents, (self._columns, self.options)

    def read(self, texts: pa.Array) -> pa.Array:
        """The structs, or lists of structs, of documents. Raises `StrictError` in mode FAILFAST."""
        table, _ = self._parser(self.options.element or "row")
        tuples, corrupt = [table.layout.schema.empty()], list[str]()
        counts: list[tuple[int, list[str]] | None] = []
        for text in texts:
            read = self._document(text.as_py()) if text.is_valid else None
            counts.append(None if read is None else (read[0].height, read[1]))
            if read is not None:
                tuples.append(read[0])
                corrupt += read[1]
        all_tuples = pl.concat(tuples)
        rows = table.batch(all_tuples, corrupt, []).to_struct_array()
        # Rows hold all tuples, then all corrupt records: assign both to their documents.
        good, bad, order, ends = 0, all_tuples.height, list[int | None](), [0]
        for count in counts:
            if count is None:
                order += [] if self.options.element else [None]
            else:
                order += [*range(good, good + count[0]), *range(bad, bad + len(count[1]))]
                good, bad = good + count[0], bad + len(count[1])
            ends.append(len(order))
        items = rows.take(pa.array(order, pa.int64()))
        if self.options.element is None:
            return items
        missing = pa.array([*(count is None for count in counts), False])
        offsets = pc.if_else(missing, None, pa.array(ends, pa.int32()))
        return pa.ListArray.from_arrays(offsets, items)

    def _document(self, text: str) -> tuple[pl.DataFrame, list[str]]:
        """The tuples and corrupt records of a document; without an element of tuples, either of them."""
        data, options = text.encode("utf-8", "surrogatepass"), self.options
        table, parser = self._parser(options.element or _root(data) or "row")
        parsed = parser.parse(Split(_NAME, Position(), data, True))
        tuples, wide = table.fitting(parsed.slices[0].tuples, parsed)
        corrupt = [reject.text for reject in (*parsed.rejects[0], *wide)]
        faults = [str(reject) for reject in (*parsed.rejects[0], *wide)]
        if parsed.error is not None:
            corrupt.append(str(parsed.error))
            faults.append(str(parsed.error))
        if faults and options.mode is Mode.FAILFAST:
            raise StrictError(f"mode FAILFAST: {faults[0]}")
        if options.element is None:
            return (tuples.clear(), corrupt[-1:]) if corrupt else (tuples, [])
        return tuples, corrupt

    def _parser(self, element: str) -> tuple[TableRead, Parser]:
        """The table and parser for tuples of an element."""
        if element not in self._parsers:
            table = TableRead(self._columns, replace(self.options, element=element))
            if len(self._parsers) >= _MOST_ROOTS:
                self._parsers.clear()
            self._parsers[element] = table, Parser([table.spec], self.options.punct_namespace)
        return self._parsers[element]


def _root(data: bytes) -> str | None:
    """The name of a document's root element, or None."""
    parser = etree.XMLPullParser(events=("start",), resolve_entities=False, no_network=True)
    with suppress(etree.XMLSyntaxError):
        for at in range(0, len(data), _STEP):
            parser.feed(data[at : at + _STEP])
            for _, element in parser.read_events():
                return str(element.tag)  # type: ignore[union-attr] # a start has an element
    return None

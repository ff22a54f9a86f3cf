"""Documents inside a column: the root of each is a tuple, or the tuples are in it."""

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
from xmlpunct.engine.spark.table.tasks import Table
from xmlpunct.firehose import Parser, Position, Split

_NAME = "<document>"
"""What a document is called in messages."""
_MOST_ROOTS = 64
"""For so many names of roots it is kept how their tuples are read."""
_STEP = 2**12
"""So many bytes are looked at to find a root, then as many more."""


def read_documents(
    column: Column | str, schema: spark.StructType | str, options: Mapping[str, str]
) -> Column:
    """See `xmlpunct.spark.from_xml`."""
    columns = spark.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    read = TableOptions.read({name: str(value) for name, value in options.items()}, DOCUMENTS)
    if read.mode is Mode.DROPMALFORMED:
        raise UsageError(
            "mode DROPMALFORMED drops rows, which a column cannot: take PERMISSIVE, and filter by the column for "
            "corrupt records"
        )
    documents = Documents(columns, read)
    row = spark.StructType([spark.StructField(c.name, c.dataType) for c in columns])
    reads: Any = arrow_udf(documents.read, row if read.element is None else spark.ArrayType(row))
    found: Column = reads(column)
    return found


class Documents:
    """Reads documents with columns of Spark's.

    >>> columns = spark.StructType().add("_id", "integer").add("city", "string")
    >>> documents = Documents(columns, TableOptions())
    >>> documents.read(pa.array(["<o id='1'><city>Oslo</city></o>", None, "<o"])).to_pylist()
    [{'_id': 1, 'city': 'Oslo'}, None, {'_id': None, 'city': None}]
    """

    def __init__(self, columns: spark.StructType, options: TableOptions) -> None:
        self.options, self._columns = options, columns
        self._parsers: dict[str, tuple[Table, Parser]] = {}
        self._parser(options.element or "row")  # which says what is wrong with the columns

    def __reduce__(self) -> tuple[type[Documents], tuple[spark.StructType, TableOptions]]:
        return Documents, (self._columns, self.options)

    def read(self, texts: pa.Array) -> pa.Array:
        """The structs, or lists of structs, of some documents. Raises `StrictError` in the mode FAILFAST."""
        table, _ = self._parser(self.options.element or "row")
        tuples, corrupt = [table.layout.schema.empty()], list[str]()
        found: list[tuple[int, list[str]] | None] = []
        for text in texts:
            read = self._document(text.as_py()) if text.is_valid else None
            found.append(None if read is None else (read[0].height, read[1]))
            if read is not None:
                tuples.append(read[0])
                corrupt += read[1]
        together = pl.concat(tuples)
        rows = table.batch(together, corrupt, []).to_struct_array()
        # There are first all tuples, then all that is corrupt: here is which is whose.
        good, bad, order, ends = 0, together.height, list[int | None](), [0]
        for one in found:
            if one is None:
                order += [] if self.options.element else [None]
            else:
                order += [*range(good, good + one[0]), *range(bad, bad + len(one[1]))]
                good, bad = good + one[0], bad + len(one[1])
            ends.append(len(order))
        items = rows.take(pa.array(order, pa.int64()))
        if self.options.element is None:
            return items
        missing = pa.array([*(one is None for one in found), False])
        offsets = pc.if_else(missing, None, pa.array(ends, pa.int32()))
        return pa.ListArray.from_arrays(offsets, items)

    def _document(self, text: str) -> tuple[pl.DataFrame, list[str]]:
        """The tuples of a document, and what could not be read of it: without an element of tuples, one of both."""
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

    def _parser(self, element: str) -> tuple[Table, Parser]:
        """How tuples of an element are read."""
        if element not in self._parsers:
            table = Table(self._columns, replace(self.options, element=element))
            if len(self._parsers) >= _MOST_ROOTS:
                self._parsers.clear()
            self._parsers[element] = table, Parser([table.spec], self.options.punct_namespace)
        return self._parsers[element]


def _root(data: bytes) -> str | None:
    """The name of a document's root, None if there is none."""
    parser = etree.XMLPullParser(events=("start",), resolve_entities=False, no_network=True)
    with suppress(etree.XMLSyntaxError):
        for at in range(0, len(data), _STEP):
            parser.feed(data[at : at + _STEP])
            for _, element in parser.read_events():
                return str(element.tag)  # type: ignore[union-attr] # a start has an element
    return None

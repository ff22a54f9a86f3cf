"""Documents inside a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def from_xml(
    column: Column | str,
    schema: StructType | str,
    options: Mapping[str, str] | None = None,
    **named_options: str,
) -> Column:
    """Parse the XML documents in a column: a struct for each; or, with the option ``element``, an array of structs.

    Without ``element`` the root of a document is the tuple, whatever its name. ``schema`` is a Spark schema or its DDL,
    with the columns of ``format("xmlpunct")``. The other options, in a dict or by name, are the ones for elements,
    ``mode`` (PERMISSIVE or FAILFAST), ``columnNameOfCorruptRecord`` and ``rowValidationXSDPath``.

    Null yields null. In the mode PERMISSIVE, an unreadable document yields a struct of nulls. If the schema has a
    column for corrupt records, it holds the text or the error of the document. Raises `UsageError` and `SchemaError`
    for wrong options and columns.
    """
    need_spark()
    from xmlpunct.engine.spark.table.document_columns import read_documents

    return read_documents(column, schema, {**(options or {}), **named_options})

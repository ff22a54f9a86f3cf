"""Documents inside a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xmlpunct.engine.spark import need_spark

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def from_xml(
    column: Column | str, schema: StructType | str, options: Mapping[str, str] | None = None, **more: str
) -> Column:
    """The XML documents in a column, read: a struct for each; or, with the option ``element``, an array of structs.

    Without ``element`` the root of a document is the tuple, whatever its name. ``schema`` is Spark's, or its DDL, with
    columns as ``format("xmlpunct")`` has them. The other options are those of elements, ``mode`` (PERMISSIVE or
    FAILFAST), ``columnNameOfCorruptRecord`` and ``rowValidationXSDPath``, given in a dict or by name.

    Null gives null. In the mode PERMISSIVE, what cannot be read gives a struct of nulls, whose column for corrupt
    records, if the schema has it, holds the text, or what is wrong with the document. Raises `UsageError` and
    `SchemaError` for wrong options and columns.
    """
    need_spark()
    from xmlpunct.engine.spark.table.document_columns import read_documents

    return read_documents(column, schema, {**(options or {}), **more})

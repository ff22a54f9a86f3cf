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
    """Parse the XML documents of a column.

    Parameters
    ----------
    column : Column or str
        A column of texts, one document each.
    schema : StructType or str
        Spark's schema or its DDL, with columns as ``format("xmlpunct")`` has them.
    options : mapping, optional
        The options of elements, ``mode`` (PERMISSIVE or FAILFAST), ``columnNameOfCorruptRecord`` and
        ``rowValidationXSDPath``.
    **named_options : str
        The same options by name.

    Returns
    -------
    Column
        A struct for each document; with the option ``element``, an array of structs. Without ``element`` the root of a
        document is the tuple, whatever its name. Null for null.

    Raises
    ------
    UsageError, SchemaError
        For wrong options and columns.

    Notes
    -----
    In the mode PERMISSIVE, a document that cannot be read becomes a struct of nulls. Its column for corrupt records,
    if the schema has one, holds the text, or the fault of the document.
    """
    need_spark()
    from xmlpunct.engine.spark.table.document_columns import read_documents

    return read_documents(column, schema, {**(options or {}), **named_options})

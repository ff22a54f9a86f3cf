"""What Spark finds by itself: ``format("xmlpunct")`` in any session, registered or not.

Spark imports every module named ``pyspark_...`` when it first looks for a source in Python, and takes ``DefaultSource``
from it. So this imports nothing of xmlpunct before somebody asks for it. See docs/pyspark.md.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):  # type: ignore[misc]
    """Stands for `xmlpunct.engine.spark.table.datasource.XmlTable`: an instance is one of those."""

    def __new__(cls, options: dict[str, str]) -> DataSource:
        from xmlpunct.engine.spark.table.datasource import XmlTable

        return XmlTable(options)

    @classmethod
    def name(cls) -> str:
        return "xmlpunct"

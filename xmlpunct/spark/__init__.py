"""xmlpunct in PySpark: a data source, queries as streaming data frames, and documents inside a column.

::

    import xmlpunct.spark
    spark = xmlpunct.spark.start()  # or, with a session of your own, xmlpunct.spark.register(spark)
    orders = spark.read.format("xmlpunct").option("element", "order").load("feeds/*.xml.gz")

It needs ``pip install 'xmlpunct[spark]'``. The import sets PYSPARK_PYTHON to the Python of this process, if its
environment is not activated and Spark does not run yet. See docs/pyspark.md.
"""

from xmlpunct.spark.document_column import from_xml
from xmlpunct.spark.session_setup import register, start, use_this_python
from xmlpunct.spark.streaming_queries import punctuated, query

__all__ = ["from_xml", "punctuated", "query", "register", "start"]

use_this_python()

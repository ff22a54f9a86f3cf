"""xmlpunct in PySpark: a data source, queries as streaming data frames, and documents inside a column.

::

    import xmlpunct.spark
    spark = xmlpunct.spark.start()  # or, with a session of your own, xmlpunct.spark.register(spark)
    orders = spark.read.format("xmlpunct").option("element", "order").load("feeds/*.xml.gz")

It needs ``pip install 'xmlpunct[spark]'``. See docs/pyspark.md.
"""

from xmlpunct.spark.documents import from_xml
from xmlpunct.spark.queries import punctuated, query
from xmlpunct.spark.session import register, start

__all__ = ["from_xml", "punctuated", "query", "register", "start"]

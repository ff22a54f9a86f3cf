"""The data source ``xmlpunct`` of a Spark session: XML as a table that is read, watched and written.

Reading order: `table_options`, `spark_columns` (Spark's columns and ours), `table_files` (the files of a table),
`tasks` (the work of one task), `table_batch` and `stream` (the planning of tasks), `table_writer`, `datasource`.
"""

"""The data source ``xmlpunct`` of a Spark session: XML as a table that is read, watched and written.

Reading order: `options` (what a user may say), `columns` (Spark's columns and ours), `parts` (which files there are),
`tasks` (what is read at once), `batch` and `stream` (what is read when), `writer`, `datasource` (all).
"""

"""Random plans over random punctuated streams, in one process and on several shards, compared with DuckDB."""

"""Random plans over random punctuated streams: one process and several shards, against DuckDB."""

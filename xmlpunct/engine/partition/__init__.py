"""Partitioned plans: edges inside the reader, fragments on shards, exchanges by shard key, partial aggregation."""

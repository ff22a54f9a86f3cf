"""The exchange: which shard gets which tuples and which punctuations."""

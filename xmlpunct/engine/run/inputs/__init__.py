"""A query's inputs: what they are, how they are read again after a kill, and which is read next."""

"""Durable runs: the records from which a later run continues."""

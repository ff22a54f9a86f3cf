"""What makes a run durable: the records that a later run continues from."""

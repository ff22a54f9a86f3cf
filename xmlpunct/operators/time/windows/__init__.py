"""Windows as columns of a table: TUMBLE, HOP and SESSION."""

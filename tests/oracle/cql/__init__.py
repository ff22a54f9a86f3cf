"""Relations, windows and relation-to-stream operators: what a query must give, plain and slow."""

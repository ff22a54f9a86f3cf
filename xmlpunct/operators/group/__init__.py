"""GROUP BY and its aggregates."""

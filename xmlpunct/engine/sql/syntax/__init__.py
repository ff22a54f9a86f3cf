"""The syntax: what sqlglot reads beyond standard SQL."""

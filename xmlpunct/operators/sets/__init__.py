"""Operators on whole tuples: DISTINCT, INTERSECT, EXCEPT."""

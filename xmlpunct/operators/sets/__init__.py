"""Operators on whole tuples: DISTINCT, UNION, INTERSECT, EXCEPT."""

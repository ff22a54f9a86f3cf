"""Joins of streams, and the subqueries that are joins: IN, EXISTS, NOT IN."""

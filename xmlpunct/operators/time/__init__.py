"""Operators that depend on an order: sort, PUNCTUATE, lateness, OVER, and window table functions."""

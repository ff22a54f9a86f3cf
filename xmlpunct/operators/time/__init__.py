"""Operators that know an order: sort, PUNCTUATE, lateness, OVER, and window table functions."""

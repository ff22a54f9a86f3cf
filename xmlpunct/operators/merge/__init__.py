"""Operators that merge several streams."""

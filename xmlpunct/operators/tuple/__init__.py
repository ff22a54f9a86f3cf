"""Operators that work on one tuple at a time."""

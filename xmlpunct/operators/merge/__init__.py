"""Operators that put several streams together."""

"""SQL expressions over columns: their form, their functions, their evaluation, and what they say about punctuations."""

from __future__ import annotations

from xmlpunct.expressions import functions

__all__ = ["functions"]  # with an expression come the records of its functions

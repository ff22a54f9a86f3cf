"""SQL expressions over columns: trees, functions, evaluation, and the punctuations that they imply."""

from __future__ import annotations

from xmlpunct.expressions import functions

__all__ = ["functions"]  # importing it registers the record of each function

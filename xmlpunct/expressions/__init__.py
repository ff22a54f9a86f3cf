"""SQL expressions over columns: their form, their functions, their evaluation, and what they say about punctuations."""

from __future__ import annotations

from xmlpunct.expressions import functions

__all__ = ["functions"]  # whoever has an expression has what is known of its functions

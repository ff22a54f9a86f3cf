"""The compiled functions, if a C compiler was available when xmlpunct was installed.

Without them, libxml2 reads everything and plain Python finds boundaries: slower, with the same result.
"""

from __future__ import annotations

__all__ = ["COMPILED", "Tree", "are_plain", "newlines", "numbers", "skip", "strings", "tokens", "views"]

try:
    from xmlpunct.firehose.native._native import (
        Tree,
        are_plain,
        newlines,
        numbers,
        skip,
        strings,
        tokens,
        views,
    )
except ImportError:
    COMPILED = False
else:
    COMPILED = True

"""What is compiled where a compiler was there when xmlpunct was installed.

Where it was not, libxml2 reads everything and boundaries are found in plain Python: slower, with the same result.
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

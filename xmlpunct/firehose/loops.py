"""The loops over bytes that are compiled where a compiler was there when xmlpunct was installed.

Whoever calls them has another way, slower and with the same result, for where `COMPILED` is false.
"""

from __future__ import annotations

__all__ = ["COMPILED", "integers", "nesting", "strings", "views", "walk"]

try:
    from xmlpunct.firehose._loops import integers, nesting, strings, views, walk
except ImportError:
    COMPILED = False
else:
    COMPILED = True

"""What an aggregate of group-by is."""

from __future__ import annotations

from dataclasses import dataclass

FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")


@dataclass(frozen=True)
class Aggregate:
    """``function`` over the input column ``argument`` (None: COUNT(*)), called ``name`` in the output."""

    function: str
    argument: str | None
    distinct: bool
    name: str

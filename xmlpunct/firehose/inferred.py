"""What was inferred of a stream that nobody declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from xmlpunct.errors import SourceError
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Inferred:
    """The element of the tuples and their columns, and the ``tuples`` of the sample that say so.

    ``left_out`` says what the columns do not hold, place by place; ``error`` what is wrong with the source behind them.
    """

    element: str
    schema: Schema
    tuples: int = 0
    left_out: tuple[str, ...] = ()
    error: SourceError | None = None


def named(paths: Iterable[str]) -> dict[str, str]:
    """A column's name for each path: the last step where it is the only one, no two alike in SQL.

    >>> named(["id", "@id", "from/place", "to/place"])
    {'id': 'id', '@id': 'id_2', 'from/place': 'from_place', 'to/place': 'to_place'}
    """
    paths = list(paths)
    last = Counter(path.rpartition("/")[2].lstrip("@").lower() for path in paths)
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in sorted(paths, key=lambda path: ("@" in path, path.count("/"))):
        short = path.rpartition("/")[2].lstrip("@")
        wanted = short if last[short.lower()] == 1 else path.replace("/@", "/").lstrip("@").replace("/", "_")
        numbers = count(2)
        name = wanted
        while name.lower() in taken:
            name = f"{wanted}_{next(numbers)}"
        taken.add(name.lower())
        names[path] = name
    return {path: names[path] for path in paths}

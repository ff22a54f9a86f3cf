"""What was inferred of a stream that nobody declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from xmlpunct.base.errors import SourceError
from xmlpunct.base.paths import Path, read_path
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Type

MOST_COLUMNS = 1000
"""How many columns a stream that nobody declared has at most, those of its arrays included."""
MOST_ARRAYS = 10
"""How many of its arrays can stand inside each other."""
AMONG_TEXT = "which stands among text and is part of it"
"""Why an element is no column of its own."""
_MOST_TOLD = 20
"""How many places to name that are left out."""
_OWN_TEXT = "value"
"""What the text of a row's own element is called."""

Columns = Mapping[str, tuple[Type, bool]]
"""By path: the type of what stands there, and whether it may be missing."""


@dataclass(frozen=True)
class Inferred:
    """The element of the tuples and their columns, and the ``tuples`` of the sample that say so.

    ``left_out`` says what the columns do not hold, place by place; ``error`` what is wrong with the source behind them.
    ``prefixes`` are those that the document, or its schema, has for namespaces.
    """

    element: str
    schema: Schema
    tuples: int = 0
    left_out: tuple[str, ...] = ()
    error: SourceError | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)


def schema_of(columns: Columns) -> Schema:
    """The schema of these columns, which get names."""
    names = named(columns)
    return Schema.of(Attribute(names[path], type_, null, path) for path, (type_, null) in columns.items())


def shortened(left_out: Iterable[str]) -> tuple[str, ...]:
    """What is left out, in not too many lines."""
    told = list(left_out)
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"{len(told) - _MOST_TOLD:,} more places"]
    return tuple(told)


def named(paths: Iterable[str]) -> dict[str, str]:
    """A column's name for each path: the last step where it is the only one, no two alike in SQL.

    >>> named(["id", "@id", "from/place", "to/place", "."])
    {'id': 'id', '@id': 'id_2', 'from/place': 'from_place', 'to/place': 'to_place', '.': 'value'}
    """
    steps = {path: _steps(read_path(path)) for path in paths}
    last = Counter(names[-1].lower() for names in steps.values())
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in sorted(steps, key=lambda path: ("@" in path, "{" in path, len(steps[path]))):
        short = steps[path][-1]
        wanted = short if last[short.lower()] == 1 else "_".join(steps[path])
        numbers = count(2)
        name = wanted
        while name.lower() in taken:
            name = f"{wanted}_{next(numbers)}"
        taken.add(name.lower())
        names[path] = name
    return {path: names[path] for path in steps}


def _steps(path: Path) -> list[str]:
    """The names on a path, without their namespaces."""
    attribute = [] if path.attribute is None else [path.attribute.rpartition("}")[2]]
    return [*(hop.local for hop in path.hops), *attribute] or [_OWN_TEXT]

"""The inferred element and columns of a stream without a declaration."""

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
"""Maximum number of inferred columns of a stream, including columns in its arrays."""
MOST_ARRAYS = 10
"""Maximum nesting depth of its arrays."""
AMONG_TEXT = "which is mixed with text and part of that text"
"""The reason why an element inside mixed text has no column."""
_MOST_LISTED = 20
"""Maximum number of omitted paths to list."""
_OWN_TEXT = "value"
"""The column name for the text of a row's own element."""

InferredColumns = Mapping[str, tuple[Type, bool]]
"""By path: the type of its value, and whether the value may be missing."""


@dataclass(frozen=True)
class Inferred:
    """The tuples' element and their columns. ``tuples`` is the number of tuples in the sample.

    left_out: descriptions of the paths that no column reads. error: the source's first error after these tuples.
    prefixes: namespace prefixes of the document, or of its schema.
    """

    element: str
    schema: Schema
    tuples: int = 0
    left_out: tuple[str, ...] = ()
    error: SourceError | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)


def inferred_schema(columns: InferredColumns) -> Schema:
    """The schema of these columns, with generated names."""
    names = column_names(columns)
    return Schema.of(Attribute(names[path], type_, null, path) for path, (type_, null) in columns.items())


def shortened(left_out: Iterable[str]) -> tuple[str, ...]:
    """At most `_MOST_LISTED` of the entries, then a line with the number of the remaining ones."""
    entries = list(left_out)
    if len(entries) > _MOST_LISTED:
        entries[_MOST_LISTED:] = [f"{len(entries) - _MOST_LISTED:,} more places"]
    return tuple(entries)


def column_names(paths: Iterable[str]) -> dict[str, str]:
    """A column name for each path, distinct in SQL: the last step if that is unique, else all steps.

    >>> column_names(["id", "@id", "from/place", "to/place", "."])
    {'id': 'id', '@id': 'id_2', 'from/place': 'from_place', 'to/place': 'to_place', '.': 'value'}
    """
    steps = {path: _steps(read_path(path)) for path in paths}
    last = Counter(names[-1].lower() for names in steps.values())
    names: dict[str, str] = {}
    used: set[str] = set()
    for path in sorted(steps, key=lambda path: ("@" in path, "{" in path, len(steps[path]))):
        short = steps[path][-1]
        base = short if last[short.lower()] == 1 else "_".join(steps[path])
        numbers = count(2)
        name = base
        while name.lower() in used:
            name = f"{base}_{next(numbers)}"
        used.add(name.lower())
        names[path] = name
    return {path: names[path] for path in steps}


def _steps(path: Path) -> list[str]:
    """The names on a path, without their namespaces."""
    attribute = [] if path.attribute is None else [path.attribute.rpartition("}")[2]]
    return [*(hop.local for hop in path.hops), *attribute] or [_OWN_TEXT]

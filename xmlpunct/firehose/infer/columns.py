"""The inferred columns of a stream without a declaration: which paths of an element become columns, and their names.

A sample of a document (`sampled_values`) and an XML Schema (`xsd_columns`) describe elements as `DescribedElement`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from xmlpunct.base.errors import SourceError
from xmlpunct.base.paths import Path, read_path
from xmlpunct.firehose.cells import shown_text
from xmlpunct.firehose.spec import name_parts
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import array_of
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Type

MOST_COLUMNS = 1000
"""Maximum number of inferred columns of a stream, including columns in its arrays."""
_MOST_ARRAYS = 10
"""Maximum nesting depth of its arrays."""
AMONG_TEXT = "which is mixed with text and part of that text"
"""The reason why an element inside mixed text has no column."""
_MOST_LISTED = 20
"""Maximum number of omitted paths to list."""
_OWN_TEXT = "value"
"""The column name for the text of a row's own element."""
_Steps = tuple[str, ...]


class DescribedElement(Protocol):
    """An element, or the elements at one path, in a sample or in a schema."""

    def parts(self) -> Iterable[ElementPart]:
        """Its attributes, text and child elements, in the order of their columns."""


@dataclass(frozen=True)
class ElementPart:
    """An attribute, the text or a child of an element.

    step: its step in paths; "" for the text of an element without children. content: the type of a value, the
    description of a child, or the reason why it cannot be a column. is_optional: the element may lack it.
    repeats: the element may have more than one. misfit: the text that fits no other type than STRING, if there is one.
    """

    step: str
    content: Type | DescribedElement | str
    is_optional: bool = False
    repeats: bool = False
    misfit: MisfitText | None = None


@dataclass(frozen=True)
class MisfitText:
    """A text that fits no type of the other texts of its column. number: of its element's start tag in the sample.

    file: the name of its file, if that is not the name of the source.
    """

    text: str
    number: int
    path: str = ""
    line: int = 0
    file: str | None = None

    def __str__(self) -> str:
        file = "" if self.file is None else f" of {self.file}"
        return f"{self.path} is STRING because of {shown_text(self.text)} in line {self.line:,}{file}"


@dataclass(frozen=True)
class Inferred:
    """The tuples' element and their columns. ``tuples`` is the number of tuples in the sample.

    left_out: descriptions of the paths that no column reads. error: the source's first error after these tuples.
    prefixes: namespace prefixes of the document, or of its schema. others: the local names of other repeated elements,
    with their numbers. misfits: for STRING columns, the first text that does not fit the type of the others.
    """

    element: str
    schema: Schema
    tuples: int = 0
    left_out: tuple[str, ...] = ()
    error: SourceError | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)
    others: tuple[tuple[str, int], ...] = ()
    misfits: tuple[MisfitText, ...] = ()


@dataclass(frozen=True)
class _Remarks:
    """Lines about paths that are no columns, and the misfits of columns."""

    omissions: dict[str, None]
    misfits: list[MisfitText] = field(default_factory=list)


def element_columns(
    name: str, element: DescribedElement, prefixes: Mapping[str, str], left_out: Iterable[str] = ()
) -> Inferred:
    """The columns of an element of this name. left_out: paths of the source that ``element`` does not contain."""
    remarks = _Remarks(dict.fromkeys(left_out))
    schema = _row_schema(element, (), remarks)
    lines = [*remarks.omissions]
    if len(lines) > _MOST_LISTED:
        lines[_MOST_LISTED:] = [f"{len(lines) - _MOST_LISTED:,} more places"]
    return Inferred(
        name, schema, left_out=tuple(lines), prefixes=prefixes, misfits=tuple(remarks.misfits[:_MOST_LISTED])
    )


def _row_schema(row: DescribedElement, arrays: _Steps, remarks: _Remarks) -> Schema:
    """The columns of an element that is a row: of the stream, or inside ``arrays``, of the innermost array."""
    columns = dict(_columns(row, (), False, arrays, remarks))
    names = column_names(columns)
    return Schema.of(Attribute(names[path], type_, null, path) for path, (type_, null) in columns.items())


def _columns(
    element: DescribedElement, steps: _Steps, missing: bool, arrays: _Steps, remarks: _Remarks
) -> Iterator[tuple[str, tuple[Type, bool]]]:
    """For each column of an element: its path, its type, and whether its value may be missing.

    steps: the element's path within its row. missing: rows may lack the element. arrays: paths of the enclosing
    arrays. remarks: this function adds remarks to it.
    """
    for part in element.parts():
        inside = (*steps, part.step) if part.step else steps
        path, content, is_missing = "/".join(inside), part.content, missing or part.is_optional
        location = "/".join((*arrays, *inside))
        if isinstance(content, Type):
            if part.misfit is not None:
                remarks.misfits.append(replace(part.misfit, path=location or "."))
            yield path or ".", (content, is_missing)
        elif isinstance(content, str):
            remarks.omissions[f"{location}, {content}"] = None
        elif not part.repeats:
            yield from _columns(content, inside, is_missing, arrays, remarks)
        elif len(arrays) == _MOST_ARRAYS:
            remarks.omissions[f"{location}, which repeats inside {_MOST_ARRAYS} arrays"] = None
        elif len(rows := _row_schema(content, (*arrays, path), remarks)):
            yield path, (array_of(rows), True)


def element_step(name: str, namespace: str) -> str:
    """The step of an element in paths: without its namespace if that is ``namespace``, of the tuples, or none."""
    own_namespace, local = name_parts(name)
    return local if own_namespace in ("", namespace) else name


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

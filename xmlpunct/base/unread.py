"""Overlooked data: XML that looks like data but is not read. Counted by kind and name, and reported once for each.

- ``nested``: elements with the tuples' name inside a tuple, which are part of that tuple; by their name.
- ``namespace``: tuples without an element at a path, but with one in a namespace that is not read; by path.
- ``stranger``: elements with the tuples' name, in a namespace of neither tuples nor punctuations; by expanded name.
- ``misnamed``: elements in the namespace of punctuations whose name differs from the tuples' in case; by expanded name.
- ``inner``: punctuations inside a tuple, which are not read; by expanded name.
- ``undeclared``: elements and attributes of tuples that are no column of an inferred schema; by path.
- ``dropped``: punctuations that constrain undeclared attributes; by the tuples' element.
- ``element``: an input without tuples and punctuations; by the tuples' element.
- ``only``: an input with punctuations and no tuple. Tuples are read only below certain parents, punctuations anywhere,
  so there may be tuples below other parents; by the tuples' element.
- ``valueless``: marks (PUNCTUATE ON) that close nothing, because a value is missing; by the path of the value.
- ``path``: a path at which no tuple has a value; by path, with the number of tuples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from xmlpunct.base.printable import printable

Overlooked = dict[str, dict[str, int]]
"""Counts by kind and name."""

NESTED, NAMESPACE, UNDECLARED, DROPPED = "nested", "namespace", "undeclared", "dropped"
STRANGER, MISNAMED, INNER, VALUELESS = "stranger", "misnamed", "inner", "valueless"
ELEMENT, ONLY, PATH = "element", "only", "path"
ABSENT = "absent"
"""The number of tuples without a value at a path. If it is all tuples at the end, the kind is `PATH`."""

CLOSED = "closed"
"""The number of punctuations that are no elements of the tuples' name: from file names and from marks."""
COUNTS = (ABSENT, CLOSED)
"""The kinds that are only counted, for use at the end of the input."""

MOST = 20
"""The number of names of a kind that are counted separately, to bound memory. Further names count as `OTHERS`."""
OTHERS = "..."
_URI = re.compile(r"\{[^{}]*\}")
_SHOWN = 10
"""The number of names that a message lists."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Overlooked data of one kind in an input, with the names that are new since the last notice."""

    input: str
    kind: str
    names: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether it is an error under ``--strict``. A path without values is not: it may be optional."""
        return self.kind in (NESTED, NAMESPACE, STRANGER, MISNAMED, INNER, ELEMENT)

    @property
    def is_absence(self) -> bool:
        """Whether it reports that there is no tuple. It is no news of a source that failed."""
        return self.kind in (ELEMENT, ONLY)

    def __str__(self) -> str:
        unlisted = len(self.names) - _SHOWN
        names = ", ".join(self.names[:_SHOWN]) + (f" and {unlisted:,} more" if unlisted > 0 else "")
        return printable(f"{self.input}: {_TEXTS[self.kind].format(names)}")


_TEXTS = {
    NESTED: "<{}> inside a tuple is part of that tuple, not a separate tuple",
    NAMESPACE: "elements in another namespace are not read at PATH {}",
    STRANGER: "not read because of its namespace: {}; if it is the namespace of punctuations, write --punct-namespace "
    "URI; if it is the namespace of tuples, write element = '{{URI}}name'",
    MISNAMED: "not read as a punctuation: {}; its name differs from the tuples' in upper and lower case",
    INNER: "not read, because it is inside a tuple: {}",
    UNDECLARED: "not read: {}; not among the inferred columns: declare more (CREATE STREAM, --schema)",
    DROPPED: "punctuations of <{}> that constrain undeclared attributes are dropped",
    ELEMENT: "no element <{}> was found",
    ONLY: "no element <{}> was found, only punctuations",
    VALUELESS: "a mark without a value closes nothing: {}",
    PATH: "nothing was found in any tuple at PATH {}",
}


def add(total: Overlooked, counts: Overlooked) -> Overlooked:
    """Add ``counts`` to ``total``; return the counts of names that are new there.

    >>> total = {}
    >>> add(total, {"nested": {"t": 2}}), add(total, {"nested": {"t": 1}}), total
    ({'nested': {'t': 2}}, {}, {'nested': {'t': 3}})
    """
    new: Overlooked = {}
    for kind, names in counts.items():
        counted = total.setdefault(kind, {})
        for name, number in names.items():
            if kind in (UNDECLARED, STRANGER, INNER) and name not in counted and len(counted) >= MOST:
                name = OTHERS
            if name not in counted:
                new.setdefault(kind, {})[name] = number
            counted[name] = counted.get(name, 0) + number
    return new


def end(total: Overlooked, element: str, tuples: int, punctuations: int, in_order: bool = True) -> Overlooked:
    """Evaluate the counts at the end of an input; return new counts. ``in_order``: the end was reached without error.

    ``tuples`` includes rejects.
    """
    absent = total.pop(ABSENT, {})
    punctuations -= sum(total.pop(CLOSED, {}).values())
    if not tuples:
        closed = punctuations or DROPPED in total
        if ELEMENT in total or (closed and "/" not in _URI.sub("", element)):
            return {}
        return add(total, {ONLY if closed else ELEMENT: {element: 1}})
    foreign = total.get(NAMESPACE, {})
    never = {path: number for path, number in absent.items() if number == tuples and path not in foreign}
    return add(total, {PATH: never} if never and in_order else {})


def notices(input_: str, new: Overlooked) -> list[Notice]:
    """The notices about new counts."""
    return [Notice(input_, kind, tuple(names)) for kind, names in new.items() if kind not in COUNTS]


@dataclass(slots=True)
class UnreadCounter:
    """Counts overlooked data in one input, whose tuples are ``element``."""

    input: str
    element: str
    _total: Overlooked = field(default_factory=dict)
    _tuples: int = 0
    _punctuations: int = 0

    def take(self, tuples: int, punctuations: int, overlooked: Overlooked) -> list[Notice]:
        """The notices after reading a further part of the input."""
        self._tuples += tuples
        self._punctuations += punctuations
        return notices(self.input, add(self._total, overlooked))

    def end(self, in_order: bool) -> list[Notice]:
        """The notices at the end of reading."""
        return notices(self.input, end(self._total, self.element, self._tuples, self._punctuations, in_order))


def kind_by_namespace(kind: str, name: str, punct_namespace: str) -> str:
    """The kind of an overlooked element, which differs for elements in the namespace of punctuations."""
    if name[1:].partition("}")[0] != punct_namespace:
        return kind
    return {STRANGER: MISNAMED, UNDECLARED: INNER}.get(kind, kind)


def gathered(pairs: Iterable[tuple[str, str]]) -> Overlooked:
    """The number of occurrences of each kind and name."""
    total: Overlooked = {}
    for kind, name in pairs:
        names = total.setdefault(kind, {})
        names[name] = names.get(name, 0) + 1
    return total

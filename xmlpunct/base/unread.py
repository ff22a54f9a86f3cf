"""What looks like data and is not read: counted by kind and name, and reported once for each.

- ``nested``: elements of the tuples' name inside a tuple, of which they are part; by their name.
- ``namespace``: tuples that have nothing at a path but something in a namespace that is not read; by path.
- ``stranger``: elements with the tuples' name, in a namespace of neither tuples nor punctuations; by expanded name.
- ``undeclared``: elements and attributes of tuples beyond the columns, which nobody declared; by path.
- ``dropped``: punctuations that constrain what is not declared; by the tuples' element.
- ``element``: an input without tuples and punctuations; by the element looked for.
- ``only``: an input with punctuations and no tuple, where tuples are looked for in a certain place, and punctuations
  are not: perhaps there are some elsewhere; by the element looked for.
- ``path``: no tuple has anything at a path; by path, with the number of tuples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from xmlpunct.base.printable import printable

Overlooked = dict[str, dict[str, int]]
"""Counts by kind and name."""

NESTED, NAMESPACE, UNDECLARED, DROPPED = "nested", "namespace", "undeclared", "dropped"
STRANGER = "stranger"
ELEMENT, ONLY, PATH = "element", "only", "path"
ABSENT = "absent"
"""In how many tuples nothing is at a path. Only at the end is it known whether that is all of them (`PATH`)."""

CLOSED = "closed"
"""How many punctuations follow from the names of files, and say nothing of what was found in these."""
COUNTS = (ABSENT, CLOSED)
"""The kinds that are counted for the end alone."""

MOST = 20
"""How many such names of a kind are counted apart, so that memory is bounded; the rest count together, as `OTHERS`."""
OTHERS = "..."
_URI = re.compile(r"\{[^{}]*\}")
_SHOWN = 10
"""How many names a message lists."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something of one kind that was overlooked in an input, under some names, for the first time."""

    input: str
    kind: str
    names: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether it is an error under ``--strict``. A path where nothing is may just be optional."""
        return self.kind in (NESTED, NAMESPACE, STRANGER, ELEMENT)

    def __str__(self) -> str:
        more = len(self.names) - _SHOWN
        names = ", ".join(self.names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
        return printable(f"{self.input}: {_TEXTS[self.kind].format(names)}")


_TEXTS = {
    NESTED: "<{}> inside a tuple is part of it, and no tuple",
    NAMESPACE: "what is in another namespace is not read at PATH {}",
    STRANGER: "not read for its namespace: {}; write --punct-namespace URI where it is that of punctuations, and "
    "element = '{{URI}}name' where it is that of tuples",
    UNDECLARED: "not read: {}; the columns are what it began with: declare others (CREATE STREAM, --schema)",
    DROPPED: "punctuations of <{}> that constrain what is not declared are dropped",
    ELEMENT: "no element <{}> was found",
    ONLY: "no element <{}> was found, only punctuations",
    PATH: "nothing was found in any tuple at PATH {}",
}


def add(total: Overlooked, more: Overlooked) -> Overlooked:
    """Add ``more`` to ``total``; return the counts of names that are new there.

    >>> total = {}
    >>> add(total, {"nested": {"t": 2}}), add(total, {"nested": {"t": 1}}), total
    ({'nested': {'t': 2}}, {}, {'nested': {'t': 3}})
    """
    new: Overlooked = {}
    for kind, names in more.items():
        known = total.setdefault(kind, {})
        for name, number in names.items():
            if kind in (UNDECLARED, STRANGER) and name not in known and len(known) >= MOST:
                name = OTHERS
            if name not in known:
                new.setdefault(kind, {})[name] = number
            known[name] = known.get(name, 0) + number
    return new


def end(total: Overlooked, element: str, tuples: int, punctuations: int, in_order: bool = True) -> Overlooked:
    """Note that no more of an input is read; return what is new. ``in_order``: its end was reached.

    ``tuples`` counts rejects too.
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
class Watch:
    """Counts what is overlooked in one input, whose tuples are ``element``."""

    input: str
    element: str
    _total: Overlooked = field(default_factory=dict)
    _tuples: int = 0
    _punctuations: int = 0

    def take(self, tuples: int, punctuations: int, overlooked: Overlooked) -> list[Notice]:
        """The notices after reading more of it."""
        self._tuples += tuples
        self._punctuations += punctuations
        return notices(self.input, add(self._total, overlooked))

    def end(self, in_order: bool) -> list[Notice]:
        """The notices when no more is read."""
        return notices(self.input, end(self._total, self.element, self._tuples, self._punctuations, in_order))


def gathered(pairs: Iterable[tuple[str, str]]) -> Overlooked:
    """How often each kind and name occurs."""
    total: Overlooked = {}
    for kind, name in pairs:
        names = total.setdefault(kind, {})
        names[name] = names.get(name, 0) + 1
    return total

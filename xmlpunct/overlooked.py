"""What looks like data and is not read: counted by kind and name, and told once for each.

- ``nested``: elements of the tuples' name inside a tuple, to which they belong; by their name.
- ``namespace``: tuples in which nothing is at a path but something in a namespace that is not read; by path.
- ``undeclared``: what tuples hold beside the columns taken from the first of them; by path.
- ``dropped``: punctuations that constrain what is not declared; by the tuples' element.
- ``element``: there is no tuple and no punctuation at all; by the element looked for.
- ``path``: nothing is at a path in any tuple; by path, with the number of tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Overlooked = dict[str, dict[str, int]]
"""Counts by kind and name."""

NESTED, NAMESPACE, UNDECLARED, DROPPED = "nested", "namespace", "undeclared", "dropped"
ELEMENT, PATH = "element", "path"
ABSENT = "absent"
"""In how many tuples nothing is at a path: what becomes of it is known at the end (`PATH`)."""

MOST = 20
"""So many names are told apart of what nobody declared; the others are counted together, as `OTHERS`."""
OTHERS = "..."
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Notice:
    """Something of one kind that was overlooked in an input, under some names, for the first time."""

    input: str
    kind: str
    names: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether it is an error for who is strict: a path where nothing is may just be optional."""
        return self.kind in (NESTED, NAMESPACE, ELEMENT)

    def __str__(self) -> str:
        more = len(self.names) - _SHOWN
        names = ", ".join(self.names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
        return f"{self.input}: {_TEXTS[self.kind].format(names)}"


_TEXTS = {
    NESTED: "<{}> inside a tuple is part of it, and no tuple",
    NAMESPACE: "what is in another namespace is not read at PATH {}",
    UNDECLARED: "not read: {}; the columns are the children of the first tuple, unless --schema says others",
    DROPPED: "punctuations of <{}> that constrain what is not declared are dropped",
    ELEMENT: "no element <{}> was found",
    PATH: "nothing was found in any tuple at PATH {}",
}


def add(total: Overlooked, more: Overlooked) -> Overlooked:
    """Add ``more`` to ``total``; gives what is new there.

    >>> total = {}
    >>> add(total, {"nested": {"t": 2}}), add(total, {"nested": {"t": 1}}), total
    ({'nested': {'t': 2}}, {}, {'nested': {'t': 3}})
    """
    new: Overlooked = {}
    for kind, names in more.items():
        known = total.setdefault(kind, {})
        for name, number in names.items():
            if kind == UNDECLARED and name not in known and len(known) >= MOST:
                name = OTHERS
            if name not in known:
                new.setdefault(kind, {})[name] = number
            known[name] = known.get(name, 0) + number
    return new


def end(total: Overlooked, element: str, tuples: int, punctuations: int, in_order: bool = True) -> Overlooked:
    """Take note that nothing more is read of an input, whose end was reached (``in_order``) or not.

    Gives what is new. ``tuples`` counts them all, rejects too.
    """
    absent = total.pop(ABSENT, {})
    if not tuples:
        occurs = punctuations or DROPPED in total or ELEMENT in total
        return {} if occurs else add(total, {ELEMENT: {element: 1}})
    foreign = total.get(NAMESPACE, {})
    never = {path: number for path, number in absent.items() if number == tuples and path not in foreign}
    return add(total, {PATH: never} if never and in_order else {})


def notices(input_: str, new: Overlooked) -> list[Notice]:
    """What is to be told of what is new."""
    return [Notice(input_, kind, tuple(names)) for kind, names in new.items() if kind != ABSENT]


@dataclass(slots=True)
class Watch:
    """Looks for what is overlooked in an input of one stream, with that element."""

    input: str
    element: str
    _total: Overlooked = field(default_factory=dict)
    _tuples: int = 0
    _punctuations: int = 0

    def take(self, tuples: int, punctuations: int, overlooked: Overlooked) -> list[Notice]:
        """What is new in so much more of it."""
        self._tuples += tuples
        self._punctuations += punctuations
        return notices(self.input, add(self._total, overlooked))

    def end(self, in_order: bool) -> list[Notice]:
        """What is new when no more is read: see `end`."""
        return notices(self.input, end(self._total, self.element, self._tuples, self._punctuations, in_order))


def gathered(found: Iterable[tuple[str, str]]) -> Overlooked:
    """Counts of some kinds and names."""
    total: Overlooked = {}
    for kind, name in found:
        names = total.setdefault(kind, {})
        names[name] = names.get(name, 0) + 1
    return total

"""The cumulative invariants of sort, by brute force: every tuple that may come at all, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle.operators import Oracle, Ports, Promise, match, set_match
from tests.oracle.values import Row
from xmlpunct.schema import Schema

Keys = Sequence[tuple[str, bool, bool]]


def ranker(schema: Schema, keys: Keys) -> Callable[[Row], list[tuple[int, Any]]]:
    """What to sort tuples by: keys (column, descending, nulls first), then the other columns."""
    places = [(schema.index(name), down, nulls_first) for name, down, nulls_first in keys]
    places += [(i, False, False) for i in range(len(schema)) if i not in [place for place, _, _ in places]]

    def rank(t: Row) -> list[tuple[int, Any]]:
        found: list[tuple[int, Any]] = []
        for place, down, nulls_first in places:
            value = t[place]
            if value is None:
                found.append((-1 if nulls_first else 1, 0))
            else:
                key = schema.attributes[place].type.key(value)
                found.append((0, _Down(key) if down else key))
        return found

    return rank


class _Down:
    """Compares the other way round."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"down {self.key!r}"  # tests/oracle/over.py counts different ones by their texts

    def __lt__(self, other: _Down) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and bool(self.key == other.key)


def sort(schema: Schema, keys: Keys, conceivable: Sequence[Row]) -> Oracle:
    """sort: a tuple is released once it and all of ``conceivable`` before it are closed.

    Promised are punctuations, as they came, that no unreleased tuple matches, and all before the first open
    tuple, as far as punctuations can say that: null they cannot.
    """
    rank = ranker(schema, keys)
    nulls_first = {schema.index(name) for name, _, first in keys if first and schema[name].nullable}
    places = list(dict.fromkeys([*(schema.index(name) for name, _, _ in keys), *range(len(schema))]))
    ordered = sorted(conceivable, key=rank)

    def first_open(ports: Ports) -> Row | None:
        return next((u for u in ordered if not set_match(u, ports[0].ps)), None)

    def is_said(u: Row, first: Row) -> bool:
        for place, mine, its in zip(places, rank(u), rank(first), strict=True):
            if place in nulls_first or mine != its:
                return place not in nulls_first and u[place] is not None and mine < its
            if u[place] is None:
                return False
        return False

    def released(ports: Ports) -> tuple[list[Row], list[Row]]:
        (port,) = ports
        first = first_open(ports)
        if first is None:
            return sorted(port.ts, key=rank), []
        found = [t for t in port.ts if rank(t) < rank(first)]
        return sorted(found, key=rank), [t for t in port.ts if not rank(t) < rank(first)]

    def cprop(ports: Ports) -> Promise:
        waiting = released(ports)[1]
        free = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        first = first_open(ports)
        return lambda u: set_match(u, free) or (first is not None and is_said(u, first))

    return Oracle(lambda ports: released(ports)[0], cprop, lambda ports: [released(ports)[1]])


def in_time(
    rows: Sequence[Row], place: int, slack: float, by: int | None, senders: Sequence[Any]
) -> list[Row]:
    """punctuate, in document order: what is not below the highest value before it, less the slack.

    With ``by``, the place of the sender, each of ``senders`` is in order by itself, and no other is let in.
    """
    highest: dict[Any, Any] = {}
    found = []
    for row in rows:
        sender, value = (None if by is None else row[by]), row[place]
        top = highest.get(sender)
        if by is not None and sender not in senders:
            continue
        if value is not None and top is not None and value < top - slack:
            continue
        if value is not None:
            highest[sender] = value if top is None else max(top, value)
        found.append(row)
    return found

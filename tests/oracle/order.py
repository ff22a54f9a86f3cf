"""The cumulative invariants of sort, by brute force over every conceivable tuple in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle.operators import Oracle, Ports, Promise, match, set_match
from tests.oracle.values import Row
from xmlpunct.schema import Schema

Keys = Sequence[tuple[str, bool, bool]]


def ranker(schema: Schema, keys: Keys) -> Callable[[Row], list[tuple[int, Any]]]:
    """The sort key of a tuple: keys (column, descending, nulls first), then the other columns."""
    columns = [(schema.index(name), down, nulls_first) for name, down, nulls_first in keys]
    columns += [
        (i, False, False) for i in range(len(schema)) if i not in [column for column, _, _ in columns]
    ]

    def rank(t: Row) -> list[tuple[int, Any]]:
        parts: list[tuple[int, Any]] = []
        for column, down, nulls_first in columns:
            value = t[column]
            if value is None:
                parts.append((-1 if nulls_first else 1, 0))
            else:
                key = schema.attributes[column].type.key(value)
                parts.append((0, _Down(key) if down else key))
        return parts

    return rank


class _Down:
    """A key that compares in reverse."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"down {self.key!r}"  # tests/oracle/over.py counts distinct keys by their text

    def __lt__(self, other: _Down) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and bool(self.key == other.key)


def sort(schema: Schema, keys: Keys, conceivable: Sequence[Row]) -> Oracle:
    """sort: a tuple is released once it and all ``conceivable`` tuples before it are closed.

    Promised: received punctuations that no unreleased tuple matches, and everything before the first open tuple
    that a punctuation can express. No range expresses null.
    """
    rank = ranker(schema, keys)
    nulls_first = {schema.index(name) for name, _, first in keys if first and schema[name].nullable}
    columns = list(dict.fromkeys([*(schema.index(name) for name, _, _ in keys), *range(len(schema))]))
    ordered = sorted(conceivable, key=rank)

    def first_open(ports: Ports) -> Row | None:
        return next((u for u in ordered if not set_match(u, ports[0].ps)), None)

    def is_promised(u: Row, first: Row) -> bool:
        for column, key, open_key in zip(columns, rank(u), rank(first), strict=True):
            if column in nulls_first or key != open_key:
                return column not in nulls_first and u[column] is not None and key < open_key
            if u[column] is None:
                return False
        return False

    def released(ports: Ports) -> tuple[list[Row], list[Row]]:
        (port,) = ports
        first = first_open(ports)
        if first is None:
            return sorted(port.ts, key=rank), []
        rows = [t for t in port.ts if rank(t) < rank(first)]
        return sorted(rows, key=rank), [t for t in port.ts if not rank(t) < rank(first)]

    def cprop(ports: Ports) -> Promise:
        waiting = released(ports)[1]
        free = [p for p in ports[0].ps if not any(match(t, p) for t in waiting)]
        first = first_open(ports)
        return lambda u: set_match(u, free) or (first is not None and is_promised(u, first))

    return Oracle(lambda ports: released(ports)[0], cprop, lambda ports: [released(ports)[1]])


def in_time(
    rows: Sequence[Row], column: int, slack: float, sender_column: int | None, senders: Sequence[Any]
) -> list[Row]:
    """punctuate: rows in document order whose value is at least the highest earlier value minus the slack.

    With ``sender_column``, each of ``senders`` has an order of its own, and rows of other senders are dropped.
    """
    highest: dict[Any, Any] = {}
    accepted = []
    for row in rows:
        sender, value = (None if sender_column is None else row[sender_column]), row[column]
        top = highest.get(sender)
        if sender_column is not None and sender not in senders:
            continue
        if value is not None and top is not None and value < top - slack:
            continue
        if value is not None:
            highest[sender] = value if top is None else max(top, value)
        accepted.append(row)
    return accepted


def without_jumps(
    rows: Sequence[Row], column: int, slack: int, ahead: int, after: int, watermark: bool = False
) -> tuple[list[int], list[int], list[int], int | None]:
    """punctuate with AHEAD, for the rows of one sender: accepted, rejected and held rows, and the maximum.

    Each tuple is judged by the rules of AHEAD alone, without the end of the stream.
    """
    accepted, rejected, held = list[int](), list[int](), list[int]()
    maximum: int | None = None
    waiting = list(range(len(rows)))
    while waiting:
        row = waiting.pop(0)
        value = rows[row][column]
        if value is None:
            accepted.append(row)
        elif maximum is None or value > maximum + ahead:
            held.append(row)
            if len(held) == after:
                maximum = min(rows[i][column] for i in held)
                waiting, held = held + waiting, []
        elif value < maximum - slack + watermark:
            rejected.append(row)
        else:
            accepted.append(row)
            rejected += held
            held, maximum = [], max(maximum, value)
    return accepted, rejected, held, maximum

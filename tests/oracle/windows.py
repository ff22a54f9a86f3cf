"""TUMBLE, HOP and SESSION (relations 11): the rows, those released at a prefix, and the promises."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.oracle.cql.complete import OTHER, Leaf
from tests.oracle.cql.feeds import Element, Feed, Input, Spans, Time, canonical, instant, timestamp
from tests.oracle.cql.meaning import down, up
from tests.oracle.values import Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types import Type

Ends = tuple[int, int]
"""The first and the last instant of a type."""
Open = tuple[int | None, int | None]
"""An open interval of instants; None: unbounded."""


def ends(type_: Type) -> Ends:
    return instant(type_, type_.lowest), instant(type_, type_.highest)


@dataclass(frozen=True)
class Hop:
    """``HOP(TABLE t, DESCRIPTOR(ts), slide, size, origin)``; TUMBLE: slide = size."""

    slide: int
    size: int
    origin: int = 0

    def starts(self, ts: int) -> list[int]:
        """All w = o + j*slide with w <= ts < w+size."""
        first, last = (
            up(ts - self.size + 1, self.slide, self.origin),
            down(ts, self.slide, self.origin),
        )
        return list(range(first, last + 1, self.slide))

    def rows(self, input_: Input, tuples: list[Row]) -> Counter[Row]:
        """Each tuple with each of its windows. A window outside the type's range rejects that row."""
        result: Counter[Row] = Counter()
        low, high = ends(input_.type)
        assert input_.stamp is not None
        for t in tuples:
            for w in self.starts(instant(input_.type, t[input_.schema.index(input_.stamp)])):
                if low <= w and w + self.size <= high:
                    window = timestamp(input_.type, w), timestamp(input_.type, w + self.size)
                    result[(*canonical(t), *window)] += 1
        return result

    def is_closed(self, w: int, closed: Spans, limits: Ends) -> bool:
        """Whether the window at w is closed: its instants within the type lie in one closed interval."""
        first, last = max(w, limits[0]), min(w + self.size - 1, limits[1])
        return any(a <= first and last <= b for a, b in closed)

    def promised(self, closed: Spans, limits: Ends) -> list[tuple[Open, Open]]:
        """The promises for window_start and window_end, for each maximal interval [a,b] of closed instants.

        With w1 = up(a), w2 = down(b+1-size), if w1 <= w2: (w1-slide, w2+slide), and the same + size. A bound that
        reaches the end of the type is open.
        """
        promises: list[tuple[Open, Open]] = []
        for a, b in closed:
            w1 = up(a, self.slide, self.origin) - self.slide if a > limits[0] else None
            w2 = down(b + 1 - self.size, self.slide, self.origin) + self.slide if b < limits[1] else None
            if w1 is None or w2 is None or w1 + self.slide <= w2 - self.slide:
                shifted = tuple(None if w is None else w + self.size for w in (w1, w2))
                promises.append(((w1, w2), (shifted[0], shifted[1])))
        return promises


def inside(w: int, interval: Open) -> bool:
    """Whether an instant lies in an open interval."""
    return (interval[0] is None or interval[0] < w) and (interval[1] is None or w < interval[1])


@dataclass(frozen=True)
class Session:
    """``SESSION(TABLE t PARTITION BY by, DESCRIPTOR(ts), gap)``. ``by`` are positions among the columns without ts."""

    gap: int
    by: tuple[int, ...] = ()

    def sessions(self, input_: Input, tuples: list[Row]) -> list[tuple[Row, list[tuple[int, Row]]]]:
        """The sessions of each key: rows in order, each less than the gap after its predecessor."""
        keyed: dict[Row, list[tuple[int, Row]]] = {}
        for t in tuples:
            e, ts, _ = input_.element(t)
            keyed.setdefault(tuple(e[i] for i in self.by), []).append((ts, canonical(t)))
        result: list[tuple[Row, list[tuple[int, Row]]]] = []
        for k, rows in keyed.items():
            last = None
            for ts, row in sorted(rows, key=lambda r: r[0]):
                if last is None or ts - last >= self.gap:
                    result.append((k, []))
                result[-1][1].append((ts, row))
                last = ts
        return result

    def rows(self, input_: Input, tuples: list[Row]) -> Counter[Row]:
        """Each tuple with its session. A window_end outside the type's range rejects the session's rows."""
        return Counter(
            row for _, session in self.sessions(input_, tuples) for row in self._out(input_, session)
        )

    def _out(self, input_: Input, session: list[tuple[int, Row]]) -> list[Row]:
        start, end = session[0][0], session[-1][0] + self.gap
        if end > ends(input_.type)[1]:
            return []
        window = timestamp(input_.type, start), timestamp(input_.type, end)
        return [(*row, *window) for _, row in session]

    def is_closed(self, session: list[tuple[int, Row]], closed: Spans, limits: Ends) -> bool:
        """Whether [first-gap+1, last+gap-1] is closed: no tuple can extend the session or merge it with another one."""
        first = max(session[0][0] - self.gap + 1, limits[0])
        last = min(session[-1][0] + self.gap - 1, limits[1])
        return any(a <= first and last <= b for a, b in closed)


def leaf(input_: Input, feed: Feed) -> tuple[Leaf, list[Row]]:
    """The instants that the punctuations of an input close, and its tuples."""
    elements: list[Element] = [e for name, e in feed if name == input_.name]
    return Leaf(input_, elements, Time.of([input_])), [t for t in elements if not isinstance(t, Punctuation)]


def key(input_: Input, by: tuple[int, ...], k: Row) -> Row:
    """A key as a tuple of the input: ``*`` alone closes nulls and the columns outside the key."""
    values = [OTHER] * len(input_.places)
    for position, v in zip(by, k, strict=True):
        values[position] = OTHER if v is None else v
    return tuple(values)


def released(op: Hop | Session, input_: Input, feed: Feed) -> Counter[Row]:
    """The rows that must be released at a prefix: all rows of HOP, the closed sessions of SESSION."""
    closes, tuples = leaf(input_, feed)
    if isinstance(op, Hop):
        return op.rows(input_, tuples)
    limits = ends(input_.type)
    return Counter(
        row
        for k, session in op.sessions(input_, tuples)
        if op.is_closed(session, closes.spans(key(input_, op.by, k)), limits)
        for row in op._out(input_, session)
    )


def session_promises(op: Session, input_: Input, feed: Feed, k: Row) -> tuple[float, float]:
    """How far window_start and window_end of a key are promised: (, min(C, least retained ts - 1)] and (,C+1]."""
    closes, tuples = leaf(input_, feed)
    key_tuple = key(input_, op.by, k)
    closed, limits = closes.spans(key_tuple), ends(input_.type)
    c = closes.bound(key_tuple)
    retained = [
        ts
        for session_key, session in op.sessions(input_, tuples)
        if session_key == k and not op.is_closed(session, closed, limits)
        for ts, _ in session
    ]
    return min([c, *(ts - 1 for ts in retained)]), c + 1

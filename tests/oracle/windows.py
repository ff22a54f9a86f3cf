"""TUMBLE, HOP and SESSION (relations 11): the rows, what is out at a prefix, and what is promised."""

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

    def rows(self, given: Input, tuples: list[Row]) -> Counter[Row]:
        """Each tuple with each of its windows. A window that does not fit the type rejects that row."""
        found: Counter[Row] = Counter()
        low, high = ends(given.type)
        assert given.stamp is not None
        for t in tuples:
            for w in self.starts(instant(given.type, t[given.schema.index(given.stamp)])):
                if low <= w and w + self.size <= high:
                    window = timestamp(given.type, w), timestamp(given.type, w + self.size)
                    found[(*canonical(t), *window)] += 1
        return found

    def is_closed(self, w: int, closed: Spans, limits: Ends) -> bool:
        """Whether no open ts is in the window at w: all of it that the type has lies in one closed interval."""
        first, last = max(w, limits[0]), min(w + self.size - 1, limits[1])
        return any(a <= first and last <= b for a, b in closed)

    def promised(self, closed: Spans, limits: Ends) -> list[tuple[Open, Open]]:
        """What is promised of window_start and of window_end, for each maximal interval [a,b] of closed instants.

        With w1 = up(a), w2 = down(b+1-size), if w1 <= w2: (w1-slide, w2+slide), and the same + size. What reaches
        the type's end is unbounded.
        """
        found: list[tuple[Open, Open]] = []
        for a, b in closed:
            w1 = up(a, self.slide, self.origin) - self.slide if a > limits[0] else None
            w2 = down(b + 1 - self.size, self.slide, self.origin) + self.slide if b < limits[1] else None
            if w1 is None or w2 is None or w1 + self.slide <= w2 - self.slide:
                later = tuple(None if w is None else w + self.size for w in (w1, w2))
                found.append(((w1, w2), (later[0], later[1])))
        return found


def inside(w: int, interval: Open) -> bool:
    """Whether an instant lies in an open interval."""
    return (interval[0] is None or interval[0] < w) and (interval[1] is None or w < interval[1])


@dataclass(frozen=True)
class Session:
    """``SESSION(TABLE t PARTITION BY by, DESCRIPTOR(ts), gap)``. ``by`` are places among the columns but ts."""

    gap: int
    by: tuple[int, ...] = ()

    def sessions(self, given: Input, tuples: list[Row]) -> list[tuple[Row, list[tuple[int, Row]]]]:
        """The sessions of each key: rows in order, each less than the gap after the one before."""
        keyed: dict[Row, list[tuple[int, Row]]] = {}
        for t in tuples:
            e, ts, _ = given.element(t)
            keyed.setdefault(tuple(e[i] for i in self.by), []).append((ts, canonical(t)))
        found: list[tuple[Row, list[tuple[int, Row]]]] = []
        for k, rows in keyed.items():
            last = None
            for ts, row in sorted(rows, key=lambda r: r[0]):
                if last is None or ts - last >= self.gap:
                    found.append((k, []))
                found[-1][1].append((ts, row))
                last = ts
        return found

    def rows(self, given: Input, tuples: list[Row]) -> Counter[Row]:
        """Each tuple with its session. A window_end that does not fit the type rejects the session's rows."""
        return Counter(
            row for _, session in self.sessions(given, tuples) for row in self._out(given, session)
        )

    def _out(self, given: Input, session: list[tuple[int, Row]]) -> list[Row]:
        start, end = session[0][0], session[-1][0] + self.gap
        if end > ends(given.type)[1]:
            return []
        window = timestamp(given.type, start), timestamp(given.type, end)
        return [(*row, *window) for _, row in session]

    def is_closed(self, session: list[tuple[int, Row]], closed: Spans, limits: Ends) -> bool:
        """Whether [first-gap+1, last+gap-1] is closed: nothing can join the session, or be the join of two."""
        first = max(session[0][0] - self.gap + 1, limits[0])
        last = min(session[-1][0] + self.gap - 1, limits[1])
        return any(a <= first and last <= b for a, b in closed)


def leaf(given: Input, feed: Feed) -> tuple[Leaf, list[Row]]:
    """What the punctuations of an input close, and its tuples."""
    own: list[Element] = [e for name, e in feed if name == given.name]
    return Leaf(given, own, Time.of([given])), [t for t in own if not isinstance(t, Punctuation)]


def key(given: Input, by: tuple[int, ...], k: Row) -> Row:
    """A key as a tuple of the input: all others, and nulls, are closed by ``*`` alone."""
    found = [OTHER] * len(given.places)
    for place, v in zip(by, k, strict=True):
        found[place] = OTHER if v is None else v
    return tuple(found)


def released(op: Hop | Session, given: Input, feed: Feed) -> Counter[Row]:
    """What must be out at a prefix: of HOP everything, of SESSION the sessions that are closed, whole."""
    closes, tuples = leaf(given, feed)
    if isinstance(op, Hop):
        return op.rows(given, tuples)
    limits = ends(given.type)
    return Counter(
        row
        for k, session in op.sessions(given, tuples)
        if op.is_closed(session, closes.spans(key(given, op.by, k)), limits)
        for row in op._out(given, session)
    )


def session_promises(op: Session, given: Input, feed: Feed, k: Row) -> tuple[float, float]:
    """How far window_start and window_end of a key are promised: (, min(C, least retained ts - 1)] and (,C+1]."""
    closes, tuples = leaf(given, feed)
    whole = key(given, op.by, k)
    closed, limits = closes.spans(whole), ends(given.type)
    c = closes.bound(whole)
    kept = [
        ts
        for other, session in op.sessions(given, tuples)
        if other == k and not op.is_closed(session, closed, limits)
        for ts, _ in session
    ]
    return min([c, *(ts - 1 for ts in kept)]), c + 1

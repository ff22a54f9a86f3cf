"""The relational counterparts of judged operators, over all tuples at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.oracle import relational
from tests.oracle.values import Row


def first_of_each(ts: Sequence[Row]) -> list[Row]:
    """The tuples that a primary key accepts: the first one of each key value."""
    return list({t[0]: t for t in reversed(ts)}.values())


def counted_over(ts: Sequence[Row]) -> list[Row]:
    """COUNT(*) OVER (PARTITION BY k ORDER BY v RANGE 1 PRECEDING)."""
    return [(*t, sum(u[0] == t[0] and t[1] - 1 <= u[1] <= t[1] for u in ts)) for t in ts]


def counted_by_key(ts: Sequence[Row]) -> list[Row]:
    """COUNT(*) OVER (PARTITION BY k)."""
    return [(*t, sum(u[0] == t[0] for u in ts)) for t in ts]


def counted_down(ts: Sequence[Row]) -> list[Row]:
    """COUNT(*) OVER (PARTITION BY k ORDER BY v DESC)."""
    return [(*t, sum(u[0] == t[0] and u[1] >= t[1] for u in ts)) for t in ts]


def sessions(ts: Sequence[Row]) -> list[Row]:
    """SESSION(... PARTITION BY k, DESCRIPTOR(v), 1): sessions of one instant, because v is 0, 1 or 2."""
    return [(*t, t[1], t[1] + 1) for t in ts]


def unnested(ts: Sequence[Row]) -> list[Row]:
    """One tuple per array item."""
    return [(t[0], item["i"]) for t in ts for item in t[1] or ()]


def tumbled(ts: Sequence[Row]) -> list[Row]:
    """TUMBLE(..., DESCRIPTOR(v), 2)."""
    return [(*t, t[1] // 2 * 2, t[1] // 2 * 2 + 2) for t in ts]


def counted_above(ts: Sequence[Row]) -> list[Row]:
    """COUNT(*) by v where k."""
    return [*Counter(v for k, v in ts if k).items()]


def full_using(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """FULL JOIN USING (k): one column k."""
    pairs = relational.join("full", (2, 2), [(0, 0)])(left, right)
    return [(k if k is not None else other, v, w) for k, v, other, w in pairs]


def counted_using(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """COUNT(*) by k of `full_using`."""
    return [*Counter(k for k, _, _ in full_using(left, right)).items()]


def counted_windows(ts: Sequence[Row]) -> list[Row]:
    """COUNT(*) by k and window_end of `tumbled`."""
    return [(*key, n) for key, n in Counter((k, end) for k, _, _, end in tumbled(ts)).items()]

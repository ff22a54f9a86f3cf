"""SQL's binary operators over complete relations: the final result of a stream operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle.values import Row, same

Places = Sequence[tuple[int, int]]
"""Equality attributes: pairs of a position on the left and one on the right."""
Residual = Callable[[Row, Row], Any]
"""A further condition on a pair: true, false or None (unknown)."""
Relation = Sequence[Row]
Operation = Callable[[Relation, Relation], list[Row]]
PRESERVED = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}


def partners(t1: Row, t2: Row, keys: Places, residual: Residual | None = None) -> bool:
    """Whether two tuples join. A null key equals no value."""
    agree = all(t1[i] is not None and same(t1[i]) == same(t2[j]) for i, j in keys)
    return agree and (residual is None or residual(t1, t2) is True)


def join(kind: str, widths: tuple[int, int], keys: Places, residual: Residual | None = None) -> Operation:
    """Joined pairs, and for a preserved side its unmatched tuples padded with nulls.

    The pairs of an inner join contain each equality attribute once.
    """
    dropped = {j for _, j in keys} if kind == "inner" else set()
    keep = [j for j in range(widths[1]) if j not in dropped]
    left, right = PRESERVED[kind]

    def result(ts1: Relation, ts2: Relation) -> list[Row]:
        rows = [(*t1, *(t2[j] for j in keep)) for t1 in ts1 for t2 in ts2 if partners(t1, t2, keys, residual)]
        if left:
            unmatched = [t1 for t1 in ts1 if not any(partners(t1, t2, keys, residual) for t2 in ts2)]
            rows += [(*t1, *[None] * widths[1]) for t1 in unmatched]
        if right:
            unmatched = [t2 for t2 in ts2 if not any(partners(t1, t2, keys, residual) for t1 in ts1)]
            rows += [(*[None] * widths[0], *t2) for t2 in unmatched]
        return rows

    return result


def semijoin(anti: bool, keys: Places, residual: Residual | None = None) -> Operation:
    """EXISTS; ``anti``: NOT EXISTS."""
    return lambda ts1, ts2: [t for t in ts1 if any(partners(t, u, keys, residual) for u in ts2) is not anti]


def not_in(left: int, right: int) -> Operation:
    """NOT IN over one attribute of each side, in three-valued logic."""

    def holds(value: Any, right_values: Sequence[Any]) -> bool:
        if not right_values:
            return True
        unknown = value is None or any(v is None for v in right_values)
        return not unknown and same(value) not in set(map(same, right_values))

    return lambda ts1, ts2: [t for t in ts1 if holds(t[left], [u[right] for u in ts2])]


def distinct(ts: Relation) -> list[Row]:
    """δ(ts): each tuple once."""
    return list({tuple(map(same, t)): t for t in reversed(ts)}.values())


def among(t: Row, ts: Relation) -> bool:
    """t in ts, nulls being equal."""
    return tuple(map(same, t)) in _keys(ts)


def _keys(ts: Relation) -> set[tuple[Any, ...]]:
    return {tuple(map(same, t)) for t in ts}


def intersect(ts1: Relation, ts2: Relation) -> list[Row]:
    """INTERSECT."""
    right_keys = _keys(ts2)
    return [t for t in distinct(ts1) if tuple(map(same, t)) in right_keys]


def difference(ts1: Relation, ts2: Relation) -> list[Row]:
    """EXCEPT."""
    right_keys = _keys(ts2)
    return [t for t in distinct(ts1) if tuple(map(same, t)) not in right_keys]

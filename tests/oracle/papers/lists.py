"""The papers' functions on finite lists, in which tuples are compared as plain values."""

from __future__ import annotations

from collections.abc import Iterable

from tests.oracle.values import Row


def nub(xs: Iterable[Row]) -> list[Row]:
    """δ: each tuple once, where it stands first."""
    return list(dict.fromkeys(xs))


def minus(xs: Iterable[Row], ys: Iterable[Row]) -> list[Row]:
    """xs - ys: the tuples of xs that are not in ys, however often."""
    gone = set(ys)
    return [x for x in xs if x not in gone]


def union(xs: Iterable[Row], ys: Iterable[Row]) -> list[Row]:
    """xs ∪ ys, each tuple once."""
    return nub([*xs, *ys])

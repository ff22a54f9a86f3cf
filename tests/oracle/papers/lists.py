"""The papers' functions on finite lists; tuples compare as Python values."""

from __future__ import annotations

from collections.abc import Iterable

from tests.oracle.values import Row


def nub(xs: Iterable[Row]) -> list[Row]:
    """δ: each tuple once, at its first position."""
    return list(dict.fromkeys(xs))


def minus(xs: Iterable[Row], ys: Iterable[Row]) -> list[Row]:
    """xs - ys: the tuples of xs that do not occur in ys."""
    excluded = set(ys)
    return [x for x in xs if x not in excluded]


def union(xs: Iterable[Row], ys: Iterable[Row]) -> list[Row]:
    """xs ∪ ys, each tuple once."""
    return nub([*xs, *ys])

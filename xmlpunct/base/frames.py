"""State as named data frames; masks; and joins in which NaN equals NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Literal, Protocol

import polars as pl

from xmlpunct.base.doubles import bits

Order = Literal["none", "left", "left_right"]

Snapshot = Mapping[str, pl.DataFrame]
"""State as named data frames, enough to restore it."""


class Part(Protocol):
    """Something retained, which counts, saves and restores itself."""

    def __len__(self) -> int:
        """How many tuples, or punctuations, it holds."""

    def snapshot(self) -> Snapshot:
        """What it holds. A frame that did not change is the same object as in the snapshot before."""

    def restore(self, snapshot: Snapshot) -> None:
        """Hold what a snapshot has, instead of what it holds."""


def any_of(masks: Sequence[pl.Series], height: int) -> pl.Series:
    """For each of ``height`` rows, whether any mask marks it.

    >>> any_of([], 2).to_list(), any_of([pl.Series([True, False]), pl.Series([False, False])], 2).to_list()
    ([False, False], [True, False])
    """
    return reduce(or_, masks) if masks else pl.Series([False]).new_from_index(0, height)


def grouped(snapshot: Snapshot) -> dict[str, dict[str, pl.DataFrame]]:
    """A snapshot ``{"a/b": ...}`` as ``{"a": {"b": ...}}``."""
    groups: dict[str, dict[str, pl.DataFrame]] = {}
    for key, frame in snapshot.items():
        name, _, rest = key.partition("/")
        groups.setdefault(name, {})[rest] = frame
    return groups


def snapshot_of(parts: Mapping[str, Part]) -> dict[str, pl.DataFrame]:
    """The snapshots of several parts as one."""
    return {f"{name}/{key}": frame for name, part in parts.items() for key, frame in part.snapshot().items()}


def restore(parts: Mapping[str, Part], snapshot: Snapshot) -> None:
    """The inverse of `snapshot_of`: each part takes its own. A part that is not in the snapshot held nothing."""
    groups = grouped(snapshot)
    for name, part in parts.items():
        part.restore(groups.get(name, {}))


def join(
    left: pl.DataFrame,
    right: pl.DataFrame,
    on: Sequence[str],
    how: Literal["inner", "left", "semi", "anti"],
    *,
    right_on: Sequence[str] | None = None,
    nulls_equal: bool = False,
    order: Order = "none",
) -> pl.DataFrame:
    """`polars.DataFrame.join` by the columns ``on`` (in ``right``: ``right_on``), in which NaN equals NaN.

    DOUBLEs are joined by their bits, for polars has two ways to join. It hashes, or it merges where a column is
    marked as sorted, as one of a single row always is. Merging takes NaN for equal to nothing.
    """
    left_on, right_on = list(on), list(right_on or on)
    words = []
    for i, (mine, its) in enumerate(zip(left_on, right_on, strict=True)):
        if left[mine].dtype == pl.Float64:
            word = f"$word{i}"
            left = left.hstack([bits(word, left[mine])])
            right = right.clone().replace_column(right.get_column_index(its), bits(its, right[its]))
            left_on[i] = word
            words.append(word)
    pairs = left.join(
        right, left_on=left_on, right_on=right_on, how=how, nulls_equal=nulls_equal, maintain_order=order
    )
    for word in words:
        pairs.drop_in_place(word)
    return pairs

"""State as named data frames; and joins by the values of columns, as we mean equality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import polars as pl

from xmlpunct.doubles import bits

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
    """The inverse of `snapshot_of`: let each part take its own. One that is not there held nothing."""
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

    DOUBLEs are joined by their bits. polars marks a column as sorted that is one row, or that is concatenated
    from such in order, and an inner or left join on one marked column merges instead of hashing: there it
    takes NaN for equal to nothing. Over integers, which bits are, both ways are right.
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

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


class SnapshotPart(Protocol):
    """A part of an operator's state, which can be counted, saved and restored."""

    def __len__(self) -> int:
        """The number of retained tuples or punctuations."""

    def snapshot(self) -> Snapshot:
        """The contents. A frame that did not change is the same object as in the previous snapshot."""

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the contents by a snapshot."""


def any_of(masks: Sequence[pl.Series], height: int) -> pl.Series:
    """For each of ``height`` rows, whether any mask marks it.

    >>> any_of([], 2).to_list(), any_of([pl.Series([True, False]), pl.Series([False, False])], 2).to_list()
    ([False, False], [True, False])
    """
    return reduce(or_, masks) if masks else pl.Series([False]).new_from_index(0, height)


def nested_snapshot(snapshot: Snapshot) -> dict[str, dict[str, pl.DataFrame]]:
    """A snapshot ``{"a/b": ...}`` as ``{"a": {"b": ...}}``."""
    groups: dict[str, dict[str, pl.DataFrame]] = {}
    for key, frame in snapshot.items():
        name, _, key_in_group = key.partition("/")
        groups.setdefault(name, {})[key_in_group] = frame
    return groups


def snapshot_of(parts: Mapping[str, SnapshotPart]) -> dict[str, pl.DataFrame]:
    """The snapshots of several parts as one."""
    return {f"{name}/{key}": frame for name, part in parts.items() for key, frame in part.snapshot().items()}


def restore(parts: Mapping[str, SnapshotPart], snapshot: Snapshot) -> None:
    """The inverse of `snapshot_of`. A part that the snapshot does not have becomes empty."""
    groups = nested_snapshot(snapshot)
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

    DOUBLEs are joined by their bits, because polars has two algorithms: a hash join, and a merge join for columns that
    are marked as sorted, which single-row columns always are. In its merge join NaN does not equal NaN.
    """
    left_on, right_on = list(on), list(right_on or on)
    words = []
    for i, (left_name, right_name) in enumerate(zip(left_on, right_on, strict=True)):
        if left[left_name].dtype == pl.Float64:
            word = f"$word{i}"
            left = left.hstack([bits(word, left[left_name])])
            right = right.clone().replace_column(
                right.get_column_index(right_name), bits(right_name, right[right_name])
            )
            left_on[i] = word
            words.append(word)
    pairs = left.join(
        right, left_on=left_on, right_on=right_on, how=how, nulls_equal=nulls_equal, maintain_order=order
    )
    for word in words:
        pairs.drop_in_place(word)
    return pairs

"""Ordered: values by group, with quick access to the least and the greatest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.page import Page
from xmlpunct.operators.relations.partials import Partials
from xmlpunct.operators.relations.slots import Numbers, begins, group_numbers

VALUE = "$value"
_STEPS = 8
"""The most removed rows that are skipped one by one. After that, the whole page is searched."""


class Ordered(Partials):
    """`Partials` by group and value.

    Each page has a view: its rows in order of group and value, and the positions of each group's first and last live
    row. A page changes only by removals, so these positions only move inwards. Each removed row is skipped once.

    >>> seen = Ordered(pl.DataFrame(schema={"k": pl.Int64, VALUE: pl.Int64, "n": pl.Int64}), ["k"])
    >>> seen.keep(pl.DataFrame({"k": [1, 2, 1], VALUE: [9, 5, 3], "n": [1, 1, 1]}))
    >>> positions, values = seen.extremes(pl.DataFrame({"k": [3, 1]}), greatest=False)
    >>> positions.tolist(), values.to_list()
    ([1], [3])
    """

    def __init__(self, empty: pl.DataFrame, groups: Sequence[str]) -> None:
        super().__init__(empty, [*groups, VALUE])
        self._groups = list(groups)
        self._views: dict[Page, _View] = {}

    def extremes(self, groups: pl.DataFrame, greatest: bool) -> tuple[Numbers, pl.Series]:
        """Values that include the least (greatest) of each group, and the position of each value's group."""
        self._views = {page: self._views.get(page) or _View(page, self._groups) for page in self._pages}
        positions, values = [np.empty(0, np.int64)], [self.empty[VALUE]]
        for page, view in self._views.items():
            page_groups, numbers = view.groups.probe(groups)
            non_empty, rows = view.ends(numbers, page.dead, greatest)
            positions.append(page_groups[non_empty])
            values.append(page.frame[VALUE][rows])
        return np.concatenate(positions), pl.concat(values)


class _View:
    """The rows of a page that were live when the view was made, by group and value."""

    def __init__(self, page: Page, groups: Sequence[str]) -> None:
        live = np.arange(page.frame.height) if page.dead is None else np.flatnonzero(~page.dead)
        rows = page.alive.select(*groups, VALUE)
        order = rows.select(pl.arg_sort_by(*groups, VALUE)).to_series().to_numpy()
        keys = rows.select(groups)[order]
        firsts = np.flatnonzero(begins(group_numbers(keys)[0]))
        self.rows = live[order]
        """The positions in the page's frame."""
        self.groups = Arrangement(keys.clear(), groups)
        self.groups.append(keys[firsts])
        self._heads = firsts
        """A lower bound of the position of each group's first live row; ``_tails`` is the upper one."""
        self._tails = np.append(firsts[1:], len(order)) - 1

    def ends(self, numbers: Numbers, dead: Flags | None, greatest: bool) -> tuple[Numbers, Numbers]:
        """The groups with live rows, and their rows with the least (greatest) value; shape (groups,)."""
        at = (self._tails if greatest else self._heads)[numbers]
        step = -1 if greatest else 1
        if dead is not None:
            self._skip_dead(at, numbers, dead, step)
            (self._tails if greatest else self._heads)[numbers] = at
        non_empty = np.flatnonzero(self._is_within(at, numbers))
        return non_empty, self.rows[at[non_empty]]

    def _is_within(self, at: Numbers, numbers: Numbers) -> Flags:
        return (at >= self._heads[numbers]) & (at <= self._tails[numbers])

    def _skip_dead(self, at: Numbers, numbers: Numbers, dead: Flags, step: int) -> None:
        """Advance the positions ``at``, in place, to live rows."""
        for _ in range(_STEPS):
            inside = np.flatnonzero(self._is_within(at, numbers))
            on_dead = inside[dead[self.rows[at[inside]]]]
            if not len(on_dead):
                return
            at[on_dead] += step
        alive = np.flatnonzero(~dead[self.rows])
        inside = np.flatnonzero(self._is_within(at, numbers))
        if step > 0:
            at[inside] = np.append(alive, len(self.rows))[np.searchsorted(alive, at[inside])]
        else:
            at[inside] = np.append(-1, alive)[np.searchsorted(alive, at[inside], side="right")]

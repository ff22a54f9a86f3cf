"""Ordered: values by group, of which the least and the greatest are at hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.page import Page
from xmlpunct.operators.relations.partials import Partials
from xmlpunct.operators.relations.slots import Numbers, begins, numbered

VALUE = "$value"
_STEPS = 8
"""So many rows that are gone are passed one by one. After that it is worth it to look at the whole page."""


class Ordered(Partials):
    """`Partials` by group and value.

    Each page has its rows in order of group and value, and where each group's first and last row stand that are not
    gone. A page does not change but for the rows that go, so both only move inwards. What has gone is passed once.

    >>> seen = Ordered(pl.DataFrame(schema={"k": pl.Int64, VALUE: pl.Int64, "n": pl.Int64}), ["k"])
    >>> seen.keep(pl.DataFrame({"k": [1, 2, 1], VALUE: [9, 5, 3], "n": [1, 1, 1]}))
    >>> places, values = seen.extremes(pl.DataFrame({"k": [3, 1]}), greatest=False)
    >>> places.tolist(), values.to_list()
    ([1], [3])
    """

    def __init__(self, empty: pl.DataFrame, groups: Sequence[str]) -> None:
        super().__init__(empty, [*groups, VALUE])
        self._groups = list(groups)
        self._views: dict[Page, _View] = {}

    def extremes(self, groups: pl.DataFrame, greatest: bool) -> tuple[Numbers, pl.Series]:
        """Values of some groups with the least (greatest) of each among them; each with the place of its group."""
        self._views = {page: self._views.get(page) or _View(page, self._groups) for page in self._pages}
        places, values = [np.empty(0, np.int64)], [self.empty[VALUE]]
        for page, view in self._views.items():
            known, numbers = view.groups.probe(groups)
            found, rows = view.ends(numbers, page.dead, greatest)
            places.append(known[found])
            values.append(page.frame[VALUE][rows])
        return np.concatenate(places), pl.concat(values)


class _View:
    """The rows of a page that were there when it was first looked at, by group and value."""

    def __init__(self, page: Page, groups: Sequence[str]) -> None:
        there = np.arange(page.frame.height) if page.dead is None else np.flatnonzero(~page.dead)
        rows = page.alive.select(*groups, VALUE)
        order = rows.select(pl.arg_sort_by(*groups, VALUE)).to_series().to_numpy()
        keys = rows.select(groups)[order]
        firsts = np.flatnonzero(begins(numbered(keys)[0]))
        self.rows = there[order]
        """The places in the page's frame."""
        self.groups = Arrangement(keys.clear(), groups)
        self.groups.append(keys[firsts])
        self._heads = firsts
        """Where each group's first row stands that is not gone, as far as is known."""
        self._tails = np.append(firsts[1:], len(order)) - 1

    def ends(self, numbers: Numbers, dead: Flags | None, greatest: bool) -> tuple[Numbers, Numbers]:
        """The places of the least (greatest) value's rows of some groups; and of which groups, for some have none."""
        at = (self._tails if greatest else self._heads)[numbers]
        step = -1 if greatest else 1
        if dead is not None:
            self._pass(at, numbers, dead, step)
            (self._tails if greatest else self._heads)[numbers] = at
        found = np.flatnonzero(self._within(at, numbers))
        return found, self.rows[at[found]]

    def _within(self, at: Numbers, numbers: Numbers) -> Flags:
        return (at >= self._heads[numbers]) & (at <= self._tails[numbers])

    def _pass(self, at: Numbers, numbers: Numbers, dead: Flags, step: int) -> None:
        """Move on from rows that are gone."""
        for _ in range(_STEPS):
            on = np.flatnonzero(self._within(at, numbers))
            on = on[dead[self.rows[at[on]]]]
            if not len(on):
                return
            at[on] += step
        alive = np.flatnonzero(~dead[self.rows])
        on = np.flatnonzero(self._within(at, numbers))
        if step > 0:
            at[on] = np.append(alive, len(self.rows))[np.searchsorted(alive, at[on])]
        else:
            at[on] = np.append(-1, alive)[np.searchsorted(alive, at[on], side="right")]

"""Tuples inside others, which are read level by level."""

from __future__ import annotations

from bisect import bisect_left
from copy import deepcopy
from dataclasses import replace

import numpy as np

from xmlpunct.base.unread import add
from xmlpunct.firehose.cells import Cells, Ints
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.parser_target import Found
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.shape import Shape


def merged(shape: Shape, one: Found, other: Found) -> Found:
    """What two readings of a split have found, in the order of the document. Punctuations are in the first one."""
    both, found = (one, other), Found(one.width, len(shape.tables))
    order = sorted((at, which, row) for which in (0, 1) for row, at in enumerate(both[which].at))
    places = [{(which, row): place for place, (_, which, row) in enumerate(order)}]
    for place, (at, which, row) in enumerate(order):
        found.at.append(at)
        found.cells += both[which].cells[row * one.width : (row + 1) * one.width]
        if row in both[which].faults:
            found.faults[place] = both[which].faults[row]
    for number, table in enumerate(shape.tables[1:], 1):
        above, width = places[table.parent], table.end - table.first
        items = sorted(
            (above[which, of], which, row)
            for which in (0, 1)
            for row, of in enumerate(both[which].of[number])
        )
        places.append({(which, row): place for place, (_, which, row) in enumerate(items)})
        for of, which, row in items:
            found.of[number].append(of)
            found.items[number] += both[which].items[number][row * width : (row + 1) * width]
    found.punctuations = [(n, bisect_left(found.at, n), branch) for n, _, branch in one.punctuations]
    found.late = sorted({*one.late, *other.late})
    found.overlooked = sorted([*one.overlooked, *other.overlooked])
    return found


def interleaved(shape: Shape, one: Walked, other: Walked) -> Walked:
    """`merged`, of two walks."""
    at = np.concatenate([one.at, other.at])
    order, places = _order(at)
    faults = {int(places[row]): fault for row, fault in one.faults.items()}
    faults |= {int(places[len(one.at) + row]): fault for row, fault in other.faults.items()}
    items, above, counts = [one.items[0]], [places], [len(one.at)]
    for number, table in enumerate(shape.tables[1:], 1):
        mine, more = one.items[number], other.items[number]
        rows = np.concatenate([mine.of, more.of + counts[table.parent]])
        of = above[table.parent][rows]
        own_order, own_places = _order(of)
        items.append(Items(_taken(mine.cells, more.cells, own_order), of[own_order]))
        above.append(own_places)
        counts.append(len(mine.of))
    overlooked = deepcopy(one.overlooked)
    add(overlooked, other.overlooked)
    return replace(
        one,
        at=at[order],
        end=np.concatenate([one.end, other.end])[order],
        cells=_taken(one.cells, other.cells, order),
        items=items,
        faults=faults,
        before=np.searchsorted(at[order], one.said).astype(np.int32),
        overlooked=overlooked,
        late=sorted({*one.late, *other.late}),
    )


def _order(keys: Ints) -> tuple[Ints, Ints]:
    """Which ones to take to have them in order, and the place of each among them."""
    order = np.argsort(keys, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return order, places


def _taken(ones: list[Cells], others: list[Cells], order: Ints) -> list[Cells]:
    return [one.and_also(other).take(order) for one, other in zip(ones, others, strict=True)]

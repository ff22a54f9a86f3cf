"""Merges the tuples of two nesting levels, which are read in separate passes."""

from __future__ import annotations

from bisect import bisect_left
from copy import deepcopy
from dataclasses import replace

import numpy as np

from xmlpunct.base.unread import add
from xmlpunct.firehose.cells import CellInts, Cells
from xmlpunct.firehose.items import Items
from xmlpunct.firehose.libxml.parser_target import ParsedStream
from xmlpunct.firehose.native.walk_results import Walked
from xmlpunct.firehose.shape import Shape


def merged_readings(shape: Shape, outer: ParsedStream, inner: ParsedStream) -> ParsedStream:
    """The rows of two passes over a split, in document order. Punctuations come from the first pass."""
    passes, rows = (outer, inner), ParsedStream(outer.width, len(shape.tables))
    order = sorted((at, which, row) for which in (0, 1) for row, at in enumerate(passes[which].at))
    positions = [{(which, row): position for position, (_, which, row) in enumerate(order)}]
    for position, (at, which, row) in enumerate(order):
        rows.at.append(at)
        rows.cells += passes[which].cells[row * outer.width : (row + 1) * outer.width]
        if row in passes[which].faults:
            rows.faults[position] = passes[which].faults[row]
    for number, table in enumerate(shape.tables[1:], 1):
        above, width = positions[table.parent], table.end - table.first
        items = sorted(
            (above[which, parent], which, row)
            for which in (0, 1)
            for row, parent in enumerate(passes[which].of[number])
        )
        positions.append({(which, row): position for position, (_, which, row) in enumerate(items)})
        for parent, which, row in items:
            rows.of[number].append(parent)
            rows.items[number] += passes[which].items[number][row * width : (row + 1) * width]
    rows.punctuations = [(n, bisect_left(rows.at, n), branch) for n, _, branch in outer.punctuations]
    rows.late = sorted({*outer.late, *inner.late})
    rows.overlooked = sorted([*outer.overlooked, *inner.overlooked])
    return rows


def interleaved(shape: Shape, outer: Walked, inner: Walked) -> Walked:
    """`merged_readings`, for two walks of the native reader."""
    at = np.concatenate([outer.at, inner.at])
    order, positions = _order(at)
    faults = {int(positions[row]): fault for row, fault in outer.faults.items()}
    faults |= {int(positions[len(outer.at) + row]): fault for row, fault in inner.faults.items()}
    items, above, counts = [outer.items[0]], [positions], [len(outer.at)]
    for number, table in enumerate(shape.tables[1:], 1):
        outer_items, inner_items = outer.items[number], inner.items[number]
        rows = np.concatenate([outer_items.of, inner_items.of + counts[table.parent]])
        parents = above[table.parent][rows]
        item_order, item_positions = _order(parents)
        items.append(Items(_reordered(outer_items.cells, inner_items.cells, item_order), parents[item_order]))
        above.append(item_positions)
        counts.append(len(outer_items.of))
    overlooked = deepcopy(outer.overlooked)
    add(overlooked, inner.overlooked)
    return replace(
        outer,
        at=at[order],
        end=np.concatenate([outer.end, inner.end])[order],
        cells=_reordered(outer.cells, inner.cells, order),
        items=items,
        faults=faults,
        before=np.searchsorted(at[order], outer.said).astype(np.int32),
        overlooked=overlooked,
        late=sorted({*outer.late, *inner.late}),
    )


def _order(keys: CellInts) -> tuple[CellInts, CellInts]:
    """The permutation that sorts the keys, and the position of each key in the sorted order."""
    order = np.argsort(keys, kind="stable")
    positions = np.empty_like(order)
    positions[order] = np.arange(len(order))
    return order, positions


def _reordered(outer: list[Cells], inner: list[Cells], order: CellInts) -> list[Cells]:
    return [first.and_also(second).take(order) for first, second in zip(outer, inner, strict=True)]

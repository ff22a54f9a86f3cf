"""Tuples inside others, which are read level by level."""

from __future__ import annotations

from bisect import bisect_left

from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.target import Found


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

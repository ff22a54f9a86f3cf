"""Merges operators into one box: projections, and in a plan with many inputs the operators after each scan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from xmlpunct.engine.view.moment import OperatorBox

FULL_SCANS = 8
"""A plan with more scans than this has one line for each scan."""
_AFTER_SCANS = frozenset(["select", "punctuate", "key", "guard"])


@dataclass(frozen=True)
class FoldedPlan:
    """The boxes to draw, and for each the operators folded into it, in the order of the tuples.

    A box has the output counts of its last operator, and the state of all.
    """

    boxes: tuple[OperatorBox, ...]
    members: dict[int, list[OperatorBox]]
    has_many_scans: bool


def fold_plan(boxes: tuple[OperatorBox, ...]) -> FoldedPlan:
    """Fold each projection into its input, unless it retains tuples or the input has several readers.

    >>> scan, project = OperatorBox(1, "scan", "a: x"), OperatorBox(2, "project", "x", (1,), tuples_out=3)
    >>> plan = fold_plan((scan, project, OperatorBox(4, "dupelim", "", (2,))))
    >>> [(box.id, box.inputs, box.tuples_out) for box in plan.boxes], [box.id for box in plan.members[1]]
    ([(1, (), 3), (4, (1,), 0)], [2])
    """
    readers = Counter(number for box in boxes for number in box.inputs)
    has_many_scans = sum(not box.inputs for box in boxes) > FULL_SCANS
    drawn: dict[int, OperatorBox] = {}
    members: dict[int, list[OperatorBox]] = {}
    drawn_as: dict[int, int] = {}
    for box in boxes:  # inputs precede their operator
        if len(box.inputs) == 1 and not box.part and readers[box.inputs[0]] == 1:
            below = drawn[drawn_as[box.inputs[0]]]
            follows_scan = has_many_scans and not below.inputs and box.name in _AFTER_SCANS
            if (box.name == "project" or follows_scan) and box.sinks == below.sinks:
                drawn[below.id] = replace(
                    below,
                    tuples_out=box.tuples_out,
                    punctuations_out=box.punctuations_out,
                    rate=box.rate,
                    state_rows=below.state_rows + box.state_rows,
                    held_punctuations=below.held_punctuations + box.held_punctuations,
                )
                members[below.id].append(box)
                drawn_as[box.id] = below.id
                continue
        drawn[box.id] = replace(box, inputs=tuple(drawn_as[number] for number in box.inputs))
        members[box.id], drawn_as[box.id] = [], box.id
    return FoldedPlan(tuple(drawn.values()), members, has_many_scans)

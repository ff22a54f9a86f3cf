"""push_residuals: what ON says about one side drops that side's tuples before they are retained."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Select, SemiJoin
from xmlpunct.engine.rules.walk import conjunction, conjuncts, everywhere, on_side
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join_keys import LEFT, RIGHT


def push_residuals(root: Node) -> Node:
    """Join(x, y, ON p(x) AND q(y)) -> Join(Select(x, p), Select(y, q)).

    Never on a side whose tuples come out without a partner too: a preserved one, the left of NOT EXISTS. Nor
    where any of it can fail: it has to see the same pairs.
    """
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    if not isinstance(node, Join | SemiJoin) or node.residual is None or can_fail(node.residual):
        return node
    lower: tuple[list[Expression], list[Expression]] = ([], [])
    left_over = []
    for part in conjuncts(node.residual):
        ways = {side: on_side(part, node, side) for side in _open(node)}
        for side, way in ways.items():
            if way is not None:
                lower[side].append(way)
        if not any(ways.values()):
            left_over.append(part)
    if not any(lower):
        return node
    sides = [
        Select(below, conjunction(parts)) if parts else below
        for below, parts in zip(node.inputs, lower, strict=True)
    ]
    return replace(node, residual=conjunction(left_over) if left_over else None).over(sides)


def _open(node: Join | SemiJoin) -> tuple[int, ...]:
    """The sides whose tuples count with a partner only."""
    if isinstance(node, SemiJoin):
        return (RIGHT,) if node.anti else (LEFT, RIGHT)
    return tuple(side for side in (LEFT, RIGHT) if side not in node.preserved)

"""push_residuals: a condition of ON about one side drops that side's tuples before they are retained."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, SemiJoin
from xmlpunct.engine.rules.walk import conjunction, conjuncts, on_side, rule, select
from xmlpunct.expressions.expression import Expression


@rule
def push_residuals(node: Node) -> Node:
    """Join(x, y, ON p(x) AND q(y)) -> Join(Select(x, p), Select(y, q)).

    Never on a side whose tuples come out without a partner too: a preserved one, the left of NOT EXISTS. Nor where the
    condition can fail: it has to see the same pairs.
    """
    match node:
        case Join() | SemiJoin() if not node.can_fail:
            lower: tuple[list[Expression], list[Expression]] = ([], [])
            left_over = []
            for part in conjuncts(node.residual):
                ways = [(side, on_side(part, node, side)) for side in node.only_with_partner]
                for side, way in ways:
                    lower[side].extend([] if way is None else [way])
                if all(way is None for _, way in ways):
                    left_over.append(part)
            if any(lower):
                sides = list(map(select, node.inputs, lower))
                return replace(node, residual=conjunction(left_over) if left_over else None).over(sides)
    return node

"""push_residuals: move a condition of ON on one side below the join, so that the join retains fewer tuples."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node
from xmlpunct.engine.rules.walk import on_side, rule, select
from xmlpunct.expressions.conjunctions import conjunction, conjuncts
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail


@rule
def push_residuals(node: Node) -> Node:
    """Join(x, y, ON p(x) AND q(y)) -> Join(Select(x, p), Select(y, q)).

    Does not apply to a side whose tuples are also emitted without a partner: a preserved side, or the left side of NOT
    EXISTS. Does not apply to a condition that can fail: it rejects a pair only if all other conditions are true.
    """
    match node:
        case Join() if node.residual is not None:
            lower: tuple[list[Expression], list[Expression]] = ([], [])
            left_over = []
            for part in conjuncts(node.residual):
                sides = () if can_fail(part) else node.only_with_partner
                ways = [(side, on_side(part, node, side)) for side in sides]
                for side, way in ways:
                    lower[side].extend([] if way is None else [way])
                if all(way is None for _, way in ways):
                    left_over.append(part)
            if any(lower):
                residual = conjunction(left_over) if left_over else None
                return replace(node, residual=residual).over(list(map(select, node.inputs, lower)))
    return node

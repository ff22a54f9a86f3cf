"""settle_failing: evaluate expressions that can fail only on changes that no later change cancels."""

from __future__ import annotations

from xmlpunct.engine.plan import (
    Join,
    Merge,
    Node,
    Pointwise,
    Project,
    Select,
    Unnest,
    is_changing,
)
from xmlpunct.engine.rules.walk import rule
from xmlpunct.operators.relations.instants import Instants


@rule
def settle_failing(node: Node) -> Node:
    """Select(x) -> Select(Pointwise(x, "changes")) if it can fail and x may have changes that cancel each other.

    A join has these: pairs with disjoint lifetimes appear and disappear at one instant, perhaps in different slices.
    Whether they were rejected would depend on the division into slices. Applied once and last, because the instants
    must be closed.
    """
    match node:
        case Select() | Project() if node.can_fail and is_changing(node.input):
            if (join := _unsettled_join_instants(node.input)) is not None:
                return node.over([Pointwise((node.input,), "changes", join)])
    return node


def _unsettled_join_instants(node: Node) -> Instants | None:
    """The instants of a join whose changes reach this node unsettled; None without such a join."""
    match node:
        case Join() if not node.left_only:
            return node.instants
        case Select() | Project() | Merge() | Unnest():
            return next(filter(None, map(_unsettled_join_instants, node.inputs)), None)
    return None

"""settle_failing: what can fail is computed of tuples that are there, not of changes that cancel later."""

from __future__ import annotations

from xmlpunct.engine.plan import (
    ChangeJoin,
    Merge,
    Negated,
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
    """Select(x) -> Select(Pointwise(x, "changes")) if it can fail and x may have changes of tuples that never are.

    So has a join: pairs whose lifetimes do not meet come and go at one instant, perhaps in different slices. They
    would be rejected or not as the input is cut. Applied once and last, for it needs the instants closed.
    """
    match node:
        case Select() | Project() if node.can_fail and is_changing(node.input):
            if (join := _unsettled(node.input)) is not None:
                return node.over([Pointwise((node.input,), "changes", join)])
    return node


def _unsettled(node: Node) -> Instants | None:
    """The instants of a join whose changes come through unsettled."""
    match node:
        case ChangeJoin():
            return node.instants
        case Select() | Project() | Merge() | Negated() | Unnest():
            return next(filter(None, map(_unsettled, node.inputs)), None)
    return None

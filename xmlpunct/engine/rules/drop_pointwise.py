"""drop_pointwise: remove the canonicalisation of changes that are canonical already."""

from __future__ import annotations

from xmlpunct.engine.plan import GroupBy, Node, Pointwise, Project, Select
from xmlpunct.engine.rules.walk import rule


@rule
def drop_pointwise(node: Node) -> Node:
    """Pointwise(x, "changes") -> x if x emits canonical changes, as a group-by does."""
    match node:
        case Pointwise((x,), "changes") if _is_canonical(x):
            return x
    return node


def _is_canonical(node: Node) -> bool:
    """Whether a node emits one nonzero change per tuple and instant, after the instant is closed."""
    match node:
        case GroupBy() | Pointwise():
            return True
        case Select(x):
            return _is_canonical(x)
        case Project(x):  # the projection must be injective
            return {*node.copies.values()} == {*x.schema.names} and _is_canonical(x)
    return False

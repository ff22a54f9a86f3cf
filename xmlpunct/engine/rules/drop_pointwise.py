"""drop_pointwise: changes that are canonical already are not made so again."""

from __future__ import annotations

from xmlpunct.engine.plan import ChangeGroupBy, Node, Pointwise, Project, Select
from xmlpunct.engine.rules.walk import rule


@rule
def drop_pointwise(node: Node) -> Node:
    """Pointwise(x, "changes") -> x where x gives canonical changes, such as those of a group-by."""
    match node:
        case Pointwise((x,), "changes") if _is_canonical(x):
            return x
    return node


def _is_canonical(node: Node) -> bool:
    """Whether a node gives one change for each tuple and instant, none of 0, once the instant is closed."""
    match node:
        case ChangeGroupBy() | Pointwise():
            return True
        case Select(x):
            return _is_canonical(x)
        case Project(x):  # different tuples stay different
            return {*node.copies.values()} == {*x.schema.names} and _is_canonical(x)
    return False

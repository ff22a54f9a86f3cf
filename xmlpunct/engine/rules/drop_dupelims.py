"""drop_dupelims: no duplicate elimination over tuples that are distinct already."""

from __future__ import annotations

from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Node,
    NotIn,
    Project,
    Select,
    SemiJoin,
    Union,
)
from xmlpunct.engine.rules.walk import everywhere
from xmlpunct.expressions.expression import Column


def drop_dupelims(root: Node) -> Node:
    """DupElim(x) -> x where x has a key, such as the grouping columns of a group-by."""
    return everywhere(
        root, lambda node: node.input if isinstance(node, DupElim) and key(node.input) is not None else node
    )


def key(node: Node) -> frozenset[str] | None:
    """Columns in which no two output tuples of a node are alike, or None if nobody knows any.

    No column at all means that there is one tuple.
    """
    if isinstance(node, DupElim | Union | Intersect | Difference):
        return frozenset(node.schema.names)
    if isinstance(node, GroupBy):
        return frozenset(node.keys)
    if isinstance(node, Select):
        return key(node.input)
    if isinstance(node, SemiJoin | NotIn):
        return key(node.left)
    if isinstance(node, Join) and node.kind != "full":  # where rows of nulls come from both sides
        left, right = key(node.left), key(node.right)
        if left is None or right is None:
            return None
        one = {r: le for le, r in node.keys} if node.kind == "inner" else {}
        return left | {one.get(name, name) for name in right}
    if isinstance(node, Project) and (below := key(node.input)) is not None:
        carried = {e.name: name for name, e in node.columns if isinstance(e, Column)}
        return frozenset(carried[name] for name in below) if below <= carried.keys() else None
    return None

"""drop_dupelims: no duplicate elimination over tuples that are distinct already."""

from __future__ import annotations

from xmlpunct.engine.plan import DupElim, GroupBy, Node, Project, Select, Union
from xmlpunct.engine.rules.walk import everywhere
from xmlpunct.operators.expression import Column


def drop_dupelims(root: Node) -> Node:
    """DupElim(x) -> x where x has a key, such as the grouping columns of a group-by."""
    return everywhere(
        root, lambda node: node.input if isinstance(node, DupElim) and key(node.input) is not None else node
    )


def key(node: Node) -> frozenset[str] | None:
    """Columns in which no two output tuples of a node are alike, or None if nobody knows any.

    No column at all means that there is one tuple.
    """
    if isinstance(node, DupElim | Union):
        return frozenset(node.schema.names)
    if isinstance(node, GroupBy):
        return frozenset(node.keys)
    if isinstance(node, Select):
        return key(node.input)
    if isinstance(node, Project) and (below := key(node.input)) is not None:
        carried = {e.name: name for name, e in node.columns if isinstance(e, Column)}
        return frozenset(carried[name] for name in below) if below <= carried.keys() else None
    return None

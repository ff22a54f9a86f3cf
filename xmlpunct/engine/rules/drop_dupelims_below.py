"""drop_dupelims_below: no duplicate elimination below what ignores duplicates."""

from __future__ import annotations

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Project, Select, Union
from xmlpunct.engine.rules.walk import can_fail, everywhere, none_fails


def drop_dupelims_below(root: Node) -> Node:
    """GroupBy(DupElim(x)) -> GroupBy(x) if *every* aggregate is MIN, MAX or DISTINCT.

    Duplicate eliminations and unions ignore duplicates too. What lies
    between must not fail, or each duplicate would be rejected.
    """
    return everywhere(root, _drop)


def _drop(node: Node) -> Node:
    grouped = isinstance(node, GroupBy) and all(a.ignores_duplicates for a in node.aggregates)
    if not (grouped or isinstance(node, DupElim | Union)):
        return node
    return node.over([_strip(below) for below in node.inputs])


def _strip(node: Node) -> Node:
    """The node without the duplicate eliminations at and below it, where they can be spared."""
    if isinstance(node, DupElim):
        return _strip(node.input)
    if isinstance(node, Union):
        return Merge(tuple(_strip(side) for side in node.sides))
    transparent = (
        isinstance(node, Merge)
        or (isinstance(node, Select) and not can_fail(node.predicate))
        or (isinstance(node, Project) and none_fails(e for _, e in node.columns))
    )
    return node.over([_strip(below) for below in node.inputs]) if transparent else node

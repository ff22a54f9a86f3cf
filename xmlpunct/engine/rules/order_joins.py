"""order_joins: where an order of joins grows for ever and another one does not, take that."""

from __future__ import annotations

from xmlpunct.engine.plan import Node
from xmlpunct.engine.plan.join_trees import join_trees
from xmlpunct.engine.plan.outlooks import outlooks


def order_joins(root: Node) -> Node:
    """Join(Join(x, y), z) -> Project(Join(Join(y, z), x)), where each join of that order stays bounded.

    As far as can be known from what the streams declare. Applied once and last.
    """
    found, changed = outlooks(root), dict[int, Node]()
    for tree in join_trees(root):
        if any(found[id(n)].fate is not None for n in tree.joins):
            new = tree.safe([found[id(below)] for below in tree.inputs])
            if new is not None:
                changed[id(tree.root)] = new
    return _with(root, changed) if changed else root


def _with(node: Node, changed: dict[int, Node]) -> Node:
    if id(node) in changed:
        return changed[id(node)]
    inputs = [_with(below, changed) for below in node.inputs]
    return node if all(a is b for a, b in zip(inputs, node.inputs, strict=True)) else node.over(inputs)

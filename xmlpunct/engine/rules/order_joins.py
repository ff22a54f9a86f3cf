"""order_joins: replace a join order with unbounded state by one with bounded state."""

from __future__ import annotations

from xmlpunct.engine.plan import Node
from xmlpunct.engine.plan.join_trees import join_trees
from xmlpunct.engine.plan.outlooks import outlooks


def order_joins(root: Node) -> Node:
    """Join(Join(x, y), z) -> Project(Join(Join(y, z), x)), if the state of each join in the new order is bounded.

    The analysis uses the declarations of the streams. Applied once and last.
    """
    outlook_of, replacements = outlooks(root), dict[int, Node]()
    for tree in join_trees(root):
        if any(outlook_of[id(n)].fate is not None for n in tree.joins):
            new = tree.safe([outlook_of[id(below)] for below in tree.inputs])
            if new is not None:
                replacements[id(tree.root)] = new
    return _replace(root, replacements) if replacements else root


def _replace(node: Node, replacements: dict[int, Node]) -> Node:
    if id(node) in replacements:
        return replacements[id(node)]
    inputs = [_replace(below, replacements) for below in node.inputs]
    return node if all(a is b for a, b in zip(inputs, node.inputs, strict=True)) else node.over(inputs)

"""flatten_merges: a merge of merges is one merge over all inputs."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import DupElim, Merge, Node, Union
from xmlpunct.engine.rules.walk import everywhere


def flatten_merges(root: Node) -> Node:
    """Merge(Merge(a, b), c) -> Merge(a, b, c); a union takes in merges, unions and dupelims."""
    return everywhere(root, _flatten)


def _flatten(node: Node) -> Node:
    if isinstance(node, DupElim) and isinstance(node.input, Merge):
        return _flatten(Union(node.input.sides))
    if not isinstance(node, Merge):
        return node
    sides: list[Node] = []
    for side in node.sides:
        while isinstance(node, Union) and isinstance(side, DupElim):
            side = side.input
        same = isinstance(side, Merge) and (isinstance(node, Union) or not isinstance(side, Union))
        sides += side.inputs if same else [side]
    return node if tuple(sides) == node.sides else _flatten(replace(node, sides=tuple(sides)))

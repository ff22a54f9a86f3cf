"""flatten_merges: turn nested merges into one merge of all inputs."""

from __future__ import annotations

from xmlpunct.engine.plan import DupElim, Merge, Node, Union
from xmlpunct.engine.rules.walk import everywhere


def flatten_merges(root: Node) -> Node:
    """Merge(Merge(a, b), c) -> Merge(a, b, c). A union absorbs merges, unions and dupelims."""
    return everywhere(root, _flatten)


def _flatten(node: Node) -> Node:
    match node:
        case DupElim(Merge(sides) | Union(sides)):
            return _flatten(Union(sides))
        case Merge() | Union():
            absorbed = Merge | Union | DupElim if isinstance(node, Union) else Merge
            sides = tuple(
                x for side in node.sides for x in (side.inputs if isinstance(side, absorbed) else [side])
            )
            return node if sides == node.sides else _flatten(node.over(sides))
    return node

"""drop_dupelims: no duplicate elimination over tuples that are distinct already."""

from __future__ import annotations

from xmlpunct.engine.plan import DupElim, Node
from xmlpunct.engine.rules.walk import rule


@rule
def drop_dupelims(node: Node) -> Node:
    """DupElim(x) -> x where x has a key, such as the grouping columns of a group-by."""
    match node:
        case DupElim(x) if x.distinct_key is not None:
            return x
    return node

"""drop_dupelims: remove a duplicate elimination if its input has no duplicates."""

from __future__ import annotations

from xmlpunct.engine.plan import DupElim, Node
from xmlpunct.engine.rules.walk import rule


@rule
def drop_dupelims(node: Node) -> Node:
    """DupElim(x) -> x if x has a key, for example the grouping columns of a group-by."""
    match node:
        case DupElim(x) if x.distinct_key is not None:
            return x
    return node

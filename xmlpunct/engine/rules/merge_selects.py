"""merge_selects: two selections, one above the other, are one."""

from __future__ import annotations

from xmlpunct.engine.plan import Node, Select
from xmlpunct.engine.rules.walk import conjunction, rule
from xmlpunct.expressions.program import can_fail


@rule
def merge_selects(node: Node) -> Node:
    """Select(Select(x, p), q) -> Select(x, p AND q).

    Not where q can fail and p can be null: AND would evaluate q for tuples that the upper selection never saw.
    """
    match node:
        case Select(Select(x, p), q) if not (p.nullable and can_fail(q)):
            return Select(x, conjunction([p, q]))
    return node

"""merge_selects: merge two consecutive selections."""

from __future__ import annotations

from xmlpunct.engine.plan import Node, Select
from xmlpunct.engine.rules.walk import rule
from xmlpunct.expressions.conjunctions import conjunction
from xmlpunct.expressions.program import can_fail


@rule
def merge_selects(node: Node) -> Node:
    """Select(Select(x, p), q) -> Select(x, p AND q).

    Does not apply if p can fail, because p must reject tuples for which q is false.
    """
    match node:
        case Select(Select(x, p), q) if not can_fail(p):
            return Select(x, conjunction([p, q]))
    return node

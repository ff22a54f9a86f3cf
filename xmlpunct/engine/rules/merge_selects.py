"""merge_selects: two selections, one above the other, are one."""

from __future__ import annotations

from xmlpunct.engine.plan import Node, Select
from xmlpunct.engine.rules.walk import conjunction, everywhere
from xmlpunct.expressions.program import can_fail


def merge_selects(root: Node) -> Node:
    """Select(Select(x, p), q) -> Select(x, p AND q).

    Not where q can fail and p can be null: AND evaluates q then, and the upper selection never saw the tuple.
    """
    return everywhere(root, _merge)


def _merge(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Select)):
        return node
    lower, upper = node.input.predicate, node.predicate
    if lower.nullable and can_fail(upper):
        return node
    return _merge(Select(node.input.input, conjunction([lower, upper])))

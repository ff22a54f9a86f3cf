"""report_once: a part that a plan contains twice reports its rejected tuples once."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Again, Node


def report_once(root: Node) -> Node:
    """Again(x) -> x whose nodes do not report rejected tuples. Applied once, after the rules that move nodes."""
    return _rewrite(root, False)


def _rewrite(node: Node, is_again: bool) -> Node:
    inputs = [_rewrite(below, is_again or isinstance(node, Again)) for below in node.inputs]
    if isinstance(node, Again):
        return inputs[0]
    return replace(node.over(inputs), drops_rejects=is_again)

"""hush: a part of the plan that stands there twice reports once what it rejects."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Again, Node


def hush(root: Node) -> Node:
    """Again(x) -> x, whose nodes drop what they reject. Applied once, after the rules that move nodes."""
    return _hush(root, False)


def _hush(node: Node, is_again: bool) -> Node:
    inputs = [_hush(below, is_again or isinstance(node, Again)) for below in node.inputs]
    if isinstance(node, Again):
        return inputs[0]
    return replace(node.over(inputs), drops_rejects=is_again)

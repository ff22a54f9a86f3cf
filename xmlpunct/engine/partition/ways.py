"""The ways to find, in an operator's output, the values by which its fragment's tuples go to shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from xmlpunct.engine.plan import Holders, Node, Receive


def adds_up(root: Node, feeds: Sequence[Sequence[str]]) -> bool:
    """Whether a fragment adds up what is said of several partition values, given the keys of each feed."""

    def look(node: Node) -> tuple[bool, Holders]:
        if isinstance(node, Receive):
            return False, [{key} for key in feeds[node.port]]
        found, below = zip(*map(look, node.inputs), strict=True)
        return any(found) or node.adds_up(below), node.holders(below)

    return look(root)[0]


def with_ways(root: Node, feeds: Sequence[Sequence[str]]) -> Node:
    """A fragment's part of the plan with the ``ways`` of each node, given the keys of each feed."""

    def add(node: Node) -> tuple[Node, Holders]:
        if isinstance(node, Receive):
            holders: Holders = [{key} for key in feeds[node.port]]
        else:
            below = [add(child) for child in node.inputs]
            node = node.over([child for child, _ in below])
            holders = node.holders([of_input for _, of_input in below])
        ordered = [sorted(names, key=node.schema.index) for names in holders]
        return replace(node, ways=tuple(product(*ordered)) if ordered else ()), holders

    return add(root)[0]

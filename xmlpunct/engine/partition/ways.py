"""The `Ways` of a fragment's nodes: the attributes of a node's output that contain the fragment's shard key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from xmlpunct.engine.plan import Holders, Node, Receive


def adds_up(root: Node, feeds: Sequence[Sequence[str]]) -> bool:
    """Whether a fragment combines punctuations on several shard key values. ``feeds`` has the keys of each feed."""

    def look(node: Node) -> tuple[bool, Holders]:
        if isinstance(node, Receive):
            return False, [{key} for key in feeds[node.port]]
        child_results, holders = zip(*map(look, node.inputs), strict=True)
        return any(child_results) or node.adds_up(holders), node.holders(holders)

    return look(root)[0]


def with_ways(root: Node, feeds: Sequence[Sequence[str]]) -> Node:
    """A fragment's part of the plan with the ``ways`` of each node. ``feeds`` has the keys of each feed."""

    def add(node: Node) -> tuple[Node, Holders]:
        if isinstance(node, Receive):
            holders: Holders = [{key} for key in feeds[node.port]]
        else:
            children = [add(child) for child in node.inputs]
            node = node.over([child for child, _ in children])
            holders = node.holders([of_input for _, of_input in children])
        ordered = [sorted(names, key=node.schema.index) for names in holders]
        return replace(node, ways=tuple(product(*ordered)) if ordered else ()), holders

    return add(root)[0]

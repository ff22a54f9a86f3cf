"""Where the values by which a fragment's tuples go to shards are found in what its operators give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from xmlpunct.engine.build import Receive
from xmlpunct.engine.plan import Difference, Intersect, Join, Merge, Node, Project
from xmlpunct.expressions.expression import Column

Holders = list[set[str]]
"""For each partition value the attributes that have it or are null."""


def with_ways(root: Node, feeds: Sequence[Sequence[str]]) -> Node:
    """A fragment's part of the plan with the ``ways`` of each node, given the keys of each feed."""

    def add(node: Node) -> tuple[Node, Holders]:
        if isinstance(node, Receive):
            holders: Holders = [{key} for key in feeds[node.port]]
        else:
            below = [add(child) for child in node.inputs]
            node = node.over([child for child, _ in below])
            holders = _above(node, [found for _, found in below])
        ordered = [sorted(found, key=node.schema.index) for found in holders]
        return replace(node, ways=tuple(product(*ordered)) if ordered else ()), holders

    return add(root)[0]


def _above(node: Node, below: Sequence[Holders]) -> Holders:
    """The holders in a node's output, given those in its inputs'."""
    if isinstance(node, Project):
        columns = [(name, e.name) for name, e in node.columns if isinstance(e, Column)]
        return [{name for name, source in columns if source in found} for found in below[0]]
    if isinstance(node, Merge | Intersect | Difference):
        places = [
            [{side.schema.index(name) for name in found} for found in holders]
            for side, holders in zip(node.inputs, below, strict=True)
        ]
        # A tuple is the left input's; or of every input; or of any, of which nobody knows.
        chosen = places[:1] if isinstance(node, Difference) else places
        meet = set.union if isinstance(node, Intersect) else set.intersection
        return [{node.schema.names[i] for i in meet(*found)} for found in zip(*chosen, strict=True)]
    if isinstance(node, Join):
        one = {right: left for left, right in node.keys} if node.kind == "inner" else {}
        both = (found | {one.get(name, name) for name in other} for found, other in zip(*below, strict=True))
        return [found & set(node.schema.names) for found in both]
    return [found & set(node.schema.names) for found in below[0]]

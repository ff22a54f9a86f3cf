"""From plan nodes to running operators."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import Node, Receive, Scan
from xmlpunct.operators import Operator, Pipeline
from xmlpunct.operators.driver import Edge
from xmlpunct.punctuations.ownership import ONE_SHARD


def build(root: Node, inputs: Sequence[str] = (), alone: bool = False) -> Pipeline:
    """The operators of a plan, wired.

    A leaf that scans the stream ``inputs[i]`` reads input i, a `Receive` leaf the input of its port; where
    several leaves read one input, each gets all of it. ``alone`` says that a fragment runs on one shard.
    """
    ports = {name: i for i, name in enumerate(inputs)}
    operators: list[Operator] = []
    targets: list[Edge | None] = []
    feeds: dict[int, list[Edge]] = {i: [] for i in range(len(inputs))}

    def add(node: Node, sifted: bool) -> int | None:
        """Build a subtree; the place of its top operator, or None if it is a bare `Receive`."""
        if isinstance(node, Receive):
            return None
        below = [add(child, sifted or node.sifts) for child in node.inputs]
        place = len(operators)
        operator = node.operator()
        operator.number = node.number
        operator.sifted = sifted
        operator.quiet = operator.quiet or node.hushed
        ways = () if alone else node.ways
        if ways or sifted:
            operator.spread(ways or ONE_SHARD)
        operators.append(operator)
        targets.append(None)
        if isinstance(node, Scan):
            feeds[ports[node.stream.name]].append((place, 0))
        for port, (child, source) in enumerate(zip(node.inputs, below, strict=True)):
            if source is None:
                assert isinstance(child, Receive)
                feeds.setdefault(child.port, []).append((place, port))
            else:
                targets[source] = (place, port)
        return place

    add(root, root.sifted)
    return Pipeline(operators, [feeds[i] for i in sorted(feeds)], targets)

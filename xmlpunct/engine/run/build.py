"""From plan nodes to running operators."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import Node, Receive, Scan
from xmlpunct.operators import Operator, Pipeline
from xmlpunct.operators.driver import Edge
from xmlpunct.punctuations.ownership import ONE_SHARD


def build(roots: Node | Sequence[Node], inputs: Sequence[str] = (), alone: bool = False) -> Pipeline:
    """The operators of a plan, wired; or of several plans, of which each gives an output of the pipeline.

    A node that plans share, by its number, is one operator. A leaf that scans the stream ``inputs[i]`` reads input i,
    a `Receive` leaf the input of its port; where several leaves read one input, each gets all of it. ``alone`` says
    that a fragment runs on one shard.
    """
    plans = [roots] if isinstance(roots, Node) else roots
    ports = {name: i for i, name in enumerate(inputs)}
    operators: list[Operator] = []
    targets: list[list[Edge]] = []
    built: dict[int, int] = {}
    feeds: dict[int, list[Edge]] = {i: [] for i in range(len(inputs))}

    def add(node: Node, sifted: bool) -> int | None:
        """Build a subtree; the place of its top operator, or None if it is a bare `Receive`."""
        if isinstance(node, Receive):
            return None
        if node.number in built:
            return built[node.number]
        below = [add(child, sifted or node.sifts) for child in node.inputs]
        place = len(operators)
        operator = node.operator()
        operator.number = node.number
        operator.sifted = sifted
        operator.drops_rejects = node.drops_rejects
        ways = () if alone else node.ways
        if ways or sifted:
            operator.spread(ways or ONE_SHARD)
        operators.append(operator)
        targets.append([])
        if len(plans) > 1:
            built[node.number] = place
        if isinstance(node, Scan):
            feeds[ports[node.stream.name]].append((place, 0))
        for port, (child, source) in enumerate(zip(node.inputs, below, strict=True)):
            if source is None:
                assert isinstance(child, Receive)
                feeds.setdefault(child.port, []).append((place, port))
            else:
                targets[source].append((place, port))
        return place

    outputs = [add(root, root.sifted) for root in plans]
    places = [place for place in outputs if place is not None]
    return Pipeline(operators, [feeds[i] for i in sorted(feeds)], targets, places)

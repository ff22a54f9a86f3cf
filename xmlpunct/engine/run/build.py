"""From plan nodes to running operators."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import Node, Receive, Scan
from xmlpunct.operators import Operator, Pipeline
from xmlpunct.operators.driver import InputPort


def build(roots: Node | Sequence[Node], inputs: Sequence[str] = (), single_shard: bool = False) -> Pipeline:
    """Build the pipeline of one plan, or of several plans with one output each.

    Nodes with the same number, which several plans share, become one operator. A leaf that scans the stream
    ``inputs[i]`` reads input i, and a `Receive` leaf reads the input of its port; several leaves may read one input.
    ``single_shard``: the fragment runs on a single shard.
    """
    plans = [roots] if isinstance(roots, Node) else roots
    ports = {name: i for i, name in enumerate(inputs)}
    operators: list[Operator] = []
    targets: list[list[InputPort]] = []
    built: dict[int, int] = {}
    feeds: dict[int, list[InputPort]] = {i: [] for i in range(len(inputs))}

    def add(node: Node, all_needed: bool) -> int | None:
        """Build a subtree; returns the index of its top operator, or None for a bare `Receive`."""
        if isinstance(node, Receive):
            return None
        if node.number in built:
            return built[node.number]
        child_indices = [add(child, all_needed or node.withholds) for child in node.inputs]
        index = len(operators)
        operator = node.operator()
        operator.number = node.number
        operator.drops_rejects = node.drops_rejects
        ways = () if single_shard else node.ways
        if ways or all_needed:
            operator.emit_implied(ways, all_needed)
        operators.append(operator)
        targets.append([])
        if len(plans) > 1:
            built[node.number] = index
        if isinstance(node, Scan):
            feeds[ports[node.stream.name]].append((index, 0))
        for port, (child, source) in enumerate(zip(node.inputs, child_indices, strict=True)):
            if source is None:
                assert isinstance(child, Receive)
                feeds.setdefault(child.port, []).append((index, port))
            else:
                targets[source].append((index, port))
        return index

    outputs = [add(root, root.all_needed) for root in plans]
    output_indices = [index for index in outputs if index is not None]
    return Pipeline(operators, [feeds[i] for i in sorted(feeds)], targets, output_indices)

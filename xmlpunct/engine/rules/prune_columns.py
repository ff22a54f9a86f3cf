"""prune_columns: read and propagate only the columns that are used."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import Node, Project, plain, timing


def prune_columns(root: Node) -> Node:
    """Drop columns that no operator above needs, down to the scans. A column that can fail stays: it rejects tuples."""
    return _prune(root, root.schema.names)


def _prune(node: Node, required: Sequence[str]) -> Node:
    """The node with at least the columns ``required``, and at least one column."""
    used = set(required)
    used.update(name for name, _ in timing(node))  # a change always needs its instant and its diff
    node = node.narrowed(used)
    inputs = []
    for below, names in zip(node.inputs, node.needs(used), strict=True):
        pruned = _prune(below, names)
        if node.by_position and pruned.schema.names != tuple(names):
            pruned = Project(pruned, plain(pruned, names))
        inputs.append(pruned)
    return node.over(inputs)

"""prune_columns: read and carry only the columns that are used."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import Node, Project, plain, timing


def prune_columns(root: Node) -> Node:
    """Drop columns that nothing above needs, down to the scans. One that can fail stays, for it rejects tuples."""
    return _prune(root, root.schema.names)


def _prune(node: Node, wanted: Sequence[str]) -> Node:
    """The node with at least the columns ``wanted``, and at least one."""
    used = set(wanted)
    used.update(name for name, _ in timing(node))  # a change has its instant and its diff, whoever reads them
    node = node.narrowed(used)
    inputs = []
    for below, names in zip(node.inputs, node.needs(used), strict=True):
        pruned = _prune(below, names)
        if node.by_position and pruned.schema.names != tuple(names):
            pruned = Project(pruned, plain(pruned, names))
        inputs.append(pruned)
    return node.over(inputs)

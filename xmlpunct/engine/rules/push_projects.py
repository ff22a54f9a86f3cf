"""push_projects: compute below a merge, where that can run inside the reader."""

from __future__ import annotations

from xmlpunct.engine.plan import Merge, Node, Project
from xmlpunct.engine.rules.walk import everywhere, renamed


def push_projects(root: Node) -> Node:
    """Project(Merge(a, b)) -> Merge(Project(a), Project(b))."""
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    if not (isinstance(node, Project) and type(node.input) is Merge):
        return node
    merge, columns = node.input, node.columns
    return Merge(
        tuple(
            Project(side, tuple((name, renamed(e, merge, side)) for name, e in columns))
            for side in merge.sides
        )
    )

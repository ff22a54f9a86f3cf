"""push_projects: move projects below merges, so that the reader can evaluate them."""

from __future__ import annotations

from xmlpunct.engine.plan import Merge, Node, Project
from xmlpunct.engine.rules.walk import renamed, rule


@rule
def push_projects(node: Node) -> Node:
    """Project(Merge(a, b)) -> Merge(Project(a), Project(b))."""
    match node:
        case Project(Merge(sides) as merge, columns):
            side_columns = [tuple((name, renamed(e, merge, side)) for name, e in columns) for side in sides]
            return Merge(tuple(map(Project, sides, side_columns)))
    return node

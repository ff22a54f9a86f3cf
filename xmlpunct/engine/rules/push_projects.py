"""push_projects: compute below a merge, where that can run inside the reader."""

from __future__ import annotations

from xmlpunct.engine.plan import Merge, Node, Project
from xmlpunct.engine.rules.walk import everywhere, substitute
from xmlpunct.operators.expression import Column, Expression


def push_projects(root: Node) -> Node:
    """Project(Merge(a, b)) -> Merge(Project(a), Project(b))."""
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    if not (isinstance(node, Project) and type(node.input) is Merge):
        return node
    merge = node.input
    return Merge(tuple(_over(side, node, merge) for side in merge.sides))


def _over(side: Node, project: Project, merge: Merge) -> Node:
    """The project over one input of the merge, whose columns may have other names."""
    its: dict[str, Expression] = {
        name: Column(a.type, a.nullable, a.name)
        for name, a in zip(merge.schema.names, side.schema, strict=True)
    }
    return Project(side, tuple((name, substitute(e, its)) for name, e in project.columns))

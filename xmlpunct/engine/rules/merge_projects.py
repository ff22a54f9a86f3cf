"""merge_projects: two projects, one above the other, are one."""

from __future__ import annotations

from collections import Counter

from xmlpunct.engine.plan import Node, Project
from xmlpunct.engine.rules.walk import everywhere, substitute
from xmlpunct.expressions.expression import Call, Column
from xmlpunct.expressions.program import can_fail


def merge_projects(root: Node) -> Node:
    """Project(Project(x, f), g) -> Project(x, g(f)).

    Not where a column that can fail would be computed for fewer tuples or not at all, nor where a computed
    column would be computed more than once.
    """
    return everywhere(root, _merge)


def _merge(node: Node) -> Node:
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    lower = node.input
    uses = Counter(name for _, e in node.columns for name in e.columns())
    kept = {e.name for _, e in node.columns if isinstance(e, Column)}
    for name, e in lower.columns:
        if (can_fail(e) and name not in kept) or (isinstance(e, Call) and uses[name] > 1):
            return node
    columns = dict(lower.columns)
    return _merge(Project(lower.input, tuple((name, substitute(e, columns)) for name, e in node.columns)))

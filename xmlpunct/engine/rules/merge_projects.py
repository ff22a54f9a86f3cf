"""merge_projects: merge two consecutive projects."""

from __future__ import annotations

from collections import Counter

from xmlpunct.engine.plan import Node, Project
from xmlpunct.engine.rules.walk import everywhere, substitute
from xmlpunct.expressions.expression import Call
from xmlpunct.expressions.program import can_fail


def merge_projects(root: Node) -> Node:
    """Project(Project(x, f), g) -> Project(x, g(f)).

    Does not apply if a column that can fail would be evaluated on fewer tuples, or if a computed column would be
    computed more than once.
    """
    return everywhere(root, _merge)


def _merge(node: Node) -> Node:
    match node:
        case Project(Project(x) as lower, columns) if not _prevents_merge(lower, node):
            below = dict(lower.columns)
            return _merge(Project(x, tuple((name, substitute(e, below)) for name, e in columns)))
    return node


def _prevents_merge(lower: Project, upper: Project) -> bool:
    uses = Counter(name for _, e in upper.columns for name in e.columns())
    copied = set(upper.copies.values())
    return any(
        (can_fail(e) and name not in copied) or (isinstance(e, Call) and uses[name] > 1)
        for name, e in lower.columns
    )

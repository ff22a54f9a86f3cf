"""find_keys: an equality tested above an inner join is one of its keys."""

from __future__ import annotations

from xmlpunct.engine.plan import Join, Node, Project, Select
from xmlpunct.engine.rules.walk import (
    column,
    conjunction,
    conjuncts,
    everywhere,
    movable,
)
from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join_keys import LEFT, RIGHT


def find_keys(root: Node) -> Node:
    """Select(Join(x, y), x.a = y.b) -> Project(Join(x, y, a = b)), which gives b again, as a copy of a.

    For columns of one type that are no keys yet. Without keys, a join retains everything, on one shard.
    """
    return everywhere(root, _find)


def _find(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Join) and node.input.kind == "inner"):
        return node
    join = node.input
    if join.residual is not None and can_fail(join.residual):
        return node  # it rejects pairs that would not be there
    keys, used = list(join.keys), []
    for part in movable(node.predicate):
        pair = _pair(part, join)
        if pair is not None and not any(pair[side] == old[side] for old in keys for side in (LEFT, RIGHT)):
            keys.append(pair)
            used.append(part)
    if not used:
        return node
    found = Join(join.left, join.right, tuple(keys), "inner", join.residual)
    source = {right: left for left, right in keys}
    above = Project(found, tuple((name, column(found, source.get(name, name))) for name in join.schema.names))
    rest = [part for part in conjuncts(node.predicate) if part not in used]
    return Select(above, conjunction(rest)) if rest else above


def _pair(part: Expression, join: Join) -> tuple[str, str] | None:
    """The left and the right column that a condition equates, if it does nothing else."""
    if not (isinstance(part, Call) and part.function == "="):
        return None
    a, b = part.args
    if not (isinstance(a, Column) and isinstance(b, Column) and a.type == b.type):
        return None
    for left, right in ((a.name, b.name), (b.name, a.name)):
        if left in join.left.schema and right in join.right.schema:
            return left, right
    return None

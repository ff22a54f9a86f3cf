"""find_keys: an equality tested above an inner join is one of its keys."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Project, Select, column
from xmlpunct.engine.rules.walk import movable, rule, select
from xmlpunct.expressions.conjunctions import conjuncts
from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.operators.join.join_keys import LEFT, RIGHT


@rule
def find_keys(node: Node) -> Node:
    """Select(Join(x, y), x.a = y.b) -> Project(Join(x, y, a = b)), which gives b again, as a copy of a.

    For columns of one type that are no keys yet. Without keys, a join retains everything, on one shard. Not where ON
    can fail: it would no longer see, and reject, the other pairs.
    """
    match node:
        case Select(Join(kind="inner") as join, predicate) if not join.can_fail:
            keys, used = list(join.keys), []
            for part in movable(predicate):
                pair = _pair(part, join)
                if pair is not None and not any(
                    pair[side] == old[side] for old in keys for side in (LEFT, RIGHT)
                ):
                    keys.append(pair)
                    used.append(part)
            if used:
                keyed, source = replace(join, keys=tuple(keys)), {right: left for left, right in keys}
                columns = ((name, column(keyed, source.get(name, name))) for name in join.schema.names)
                rest = [part for part in conjuncts(predicate) if part not in used]
                above = Project(keyed, tuple(columns))
                return select(above, rest)
    return node


def _pair(part: Expression, join: Join) -> tuple[str, str] | None:
    """The left and the right column that a condition equates, if it does nothing else."""
    match part:
        case Call(function="=", args=(Column() as a, Column() as b)) if a.type == b.type:
            for left, right in ((a.name, b.name), (b.name, a.name)):
                if left in join.left.schema and right in join.right.schema:
                    return left, right
    return None

"""find_keys: turn an equality above an inner join into a join key."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Project, Select, node_column
from xmlpunct.engine.rules.walk import movable, rule, select
from xmlpunct.expressions.conjunctions import conjuncts
from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.operators.join.join_keys import LEFT, RIGHT


@rule
def find_keys(node: Node) -> Node:
    """Select(Join(x, y), x.a = y.b) -> Project(Join(x, y, a = b)), in which b is a copy of a.

    Applies to columns of one type that are not keys yet. Without keys a join retains all tuples, on one shard. Does not
    apply if ON can fail, because the join would no longer evaluate, and reject, pairs with different keys.
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
                columns = ((name, node_column(keyed, source.get(name, name))) for name in join.schema.names)
                remaining = [part for part in conjuncts(predicate) if part not in used]
                above = Project(keyed, tuple(columns))
                return select(above, remaining)
    return node


def _pair(part: Expression, join: Join) -> tuple[str, str] | None:
    """The left and right column of an equality condition; None for any other condition."""
    match part:
        case Call(function="=", args=(Column() as a, Column() as b)) if a.type == b.type:
            for left, right in ((a.name, b.name), (b.name, a.name)):
                if left in join.left.schema and right in join.right.schema:
                    return left, right
    return None

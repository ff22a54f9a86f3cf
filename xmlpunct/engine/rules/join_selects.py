"""join_selects: a condition on both sides of an inner join is tested by the join, where it bounds what is retained."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Select
from xmlpunct.engine.rules.walk import rule
from xmlpunct.expressions.conjunctions import conjunction, conjuncts


@rule
def join_selects(node: Node) -> Node:
    """Select(Join(x, y, ON p), q) -> Join(x, y, ON p AND q).

    A condition on one side alone is for `push_selects`. Not where ON can fail: it has to reject the same pairs.
    """
    match node:
        case Select(Join(kind="inner") as join, predicate) if not join.can_fail:
            sides = [set(below.schema.names) for below in join.inputs]
            if any(all(names & set(part.columns()) for names in sides) for part in conjuncts(predicate)):
                return replace(join, residual=conjunction([*conjuncts(join.residual), *conjuncts(predicate)]))
    return node

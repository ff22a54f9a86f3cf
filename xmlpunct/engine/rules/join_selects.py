"""join_selects: move a condition on both sides of an inner join into the join, which can use it to purge tuples."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import Join, Node, Select
from xmlpunct.engine.rules.walk import rule
from xmlpunct.expressions.conjunctions import conjunction, conjuncts


@rule
def join_selects(node: Node) -> Node:
    """Select(Join(x, y, ON p), q) -> Join(x, y, ON p AND q).

    `push_selects` handles conditions on one side. Does not apply if ON can fail: it must reject the same pairs.
    """
    match node:
        case Select(Join(kind="inner") as join, predicate) if not join.can_fail:
            sides = [set(below.schema.names) for below in join.inputs]
            if any(all(names & set(part.columns()) for names in sides) for part in conjuncts(predicate)):
                return replace(join, residual=conjunction([*conjuncts(join.residual), *conjuncts(predicate)]))
    return node

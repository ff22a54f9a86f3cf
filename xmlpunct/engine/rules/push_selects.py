"""push_selects: drop tuples early, before they are computed with, compared and retained."""

from __future__ import annotations

from xmlpunct.engine.plan import (
    Difference,
    DupElim,
    GroupBy,
    Intersect,
    Join,
    Merge,
    Node,
    NotIn,
    Project,
    Select,
    SemiJoin,
    Union,
)
from xmlpunct.engine.rules.walk import (
    aggregate_can_fail,
    conjunction,
    conjuncts,
    everywhere,
    movable,
    none_fails,
    on_side,
    renamed,
    substitute,
)
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join_keys import LEFT, RIGHT


def push_selects(root: Node) -> Node:
    """Selections move below whatever they do not depend on.

    Below project, merge, union, dupelim, intersect and difference all of it, below group-by conditions on keys,
    below joins those on one side: either of an inner join, the preserved one of an outer join, the left of
    a semijoin.
    """
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    if not isinstance(node, Select):
        return node
    below, predicate = node.input, node.predicate
    if isinstance(below, Project) and none_fails(e for _, e in below.columns):
        # a project that can fail must still see the tuples that it rejects
        return below.over([_push(Select(below.input, substitute(predicate, dict(below.columns))))])
    if isinstance(below, Union | DupElim) and can_fail(predicate):
        return node  # below, it would reject every duplicate
    if isinstance(below, DupElim):
        return below.over([_push(Select(below.input, predicate))])
    if isinstance(below, Intersect | Difference):
        if can_fail(predicate):
            return node  # below, it would reject tuples that never come out
        return below.over([_push(Select(side, renamed(predicate, below, side))) for side in below.inputs])
    if isinstance(below, Join | SemiJoin):
        return _push_below_join(node, below)
    if isinstance(below, NotIn):
        # its one test per left tuple can fail on nothing
        return below.over([_push(Select(below.left, predicate)), below.right])
    if isinstance(below, Merge):
        return below.over([_push(Select(side, renamed(predicate, below, side))) for side in below.sides])
    if isinstance(below, GroupBy):
        return _push_below_groups(node, below)
    return node


def _push_below_join(node: Select, join: Join | SemiJoin) -> Node:
    """Conditions on one side that no row of nulls is tested by; those on keys alone drop tuples of both."""
    if join.residual is not None and can_fail(join.residual):
        return node  # it rejects pairs that would not be there
    tested = (
        [side for side in (LEFT, RIGHT) if 1 - side not in join.preserved]
        if isinstance(join, Join)
        else [LEFT]
    )
    inner = isinstance(join, Join) and join.kind == "inner"
    lower: tuple[list[Expression], list[Expression]] = ([], [])
    pushed = []
    for part in movable(node.predicate):
        ways = [on_side(part, join, side) for side in (LEFT, RIGHT)]
        own = [side for side in tested if set(part.columns()) <= set(join.inputs[side].schema.names)]
        if any(ways[side] is not None for side in (tested if inner else own)):
            pushed.append(part)
            for side, way in enumerate(ways):
                if way is not None:
                    lower[side].append(way)
    if not pushed:
        return node
    sides = [
        _push(Select(below, conjunction(parts))) if parts else below
        for below, parts in zip(join.inputs, lower, strict=True)
    ]
    upper = [part for part in conjuncts(node.predicate) if part not in pushed]
    found = join.over(sides)
    return Select(found, conjunction(upper)) if upper else found


def _push_below_groups(node: Select, group: GroupBy) -> Node:
    """Conditions on keys alone drop whole groups. Without keys the one group exists, whatever is dropped."""
    if not group.keys or can_fail(node.predicate):
        return node
    if any(aggregate_can_fail(a, group) for a in group.aggregates):
        return node  # a group whose sum overflows is rejected, not silently dropped
    parts = list(conjuncts(node.predicate))
    lower = [p for p in parts if set(p.columns()) <= set(group.keys)]
    upper = [p for p in parts if p not in lower]
    if not lower:
        return node
    pushed = group.over([_push(Select(group.input, conjunction(lower)))])
    return Select(pushed, conjunction(upper)) if upper else pushed

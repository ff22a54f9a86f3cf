"""push_selects: filter tuples early, before operators process and retain them."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import (
    Declared,
    Difference,
    DupElim,
    GroupBy,
    Hop,
    Intersect,
    Join,
    Merge,
    Node,
    NotIn,
    Over,
    Pointwise,
    Project,
    RowsWindow,
    Select,
    Session,
    Union,
    Unnest,
    Window,
    WindowPromises,
)
from xmlpunct.engine.rules.walk import everywhere, movable, on_side, renamed, select, substitute
from xmlpunct.expressions.conjunctions import conjuncts
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join.join_keys import LEFT, RIGHT


def push_selects(root: Node) -> Node:
    """Move selections below operators that they do not depend on.

    A whole selection moves below project, merge, union, dupelim, intersect and difference. Conditions on keys move
    below group-by, over and session. Conditions on one side move below joins: either side of an inner join, the
    preserved side of an outer join, the left side of a semijoin. Conditions on the input tuple move below operators
    that copy it: unnest, tumble and hop. No selection moves below an operator that can fail, for example a window whose
    bounds may exceed their type.
    """
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    match node:
        # a project that can fail must still receive the tuples that it rejects
        case Select(Project(x, columns) as below, p) if not below.can_fail:
            return below.over([_push(Select(x, substitute(p, dict(columns))))])
        case Select(Merge() as below, p):
            return _push_below_all(below, p)
        # below, a condition that can fail would also reject duplicates, and tuples that are never emitted
        case Select(DupElim() | Union() | Intersect() | Difference() as below, p) if not can_fail(p):
            return _push_below_all(below, p)
        case Select(Unnest() | Hop() as below, p) if not below.can_fail:
            return _push_below_copies(node, below, p)
        # a condition that can fail must reject the same tuples
        case Select(Session() as below, p) if not below.can_fail and not can_fail(p):
            return _push_below_keys(node, below, below.by, p)
        case Select(WindowPromises(x) as below, p):
            return below.over([_push(Select(x, p))])
        # NotIn's test of a left tuple cannot fail
        case Select(NotIn(left, right) as below, p):
            return below.over([_push(Select(left, p)), right])
        # a join that can fail must receive, and reject, the same pairs
        case Select(Join() as below, p) if not below.can_fail:
            return _push_below_join(node, below, p)
        # below, a condition that can fail would also reject tuples that are never emitted
        case Select(Pointwise() | Window() as below, p) if not can_fail(p):
            return _push_below_all(below, p)
        case Select(Declared(timestamp=None) as below, p) if not can_fail(p):
            return _push_below_all(below, p)
        # without keys there is always one group; a condition that can fail must reject the same groups
        case Select(GroupBy() as below, p) if below.keys and not below.can_fail and not can_fail(p):
            return _push_below_keys(node, below, below.keys, p)
        # a condition on keys drops whole partitions
        case Select(Over() as below, p) if below.keys and not below.can_fail and not can_fail(p):
            return _push_below_keys(node, below, below.keys, p)
        # a window of rows counts the tuples of its partition
        case Select(RowsWindow() as below, p) if not can_fail(p):
            return _push_below_keys(node, below, below.by, p)
    return node


def _push_below_all(below: Node, predicate: Expression) -> Node:
    sides = [renamed(predicate, below, side) if below.by_position else predicate for side in below.inputs]
    return below.over([_push(Select(*pair)) for pair in zip(below.inputs, sides, strict=True)])


def _push_below_join(node: Node, join: Join, predicate: Expression) -> Node:
    """Push conditions on a side that is never null-filled. Conditions on keys only filter both sides."""
    tested = join.without_nulls
    lower: tuple[list[Expression], list[Expression]] = ([], [])
    pushed = []
    for part in movable(predicate):
        ways = [on_side(part, join, side) for side in (LEFT, RIGHT)]
        covered_sides = [
            side for side in tested if set(part.columns()) <= set(join.inputs[side].schema.names)
        ]
        if any(ways[side] is not None for side in (tested if join.inner else covered_sides)):
            pushed.append(part)
            for side, way in enumerate(ways):
                if way is not None:
                    lower[side].append(way)
    if not pushed:
        return node
    sides = [
        _push(select(below, parts)) if parts else below
        for below, parts in zip(join.inputs, lower, strict=True)
    ]
    return select(join.over(sides), [part for part in conjuncts(predicate) if part not in pushed])


def _push_below_copies(node: Node, below: Unnest | Hop, predicate: Expression) -> Node:
    """Push conditions on input columns that cannot fail: a tuple without items or windows must not be rejected."""
    parts, input_names = conjuncts(predicate), set(below.input.schema.names)
    lower = [p for p in parts if set(p.columns()) <= input_names and not can_fail(p)]
    if not lower:
        return node
    return select(below.over([_push(select(below.input, lower))]), [p for p in parts if p not in lower])


def _push_below_keys(
    node: Node,
    below: GroupBy | RowsWindow | Over | Session,
    keys: Sequence[str],
    predicate: Expression,
) -> Node:
    """Push conditions on keys only: they filter whole groups, partitions or sessions."""
    parts = conjuncts(predicate)
    lower = [p for p in parts if set(p.columns()) <= set(keys)]
    if not lower:
        return node
    return select(below.over([_push(select(below.input, lower))]), [p for p in parts if p not in lower])

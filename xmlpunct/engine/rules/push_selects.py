"""push_selects: drop tuples early, before operators compute, compare and retain."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.engine.plan import (
    ChangeGroupBy,
    Declared,
    Difference,
    DupElim,
    GroupBy,
    Hop,
    Intersect,
    Join,
    Merge,
    Negated,
    Node,
    NotIn,
    Over,
    Pointwise,
    Project,
    RowsWindow,
    Select,
    SemiJoin,
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

    All of a selection moves below project, merge, union, dupelim, intersect and difference. Conditions on keys move
    below group-by, over and session. Conditions on one side move below joins: either side of an inner join, the
    preserved one of an outer join, the left of a semijoin. Conditions on the tuple itself move below what copies it:
    unnest, tumble and hop. No selection moves below what can fail, as windows do that may be beyond their type.
    """
    return everywhere(root, _push)


def _push(node: Node) -> Node:
    match node:
        # a project that can fail must still see the tuples that it rejects
        case Select(Project(x, columns) as below, p) if not below.can_fail:
            return below.over([_push(Select(x, substitute(p, dict(columns))))])
        case Select(Merge() as below, p):
            return _below_all(below, p)
        # below, one that can fail would also reject duplicates, and tuples that never come out
        case Select(DupElim() | Union() | Intersect() | Difference() as below, p) if not can_fail(p):
            return _below_all(below, p)
        case Select(Unnest() | Hop() as below, p) if not below.can_fail:
            return _below_copies(node, below, p)
        # one that can fail has to reject the same tuples
        case Select(Session() as below, p) if not below.can_fail and not can_fail(p):
            return _below_keys(node, below, below.by, p)
        case Select(WindowPromises(x) as below, p):
            return below.over([_push(Select(x, p))])
        # its test of a left tuple cannot fail
        case Select(NotIn(left, right) as below, p):
            return below.over([_push(Select(left, p)), right])
        # a join that can fail has to see, and reject, the same pairs
        case Select(Join() | SemiJoin() as below, p) if not below.can_fail:
            return _below_join(node, below, p)
        # one that can fail would also reject what never comes out
        case Select(Pointwise() | Window() | Negated() as below, p) if not can_fail(p):
            return _below_all(below, p)
        case Select(Declared(timestamp=None) as below, p) if not can_fail(p):
            return _below_all(below, p)
        # without keys there is one group, whatever is dropped; one that can fail has to reject the same groups
        case Select(GroupBy() | ChangeGroupBy() as below, p) if (
            below.keys and not below.can_fail and not can_fail(p)
        ):
            return _below_keys(node, below, below.keys, p)
        # a condition on keys drops whole partitions
        case Select(Over() as below, p) if below.keys and not below.can_fail and not can_fail(p):
            return _below_keys(node, below, below.keys, p)
        # a window counts what it holds
        case Select(RowsWindow() as below, p) if not can_fail(p):
            return _below_keys(node, below, below.by, p)
    return node


def _below_all(below: Node, predicate: Expression) -> Node:
    sides = [renamed(predicate, below, side) if below.by_position else predicate for side in below.inputs]
    return below.over([_push(Select(*pair)) for pair in zip(below.inputs, sides, strict=True)])


def _below_join(node: Node, join: Join | SemiJoin, predicate: Expression) -> Node:
    """Push conditions on a side that is never null-filled; those on keys alone drop tuples of both sides."""
    tested = join.without_nulls
    lower: tuple[list[Expression], list[Expression]] = ([], [])
    pushed = []
    for part in movable(predicate):
        ways = [on_side(part, join, side) for side in (LEFT, RIGHT)]
        own = [side for side in tested if set(part.columns()) <= set(join.inputs[side].schema.names)]
        if any(ways[side] is not None for side in (tested if join.inner else own)):
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


def _below_copies(node: Node, below: Unnest | Hop, predicate: Expression) -> Node:
    """Conditions on the tuple alone, unless they can fail: there may be no item, or window, to fail on."""
    parts, own = conjuncts(predicate), set(below.input.schema.names)
    lower = [p for p in parts if set(p.columns()) <= own and not can_fail(p)]
    if not lower:
        return node
    return select(below.over([_push(select(below.input, lower))]), [p for p in parts if p not in lower])


def _below_keys(
    node: Node,
    below: GroupBy | ChangeGroupBy | RowsWindow | Over | Session,
    keys: Sequence[str],
    predicate: Expression,
) -> Node:
    """Push conditions on keys alone, which drop whole groups, partitions or sessions."""
    parts = conjuncts(predicate)
    lower = [p for p in parts if set(p.columns()) <= set(keys)]
    if not lower:
        return node
    return select(below.over([_push(select(below.input, lower))]), [p for p in parts if p not in lower])

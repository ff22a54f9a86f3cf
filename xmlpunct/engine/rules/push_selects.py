"""push_selects: drop tuples early, before they are computed with, compared and retained."""

from __future__ import annotations

from functools import reduce

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Project, Select, Union
from xmlpunct.engine.rules.walk import (
    aggregate_can_fail,
    can_fail,
    conjunction,
    conjuncts,
    everywhere,
    none_fails,
    substitute,
)
from xmlpunct.operators.expression import Call, Column, Expression
from xmlpunct.types import BOOLEAN


def push_selects(root: Node) -> Node:
    """Selections move below project, merge, union and dupelim, and conditions on keys below group-by."""
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
    if isinstance(below, Merge):
        return below.over([_push(Select(side, _renamed(predicate, below, side))) for side in below.sides])
    if isinstance(below, GroupBy):
        return _push_below_groups(node, below)
    return node


def _renamed(predicate: Expression, merge: Merge, side: Node) -> Expression:
    """A predicate over a merge's output as one over an input."""
    columns: dict[str, Expression] = {
        name: Column(a.type, a.nullable, a.name)
        for name, a in zip(merge.schema.names, side.schema, strict=True)
    }
    return substitute(predicate, columns)


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

"""prune_columns: read and carry only the columns that are used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xmlpunct.engine.plan import (
    Binary,
    GroupBy,
    Join,
    Merge,
    Node,
    NotIn,
    Project,
    Scan,
    Select,
    SemiJoin,
    Union,
)
from xmlpunct.engine.rules.walk import aggregate_can_fail, plain
from xmlpunct.expressions.program import can_fail


def prune_columns(root: Node) -> Node:
    """Columns that nothing above needs go, down to the scans. One that can fail stays: it rejects tuples."""
    return _prune(root, root.schema.names)


def _prune(node: Node, wanted: Iterable[str]) -> Node:
    """The node with at least the columns ``wanted``, and never with none."""
    used = set(wanted)
    if isinstance(node, Scan):
        pairs = [p for p in zip(node.columns, node.names, strict=True) if p[1] in used]
        pairs = pairs or [(node.columns[0], node.names[0])]
        return replace(node, columns=tuple(c for c, _ in pairs), names=tuple(n for _, n in pairs))
    if isinstance(node, Select):
        return node.over([_prune(node.input, used | set(node.predicate.columns()))])
    if isinstance(node, Project):
        columns = tuple(c for c in node.columns if c[0] in used or can_fail(c[1])) or node.columns[:1]
        return Project(_prune(node.input, (n for _, e in columns for n in e.columns())), columns)
    if isinstance(node, GroupBy):
        return _prune_group(node, used)
    if isinstance(node, Merge) and not isinstance(node, Union):
        places = [i for i, name in enumerate(node.schema.names) if name in used] or [0]
        return node.over([_narrow(side, [side.schema.names[i] for i in places]) for side in node.sides])
    if isinstance(node, Join | SemiJoin):
        keys = (key for pair in node.keys for key in pair)
        residual = () if node.residual is None else node.residual.columns()
        return _prune_sides(node, used.union(keys, residual))
    if isinstance(node, NotIn):
        return _prune_sides(node, used | {node.left_column, node.right_column})
    # whole tuples are compared: dupelim, union, intersect, difference
    return node.over([_prune(below, below.schema.names) for below in node.inputs])


def _prune_sides(node: Binary, used: set[str]) -> Node:
    """A join of whose two inputs, which name their columns differently, these are needed."""
    return node.over([_prune(side, used.intersection(side.schema.names)) for side in node.inputs])


def _prune_group(node: GroupBy, used: set[str]) -> Node:
    aggregates = tuple(a for a in node.aggregates if a.name in used or aggregate_can_fail(a, node))
    if not node.keys:
        aggregates = aggregates or node.aggregates[:1]
    below = _prune(node.input, [*node.keys, *(a.argument for a in aggregates if a.argument is not None)])
    return GroupBy(below, node.keys, aggregates)


def _narrow(side: Node, names: list[str]) -> Node:
    """An input of a merge with exactly these columns."""
    found = _prune(side, names)
    return found if list(found.schema.names) == names else Project(found, plain(found, names))

"""combine_sides: a join says what both of its inputs have promised together, where somebody above can use it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xmlpunct.engine.plan import ChangeJoin, Join, Node


def combine_sides(root: Node) -> Node:
    """GroupBy(Join(x, y), x.hour, y.hour) -> GroupBy(Join(x, y, combines), x.hour, y.hour).

    A punctuation that one side's retained tuples hold back is of use to such an operator together with one of the
    other side. To others, and to who reads the output, it would only be more to hold. Applied once and last.
    """
    return _combine(root, ())


def _combine(node: Node, wanted: Collection[str] | None) -> Node:
    """``wanted`` are the columns on which punctuations are of use above (None: all)."""
    inputs = [_combine(*below) for below in zip(node.inputs, node.of_use(wanted), strict=True)]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    if isinstance(node, Join) and not isinstance(node, ChangeJoin) and _of_both(node, wanted):
        return replace(node, combines=True)
    return node


def _of_both(join: Join, wanted: Collection[str] | None) -> bool:
    """Whether columns that only one side has are wanted of either side."""
    shared = {left for left, _ in join.keys} if join.inner else set()
    own = [set(side.schema.names).intersection(join.schema.names) - shared for side in join.inputs]
    return all(names if wanted is None else names.intersection(wanted) for names in own)

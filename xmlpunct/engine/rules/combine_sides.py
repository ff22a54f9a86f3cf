"""combine_sides: a join emits combinations of its inputs' punctuations if an operator above can use them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xmlpunct.engine.plan import Join, Node


def combine_sides(root: Node) -> Node:
    """GroupBy(Join(x, y), x.hour, y.hour) -> GroupBy(Join(x, y, combines), x.hour, y.hour).

    A punctuation of one side may be pending because retained tuples match it. Its combination with a punctuation of the
    other side can be emitted, and is useful to an operator with keys of both sides. Other consumers would only have to
    retain more punctuations. Applied once and last.
    """
    return _combine(root, ())


def _combine(node: Node, useful_columns: Collection[str] | None) -> Node:
    """``useful_columns``: the columns on which operators above can use punctuations (None: all)."""
    inputs = [_combine(*below) for below in zip(node.inputs, node.of_use(useful_columns), strict=True)]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    if isinstance(node, Join) and node.instants is None and _is_useful_for_both(node, useful_columns):
        return replace(node, combines=True)
    return node


def _is_useful_for_both(join: Join, useful_columns: Collection[str] | None) -> bool:
    """Whether each side has useful columns of its own."""
    shared = {left for left, _ in join.keys} if join.inner else set()
    side_columns = [set(side.schema.names).intersection(join.schema.names) - shared for side in join.inputs]
    return all(
        names if useful_columns is None else names.intersection(useful_columns) for names in side_columns
    )

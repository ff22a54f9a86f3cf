"""drop_ignored: remove duplicate eliminations below aggregates that ignore duplicates."""

from __future__ import annotations

from collections.abc import Iterator

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Union


def drop_ignored(root: Node) -> Node:
    """GroupBy(DupElim(x)) -> GroupBy(x), and Union -> Merge, if *every* aggregate ignores duplicates."""
    return _drop(root, False)


def ignored(root: Node, free: bool = False) -> Iterator[Node]:
    """The duplicate eliminations that `drop_ignored` would remove."""
    for below in root.inputs:
        yield from ignored(below, _may_drop_duplicates(root, free))
    match root:
        case DupElim() | Union() if free:
            yield root


def _drop(node: Node, free: bool) -> Node:
    inputs = [_drop(below, _may_drop_duplicates(node, free)) for below in node.inputs]
    match node.over(inputs) if list(node.inputs) != inputs else node:
        case DupElim(x) if free:
            return x
        case Union(sides) if free:
            return Merge(sides)
        case same:
            return same


def _may_drop_duplicates(node: Node, free: bool) -> bool:
    """Whether duplicates in a node's input do not matter. ``free``: whether duplicates in its output do not matter."""
    match node:
        case GroupBy():
            return node.ignores_duplicates(0)
    return free and node.repeats

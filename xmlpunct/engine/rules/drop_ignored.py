"""drop_ignored: no duplicate elimination for aggregates that ignore duplicates anyway."""

from __future__ import annotations

from collections.abc import Iterator

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Union


def drop_ignored(root: Node) -> Node:
    """GroupBy(DupElim(x)) -> GroupBy(x), and of a union a merge, if *every* aggregate ignores duplicates."""
    return _drop(root, False)


def ignored(root: Node, free: bool = False) -> Iterator[Node]:
    """The duplicate eliminations that `drop_ignored` would leave out."""
    for below in root.inputs:
        yield from ignored(below, _free(root, free))
    match root:
        case DupElim() | Union() if free:
            yield root


def _drop(node: Node, free: bool) -> Node:
    inputs = [_drop(below, _free(node, free)) for below in node.inputs]
    match node.over(inputs) if list(node.inputs) != inputs else node:
        case DupElim(x) if free:
            return x
        case Union(sides) if free:
            return Merge(sides)
        case same:
            return same


def _free(node: Node, free: bool) -> bool:
    """Whether duplicates in a node's input make no difference; ``free``: in its output."""
    match node:
        case GroupBy():
            return node.ignores_duplicates(0)
    return free and node.repeats

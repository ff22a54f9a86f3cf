"""drop_ignored: no duplicate elimination for aggregates that ignore duplicates anyway."""

from __future__ import annotations

from collections.abc import Iterator

from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Project, Select, Union
from xmlpunct.engine.rules.walk import none_fails
from xmlpunct.expressions.program import can_fail


def drop_ignored(root: Node) -> Node:
    """GroupBy(DupElim(x)) -> GroupBy(x), and of a union a merge, if *every* aggregate ignores duplicates."""
    return _drop(root, False)


def ignored(root: Node, free: bool = False) -> Iterator[Node]:
    """The duplicate eliminations that `drop_ignored` would leave out."""
    for below in root.inputs:
        yield from ignored(below, _free(root, free))
    if free and isinstance(root, DupElim | Union):
        yield root


def needs_each_once(group: GroupBy) -> bool:
    """Whether a group-by gives the same however often each tuple comes."""
    return all(a.ignores_duplicates for a in group.aggregates)


def repeats(node: Node) -> bool:
    """Whether repeated input makes no more than repeated output: what fails rejects each tuple that comes."""
    if isinstance(node, Select):
        return not can_fail(node.predicate)
    if isinstance(node, Project):
        return none_fails(e for _, e in node.columns)
    return isinstance(node, Merge | DupElim)


def _drop(node: Node, free: bool) -> Node:
    inputs = [_drop(below, _free(node, free)) for below in node.inputs]
    node = node.over(inputs) if list(node.inputs) != inputs else node
    if free and isinstance(node, DupElim):
        return node.input
    return Merge(node.sides) if free and isinstance(node, Union) else node


def _free(node: Node, free: bool) -> bool:
    """Whether duplicates in a node's input make no difference; ``free``: in its output."""
    return needs_each_once(node) if isinstance(node, GroupBy) else free and repeats(node)

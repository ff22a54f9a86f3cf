"""drop_projects: a project that only picks and renames columns goes, or the scan below it does the same."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Node, Project, Scan
from xmlpunct.engine.rules.walk import everywhere, plain
from xmlpunct.expressions.expression import Column


def drop_projects(root: Node) -> Node:
    """A project of all its input's columns under their names, or of distinct columns of a scan.

    Below a group-by, which reads by name, their order does not matter either.
    """
    return everywhere(root, _drop)


def _drop(node: Node) -> Node:
    if isinstance(node, GroupBy) and isinstance(node.input, Project):
        below = node.input.input
        return (
            node.over([below]) if set(node.input.columns) == set(plain(below, below.schema.names)) else node
        )
    if not isinstance(node, Project):
        return node
    read = [e.name for _, e in node.columns if isinstance(e, Column)]
    names = tuple(name for name, _ in node.columns)
    if len(read) != len(names):
        return node
    below = node.input
    if tuple(read) == names == below.schema.names:
        return below
    if isinstance(below, Scan) and len(set(read)) == len(read):
        column = dict(zip(below.names, below.columns, strict=True))
        return replace(below, columns=tuple(column[name] for name in read), names=names)
    return node

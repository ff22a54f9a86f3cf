"""drop_projects: remove projects that only select and rename columns, or merge them into a scan."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Node, Project, Scan, plain
from xmlpunct.engine.rules.walk import rule


@rule
def drop_projects(node: Node) -> Node:
    """Remove a project of all columns of its input; merge a project of distinct columns into a scan.

    Below a group-by, which reads columns by name, their order does not matter.
    """
    match node:
        case GroupBy(Project(x, columns), instants=None) if set(columns) == set(plain(x, x.schema.names)):
            return node.over([x])
        case Project(x, columns) if len(node.copies) < len(columns):
            return node
        case Project(x) if tuple(node.copies) == tuple(node.copies.values()) == x.schema.names:
            return x
        case Project(Scan() as scan) if len(set(node.copies.values())) == len(node.copies):
            column = dict(zip(scan.names, scan.columns, strict=True))
            read = tuple(column[name] for name in node.copies.values())
            return replace(scan, columns=read, names=tuple(node.copies))
    return node

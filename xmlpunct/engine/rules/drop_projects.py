"""drop_projects: a project that only picks and renames columns goes, or the scan below it does the same."""

from __future__ import annotations

from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Node, Project, Scan, plain
from xmlpunct.engine.rules.walk import rule


@rule
def drop_projects(node: Node) -> Node:
    """A project of all its input's columns under their names, or of distinct columns of a scan.

    Below a group-by, which reads by name, their order does not matter either.
    """
    match node:
        case GroupBy(Project(x, columns)) if set(columns) == set(plain(x, x.schema.names)):
            return node.over([x])
        case Project(x, columns) if len(node.copies) == len(columns):
            names, read = tuple(node.copies), tuple(node.copies.values())
            if names == read == x.schema.names:
                return x
            if isinstance(x, Scan) and len(set(read)) == len(read):
                column = dict(zip(x.names, x.columns, strict=True))
                return replace(x, columns=tuple(column[name] for name in read), names=names)
    return node

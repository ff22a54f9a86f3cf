"""Joint covers across an exchange: what has to travel so that they are found behind it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Node, NotIn, PartialGroupBy, Project, Scan
from xmlpunct.engine.rules.split_projects import is_constrained
from xmlpunct.engine.rules.walk import column, fresh
from xmlpunct.expressions.expression import Column
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.schema import Schema


def widened(edge: Node, reader: Node) -> Node:
    """A part that runs in the reader, with the attributes that ``reader``, behind an exchange, may have to join over.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` close hour 5 together where S1 and S2 are all there is. They come
    in different slices and tasks, so somebody has to remember them, and whoever projects sid away inside the
    reader cannot. So attributes with a declared domain stay until behind the exchange, if they were dropped before
    it and punctuations on anything else are of use there. Attributes that are only NOT NULL could be covered too,
    by ranges that meet; but that is nearly all there are, and keeping them would undo that columns are pruned.
    """
    if isinstance(reader, NotIn):  # which waits for ends alone
        return edge
    wanted = reader.keys if isinstance(reader, GroupBy) else edge.schema.names
    return _widened(edge) if any(is_constrained(edge, name) for name in wanted) else edge


def _widened(node: Node) -> Node:
    if isinstance(node, Scan):
        lost = _lost(node.stream.schema, node.columns, node.names)
        columns, names = (name for name, _ in lost), (new for _, new in lost)
        return replace(node, columns=(*node.columns, *columns), names=(*node.names, *names))
    node = node.over([_widened(below) for below in node.inputs])
    if isinstance(node, PartialGroupBy):
        lost = _lost(node.input.schema, (*node.keys, *node.kept), ())
        return replace(node, kept=(*node.kept, *(name for name, _ in lost)))
    if not isinstance(node, Project):
        return node
    (below,) = node.inputs
    kept = [e.name for _, e in node.columns if isinstance(e, Column)]
    more = [
        (new, column(below, name))
        for name, new in _lost(below.schema, kept, [name for name, _ in node.columns])
    ]
    return replace(node, columns=(*node.columns, *more))


def _lost(schema: Schema, kept: Iterable[str], taken: Iterable[str]) -> list[tuple[str, str]]:
    """The attributes with a domain that are not kept, and what they can be called where names are taken."""
    found: list[tuple[str, str]] = []
    names = set(taken)
    for attribute in schema:
        if attribute.domain is not WILDCARD and attribute.name not in kept:
            found.append((attribute.name, fresh(attribute.name, names)))
            names.add(found[-1][1])
    return found

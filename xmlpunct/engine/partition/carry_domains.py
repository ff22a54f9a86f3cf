"""Joint covers across an exchange: the attributes that have to travel for them."""

from __future__ import annotations

from xmlpunct.engine.plan import Node


def carry_domains(edge: Node, reader: Node) -> Node:
    """An edge that keeps the attributes over which ``reader``, behind an exchange, may need joint covers.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` close hour 5 together if S1 and S2 are all of sid's domain. They come
    in different slices and tasks, so an operator with state has to remember them; a project inside the reader, which
    drops sid, cannot. So attributes with a declared domain travel, if the edge would drop them and the reader can use
    punctuations on others. Attributes that are only NOT NULL could be covered too, by ranges that meet. But these are
    nearly all attributes, and keeping them would undo the pruning of columns.
    """
    if reader.ends_only:
        return edge
    wanted = reader.of_use(None)[0]
    names = edge.schema.names if wanted is None else wanted
    return _carrying(edge) if any(map(edge.is_constrained, names)) else edge


def _carrying(node: Node) -> Node:
    return node.over([_carrying(below) for below in node.inputs]).with_domains()

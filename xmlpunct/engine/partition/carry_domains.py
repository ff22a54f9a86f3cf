"""Joint covers across an exchange: what has to travel so that they are found behind it."""

from __future__ import annotations

from xmlpunct.engine.plan import Node


def carry_domains(edge: Node, reader: Node) -> Node:
    """A part that runs in the reader, with the attributes that ``reader``, behind an exchange, may have to join over.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` close hour 5 together where S1 and S2 are all there is. They come
    in different slices and tasks, so somebody has to remember them, and whoever projects sid away inside the
    reader cannot. So attributes with a declared domain stay until behind the exchange, if they were dropped before
    it and punctuations on anything else are of use there. Attributes that are only NOT NULL could be covered too,
    by ranges that meet; but that is nearly all there are, and keeping them would undo that columns are pruned.
    """
    if reader.ends_only:
        return edge
    wanted = reader.of_use(None)[0]
    names = edge.schema.names if wanted is None else wanted
    return _carrying(edge) if any(map(edge.is_constrained, names)) else edge


def _carrying(node: Node) -> Node:
    return node.over([_carrying(below) for below in node.inputs]).with_domains()

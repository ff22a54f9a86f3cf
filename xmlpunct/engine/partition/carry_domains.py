"""Joint covers across an exchange: attributes that edges must retain for them."""

from __future__ import annotations

from xmlpunct.engine.plan import Node


def carry_domains(edge: Node, reader: Node) -> Node:
    """An edge that retains the attributes over which ``reader``, after the exchange, may need joint covers.

    ``<hour=5, sid=S1>`` and ``<hour=5, sid=S2>`` close hour 5 together if S1 and S2 are the whole domain of sid. They
    arrive in different slices and tasks, so only a stateful operator can remember them. A project inside the reader,
    which drops sid, cannot. So the edge retains attributes that it would drop, if they have a declared domain or are
    BOOLEAN NOT NULL, and the reader can use punctuations on the remaining attributes. Other NOT NULL attributes could
    also be covered, by adjacent ranges. But nearly all attributes are NOT NULL, and retaining them would undo column
    pruning.
    """
    if reader.ends_only:
        return edge
    used_names = reader.of_use(None)[0]
    names = edge.schema.names if used_names is None else used_names
    return _with_domains(edge) if any(map(edge.is_constrained, names)) else edge


def _with_domains(node: Node) -> Node:
    return node.over([_with_domains(child) for child in node.inputs]).with_domains()

"""The outlooks of a whole plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.query import walk
from xmlpunct.engine.plan.schemes import Outlook, either, reduced, smallest
from xmlpunct.engine.plan.stream_nodes import Scan

Assumed = Mapping[str, Outlook]
"""What streams promise beside what they declare, by their declared names."""


def outlooks(*roots: Node, assumed: Assumed | None = None) -> dict[int, Outlook]:
    """The outlook of each node of some plans, by its id."""
    found: dict[int, Outlook] = {}
    for node in walk(roots):
        found[id(node)] = outlook_of(node, [found[id(below)] for below in node.inputs], assumed)
    return found


def outlook_of(node: Node, below: Sequence[Outlook], assumed: Assumed | None = None) -> Outlook:
    """The outlook of a node, given those of its inputs; what has few values is closed jointly."""
    told = node.outlook(below)
    if isinstance(node, Scan) and not told.ends and assumed and node.stream.declared in assumed:
        told = either([told, node.read(assumed[node.stream.declared])])
    offers, closes = (reduced(schemes, node.schema) for schemes in (told.offers, told.closes))
    return replace(told, offers=offers, closes=smallest([*closes, *offers]))

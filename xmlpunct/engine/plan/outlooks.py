"""The outlooks of a whole plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.query import walk
from xmlpunct.engine.plan.schemes import (
    Fate,
    Need,
    Outlook,
    combined,
    either,
    has_many_values,
    reduced,
    smallest,
    within,
)
from xmlpunct.engine.plan.stream_nodes import Scan

Assumed = Mapping[str, Outlook]
"""Additional outlooks of streams, by declared names."""
PER_PARTITION = "retains state for each partition, by definition"


ComputedOutlooks = dict[tuple[int, ...], Outlook]
"""Outlooks by the ids of the node and of the outlooks that it depends on."""


def outlooks(
    *roots: Node, assumed: Assumed | None = None, computed: ComputedOutlooks | None = None
) -> dict[int, Outlook]:
    """The outlook of each node of some plans, by its id.

    ``computed`` has the outlooks of earlier calls, and gets the new ones. Each ``assumed`` outlook must live as long.
    """
    by_id: dict[int, Outlook] = {}
    for node in walk(roots):
        below = [by_id[id(below)] for below in node.inputs]
        key = id(node), *map(id, below)
        if assumed and isinstance(node, Scan) and node.stream.declared in assumed:
            key = *key, id(assumed[node.stream.declared])
        outlook = None if computed is None else computed.get(key)
        if outlook is None:
            outlook = outlook_of(node, below, assumed)
            if computed is not None:
                computed[key] = outlook
        by_id[id(node)] = outlook
    return by_id


def outlook_of(node: Node, below: Sequence[Outlook], assumed: Assumed | None = None) -> Outlook:
    """The outlook of a node, from the outlooks of its inputs.

    Punctuations of one input pass if a need lets them. Punctuations that all inputs support pass, too, unless the node
    `passes_by_needs`. Attributes with few values are closed jointly.
    """
    needs: tuple[Need, ...] = ()
    if isinstance(node, Scan):
        ways = [node.promised]
        if not node.promised.ends and assumed and node.stream.declared in assumed:
            ways.append(node.read(assumed[node.stream.declared]))
    else:
        sides = [node.translated(port, below) for port in range(len(below))]
        common = sides[0] if len(sides) == 1 else combined(sides)
        needs = tuple(need.matched(below, common) for need in node.awaits)
        ways = [need.passed(sides) for need in needs] + [common] * (not node.passes_by_needs)
    result = either(ways)
    if all(need.by for need in needs if need.fate is Fate.BLOCKS):
        result = either([result, Outlook(closes=smallest(node.closing_keys))])
    offers, closes = (reduced(schemes, node.schema) for schemes in (result.offers, result.closes))
    remark = PER_PARTITION if _retains_partitions(node, below) else node.note
    return replace(result, offers=offers, closes=smallest([*closes, *offers]), needs=needs, remark=remark)


def _retains_partitions(node: Node, below: Sequence[Outlook]) -> bool:
    """True if a node retains state for each of many partitions of its input that are never closed."""
    keys = node.state_keys
    return has_many_values(node.schema, keys) and not within(below[0].closes, keys)

"""Partial aggregation at the source: edges pre-aggregate, so that fewer tuples cross the exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Merge, Node, PartialDupElim, PartialGroupBy, Project, plain
from xmlpunct.engine.rule_options import EDGE_AGGREGATION, EDGE_DUPELIM, Rules
from xmlpunct.operators import Aggregate
from xmlpunct.operators.group.finality import final_attributes


def with_partial_aggregation(roots: Sequence[Node], numbers: Iterator[int], on: Rules) -> list[Node]:
    """Add partial operators on top of edges where they are useful.

    GroupBy(edge) -> GroupBy(PartialGroupBy(edge)), also through a merge and the upper halves of split projects. An edge
    gets a PartialDupElim if duplicates in its output do not matter. Partial operators keep no state between slices.
    They propagate all punctuations that are useful after the exchange, so results are not delayed. Shared nodes of
    several plans stay shared.
    """
    cache: dict[tuple[int, bool], Node] = {}

    def rewrite(node: Node, free: bool) -> Node:
        """``free``: whether duplicates in the node's output do not matter."""
        rewritten = cache.get((id(node), free)) or rewrite_uncached(node, free)
        if len(roots) > 1:
            cache[id(node), free] = rewritten
        return rewritten

    def rewrite_uncached(node: Node, free: bool) -> Node:
        if EDGE_AGGREGATION in on and isinstance(node, GroupBy) and (sides := _sides(node)):
            return _with_partial_aggregates(node, sides, numbers)
        inputs = []
        for port, child in enumerate(node.inputs):
            each_once = node.ignores_duplicates(port) or (free and node.repeats)
            if not child.stateless:
                inputs.append(rewrite(child, each_once))
            elif each_once and EDGE_DUPELIM in on:
                inputs.append(PartialDupElim(child, number=next(numbers)))
            else:
                inputs.append(child)
        return node.over(inputs)

    return [root if root.stateless else rewrite(root, False) for root in roots]


def _sides(node: GroupBy) -> tuple[Node, ...]:
    """The inputs of a group-by whose edges can pre-aggregate for it; empty if that is not possible."""
    child = node.input
    if node.instants is not None:
        return ()
    merged = isinstance(child, Merge) and bool(node.keys)  # without keys there is an exchange above the merge
    sides = child.inputs if merged else (child,)
    partial = not any(a.needs_values for a in node.aggregates) and bool(node.keys or node.aggregates)
    return sides if partial and all(_edge_below(side).stateless for side in sides) else ()


def _edge_below(side: Node) -> Node:
    """The edge below the upper half of a split project; else the input itself."""
    return side.input if isinstance(side, Project) and side.derived else side


def _with_partial_aggregates(node: GroupBy, sides: tuple[Node, ...], numbers: Iterator[int]) -> Node:
    child, input_schema = node.input, node.input.schema
    # Joint covers are possible only over NOT NULL attributes: only * closes null.
    joint = [a.name for a in input_schema if not a.nullable and a.name not in node.keys]
    # Few streams close a value of another aggregate's column; to retain it would undo the partial aggregation.
    extremes = all(a.function in ("MIN", "MAX") for a in node.aggregates)
    final = (extremes and final_attributes(node.aggregates, node.keys)) or ()
    retained = list(dict.fromkeys((*joint, *final)))
    parts = []
    for side in sides:
        side_names = dict(zip(input_schema.names, side.schema.names, strict=True))
        aggregates = tuple(a.over(side_names) for a in node.aggregates)
        keys, side_retained = ([side_names[name] for name in names] for names in (node.keys, retained))
        parts.append(_with_partial_group_by(side, keys, aggregates, side_retained, next(numbers)))
    return replace(
        node, input=child.over(parts) if isinstance(child, Merge) else parts[0], whole=input_schema
    )


def _with_partial_group_by(
    side: Node, keys: list[str], aggregates: tuple[Aggregate, ...], retained: list[str], number: int
) -> Node:
    """A side with a partial group-by over its edge. It retains the columns that a split project's upper half needs."""
    derived = side.derived if isinstance(side, Project) else ()
    extra = dict.fromkeys(name for _, e in derived for name in e.columns() if name not in (*keys, *retained))
    part = PartialGroupBy(_edge_below(side), tuple(keys), aggregates, (*retained, *extra), number=number)
    if not (isinstance(side, Project) and derived):
        return part
    columns = plain(part, (name for name in part.schema.names if name not in extra))
    return Project(part, columns, derived, together=side.together, number=side.number)

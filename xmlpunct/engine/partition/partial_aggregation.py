"""Partial aggregation at the source: edges do part of a fragment's work, so that less goes over the exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xmlpunct.engine.plan import GroupBy, Merge, Node, PartialDupElim, PartialGroupBy, Project, plain
from xmlpunct.engine.rule_options import EDGE_AGGREGATION, EDGE_DUPELIM, Rules
from xmlpunct.operators import Aggregate
from xmlpunct.operators.group.finality import asked


def with_partial_aggregation(roots: Sequence[Node], numbers: Iterator[int], on: Rules) -> list[Node]:
    """The plans with partial operators on top of its edges where they are of use.

    GroupBy(edge) -> GroupBy(PartialGroupBy(edge)), also through a merge and the upper halves of split projects. An edge
    gets a PartialDupElim where duplicates make no difference behind it. Partial operators keep nothing from slice to
    slice, and pass all punctuations that are of use behind the exchange, so no result comes later. What plans
    share stays shared.
    """
    done: dict[tuple[int, bool], Node] = {}

    def work(node: Node, free: bool) -> Node:
        """``free``: whether duplicates in the node's output make no difference."""
        found = done.get((id(node), free)) or work_anew(node, free)
        if len(roots) > 1:
            done[id(node), free] = found
        return found

    def work_anew(node: Node, free: bool) -> Node:
        if EDGE_AGGREGATION in on and isinstance(node, GroupBy) and (sides := _sides(node)):
            return _aggregated(node, sides, numbers)
        inputs = []
        for port, below in enumerate(node.inputs):
            each_once = node.ignores_duplicates(port) or (free and node.repeats)
            if not below.stateless:
                inputs.append(work(below, each_once))
            elif each_once and EDGE_DUPELIM in on:
                inputs.append(PartialDupElim(below, number=next(numbers)))
            else:
                inputs.append(below)
        return node.over(inputs)

    return [root if root.stateless else work(root, False) for root in roots]


def _sides(node: GroupBy) -> tuple[Node, ...]:
    """The parts that a group-by reads, if their edges can make partial aggregates for it; else none."""
    below = node.input
    merged = isinstance(below, Merge) and bool(node.keys)  # without keys, an exchange stands above the merge
    sides = below.inputs if merged else (below,)
    partial = not any(a.needs_values for a in node.aggregates) and bool(node.keys or node.aggregates)
    return sides if partial and all(_edge(side).stateless for side in sides) else ()


def _edge(side: Node) -> Node:
    """What is below the upper half of a split project."""
    return side.input if isinstance(side, Project) and side.derived else side


def _aggregated(node: GroupBy, sides: tuple[Node, ...], numbers: Iterator[int]) -> Node:
    below, whole = node.input, node.input.schema
    # Joint covers are possible over these alone: only * closes null.
    joint = [a.name for a in whole if not a.nullable and a.name not in node.keys]
    extremes = all(
        a.function in ("MIN", "MAX") for a in node.aggregates
    )  # of others few streams close a value
    kept = list(dict.fromkeys((*joint, *((extremes and asked(node.aggregates, node.keys)) or ()))))
    parts = []
    for side in sides:
        its = dict(zip(whole.names, side.schema.names, strict=True))
        aggregates = tuple(a.over(its) for a in node.aggregates)
        keys, rest = ([its[name] for name in names] for names in (node.keys, kept))
        parts.append(_ahead(side, keys, aggregates, rest, next(numbers)))
    return replace(node, input=below.over(parts) if isinstance(below, Merge) else parts[0], whole=whole)


def _ahead(
    side: Node, keys: list[str], aggregates: tuple[Aggregate, ...], kept: list[str], number: int
) -> Node:
    """A part with a partial group-by over its edge, which keeps the sources that a split project's upper half needs."""
    derived = side.derived if isinstance(side, Project) else ()
    more = dict.fromkeys(name for _, e in derived for name in e.columns() if name not in (*keys, *kept))
    part = PartialGroupBy(_edge(side), tuple(keys), aggregates, (*kept, *more), number=number)
    if not (isinstance(side, Project) and derived):
        return part
    columns = plain(part, (name for name in part.schema.names if name not in more))
    return Project(part, columns, derived, together=side.together, number=side.number)

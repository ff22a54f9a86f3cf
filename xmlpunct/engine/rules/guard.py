"""guard: reject late tuples before any other operator sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from xmlpunct.engine.plan import Guard, Node, Project, Punctuate, Query, Scan, plain
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.access_order import AccessOrder


def with_guards(query: Query) -> Query:
    """Scan(s) -> Project(Guard(Scan(s))): the guard sees all attributes, the project gives those that the scan gave.

    A Punctuate stands right above the guard, so that it too can tell where a rejected tuple stood. Of several guards
    over one stream the first one reports. Applied once and last, for other rules would prune the columns that
    punctuations constrain.
    """
    numbers, heard = count(1 + max(node.number for node in query.root.walk())), set[str]()

    def judged(scan: Scan) -> Guard:
        stream, quiet = replace(scan.stream, guarded=True), scan.stream.name in heard
        heard.add(stream.name)
        names = stream.layout.names
        whole = Scan(stream, names, names, scan.memory, number=scan.number)
        return Guard(whole, stream, quiet, number=next(numbers))

    def guarded(node: Node) -> Node:
        match node:
            case Scan() as scan:
                below: Node = judged(scan)
            case Punctuate(Scan() as scan, order):
                guard, origins = judged(scan), dict(zip(scan.names, scan.columns, strict=True))
                below = replace(node, input=guard, order=_by_origin(order, origins), quiet=guard.quiet)
            case _:
                return node.over([guarded(child) for child in node.inputs])
        return Project(below, tuple(_columns(below, scan)), number=next(numbers))

    streams = tuple(replace(stream, guarded=True) for stream in query.streams)
    return replace(query, root=guarded(query.root), streams=streams)


def _by_origin(order: AccessOrder, origins: dict[str, str]) -> AccessOrder:
    """An access order in the stream's own names."""
    by = None if order.by is None else origins[order.by]
    return replace(order, attribute=origins[order.attribute], by=by)


def _columns(node: Node, scan: Scan) -> Iterator[tuple[str, Expression]]:
    """A scan's columns, read from a node that has all columns of the stream."""
    for name, (_, expression) in zip(scan.names, plain(node, scan.columns), strict=True):
        yield name, expression

"""guard: reject late tuples before any other operator receives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from xmlpunct.engine.plan import DropOverlap, Guard, Key, Node, Project, Punctuate, Query, Scan, Select, plain
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import ORIGIN


def with_guards(query: Query) -> Query:
    """Scan(s) -> Project(Guard(Scan(s))). The guard receives all attributes; the project restores the scan's columns.

    A key is below the guard, so the guard receives its punctuations. A Punctuate is directly above the guard, so that
    it can also report the source position of a rejected tuple. Selects and projects between the two propagate the
    position. If a stream has several guards, only the first one reports. Applied once and last, because other rules
    would prune columns that punctuations constrain. Shared nodes of several plans stay shared.
    """
    numbers, guarded_streams = count(1 + query.last), set[str]()
    cache: dict[tuple[int, bool], Node] = {}

    def guard_of(node: Node) -> Guard:
        """The guard of a scan. The stream's key, if any, is below it, so that its punctuations are enforced, too."""
        (scan,) = node.find(Scan)
        stream, drops_rejects = replace(scan.stream, guarded=True), scan.stream.name in guarded_streams
        guarded_streams.add(stream.name)
        names = stream.layout.names
        unguarded: Node = Scan(stream, names, names, scan.memory, number=scan.number)
        if (overlaps := [*node.find(DropOverlap)]) and stream.overlap is not None:
            number = overlaps[0].number
            unguarded = DropOverlap(unguarded, stream.overlap, number=number, drops_rejects=drops_rejects)
        if isinstance(node, Key):
            keys = tuple(tuple(_origins(scan)[name] for name in key) for key in node.keys)
            unguarded = replace(node, input=unguarded, keys=keys)
        return Guard(unguarded, stream, number=next(numbers), drops_rejects=drops_rejects)

    def rewrite(node: Node, has_origin: bool = False) -> Node:
        """``has_origin``: the output of this part above one scan has the source positions of its tuples."""
        rewritten = cache.get((id(node), has_origin)) or rewrite_uncached(node, has_origin)
        if len(query.answers) > 1:
            cache[id(node), has_origin] = rewritten
        return rewritten

    def rewrite_uncached(node: Node, has_origin: bool) -> Node:
        match node:
            case (
                (Scan() as scan)
                | DropOverlap(Scan() as scan)
                | Key((Scan() as scan) | DropOverlap(Scan() as scan))
            ):
                below: Node = guard_of(node)
            case Punctuate(
                (Scan() as scan)
                | DropOverlap(Scan() as scan)
                | Key((Scan() as scan) | DropOverlap(Scan() as scan)),
                order,
            ):
                guard = guard_of(node.input)
                order = _in_stream_names(order, _origins(scan))
                drops_rejects = node.drops_rejects or guard.drops_rejects
                below = replace(node, input=guard, order=order, drops_rejects=drops_rejects)
            case Punctuate(x):
                below = node.over([rewrite(x, has_origin=True)])
                return (
                    below
                    if has_origin
                    else Project(below, plain(below, node.schema.names), number=next(numbers))
                )
            case Select(x) if has_origin:
                return node.over([rewrite(x, has_origin)])
            case Project(x, columns) if has_origin:
                below = rewrite(x, has_origin)
                return replace(node, input=below, columns=(*columns, *_origin_columns(below, node.schema)))
            case Key(x):  # several senders, and each guard has the tuples of one
                return replace(node, input=rewrite(x), remembers=True)
            case _:
                return node.over([rewrite(child) for child in node.inputs])
        columns = tuple(_columns(below, scan))
        if has_origin:
            columns += _origin_columns(below, scan.schema)
        return Project(below, columns, number=next(numbers))

    streams = tuple(replace(stream, guarded=True) for stream in query.streams)
    return replace(query.over(map(rewrite, query.roots)), streams=streams)


def _origin_columns(node: Node, schema: Schema) -> tuple[tuple[str, Expression], ...]:
    """The source position columns of a node that a schema lacks."""
    return plain(node, (a.name for a in ORIGIN if a.name not in schema))


def _origins(scan: Scan) -> dict[str, str]:
    """The name in the stream's schema of each column of a scan."""
    return dict(zip(scan.names, scan.columns, strict=True))


def _in_stream_names(order: AccessOrder, origins: dict[str, str]) -> AccessOrder:
    """An access order in the names of the stream's schema."""
    sender_attribute = None if order.sender_column is None else origins[order.sender_column]
    return replace(order, attribute=origins[order.attribute], sender_column=sender_attribute)


def _columns(node: Node, scan: Scan) -> Iterator[tuple[str, Expression]]:
    """A scan's columns, read from a node that has all columns of the stream."""
    for name, (_, expression) in zip(scan.names, plain(node, scan.columns), strict=True):
        yield name, expression

"""guard: reject late tuples before any other operator sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from xmlpunct.engine.plan import Guard, Key, Node, Project, Punctuate, Query, Scan, Select, plain
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import ORIGIN


def with_guards(query: Query) -> Query:
    """Scan(s) -> Project(Guard(Scan(s))): the guard sees all attributes, the project gives those that the scan gave.

    A key stands below the guard, which so hears what it says. A Punctuate stands right above the guard, so that it too
    can tell where a rejected tuple stood; selects and projects between the two hand that on. Of several guards over one
    stream the first one reports. Applied once and last, for other rules would prune the columns that punctuations
    constrain. What plans share stays shared.
    """
    numbers, heard = count(1 + query.last), set[str]()
    done: dict[tuple[int, bool], Node] = {}

    def judged(node: Node) -> Guard:
        """The guard of a scan, with the stream's key below it if there is one: its promises are judged too."""
        (scan,) = node.find(Scan)
        stream, drops_rejects = replace(scan.stream, guarded=True), scan.stream.name in heard
        heard.add(stream.name)
        names = stream.layout.names
        whole: Node = Scan(stream, names, names, scan.memory, number=scan.number)
        if isinstance(node, Key):
            keys = tuple(tuple(_origins(scan)[name] for name in key) for key in node.keys)
            whole = replace(node, input=whole, keys=keys)
        return Guard(whole, stream, number=next(numbers), drops_rejects=drops_rejects)

    def guarded(node: Node, placed: bool = False) -> Node:
        """``placed``: the tuples that come out, of a part above one scan, say where they stood."""
        found = done.get((id(node), placed)) or judging(node, placed)
        if len(query.answers) > 1:
            done[id(node), placed] = found
        return found

    def judging(node: Node, placed: bool) -> Node:
        match node:
            case (Scan() as scan) | Key(Scan() as scan):
                below: Node = judged(node)
            case Punctuate((Scan() as scan) | Key(Scan() as scan), order):
                guard = judged(node.input)
                order, drops_rejects = (
                    _by_origin(order, _origins(scan)),
                    node.drops_rejects or guard.drops_rejects,
                )
                below = replace(node, input=guard, order=order, drops_rejects=drops_rejects)
            case Punctuate(x):
                below = node.over([guarded(x, placed=True)])
                return (
                    below if placed else Project(below, plain(below, node.schema.names), number=next(numbers))
                )
            case Select(x) if placed:
                return node.over([guarded(x, placed)])
            case Project(x, columns) if placed:
                below = guarded(x, placed)
                return replace(node, input=below, columns=(*columns, *_places(below, node.schema)))
            case Key(x):  # of several senders, of whom no guard knows all
                return replace(node, input=guarded(x), remembers=True)
            case _:
                return node.over([guarded(child) for child in node.inputs])
        columns = tuple(_columns(below, scan))
        if placed:
            columns += _places(below, scan.schema)
        return Project(below, columns, number=next(numbers))

    streams = tuple(replace(stream, guarded=True) for stream in query.streams)
    return replace(query.over(map(guarded, query.roots)), streams=streams)


def _places(node: Node, schema: Schema) -> tuple[tuple[str, Expression], ...]:
    """The columns that say where a node's tuples stood, but for those that a schema has anyway."""
    return plain(node, (a.name for a in ORIGIN if a.name not in schema))


def _origins(scan: Scan) -> dict[str, str]:
    """The stream's own name of each column of a scan."""
    return dict(zip(scan.names, scan.columns, strict=True))


def _by_origin(order: AccessOrder, origins: dict[str, str]) -> AccessOrder:
    """An access order in the stream's own names."""
    by = None if order.by is None else origins[order.by]
    return replace(order, attribute=origins[order.attribute], by=by)


def _columns(node: Node, scan: Scan) -> Iterator[tuple[str, Expression]]:
    """A scan's columns, read from a node that has all columns of the stream."""
    for name, (_, expression) in zip(scan.names, plain(node, scan.columns), strict=True):
        yield name, expression

"""Cutting a plan where its partitioning must change.

An *edge* is the stateless part above a scan; it runs inside the reader. A *fragment* is a part of the plan with
state; it runs once per shard, and all its stateful operators agree on partition attributes. Between an edge
or fragment and the next fragment lies an *exchange*. The last fragment's shards meet in the sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xmlpunct.engine.build import Receive
from xmlpunct.engine.plan import DupElim, GroupBy, Merge, Node, Project, Scan, Select, Unary, Union
from xmlpunct.operators.expression import Column
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Edge:
    """A stateless part above the scan of stream number ``stream``."""

    root: Node
    stream: int


@dataclass(frozen=True)
class Feed:
    """What an input port of a fragment reads: the edge or fragment number ``source``, by ``keys``."""

    from_edge: bool
    source: int
    schema: Schema
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Fragment:
    """A stateful part. Port i of ``root`` (a `Receive` leaf) reads ``feeds[i]``.

    ``single`` fragments run on one shard. ``keys`` are the output attributes that hold the partition values,
    in the order of the feeds' keys; empty if the output has lost one.
    """

    root: Node
    feeds: tuple[Feed, ...]
    single: bool
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Fragments:
    """A plan in parts. ``fragments`` are in the order data flows; the last one's output is the query's.

    Without a stateful operator there is none, and the one edge's output is the query's.
    """

    edges: tuple[Edge, ...]
    fragments: tuple[Fragment, ...]
    schema: Schema


def alignments(node: Node) -> list[tuple[tuple[str, ...], str]] | None:
    """By what a stateful node may be partitioned: for each choice the attribute of each input, and the output's.

    Any non-empty selection of these choices will do. An empty list: by nothing, it runs on one shard. None:
    the node has no state.
    """
    if isinstance(node, Scan | Select | Project | Receive):
        return None
    if isinstance(node, GroupBy):
        return [((key,), key) for key in node.keys]
    if isinstance(node, DupElim | Merge | Union):
        columns = zip(*(side.schema.names for side in node.inputs), strict=True)
        return list(zip(columns, node.schema.names, strict=True))
    raise TypeError(f"no partitioning for {type(node).__name__}")


@dataclass(frozen=True)
class _Exchange(Unary):
    """A cut in the plan: what stands below it is an edge or another fragment."""

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.input.schema


def cut(root: Node, streams: Sequence[str]) -> Fragments:
    """Cut a plan over the streams of these names into edges and fragments."""
    edges: list[Edge] = []
    fragments: list[Fragment] = []

    def edge(node: Node) -> int:
        (scan,) = (n for n in node.walk() if isinstance(n, Scan))
        edges.append(Edge(node, streams.index(scan.stream.name)))
        return len(edges) - 1

    def fragment(top: Node) -> int:
        feeds: list[Feed] = []

        def descend(node: Node, keys: tuple[str, ...] | None) -> Node:
            """``node`` with ports for its exchanges. ``keys``: the partition attributes, in its output's names;
            None above the topmost stateful node, which decides them."""
            if isinstance(node, _Exchange):
                below = node.input
                from_edge = _available(below) is None
                feeds.append(Feed(from_edge, (edge if from_edge else fragment)(below), below.schema, keys or ()))
                return Receive(len(feeds) - 1, below.schema)
            choices = alignments(node)
            if choices is None:
                (child,) = node.inputs
                return node.over([descend(child, keys and _below(node, keys))])
            if keys is None:
                keys = _ordered(node)
            names = dict((output, inputs) for inputs, output in choices)
            sides = [tuple(names[key][port] for key in keys) for port in range(len(node.inputs))]
            return node.over([descend(c, k) for c, k in zip(node.inputs, sides, strict=True)])

        new = descend(top, None)
        fragments.append(Fragment(new, tuple(feeds), not _available(_top_state(top)), _carried(top)))
        return len(fragments) - 1

    planned = _place(root)
    (edge if _available(planned) is None else fragment)(planned)
    return Fragments(tuple(edges), tuple(fragments), root.schema)


def _place(node: Node) -> Node:
    """Put an exchange between every edge and its fragment, and wherever partitionings do not agree."""
    children = [_place(child) for child in node.inputs]
    choices = alignments(node)
    if choices is None:
        return node.over(children)
    stateful = [a for a in map(_available, children) if a is not None]
    kept = node.over([_Exchange(c) if _available(c) is None else c for c in children])
    agree = bool(_available(kept)) if choices else not any(stateful)
    return kept if agree else node.over([_Exchange(c) for c in children])


def _available(node: Node) -> frozenset[str] | None:
    """The output attributes by which the part below may be partitioned; None: it has no state, so by any."""
    if isinstance(node, Scan | _Exchange):
        return None
    choices = alignments(node)
    below = [_available(child) for child in node.inputs]
    if choices is not None:
        return frozenset(
            output
            for names, output in choices
            if all(a is None or name in a for name, a in zip(names, below, strict=True))
        )
    (found,) = below
    if found is None or not isinstance(node, Project):
        return found
    return frozenset(n for n, e in node.columns if isinstance(e, Column) and e.name in found)


def _top_state(node: Node) -> Node:
    """The topmost stateful node of a part that has one."""
    while alignments(node) is None:
        (node,) = node.inputs
    return node


def _ordered(state: Node) -> tuple[str, ...]:
    available = _available(state) or frozenset()
    return tuple(name for name in state.schema.names if name in available)


def _below(node: Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """What partition attributes are called below a stateless node."""
    if not isinstance(node, Project):
        return keys
    sources = {name: e.name for name, e in node.columns if isinstance(e, Column)}
    return tuple(sources[key] for key in keys)


def _carried(top: Node) -> tuple[str, ...]:
    """What the partition attributes are called at the top; () if one was lost on the way."""
    if alignments(top) is not None:
        return _ordered(top)
    (child,) = top.inputs
    found = _carried(child)
    if not isinstance(top, Project):
        return found
    names = {e.name: name for name, e in reversed(top.columns) if isinstance(e, Column)}
    return tuple(names[key] for key in found) if all(key in names for key in found) else ()

"""Cutting a plan where its partitioning must change.

An *edge* is the stateless part above a scan; it runs inside the reader. A *fragment* is a part of the plan with
state; it runs once per shard, and all its stateful operators agree on partition attributes. Between an edge
or fragment and the next fragment lies an *exchange*. The last fragment's shards meet in the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from xmlpunct.engine.partition.carry_domains import carry_domains
from xmlpunct.engine.partition.partial_aggregation import with_partial_aggregation
from xmlpunct.engine.partition.ways import adds_up, with_ways
from xmlpunct.engine.plan import (
    Choice,
    Exchange,
    Guard,
    Merge,
    Node,
    Project,
    Punctuate,
    Receive,
    Scan,
    plain,
    walk,
)
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.punctuations.ownership import ONE_SHARD, Ways
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Edge:
    """A stateless part above the scan of stream number ``stream``."""

    root: Node
    stream: int


@dataclass(frozen=True)
class Feed:
    """What an input port of a fragment reads: the edge or fragment number ``source``, by ``keys``.

    ``whole``: each shard hears what is said of others' values too, since the fragment adds that up with its own.
    """

    from_edge: bool
    source: int
    schema: Schema
    keys: tuple[str, ...]
    whole: bool = False


@dataclass(frozen=True)
class Fragment:
    """A stateful part. Port i of ``root`` (a `Receive` leaf) reads ``feeds[i]``.

    ``single`` fragments run on one shard. ``keys`` are the ways to find the partition values in the output: each names
    an attribute per value, in the order of the feeds' keys, that has it or is null. There is no way if the output has
    lost a value.

    ``sifts``: an operator here or above says only punctuations that none of its tuples match. ``differs``: shards
    therefore say different punctuations. Where punctuations alone decide, all shards say the same at the same time.
    """

    root: Node
    feeds: tuple[Feed, ...]
    single: bool
    keys: tuple[tuple[str, ...], ...]
    sifts: bool = False
    differs: bool = False

    def ways(self, port: int, shards: int) -> Ways:
        """The ways by which a port's merge, on one of so many shards, must say what is implied; none if it need not."""
        if self.differs and shards > 1:
            return (self.feeds[port].keys,)
        return ONE_SHARD if self.sifts else ()


@dataclass(frozen=True)
class Fragments:
    """Plans in parts. ``fragments`` are in the order data flows; ``answers`` are the parts whose output is that of a
    plan, an edge where there is no stateful operator.
    """

    edges: tuple[Edge, ...]
    fragments: tuple[Fragment, ...]
    answers: tuple[Feed, ...]

    @property
    def levels(self) -> list[list[int]]:
        """The fragments by how many others, one behind the other, come before them."""
        levels: list[list[int]] = []
        depths: list[int] = []
        for number, fragment in enumerate(self.fragments):
            depths.append(1 + max((depths[f.source] for f in fragment.feeds if not f.from_edge), default=-1))
            levels += [[]] * (depths[-1] == len(levels))
            levels[depths[-1]] = [*levels[depths[-1]], number]
        return levels

    @property
    def schema(self) -> Schema:
        """The schema of the only answer."""
        (answer,) = self.answers
        return answer.schema


P = TypeVar("P", Edge, Fragment)


def cut(roots: Node | Sequence[Node], streams: Sequence[str], on: Rules = USUAL) -> Fragments:
    """Cut a plan, or several, over the streams of these names into edges and fragments.

    ``on`` are the optional rules that are on. An edge or a fragment that several plans have in common is one. A node
    that they share otherwise is in several parts: the first one reports what it rejects.
    """
    plans = [roots] if isinstance(roots, Node) else roots
    edges: list[Edge] = []
    fragments: list[Fragment] = []
    numbers = count(1 + max(node.number for node in walk(plans)))

    def place_of(part: P, parts: list[P]) -> int:
        """The place of a part among those there are, to which it is added if it is new."""
        if len(plans) > 1 and part in parts:
            return parts.index(part)
        parts.append(part)
        return len(parts) - 1

    def edge(node: Node) -> int:
        (scan,) = node.find(Scan)
        return place_of(Edge(_forgetful(node), streams.index(scan.stream.name)), edges)

    def fragment(top: Node) -> int:
        feeds: list[Feed] = []

        def descend(node: Node, keys: tuple[str, ...] | None) -> Node:
            """``node`` with ports for its exchanges. ``keys``: the partition attributes, in its output's names;
            None above the topmost stateful node, which decides them."""
            chosen = _chosen(node)
            if chosen is None:
                (child,) = node.inputs
                return node.over([descend(child, keys and _below(node, keys))])
            if keys is not None:
                by_output = {choice.output: choice for choice in chosen}
                chosen = [by_output[key] for key in keys]
            children: list[Node] = []
            for port, child in enumerate(node.inputs):
                side = tuple(choice.inputs[port] for choice in chosen)
                if isinstance(child, Exchange):
                    children.append(receive(child.input, side, node))
                else:
                    children.append(descend(child, side))
            return node.over(children)

        def receive(below: Node, keys: tuple[str, ...], reader: Node) -> Node:
            """A port for what is below an exchange."""
            from_edge = _available(below) is None
            given = carry_domains(below, reader) if from_edge else below
            feeds.append(Feed(from_edge, (edge if from_edge else fragment)(given), given.schema, keys))
            port = Receive(len(feeds) - 1, given.schema)
            if given.schema.names == below.schema.names or reader.by_name:
                return port  # the reader picks its columns by itself, and joins
            return Project(port, plain(below, below.schema.names), number=next(numbers))

        new = descend(top, None)
        single = not _chosen(_top_state(top))
        keys = [feed.keys for feed in feeds]
        whole = adds_up(new, keys)
        heard = tuple(replace(feed, whole=whole) for feed in feeds)
        return place_of(Fragment(new, heard, single, with_ways(new, keys).ways), fragments)

    answers = []
    for root in with_partial_aggregation(plans, numbers, on):
        planned = _place(root)
        from_edge = _available(planned) is None
        answers.append(Feed(from_edge, (edge if from_edge else fragment)(planned), root.schema, ()))
    seen = set[int]()
    if len(plans) > 1:
        edges = [replace(edge, root=_told_once(edge.root, seen, numbers)) for edge in edges]
        fragments = [replace(part, root=_told_once(part.root, seen, numbers)) for part in fragments]
    return Fragments(tuple(edges), _heard(fragments), tuple(answers))


def _told_once(root: Node, seen: set[int], numbers: Iterator[int]) -> Node:
    """A part whose nodes that are in an earlier one have new numbers, and drop what they reject."""
    own = set[int]()

    def tell(node: Node) -> Node:
        told = node.over([tell(below) for below in node.inputs])
        if not node.number:
            return told
        own.add(node.number)
        return replace(told, number=next(numbers), drops_rejects=True) if node.number in seen else told

    told = tell(root)
    seen |= own
    return told


def _forgetful(node: Node) -> Node:
    """A stateless part in the form that is rebuilt for every slice."""
    return node.over([_forgetful(below) for below in node.inputs]).forgetful()


def _place(node: Node, in_order: bool = False) -> Node:
    """Put an exchange between every edge and its fragment, and wherever partitionings do not agree.

    ``in_order``: what is above wants the order of the source, so all of the fragment runs on its one shard.
    """
    in_order = in_order or isinstance(node, Punctuate)
    children = [_place(child, in_order) for child in node.inputs]
    wanted = _choices(node)
    if wanted is None:
        return node.over(children)
    kept = node.over([Exchange(c) if _available(c) is None else c for c in children])
    below = [_top_state(c) for c in children if _available(c) is not None]
    # a guard may be partitioned as what is above it
    spread = [bool(_chosen(top)) for top in below if not isinstance(top, Guard)]
    if in_order or (isinstance(node, Merge) and len(spread) == len(children) and not any(spread)):
        agree = True  # a merge holds no tuples, so a fragment for each input would gain nothing
    else:
        agree = bool(_chosen(kept)) if wanted else not any(spread)
    return kept if agree else node.over([Exchange(c) for c in children])


def _choices(node: Node) -> list[Choice] | None:
    """The attributes by which a stateful node may be partitioned. An array is no value to find a shard by."""
    wanted = node.partition_choices()
    if wanted is None:
        return None
    schemas = [below.schema for below in node.inputs]
    return [
        choice
        for choice in wanted
        if all(schema[name].type.comparable for schema, name in zip(schemas, choice.inputs, strict=True))
    ]


def _chosen(node: Node) -> list[Choice] | None:
    """The choices of a stateful node that its inputs agree with; None: it has no state."""
    wanted = _choices(node)
    if wanted is None:
        return None
    below = [_available(child) for child in node.inputs]
    return [
        choice
        for choice in wanted
        if all(a is None or name in a for name, a in zip(choice.inputs, below, strict=True))
    ]


def _available(node: Node) -> frozenset[str] | None:
    """The output attributes by which the part below may be partitioned; None: it has no state, so by any."""
    if isinstance(node, Exchange) or not node.inputs:
        return None
    chosen = _chosen(node)
    if chosen is not None:
        return frozenset(choice.output for choice in chosen if choice.output is not None)
    (below,) = map(_available, node.inputs)
    if below is None:
        return None
    return frozenset(n for n in node.schema.names if any(source in below for _, source in node.carries(n)))


def _top_state(node: Node) -> Node:
    """The topmost stateful node of a part that has one."""
    while node.partition_choices() is None:
        (node,) = node.inputs
    return node


def _below(node: Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The names of partition attributes below a stateless node."""
    return tuple(source for key in keys for _, source in node.carries(key))


def _heard(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """The same fragments, told whether operators above them sift, and so what they must not leave unsaid."""
    told: dict[int, Fragment] = {}
    for number, fragment in reversed(list(enumerate(fragments))):
        above = [f for f in told.values() if (False, number) in [(x.from_edge, x.source) for x in f.feeds]]
        sifts = any(node.sifts for node in fragment.root.walk())
        differs = not fragment.single and (sifts or any(f.differs for f in above))
        root = with_ways(fragment.root, [x.keys for x in fragment.feeds]) if differs else fragment.root
        root = replace(root, sifted=any(f.sifts for f in above))
        told[number] = replace(fragment, root=root, differs=differs, sifts=sifts or root.sifted)
    return tuple(told[number] for number in range(len(fragments)))

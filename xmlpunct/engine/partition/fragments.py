"""Division of a plan into edges and fragments, at the points where its partitioning must change.

An *edge* is the stateless part above a scan. It runs inside the reader. A *fragment* is a stateful part of the plan.
It runs once per shard, and all its stateful operators agree on the shard key. An *exchange* connects an edge or
fragment to the next fragment. The sink merges the shards of the last fragment.
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
    Exchange,
    Guard,
    Merge,
    Node,
    PartitionChoice,
    Project,
    Punctuate,
    Receive,
    Scan,
    plain,
    walk,
)
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.schema import Schema


@dataclass(frozen=True)
class Edge:
    """A stateless part above the scan of stream number ``stream``."""

    root: Node
    stream: int


@dataclass(frozen=True)
class FragmentInput:
    """The input of a fragment's port: the edge or fragment number ``source``, with the shard key ``keys``.

    ``whole``: every shard receives all punctuations, also on other shards' values, because the fragment combines them.
    """

    from_edge: bool
    source: int
    schema: Schema
    keys: tuple[str, ...]
    whole: bool = False


@dataclass(frozen=True)
class Fragment:
    """A stateful part of a plan. Port i of ``root`` (a `Receive` leaf) reads ``feeds[i]``.

    ``single`` fragments run on one shard. ``keys`` are the `Ways` to find the shard key in the output, in the order of
    the feeds' keys. It is empty if the output lacks a shard key attribute.

    ``withholds``: this fragment or a consumer emits only punctuations that none of its retained tuples match. So its
    inputs must emit implied punctuations. ``shards_differ``: shards therefore emit different punctuations. Without such
    an operator, all shards emit the same punctuations.
    """

    root: Node
    feeds: tuple[FragmentInput, ...]
    single: bool
    keys: tuple[tuple[str, ...], ...]
    withholds: bool = False
    shards_differ: bool = False


@dataclass(frozen=True)
class Fragments:
    """Divided plans. ``fragments`` are in data flow order. ``answers`` are the parts that produce the plans' results.

    A plan without a stateful operator is one edge.
    """

    edges: tuple[Edge, ...]
    fragments: tuple[Fragment, ...]
    answers: tuple[FragmentInput, ...]

    @property
    def levels(self) -> list[list[int]]:
        """The fragment numbers by depth: the length of the longest chain of fragments before them."""
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


def cut_plan(roots: Node | Sequence[Node], streams: Sequence[str], on: Rules = USUAL) -> Fragments:
    """Divide one plan or several over the streams of these names into edges and fragments.

    ``on`` has the optional rules that are on. Plans share equal edges and fragments. Any other shared node is in
    several parts, and only the first part reports the tuples that it rejects.
    """
    plans = [roots] if isinstance(roots, Node) else roots
    edges: list[Edge] = []
    fragments: list[Fragment] = []
    numbers = count(1 + max(node.number for node in walk(plans)))

    def position_of(part: P, parts: list[P]) -> int:
        """The position of a part in ``parts``; a new part is appended."""
        if len(plans) > 1 and part in parts:
            return parts.index(part)
        parts.append(part)
        return len(parts) - 1

    def edge(node: Node) -> int:
        (scan,) = node.find(Scan)
        return position_of(Edge(_for_single_slices(node), streams.index(scan.stream.name)), edges)

    def fragment(top: Node) -> int:
        feeds: list[FragmentInput] = []

        def descend(node: Node, keys: tuple[str, ...] | None) -> Node:
            """``node`` with ports for its exchanges. ``keys``: the shard key, in the names of its output;
            None above the topmost stateful node, which determines it."""
            chosen = _agreed_choices(node)
            if chosen is None:
                (child,) = node.inputs
                return node.over([descend(child, keys and _input_keys(node, keys))])
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

        def receive(input_node: Node, keys: tuple[str, ...], reader: Node) -> Node:
            """A port for the input of an exchange."""
            from_edge = _available_keys(input_node) is None
            carried = carry_domains(input_node, reader) if from_edge else input_node
            feeds.append(
                FragmentInput(from_edge, (edge if from_edge else fragment)(carried), carried.schema, keys)
            )
            port = Receive(len(feeds) - 1, carried.schema)
            if carried.schema.names == input_node.schema.names or reader.by_name:
                return port  # the reader selects its columns by name
            return Project(port, plain(input_node, input_node.schema.names), number=next(numbers))

        new = descend(top, None)
        single = not _agreed_choices(_top_state(top))
        keys = [feed.keys for feed in feeds]
        is_whole = adds_up(new, keys)
        fragment_feeds = tuple(replace(feed, whole=is_whole) for feed in feeds)
        return position_of(Fragment(new, fragment_feeds, single, with_ways(new, keys).ways), fragments)

    answers = []
    for root in with_partial_aggregation(plans, numbers, on):
        root_with_exchanges = _with_exchanges(root)
        from_edge = _available_keys(root_with_exchanges) is None
        answers.append(
            FragmentInput(from_edge, (edge if from_edge else fragment)(root_with_exchanges), root.schema, ())
        )
    seen_numbers = set[int]()
    if len(plans) > 1:
        edges = [replace(edge, root=_report_once(edge.root, seen_numbers, numbers)) for edge in edges]
        fragments = [replace(part, root=_report_once(part.root, seen_numbers, numbers)) for part in fragments]
    return Fragments(tuple(edges), _with_implied(fragments), tuple(answers))


def _report_once(root: Node, seen_numbers: set[int], numbers: Iterator[int]) -> Node:
    """Renumber nodes that an earlier part contains, so that rejected tuples are reported only once."""
    part_numbers = set[int]()

    def renumber(node: Node) -> Node:
        new_node = node.over([renumber(child) for child in node.inputs])
        if not node.number:
            return new_node
        part_numbers.add(node.number)
        is_repeated = node.number in seen_numbers
        return replace(new_node, number=next(numbers), drops_rejects=True) if is_repeated else new_node

    new_node = renumber(root)
    seen_numbers |= part_numbers
    return new_node


def _for_single_slices(node: Node) -> Node:
    """The variant of a stateless part for operators that are created anew for every slice."""
    return node.over([_for_single_slices(child) for child in node.inputs]).forgetful()


def _with_exchanges(node: Node, in_order: bool = False) -> Node:
    """Insert an exchange between every edge and its fragment, and wherever shard keys disagree.

    ``in_order``: an operator above needs the source's order, so the whole fragment runs on one shard.
    """
    in_order = in_order or isinstance(node, Punctuate)
    children = [_with_exchanges(child, in_order) for child in node.inputs]
    choices = _choices(node)
    if choices is None:
        return node.over(children)
    with_exchanges = node.over([Exchange(c) if _available_keys(c) is None else c for c in children])
    below = [_top_state(c) for c in children if _available_keys(c) is not None]
    # a guard accepts the partitioning of its consumer
    spread = [bool(_agreed_choices(top)) for top in below if not isinstance(top, Guard)]
    if in_order or (isinstance(node, Merge) and len(spread) == len(children) and not any(spread)):
        agree = True  # a merge holds no tuples, so a fragment for each input would gain nothing
    else:
        agree = bool(_agreed_choices(with_exchanges)) if choices else not any(spread)
    return with_exchanges if agree else node.over([Exchange(c) for c in children])


def _choices(node: Node) -> list[PartitionChoice] | None:
    """The possible shard keys of a stateful node; None if it is stateless. Arrays cannot be shard keys."""
    choices = node.partition_choices()
    if choices is None:
        return None
    schemas = [child.schema for child in node.inputs]
    return [
        choice
        for choice in choices
        if all(schema[name].type.comparable for schema, name in zip(schemas, choice.inputs, strict=True))
    ]


def _agreed_choices(node: Node) -> list[PartitionChoice] | None:
    """The choices of a stateful node that its inputs allow; None if it is stateless."""
    choices = _choices(node)
    if choices is None:
        return None
    available = [_available_keys(child) for child in node.inputs]
    return [
        choice
        for choice in choices
        if all(a is None or name in a for name, a in zip(choice.inputs, available, strict=True))
    ]


def _available_keys(node: Node) -> frozenset[str] | None:
    """The output attributes by which a part may be partitioned; None if it is stateless, so that all are possible."""
    if isinstance(node, Exchange) or not node.inputs:
        return None
    choices = _agreed_choices(node)
    if choices is not None:
        return frozenset(choice.output for choice in choices if choice.output is not None)
    (available,) = map(_available_keys, node.inputs)
    if available is None:
        return None
    return frozenset(
        n for n in node.schema.names if any(source in available for _, source in node.carries(n))
    )


def _top_state(node: Node) -> Node:
    """The topmost stateful node of a part. The part must have one."""
    while node.partition_choices() is None:
        (node,) = node.inputs
    return node


def _input_keys(node: Node, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The names of shard key attributes in the input of a stateless node."""
    return tuple(source for key in keys for _, source in node.carries(key))


def _with_implied(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """The fragments with `Fragment.withholds` and `Fragment.shards_differ`, and the `Node.ways` that these require."""
    result: dict[int, Fragment] = {}
    for number, fragment in reversed(list(enumerate(fragments))):
        consumers = [
            f for f in result.values() if (False, number) in [(x.from_edge, x.source) for x in f.feeds]
        ]
        withholds = any(node.withholds for node in fragment.root.walk())
        shards_differ = not fragment.single and (withholds or any(f.shards_differ for f in consumers))
        root = with_ways(fragment.root, [x.keys for x in fragment.feeds]) if shards_differ else fragment.root
        root = replace(root, all_needed=any(f.withholds for f in consumers))
        withholds = withholds or root.all_needed
        result[number] = replace(fragment, root=root, shards_differ=shards_differ, withholds=withholds)
    return tuple(result[number] for number in range(len(fragments)))

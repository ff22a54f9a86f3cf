"""Verdicts before a run: does each operator unblock and stay bounded, and which promises of streams would mend it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from xmlpunct.base.errors import UsageError
from xmlpunct.engine.plan import Node, Query, Scan
from xmlpunct.engine.plan.join_trees import join_trees
from xmlpunct.engine.plan.outlooks import outlooks
from xmlpunct.engine.plan.schemes import THE_END, Need, Outlook, Scheme, either, smallest
from xmlpunct.engine.sql.planner.declaration import clause, identifier

MOST_TRIALS = 20_000
"""Maximum number of assignments of promises to try, which bounds the time."""
WIDEST = 3
"""Maximum number of attributes that a promise to try constrains."""


def verdicts(query: Query) -> Iterator[tuple[Node, str]]:
    """The verdict on each node of a plan, in words.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1') PUNCTUATED BY (hour);
    ...     SELECT temp, COUNT(*) AS n FROM s GROUP BY temp''')
    >>> [f"{node.name}: {verdict}" for node, verdict in verdicts(query)]
    ['scan: fine', 'group-by: blocks for ever', 'project: fine']
    """
    by_node = outlooks(*query.roots)
    for node in query.walk():
        yield node, verdict(node, by_node[id(node)])


def verdict(node: Node, outlook: Outlook) -> str:
    """The verdict on a node, in words."""
    if outlook.fate is not None:
        return str(outlook.fate)
    if outlook.nulls:
        return f"fine but for nulls in {', '.join(sorted(_attributes(node, outlook)))}"
    waited = [scan.stream for need in outlook.needs for scan in _awaited(node, need)]
    ends = ", ".join(dict.fromkeys(stream.declared for stream in waited if stream.ends))
    many = len({stream.declared for stream in waited}) > 1
    remarks = [f"{ends} {'end' if many else 'ends'}"] if ends else []
    return f"fine ({'; '.join(remarks)})" if remarks else ": ".join(filter(None, ["fine", outlook.remark]))


def _awaited(node: Node, need: Need) -> Iterator[Scan]:
    """The streams whose ends an operator waits for."""
    port = need.port if need.by == THE_END else None if need.by else need.retained
    if port is not None:
        yield from node.inputs[port].find(Scan)


def _attributes(node: Node, outlook: Outlook) -> set[str]:
    """The stream attributes whose nulls are never closed, or else the plan's names for them."""
    names = set[str]()
    for need in outlook.needs:
        for name in need.nulls_left:
            source = node if need.jointly else node.inputs[need.port]  # whose columns the need names
            names.update(attribute for _, attribute in source.stream_attributes(name) or [("", name)])
    return names


def faults(query: Query) -> list[str]:
    """The operators that block or grow for ever, in words."""
    by_node = outlooks(*query.roots)
    bad = [(node, by_node[id(node)].fate) for node in query.walk()]
    return [f"#{node.number} {node.name} {fate}" for node, fate in bad if fate is not None]


def refuse_unsafe(query: Query) -> None:
    """Refuse a query with an operator that blocks or grows for ever. Raises `UsageError`."""
    if bad := faults(query):
        lines = [f"  {line}" for line in [*bad, *mending(query).lines()]]
        raise UsageError(
            "--safe: this query may never emit all its results, or may grow without bound", *lines
        )


# Promises that mend a plan


@dataclass(frozen=True)
class Promise:
    """A promise that a stream could make: a scheme, or the order of one attribute."""

    stream: str
    scheme: Scheme
    ordered: bool = False
    declared_schemes: tuple[tuple[str, ...], ...] = ()
    """The schemes that the stream declares already."""

    @property
    def outlook(self) -> Outlook:
        """The outlook of a stream with this promise."""
        schemes = smallest([self.scheme])
        return Outlook(schemes, schemes, self.scheme if self.ordered else Scheme())


@dataclass(frozen=True)
class Mending:
    """The fewest promises that make every verdict fine, except on nodes that no scheme mends."""

    promises: tuple[Promise, ...]
    hopeless: tuple[Node, ...]
    at_once: tuple[Node, ...] = ()
    """Joins that no order of two-way joins keeps bounded, though one join of all their inputs would be."""

    def lines(self) -> Iterator[str]:
        """A line for each stream with a promise to make, and for each node that no promise helps."""
        for stream in dict.fromkeys(promise.stream for promise in self.promises):
            stream_promises = [promise for promise in self.promises if promise.stream == stream]
            if schemes := [p.scheme for p in stream_promises if not p.ordered]:
                yield f"{stream}: {clause(smallest([*schemes, *stream_promises[0].declared_schemes]))}"
            for promise in stream_promises:
                if promise.ordered:
                    yield f"{stream}: PUNCTUATE ORDER BY {', '.join(map(identifier, promise.scheme))}"
        for node in self.at_once:
            yield f"#{node.number} {node.name}: no order of its joins stays bounded, but one join of all inputs would"
        for node in self.hopeless:
            yield f"no scheme helps #{node.number} {node.name}: only the end of its input does"


def mending(query: Query) -> Mending:
    """The promises that the streams would have to make.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1');
    ...     SELECT hour, COUNT(*) AS n FROM s GROUP BY hour''')
    >>> [sorted(promise.scheme) for promise in mending(query).promises]
    [['hour']]
    """
    nodes, present_outlooks = list(query.walk()), outlooks(*query.roots)
    choices = list(_candidates(nodes, present_outlooks))
    best = outlooks(*query.roots, assumed=_assumed(choices))
    hopeless = tuple(node for node in nodes if best[id(node)].fate is not None)
    mended = {id(node) for node in nodes} - {id(node) for node in hopeless}

    def worst(chosen: Sequence[Promise]) -> int:
        """0: each verdict that can be fine is fine; 1: some are fine but for nulls; 2: some are not fine."""
        by_node = outlooks(*query.roots, assumed=_assumed(chosen))
        if any(by_node[it].fate is not None for it in mended):
            return 2
        return int(any(by_node[it].nulls - best[it].nulls for it in mended))

    at_once = tuple(
        tree.root
        for root in query.roots
        for tree in join_trees(root)
        if any(present_outlooks[id(n)].fate is not None for n in tree.joins)
        and tree.is_safe_at_once([present_outlooks[id(n)] for n in tree.inputs])
    )
    return Mending(_fewest(choices, worst), hopeless, at_once)


def _fewest(choices: Sequence[Promise], worst: Callable[[Sequence[Promise]], int]) -> tuple[Promise, ...]:
    """The promises with the fewest attributes that mend the plan, preferably without remaining nulls."""
    second: tuple[Promise, ...] | None = None
    for chosen in islice(_by_size(choices), MOST_TRIALS):
        grade = worst(chosen)
        if grade == 0:
            return chosen
        if grade == 1 and second is None:
            second = chosen
    if second is not None:
        return second
    remaining = list(choices)  # too many to try: drop the unnecessary ones
    for promise in sorted(choices, key=lambda p: -len(p.scheme)):
        fewer = [other for other in remaining if other != promise]
        if worst(fewer) < 2:
            remaining = fewer
    return tuple(remaining)


def _by_size(choices: Sequence[Promise]) -> Iterator[tuple[Promise, ...]]:
    """Selections of promises, by the number of their attributes."""

    def fill(first: int, left: int) -> Iterator[tuple[Promise, ...]]:
        if left == 0:
            yield ()
        for i in range(first, len(choices)):
            if (size := len(choices[i].scheme)) <= left:
                yield from ((choices[i], *selection) for selection in fill(i + 1, left - size))

    for size in range(1 + sum(len(promise.scheme) for promise in choices)):
        yield from fill(0, size)


def _assumed(promises: Sequence[Promise]) -> dict[str, Outlook]:
    by_stream: dict[str, list[Outlook]] = {}
    for promise in promises:
        by_stream.setdefault(promise.stream, []).append(promise.outlook)
    return {stream: either(outlooks_) for stream, outlooks_ in by_stream.items()}


def _candidates(nodes: Sequence[Node], by_node: Mapping[int, Outlook]) -> Iterator[Promise]:
    """The distinct promises that could satisfy a need: sets of the stream attributes that its columns come from."""
    scans = (node for node in nodes if isinstance(node, Scan))
    streams = {scan.stream.declared: scan.stream for scan in scans if not scan.stream.ends}
    candidates: dict[Promise, None] = {}
    for node in nodes:
        for need in by_node[id(node)].needs:
            below = node.inputs[need.port]
            traced: dict[str, dict[str, bool]] = {}
            for name in (*need.within, *need.prefixes):
                for stream_name, attribute in below.stream_attributes(name):
                    stream = streams.get(stream_name.partition("#")[0])
                    if stream is not None:
                        ordered = traced.setdefault(stream.declared, {})
                        ordered[attribute] = ordered.get(attribute, True) and name not in need.within
                        if name in need.prefixes or attribute == stream.timestamp:
                            candidates[Promise(stream.declared, Scheme([attribute]), True)] = None
            for name, attributes in traced.items():
                unordered = [a for a, only_in_order in attributes.items() if not only_in_order]
                for size in range(1, 1 + WIDEST):
                    for chosen in combinations(unordered, size):
                        candidates[Promise(name, Scheme(chosen), False, streams[name].promised or ())] = None
    return iter(sorted(candidates, key=lambda p: (len(p.scheme), p.ordered)))

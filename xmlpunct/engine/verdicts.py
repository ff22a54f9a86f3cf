"""Will it unblock, will it stay bounded? What can be said of a plan before it runs, and what would mend it."""

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
"""So many assignments of promises are tried for the fewest; this bounds time."""
WIDEST = 3
"""A promise that is tried constrains at most so many attributes."""


def verdicts(query: Query) -> Iterator[tuple[Node, str]]:
    """For each node of a plan its verdict, in words.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1') PUNCTUATED BY (hour);
    ...     SELECT temp, COUNT(*) AS n FROM s GROUP BY temp''')
    >>> [f"{node.name}: {verdict}" for node, verdict in verdicts(query)]
    ['scan: fine', 'group-by: blocks for ever', 'project: fine']
    """
    found = outlooks(*query.roots)
    for node in query.walk():
        yield node, verdict(node, found[id(node)])


def verdict(node: Node, outlook: Outlook) -> str:
    """What becomes of a node, in words."""
    if outlook.fate is not None:
        return str(outlook.fate)
    if outlook.nulls:
        return f"fine but for nulls in {', '.join(sorted(_attributes(node, outlook)))}"
    waited = [scan.stream for need in outlook.needs for scan in _awaited(node, need)]
    ends = ", ".join(dict.fromkeys(stream.declared for stream in waited if stream.ends))
    many = len({stream.declared for stream in waited}) > 1
    told = [f"{ends} {'end' if many else 'ends'}"] if ends else []
    return f"fine ({'; '.join(told)})" if told else ": ".join(filter(None, ["fine", outlook.told]))


def _awaited(node: Node, need: Need) -> Iterator[Scan]:
    """The streams whose ends an operator waits for."""
    port = need.port if need.by == THE_END else None if need.by else need.retained
    if port is not None:
        yield from node.inputs[port].find(Scan)


def _attributes(node: Node, outlook: Outlook) -> set[str]:
    """The attributes of streams whose nulls are left, or else the plan's names for them."""
    found = set[str]()
    for need in outlook.needs:
        for name in need.nulls_left:
            found.update(
                attribute for _, attribute in node.inputs[need.port].stream_attributes(name) or [("", name)]
            )
    return found


def faults(query: Query) -> list[str]:
    """The operators that block or grow for ever, in words."""
    found = outlooks(*query.roots)
    bad = [(node, found[id(node)].fate) for node in query.walk()]
    return [f"#{node.number} {node.name} {fate}" for node, fate in bad if fate is not None]


def refuse_unsafe(query: Query) -> None:
    """Refuse a query of which some operator blocks or grows for ever. Raises `UsageError`."""
    if found := faults(query):
        lines = [f"  {line}" for line in [*found, *mending(query).lines()]]
        raise UsageError(
            "--safe: this query may never emit all its results, or may grow without bound", *lines
        )


# What would mend it


@dataclass(frozen=True)
class Promise:
    """A promise that a stream could make: a scheme, or the order of one attribute."""

    stream: str
    scheme: Scheme
    ordered: bool = False
    beside: tuple[tuple[str, ...], ...] = ()
    """The schemes that the stream declares already."""

    @property
    def outlook(self) -> Outlook:
        """What it says of the stream."""
        schemes = smallest([self.scheme])
        return Outlook(schemes, schemes, self.scheme if self.ordered else Scheme())


@dataclass(frozen=True)
class Mending:
    """The fewest promises that make every verdict fine but those of the nodes that no scheme mends."""

    promises: tuple[Promise, ...]
    hopeless: tuple[Node, ...]
    at_once: tuple[Node, ...] = ()
    """Joins that no order of two-way joins keeps bounded, though one join of all their inputs would be."""

    def lines(self) -> Iterator[str]:
        """A line for each stream that would have to promise something, and for each node that no promise helps."""
        for stream in dict.fromkeys(promise.stream for promise in self.promises):
            own = [promise for promise in self.promises if promise.stream == stream]
            if schemes := [p.scheme for p in own if not p.ordered]:
                yield f"{stream}: {clause(smallest([*schemes, *own[0].beside]))}"
            for promise in own:
                if promise.ordered:
                    yield f"{stream}: PUNCTUATE ORDER BY {', '.join(map(identifier, promise.scheme))}"
        for node in self.at_once:
            yield f"#{node.number} {node.name}: no order of its joins stays bounded, but one join of all inputs would"
        for node in self.hopeless:
            yield f"no scheme helps #{node.number} {node.name}: only the end of its input does"


def mending(query: Query) -> Mending:
    """What the streams would have to promise.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1');
    ...     SELECT hour, COUNT(*) AS n FROM s GROUP BY hour''')
    >>> [sorted(promise.scheme) for promise in mending(query).promises]
    [['hour']]
    """
    nodes, now = list(query.walk()), outlooks(*query.roots)
    choices = list(_candidates(nodes, now))
    best = outlooks(*query.roots, assumed=_assumed(choices))
    hopeless = tuple(node for node in nodes if best[id(node)].fate is not None)
    mended = {id(node) for node in nodes} - {id(node) for node in hopeless}

    def worst(chosen: Sequence[Promise]) -> int:
        """0: all that can be is fine; 1: but for nulls; 2: something is not."""
        found = outlooks(*query.roots, assumed=_assumed(chosen))
        if any(found[it].fate is not None for it in mended):
            return 2
        return int(any(found[it].nulls - best[it].nulls for it in mended))

    at_once = tuple(
        tree.root
        for root in query.roots
        for tree in join_trees(root)
        if any(now[id(n)].fate is not None for n in tree.joins)
        and tree.is_safe_at_once([now[id(n)] for n in tree.inputs])
    )
    return Mending(_fewest(choices, worst), hopeless, at_once)


def _fewest(choices: Sequence[Promise], worst: Callable[[Sequence[Promise]], int]) -> tuple[Promise, ...]:
    """The promises that mend, fewest attributes first; better such ones as leave no nulls."""
    second: tuple[Promise, ...] | None = None
    for chosen in islice(_by_size(choices), MOST_TRIALS):
        grade = worst(chosen)
        if grade == 0:
            return chosen
        if grade == 1 and second is None:
            second = chosen
    if second is not None:
        return second
    kept = list(choices)  # there are too many to try: leave out what can be
    for promise in sorted(choices, key=lambda p: -len(p.scheme)):
        rest = [other for other in kept if other != promise]
        if worst(rest) < 2:
            kept = rest
    return tuple(kept)


def _by_size(choices: Sequence[Promise]) -> Iterator[tuple[Promise, ...]]:
    """Selections of promises, by the number of their attributes."""

    def fill(place: int, left: int) -> Iterator[tuple[Promise, ...]]:
        if left == 0:
            yield ()
        for i in range(place, len(choices)):
            if (size := len(choices[i].scheme)) <= left:
                yield from ((choices[i], *rest) for rest in fill(i + 1, left - size))

    for size in range(1 + sum(len(promise.scheme) for promise in choices)):
        yield from fill(0, size)


def _assumed(promises: Sequence[Promise]) -> dict[str, Outlook]:
    told: dict[str, list[Outlook]] = {}
    for promise in promises:
        told.setdefault(promise.stream, []).append(promise.outlook)
    return {stream: either(said) for stream, said in told.items()}


def _candidates(nodes: Sequence[Node], found: Mapping[int, Outlook]) -> Iterator[Promise]:
    """The promises that could serve some need, each once: sets of the attributes that its columns come from."""
    scans = (node for node in nodes if isinstance(node, Scan))
    streams = {scan.stream.declared: scan.stream for scan in scans if not scan.stream.ends}
    seen: dict[Promise, None] = {}
    for node in nodes:
        for need in found[id(node)].needs:
            below = node.inputs[need.port]
            traced: dict[str, dict[str, bool]] = {}
            for name in (*need.within, *need.prefixes):
                for told, attribute in below.stream_attributes(name):
                    stream = streams.get(told.partition("#")[0])
                    if stream is not None:
                        of = traced.setdefault(stream.declared, {})
                        of[attribute] = of.get(attribute, True) and name not in need.within
                        if name in need.prefixes or attribute == stream.timestamp:
                            seen[Promise(stream.declared, Scheme([attribute]), True)] = None
            for name, attributes in traced.items():
                freely = [attribute for attribute, only_in_order in attributes.items() if not only_in_order]
                for size in range(1, 1 + WIDEST):
                    for chosen in combinations(freely, size):
                        seen[Promise(name, Scheme(chosen), beside=streams[name].promised or ())] = None
    return iter(sorted(seen, key=lambda p: (len(p.scheme), p.ordered)))

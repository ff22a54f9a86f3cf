"""Verdicts before a run: does each operator unblock and stay bounded, and which promises of streams would mend it?"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import read_element
from xmlpunct.connectors.contract import is_endless, paths_of
from xmlpunct.engine.plan import Node, Query, Scan, Stream
from xmlpunct.engine.plan.join_trees import join_trees
from xmlpunct.engine.plan.outlooks import ComputedOutlooks, outlooks
from xmlpunct.engine.plan.schemes import THE_END, Fate, Need, Outlook, Scheme, either, smallest
from xmlpunct.engine.sql.planner.declaration import clause, identifier, string_literal
from xmlpunct.engine.sql.planner.file_tables import READ_XML, FileRemedy
from xmlpunct.firehose.spec import name_parts
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import DATE, TIMESTAMP

MOST_OUTLOOKS = 3_000
"""Maximum number of outlooks of nodes for the assignments of promises to try, which bounds the time to about 1 s."""
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


NEEDS_PUNCTUATIONS = "PUNCTUATED BY needs a sender that punctuates: without its punctuations, nothing changes"


@dataclass(frozen=True)
class Promise:
    """A promise for a stream: punctuations with a scheme, which its sender must emit, or the order of one attribute."""

    stream: str
    scheme: Scheme
    ordered: bool = False
    declared_schemes: tuple[tuple[str, ...], ...] = ()
    """The schemes that the stream declares already."""
    table: str = ""
    """For a source in FROM without a declaration: its SQL text and an alias."""

    @property
    def outlook(self) -> Outlook:
        """The outlook of a stream with this promise."""
        schemes = smallest([self.scheme])
        return Outlook(schemes, schemes, self.scheme if self.ordered else Scheme())


@dataclass(frozen=True)
class Mending:
    """The fewest promises that make every verdict fine, except on nodes that no scheme mends.

    Orders are preferred, because they need no punctuation of a sender. ``alternative`` has schemes only.
    """

    promises: tuple[Promise, ...]
    hopeless: tuple[Node, ...]
    at_once: tuple[Node, ...] = ()
    """Joins that no order of two-way joins keeps bounded, though one join of all their inputs would be."""
    alternative: tuple[Promise, ...] = ()

    def lines(self) -> Iterator[str]:
        """A line for each stream with a promise to make, and for each node that no promise helps."""
        yield from (f"{stream}: {text}" for stream, text in clauses(self.promises).items())
        if self.alternative:
            texts = [f"{stream}: {text}" for stream, text in clauses(self.alternative).items()]
            yield f"or, if the sender punctuates, {'; '.join(texts)}"
        elif not all(promise.ordered for promise in self.promises):
            yield NEEDS_PUNCTUATIONS
        for node in self.at_once:
            yield f"#{node.number} {node.name}: no order of its joins stays bounded, but one join of all inputs would"
        for node in self.hopeless:
            yield f"no scheme helps #{node.number} {node.name}: only the end of its input does"


def clauses(promises: Sequence[Promise]) -> dict[str, str]:
    """For each stream, the clauses of its CREATE STREAM that make these promises."""
    texts: dict[str, str] = {}
    for stream in dict.fromkeys(promise.stream for promise in promises):
        of_stream = [promise for promise in promises if promise.stream == stream]
        schemes = [promise.scheme for promise in of_stream if not promise.ordered]
        parts = [clause(smallest([*schemes, *of_stream[0].declared_schemes]))] if schemes else []
        orders = [f"PUNCTUATE ORDER BY {identifier(next(iter(p.scheme)))}" for p in of_stream if p.ordered]
        if table := of_stream[0].table:
            parts = ["CREATE STREAM, as xmlpunct infer writes it, with", *parts] if parts else [table]
        texts[stream] = " ".join(parts + orders)
    return texts


class _Trials:
    """Outlooks of a plan with different promises. Outlooks of nodes are computed once for the same promises below."""

    def __init__(self, query: Query) -> None:
        self._roots = query.roots
        self._computed: ComputedOutlooks = {}
        self._of_streams: dict[tuple[Promise, ...], Outlook] = {}

    def outlooks(self, promises: Sequence[Promise]) -> dict[int, Outlook]:
        """The outlook of each node, by its id, if the streams make these promises."""
        by_stream: dict[str, tuple[Promise, ...]] = {}
        for promise in promises:
            by_stream[promise.stream] = (*by_stream.get(promise.stream, ()), promise)
        for of_stream in by_stream.values():
            if of_stream not in self._of_streams:
                self._of_streams[of_stream] = either([promise.outlook for promise in of_stream])
        assumed = {stream: self._of_streams[of_stream] for stream, of_stream in by_stream.items()}
        return outlooks(*self._roots, assumed=assumed, computed=self._computed)


def mending(query: Query, with_alternative: bool = True) -> Mending:
    """The promises that the streams would have to make; with `Mending.alternative` only if it is wanted.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1');
    ...     SELECT hour, COUNT(*) AS n FROM s GROUP BY hour''')
    >>> [sorted(promise.scheme) for promise in mending(query).promises]
    [['hour']]
    """
    nodes, present_outlooks = list(query.walk()), outlooks(*query.roots)
    choices = list(_candidates(nodes, present_outlooks))
    trials = _Trials(query)
    best = trials.outlooks(choices)
    hopeless = tuple(node for node in nodes if best[id(node)].fate is not None)
    mended = _emitting(query.roots, best) - {id(node) for node in hopeless}

    def worst(chosen: Sequence[Promise]) -> int:
        """0: each verdict that can be fine is fine; 1: some are fine but for nulls; 2: some are not fine."""
        by_node = trials.outlooks(chosen)
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
    max_trials = MOST_OUTLOOKS // len(nodes)
    orders = [promise for promise in choices if promise.ordered]
    schemes = [promise for promise in choices if not promise.ordered]
    if worst(()) == 0 or worst(orders):
        return Mending(_fewest(choices, worst, max_trials), hopeless, at_once)
    has_alternative = with_alternative and not worst(schemes)
    alternative = _fewest(schemes, worst, max_trials) if has_alternative else ()
    return Mending(_fewest(orders, worst, max_trials), hopeless, at_once, alternative)


def _emitting(roots: Sequence[Node], by_node: Mapping[int, Outlook]) -> set[int]:
    """The ids of the nodes whose results do not all end at a node that blocks for ever."""
    emitting, stack = set[int](), list(roots)
    while stack:
        node = stack.pop()
        if id(node) not in emitting:
            emitting.add(id(node))
            stack += node.inputs if by_node[id(node)].fate is not Fate.BLOCKS else ()
    return emitting


def _fewest(
    choices: Sequence[Promise], worst: Callable[[Sequence[Promise]], int], max_trials: int
) -> tuple[Promise, ...]:
    """The promises with the fewest attributes that mend the plan, preferably without remaining nulls.

    After ``max_trials``, the smallest choice is unknown: the result has no unnecessary promise. More promises never
    make a plan worse, so streams without whose promises it is not mended have a promise in every choice.
    """
    if worst(()) == 0:
        return ()
    remaining = list(choices)
    for promise in reversed(choices):  # the widest first
        fewer = _without(promise, remaining)
        if worst(fewer) < 2:
            remaining = fewer
    least = 0
    for stream in {promise.stream for promise in remaining}:
        if worst([promise for promise in choices if promise.stream != stream]) == 2:
            least += min(len(promise.scheme) for promise in choices if promise.stream == stream)
    if sum(len(promise.scheme) for promise in remaining) == least and worst(remaining) == 0:
        return tuple(remaining)
    second: tuple[Promise, ...] | None = None
    for chosen in islice(_by_size(choices, least), max_trials):
        grade = worst(chosen)
        if grade == 0:
            return chosen
        if grade == 1 and second is None:
            second = chosen
    return second or tuple(remaining)


def _without(promise: Promise, promises: Sequence[Promise]) -> list[Promise]:
    return [other for other in promises if other != promise]


def _by_size(choices: Sequence[Promise], least: int) -> Iterator[tuple[Promise, ...]]:
    """Selections of promises, by the number of their attributes, from ``least`` on."""

    def fill(first: int, left: int) -> Iterator[tuple[Promise, ...]]:
        if left == 0:
            yield ()
        for i in range(first, len(choices)):
            if (size := len(choices[i].scheme)) <= left:
                yield from ((choices[i], *selection) for selection in fill(i + 1, left - size))

    for size in range(least, 1 + sum(len(promise.scheme) for promise in choices)):
        yield from fill(0, size)


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
                        needs_order = name in need.prefixes or attribute == stream.timestamp
                        if stream.order is None and (needs_order or _is_measure(stream.schema[attribute])):
                            candidates[_promise(stream, [attribute], ordered=True)] = None
            for name, attributes in traced.items():
                unordered = [a for a, only_in_order in attributes.items() if not only_in_order]
                for size in range(1, 1 + WIDEST):
                    for chosen in combinations(unordered, size):
                        candidates[_promise(streams[name], chosen)] = None
    return iter(sorted(candidates, key=lambda p: (len(p.scheme), not p.ordered)))


def _is_measure(attribute: Attribute) -> bool:
    """True if tuples may come in the order of an attribute: of a number or a time, not of a name."""
    return attribute.type.numeric or attribute.type in (DATE, TIMESTAMP)


def _promise(stream: Stream, attributes: Collection[str], *, ordered: bool = False) -> Promise:
    table = ""
    if isinstance(stream.remedy, FileRemedy):
        alias = identifier(name_parts(read_element(stream.element)[-1])[1])
        is_call = stream.name.startswith(f"{READ_XML}(")
        table = f"(SELECT * FROM {stream.name if is_call else string_literal(stream.name)}) AS {alias}"
    return Promise(stream.declared, Scheme(attributes), ordered, stream.promised or (), table)


# Faults of endless sources, reported when a run starts


@dataclass(frozen=True)
class EndlessFault:
    """An operator that blocks or grows for ever because sources do not end, and the promises that would mend it."""

    node: Node
    fate: Fate
    streams: tuple[Stream, ...]
    promises: tuple[Promise, ...]

    def __str__(self) -> str:
        names = " and ".join(stream.declared for stream in self.streams)
        until = f"{self.fate} on {names}"
        if all(paths_of(str(stream.source)) for stream in self.streams):  # pipes and growing files may end
            ends = "ends" if len(self.streams) == 1 else "end"
            until = f"{self.fate.removesuffix(' for ever')} until {names} {ends}"
        effect = "would unblock it" if self.fate is Fate.BLOCKS else "would bound its state"
        remedy = _remedy(clauses(self.promises), names) if self.promises else "no punctuation"
        condition = "" if all(promise.ordered for promise in self.promises) else ", if the sender punctuates"
        return f"{self.node.name} {until}; {remedy} {effect}{condition}"


def endless_faults(query: Query) -> list[EndlessFault]:
    """The operators of a query that block or grow for ever, if their results reach the output.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (hour INT, temp INT) WITH (source = 'tcp://h:1');
    ...     SELECT hour, COUNT(*) AS n FROM s GROUP BY hour''')
    >>> print(*endless_faults(query))
    group-by blocks for ever on s; PUNCTUATE ORDER BY hour would unblock it
    """
    by_node = outlooks(*query.roots)
    faulty = [
        (node, fate, streams)
        for node in query.walk()
        if (fate := by_node[id(node)].fate) and (streams := _endless_streams(node, by_node[id(node)].needs))
    ]
    if not faulty:
        return []
    mended = mending(query, with_alternative=False)
    needed = _needed_for([node for node, _, _ in faulty], query, mended.promises)
    faults_of = [EndlessFault(*parts, promises) for parts, promises in zip(faulty, needed, strict=True)]
    return [fault for fault in faults_of if fault.promises or fault.node in mended.hopeless]


def _endless_streams(node: Node, needs: Iterable[Need]) -> tuple[Stream, ...]:
    """The streams that do not end by themselves, on which needs fail."""
    failing = [need for need in needs if need.fails]
    inputs = [
        below for need in failing for below in (node.inputs if need.jointly else [node.inputs[need.port]])
    ]
    names = {scan.stream.name for below in inputs for scan in below.find(Scan)}
    streams = {scan.stream.declared: scan.stream for scan in node.find(Scan) if scan.stream.name in names}
    return tuple(stream for stream in streams.values() if stream.source and _is_awaited(stream.source))


def _is_awaited(source: str) -> bool:
    """True if a source may never end. Standard input may be a file, or closed."""
    if source != "-":
        return is_endless(source)
    try:
        return sys.stdin is not None and not stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:
        return False


def _needed_for(
    nodes: Sequence[Node], query: Query, promises: Sequence[Promise]
) -> Iterator[tuple[Promise, ...]]:
    """For each node, the fewest of the promises that mend it; none if all of them do not."""
    trials = _Trials(query)

    def fates(chosen: Sequence[Promise]) -> list[Fate | None]:
        by_node = trials.outlooks(chosen)
        return [by_node[id(node)].fate for node in nodes]

    fates_without = [fates(_without(promise, promises)) for promise in promises]
    for number, is_hopeless in enumerate(fates(promises)):
        needed = [
            p for p, without in zip(promises, fates_without, strict=True) if without[number] is not None
        ]
        if not is_hopeless and fates(needed)[number] is not None:  # no promise is necessary alone
            needed = [*promises]
            for promise in promises:
                if fates(fewer := _without(promise, needed))[number] is None:
                    needed = fewer
        yield () if is_hopeless else tuple(needed)


def _remedy(texts: Mapping[str, str], names: str) -> str:
    """The clauses of streams in words; without the streams, if these have the ``names`` in the sentence already."""
    streams_of: dict[str, list[str]] = {}
    for stream, text in texts.items():
        streams_of.setdefault(text, []).append(stream)
    if len(texts) == 1 and names in texts:
        return texts[names]
    return " and ".join(f"{text} on {' and on '.join(streams)}" for text, streams in streams_of.items())

"""Queries: answers, their plans, and the streams that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.stream_nodes import Guard, Stream
from xmlpunct.engine.plan.tuple_nodes import Sort
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.engine.run.run_options import Destination


class Opened(dict[str, Source]):
    """Sources that planning has opened, by their specification. They are not pickled."""

    def take(self, spec: str) -> Source:
        """The source of a specification: the opened one, or a newly opened one for each run.

        A source that can be read only once is kept, and refuses a second reading. Raises `SourceError`.
        """
        source = self.pop(spec, None) or open_source(spec)
        if source.once:
            self[spec] = source
        return source

    def __reduce__(self) -> tuple[type[Opened], tuple[()]]:
        return Opened, ()


@dataclass(frozen=True)
class Answer:
    """The result of one SELECT of a query: the root of its plan, and its destination.

    A CREATE SINK has a ``name`` and a ``destination``. The plain SELECT has neither: option ``-o`` has its destination.
    """

    root: Node
    name: str = ""
    destination: Destination | None = None

    @property
    def is_sorted(self) -> bool:
        """True if the query has ORDER BY."""
        return any(self.root.find(Sort))

    def __str__(self) -> str:
        return f"sink {self.name}" if self.name else "the result"


@dataclass(frozen=True)
class Query:
    """A query: its answers, with numbered plan nodes, and the streams that it reads, in order of first use.

    Plans may share nodes. ``rules`` are the optional rules that are on. ``reads`` are the sources and other files in
    its statements, used or not: pairs of a role and a name. ``inferred`` are inferred schemas, in the form of a
    checkpoint; ``opened`` are the sources whose beginning inference has read, and that can be read only once.
    ``has_labels``: unnamed columns of the SELECT without a sink have the names of DuckDB.
    """

    answers: tuple[Answer, ...]
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()
    inferred: Mapping[str, list[Any]] = field(default_factory=dict, compare=False, repr=False)
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)
    has_labels: bool = False

    @classmethod
    def of(cls, root: Node, streams: Iterable[Stream], sql: str = "") -> Query:
        """The query with one answer."""
        return cls((Answer(root),), tuple(streams), sql)

    @property
    def root(self) -> Node:
        """The root of the plan, if there is one answer."""
        (answer,) = self.answers
        return answer.root

    def refuse_sinks(self) -> None:
        """Raise `UsageError` for a CREATE SINK, if the caller takes the results itself."""
        if named := [answer.name for answer in self.answers if answer.name]:
            raise UsageError(
                f"CREATE SINK {named[0]}: a query in Python has the results of one SELECT. Leave out the sinks and "
                "write the results in Python, or use xmlpunct run"
            )

    @property
    def roots(self) -> tuple[Node, ...]:
        """The roots of the answers' plans."""
        return tuple(answer.root for answer in self.answers)

    def over(self, roots: Iterable[Node]) -> Query:
        """The same query with other plans."""
        pairs = zip(self.answers, roots, strict=True)
        return replace(self, answers=tuple(replace(answer, root=root) for answer, root in pairs))

    def walk(self) -> Iterator[Node]:
        """All nodes of the plans, each once, inputs first."""
        return walk(self.roots)

    @property
    def last(self) -> int:
        """The largest node number."""
        return max(node.number for node in self.walk())

    @property
    def guards(self) -> dict[int, str]:
        """The guards that report rejects: number, and declared name of the stream."""
        guards = (node for node in self.walk() if isinstance(node, Guard))
        return {guard.number: guard.stream.declared for guard in guards if not guard.drops_rejects}

    @property
    def sinks(self) -> dict[int, tuple[str, ...]]:
        """Sink names by node number; empty if no sink is named."""
        sink_names: dict[int, tuple[str, ...]] = {}
        for answer in self.answers if any(answer.name for answer in self.answers) else ():
            for node in answer.root.walk():
                sink_names[node.number] = (*sink_names.get(node.number, ()), answer.name)
        return {number: tuple(dict.fromkeys(names)) for number, names in sink_names.items()}


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """All nodes of several plans, each once, inputs first."""
    visited = set[int]()
    for root in roots:
        for node in root.walk():
            if id(node) not in visited:
                visited.add(id(node))
                yield node


def numbered(root: Node) -> Node:
    """A plan with its nodes numbered 1, 2, ... in the order of `Node.walk`."""
    (result,) = numbered_together([root])
    return result


def numbered_together(roots: Sequence[Node]) -> tuple[Node, ...]:
    """Plans with their nodes numbered 1, 2, ... in the order of `walk`.

    Equal subtrees of several plans are shared, with the same numbers, if both plans need the same punctuations of
    them.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (x INT, y INT) WITH (source = 's.xml');
    ...     CREATE SINK twice WITH (output = 'out.xml') AS SELECT DISTINCT x FROM s WHERE y > 0;
    ...     SELECT COUNT(*) AS n FROM (SELECT DISTINCT x FROM s WHERE y > 0)''')
    >>> [[node.number for node in answer.root.walk()] for answer in query.answers]
    [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]
    """
    numbers, shared = count(1), dict[tuple[Node, bool, bool], Node]()

    def number(node: Node, all_needed: bool, new_nodes: dict[tuple[Node, bool, bool], Node]) -> Node:
        """``all_needed``: an operator above needs implied punctuations (see `Node.withholds`)."""
        over = node.over([number(below, all_needed or node.withholds, new_nodes) for below in node.inputs])
        if len(roots) == 1:
            return replace(over, number=next(numbers))
        key = replace(over, number=0), all_needed, node.drops_rejects
        if key not in shared:
            new_nodes[key] = replace(over, number=next(numbers))
            return new_nodes[key]
        return shared[key]

    numbered_roots = []
    for root in roots:
        new_nodes: dict[tuple[Node, bool, bool], Node] = {}
        numbered_roots.append(number(root, False, new_nodes))
        shared.update(new_nodes)
    return tuple(numbered_roots)

"""A whole query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.open_source import Source, open_source
from xmlpunct.engine.plan.node import Node
from xmlpunct.engine.plan.stream_nodes import Guard, Stream
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.engine.run.run_options import Destination


class Opened(dict[str, Source]):
    """Sources that were opened while the query was planned, by what names them. They stay in this process."""

    def take(self, spec: str) -> Source:
        """The source that a text names: one that was opened, or it is opened now, for each run anew.

        What can be read once only stays, and refuses to be read again. Raises `SourceError`.
        """
        source = self.pop(spec, None) or open_source(spec)
        if source.once:
            self[spec] = source
        return source

    def __reduce__(self) -> tuple[type[Opened], tuple[()]]:
        return Opened, ()


@dataclass(frozen=True)
class Answer:
    """What one of a query's SELECTs gives: the root of its plan, and where that goes.

    A CREATE SINK has a ``name`` and says its ``destination``. The SELECT beside them has neither: ``-o`` says it.
    """

    root: Node
    name: str = ""
    destination: Destination | None = None

    @property
    def ordered(self) -> bool:
        """Whether results come in an order that the query asks for: no operator above its sort breaks it."""
        return self.root.ordered

    def __str__(self) -> str:
        return f"sink {self.name}" if self.name else "the result"


@dataclass(frozen=True)
class Query:
    """A whole query: its answers, whose plans' nodes are numbered, and the streams it reads, in order of first use.

    Plans may share nodes. ``rules`` are the optional rules that are on. ``reads`` are the sources and other files that
    its statements name, used or not: pairs of what it is, and its name. ``inferred`` is what was inferred of some
    streams, as a checkpoint keeps it; ``opened`` are the sources of which that took the beginning and that can be read
    once only.
    """

    answers: tuple[Answer, ...]
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()
    inferred: Mapping[str, list[Any]] = field(default_factory=dict, compare=False, repr=False)
    opened: Opened = field(default_factory=Opened, compare=False, repr=False)

    @classmethod
    def of(cls, root: Node, streams: Iterable[Stream], sql: str = "") -> Query:
        """The query that gives one answer."""
        return cls((Answer(root),), tuple(streams), sql)

    @property
    def root(self) -> Node:
        """The root of the plan, if there is one answer."""
        (answer,) = self.answers
        return answer.root

    def refuse_sinks(self) -> None:
        """Raise `UsageError` if there is a CREATE SINK, and who runs the query takes its results themselves."""
        if named := [answer.name for answer in self.answers if answer.name]:
            raise UsageError(
                f"CREATE SINK {named[0]}: here a query gives the results of one SELECT. Leave the sinks out and write "
                "the results from here, or run the file with xmlpunct run"
            )

    @property
    def roots(self) -> tuple[Node, ...]:
        """The roots of the answers' plans."""
        return tuple(answer.root for answer in self.answers)

    def over(self, roots: Iterable[Node]) -> Query:
        """The same query with other plans for its answers."""
        pairs = zip(self.answers, roots, strict=True)
        return replace(self, answers=tuple(replace(answer, root=root) for answer, root in pairs))

    def walk(self) -> Iterator[Node]:
        """All nodes of the plans, each once, after those it reads from."""
        return walk(self.roots)

    @property
    def last(self) -> int:
        """The greatest number of a node."""
        return max(node.number for node in self.walk())

    @property
    def guards(self) -> dict[int, str]:
        """The numbers of the guards that report what they reject, each with the stream's declared name."""
        guards = (node for node in self.walk() if isinstance(node, Guard))
        return {guard.number: guard.stream.declared for guard in guards if not guard.drops_rejects}

    @property
    def sinks(self) -> dict[int, tuple[str, ...]]:
        """By the number of a node the names of the sinks it serves; nothing where no sink has a name."""
        found: dict[int, tuple[str, ...]] = {}
        for answer in self.answers if any(answer.name for answer in self.answers) else ():
            for node in answer.root.walk():
                found[node.number] = (*found.get(node.number, ()), answer.name)
        return {number: tuple(dict.fromkeys(names)) for number, names in found.items()}


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """All nodes of several plans, each once, after those it reads from."""
    seen = set[int]()
    for root in roots:
        for node in root.walk():
            if id(node) not in seen:
                seen.add(id(node))
                yield node


def numbered(root: Node) -> Node:
    """A plan with its nodes numbered 1, 2, ... in the order of `Node.walk`."""
    (found,) = numbered_together([root])
    return found


def numbered_together(roots: Sequence[Node]) -> tuple[Node, ...]:
    """Plans with their nodes numbered 1, 2, ... in the order of `walk`.

    What a plan has in common with one before it is one part of both, with the numbers it has there, if both ask for
    the same punctuations of it.

    >>> from xmlpunct.engine.sql import plan
    >>> query = plan('''
    ...     CREATE STREAM s (x INT, y INT) WITH (source = 's.xml');
    ...     CREATE SINK twice WITH (output = 'out.xml') AS SELECT DISTINCT x FROM s WHERE y > 0;
    ...     SELECT COUNT(*) AS n FROM (SELECT DISTINCT x FROM s WHERE y > 0)''')
    >>> [[node.number for node in answer.root.walk()] for answer in query.answers]
    [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]
    """
    numbers, shared = count(1), dict[tuple[Node, bool, bool], Node]()

    def number(node: Node, sifted: bool, fresh: dict[tuple[Node, bool, bool], Node]) -> Node:
        """``sifted``: whether an operator above asks for more punctuations (see `Node.sifts`)."""
        over = node.over([number(below, sifted or node.sifts, fresh) for below in node.inputs])
        if len(roots) == 1:
            return replace(over, number=next(numbers))
        key = replace(over, number=0), sifted, node.drops_rejects
        if key not in shared:
            fresh[key] = replace(over, number=next(numbers))
            return fresh[key]
        return shared[key]

    found = []
    for root in roots:
        fresh: dict[tuple[Node, bool, bool], Node] = {}
        found.append(number(root, False, fresh))
        shared.update(fresh)
    return tuple(found)

"""What every node of a plan can be asked.

Planning, partitioning, execution and `explain` ask the node, and need not know its kind. The defaults are safe for any
operator: it runs on one shard, reads whole tuples, and no rule moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import chain, count
from typing import ClassVar, TypeVar

from xmlpunct.engine.plan.schemes import Outlook
from xmlpunct.expressions.expression import Column
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types.cut_points import hull
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, intersect

N = TypeVar("N", bound="Node")


class Lasting(IntEnum):
    """How long a tuple of a relation stays at most: one instant, a number of them, or perhaps for ever."""

    AN_INSTANT = 0
    A_WHILE = 1
    FOR_EVER = 2


Place = tuple[str, str]
"""A stream and one of its attributes."""

Constraint = tuple[int, str, Pattern]
"""An input's port, one of its columns, and a pattern for that."""

Holders = list[set[str]]
"""For each partition value the attributes that hold it or are null."""


@dataclass(frozen=True)
class Choice:
    """An attribute by which a stateful node may be partitioned.

    ``inputs`` are its names in each input, ``output`` its name in the output (None: behind this node tuples of one
    value may be on several shards).
    """

    inputs: tuple[str, ...]
    output: str | None


@dataclass(frozen=True)
class Node:
    """A node of the plan. ``inputs`` are the nodes it reads from, by port; users know it by its ``number``."""

    number: int = field(default=0, kw_only=True)
    ways: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True, compare=False)
    """On several shards, the ways to find the partition values in the output, where an operator needs them."""
    sifted: bool = field(default=False, kw_only=True, compare=False)
    """Of a fragment's root: whether an operator above may hold back its punctuations, since tuples match them."""
    drops_rejects: bool = field(default=False, kw_only=True, compare=False)
    """True if its operator drops its rejects, because another node of the plan reports the same tuples."""

    by_position: ClassVar[bool] = False
    """Whether it matches its inputs' columns by position, so that they are exactly those it `needs`."""
    by_name: ClassVar[bool] = False
    """Whether it picks its input's columns by name, and drops the others."""
    sifts: ClassVar[bool] = False
    """Whether it says a punctuation only once no retained tuple matches it, so that shards say it at different
    times."""
    waiting: ClassVar[str] = ""
    """The part of its state (`EVERYTHING`: any) with what waits for punctuations to be released; empty if nothing
    does."""
    ahead: ClassVar[str] = ""
    """What it does ahead of an exchange, in words; empty if it is not there."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def over(self, inputs: Sequence[Node]) -> Node:
        """The same node, reading from others."""
        return self

    def operator(self) -> Operator:
        """A new operator that does what this node says."""
        raise NotImplementedError

    @cached_property
    def schema(self) -> Schema:
        """The schema of the node's output."""
        for below in self.walk():
            if below is not self:
                _ = below.schema  # inputs first, so that no deep recursion asks for them
        return self.operator().schema

    def walk(self) -> Iterator[Node]:
        """All nodes of the tree, each after those it reads from."""
        waiting: list[tuple[Node, bool]] = [(self, False)]
        while waiting:
            node, complete = waiting.pop()
            if complete:
                yield node
            else:
                waiting += [(node, True), *((below, False) for below in reversed(node.inputs))]

    def find(self, kind: type[N]) -> Iterator[N]:
        """All nodes of one kind in the tree, in the order of `walk`."""
        return (node for node in self.walk() if isinstance(node, kind))

    # In words

    @property
    def name(self) -> str:
        """The name of its operator."""
        return self.operator().name

    @property
    def parameters(self) -> str:
        """The parameters of its operator, in words."""
        return ""

    def describe(self) -> str:
        """Its operator and parameters."""
        return f"{self.name} {self.parameters}".rstrip()

    @property
    def unblocked_by(self) -> str:
        """Which punctuations release its results or its state, in words; empty if nothing waits."""
        return ""

    # What it does with tuples

    @property
    def can_fail(self) -> bool:
        """Whether it may reject a tuple, or a group."""
        return False

    @property
    def ends_only(self) -> bool:
        """Whether nothing but the end of an input releases anything."""
        return False

    @property
    def ordered(self) -> bool:
        """Whether its tuples come in an order that the query asks for."""
        return False

    @property
    def lasting(self) -> Lasting:
        """How long a tuple of a relation stays at most."""
        return Lasting.FOR_EVER

    @property
    def distinct_key(self) -> frozenset[str] | None:
        """Columns in which no two output tuples are equal; None if none are known.

        Without any column, there is one tuple.
        """
        return None

    @property
    def repeats(self) -> bool:
        """Whether repeated input changes nothing but repeats output. What can fail rejects each tuple that comes."""
        return False

    def ignores_duplicates(self, port: int) -> bool:
        """Whether the output is the same however often a tuple comes in on a port."""
        return False

    def narrowed(self, used: Collection[str]) -> Node:
        """The same node without those computed columns that are not ``used``; it keeps at least one column."""
        return self

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        """For each input the columns from which these columns of the output are made."""
        return [below.schema.names for below in self.inputs]

    # How its columns, and punctuations about them, follow from its inputs'

    def carries(self, name: str) -> list[tuple[int, str]]:
        """The columns of its inputs, by port, that a column of the output is a copy of; none if it is computed."""
        return []

    def follows(self, name: str) -> list[tuple[int, str]]:
        """The columns of its inputs that must all be closed to close a value of this output column."""
        return self.carries(name)

    def is_constrained(self, name: str) -> bool:
        """Whether a punctuation can speak about a column of the output; not if it is computed."""
        followed = self.follows(name)
        return bool(followed) and all(self.inputs[port].is_constrained(column) for port, column in followed)

    def places(self, name: str) -> list[Place]:
        """The attributes of streams, one per scan below, by which punctuations speak about a column of the output.

        There are none if it is computed.
        """
        below = [self.inputs[port].places(column) for port, column in self.follows(name)]
        return together(below) if all(below) else []

    def asks(self, wanted: Punctuation) -> list[Punctuation]:
        """For each input what it has to promise so that this node can promise ``wanted``: the inverse of prop.

        It may be more than is needed, and is never less. What a node with two inputs retains may ask for more.
        """
        return asked(self, self.sources(wanted))

    def every_ask(self, wanted: Punctuation) -> list[list[Punctuation]]:
        """`asks`, as often as this node needs a punctuation of an input for what it promises as one."""
        return [self.asks(wanted)]

    def sources(self, wanted: Punctuation) -> Iterable[Constraint]:
        """The patterns of a punctuation of the output as patterns of the columns that these follow.

        Of changes only prefixes are promised.
        """
        for name, pattern in constraints(wanted):
            for port, source in self.follows(name):
                if AT in (name, source):
                    pattern = hull(self.schema[name].type, [pattern], below=True)
                yield port, source, pattern

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        """For each input the columns on which punctuations are of use (None: all), given those of the output."""
        return [None] * len(self.inputs)

    def carriers(self, port: int) -> dict[str, list[str]]:
        """For each column of an input that the output has, its columns there."""
        found: dict[str, list[str]] = {}
        for name in self.schema.names:
            for of, source in self.carries(name):
                if of == port:
                    found.setdefault(source, []).append(name)
        return found

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        """What can be said of it before it runs, given that of its inputs: what it offers, and what it needs."""
        return Outlook()

    # How it runs

    def partition_choices(self) -> list[Choice] | None:
        """By what its operator may be partitioned: any non-empty selection of these.

        An empty list: it runs on one shard. None: it has no state.
        """
        return []

    @property
    def stateless(self) -> bool:
        """Whether this node and all below it have no state, so that they can run inside the reader."""
        return all(node.partition_choices() is None for node in self.walk())

    def forgetful(self) -> Node:
        """The same node as it runs where it is rebuilt for every slice."""
        return self

    def with_domains(self) -> Node:
        """The same node, whose output keeps the attributes with a declared domain that it would drop."""
        return self

    def holders(self, below: Sequence[Holders]) -> Holders:
        """The attributes of the output that hold the partition values, given those of its inputs."""
        sources = {name: {c for port, c in self.carries(name) if port == 0} for name in self.schema.names}
        return [{name for name, source in sources.items() if source & names} for names in below[0]]

    def adds_up(self, below: Sequence[Holders]) -> bool:
        """Whether it adds up what is said of several partition values, given the attributes that hold them below."""
        return False


@dataclass(frozen=True)
class Unary(Node):
    """A node that reads from one other. By default its columns are the input's."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0])

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        return below[0].renamed(self.carriers(0))


@dataclass(frozen=True)
class Binary(Node):
    """A node that reads from two others. By default a column is a copy of the input's of its name."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0 if name in self.left.schema else 1, name)]


def constraints(p: Punctuation) -> Iterator[tuple[str, Pattern]]:
    """The attributes that a punctuation constrains, with their patterns."""
    return ((p.schema.names[i], p.patterns[i]) for i in p.constrained)


def asked(node: Node, wanted: Iterable[Constraint]) -> list[Punctuation]:
    """For each input of a node the punctuation with these patterns."""
    patterns: list[list[Pattern]] = [[WILDCARD] * len(below.schema) for below in node.inputs]
    for port, name, pattern in wanted:
        place = node.inputs[port].schema.index(name)
        both = intersect(patterns[port][place], pattern)
        if (
            both is not EMPTY or pattern is EMPTY
        ):  # one of two suffices, and who is to hear it compares them apart
            patterns[port][place] = both
    return [Punctuation(below.schema, of) for below, of in zip(node.inputs, patterns, strict=True)]


def together(places: Iterable[Iterable[Place]]) -> list[Place]:
    """All of several places, each once."""
    return list(dict.fromkeys(place for some in places for place in some))


def column(node: Node, name: str) -> Column:
    """The expression that reads a column of a node's output."""
    attribute = node.schema[name]
    return Column(attribute.type, attribute.nullable, name)


def plain(node: Node, names: Iterable[str]) -> tuple[tuple[str, Column], ...]:
    """The columns of a project that passes some attributes of a node on."""
    return tuple((name, column(node, name)) for name in names)


def is_changing(node: Node) -> bool:
    """Whether a node gives the changes of a relation."""
    return AT in node.schema


def timing(node: Node) -> tuple[tuple[str, Column], ...]:
    """The columns of a project that make changes of changes; none if a node gives no changes."""
    return plain(node, (AT, DIFF)) if is_changing(node) else ()


def attributes(node: Node) -> list[str]:
    """The columns of a node but for those that make its tuples changes."""
    return [name for name in node.schema.names if name not in (AT, DIFF)]


def fresh(name: str, taken: Container[str]) -> str:
    """A name for another column, like ``name``, that is not taken."""
    numbers = (f"{name}#{number}" for number in count(2))
    return next(n for n in chain([name], numbers) if n not in taken)


def lost_domains(schema: Schema, kept: Iterable[str], taken: Iterable[str]) -> list[tuple[str, str]]:
    """The attributes with a domain that are not kept, each with a new name that is not taken."""
    kept, names = set(kept), set(taken)
    lost: list[tuple[str, str]] = []
    for attribute in schema:
        if attribute.domain is not WILDCARD and attribute.name not in kept:
            lost.append((attribute.name, fresh(attribute.name, names)))
            names.add(lost[-1][1])
    return lost

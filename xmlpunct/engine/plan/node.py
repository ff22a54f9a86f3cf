"""What every node of a plan can be asked.

Whoever plans, cuts, builds or explains asks the node, and need not know its kind. What a node does not override is
right for any operator: it runs on one shard, reads whole tuples, and no rule moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from typing import ClassVar, TypeVar

from xmlpunct.expressions.expression import Column
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.pattern import WILDCARD
from xmlpunct.schema import Schema

N = TypeVar("N", bound="Node")

Place = tuple[str, str]
"""A stream and one of its attributes."""

Holders = list[set[str]]
"""For each partition value the attributes that have it or are null."""


@dataclass(frozen=True)
class Choice:
    """An attribute by which a stateful node may be partitioned.

    ``inputs`` is what each input calls it, ``output`` what the output does (None: after this node tuples of
    one value may be on several shards).
    """

    inputs: tuple[str, ...]
    output: str | None


@dataclass(frozen=True)
class Node:
    """A node of the plan. ``inputs`` are the nodes it reads from, by port; ``number`` is what people call it."""

    number: int = field(default=0, kw_only=True)
    ways: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True, compare=False)
    """On several shards, the ways to find the partition values in the output, if it matters to know."""
    sifted: bool = field(default=False, kw_only=True, compare=False)
    """Of a fragment's root: whether an operator above it may hold back what it says, since tuples match that."""

    by_position: ClassVar[bool] = False
    """Whether it matches its inputs' columns by position, so that these are exactly what it `needs`."""
    by_name: ClassVar[bool] = False
    """Whether it picks its input's columns by name, and lets go of the others."""
    sifts: ClassVar[bool] = False
    """Whether it says a punctuation only once no tuple that it retains matches it: one shard may say what another
    cannot yet."""
    ends_only: ClassVar[bool] = False
    """Whether nothing but the end of an input releases anything."""
    ahead: ClassVar[str] = ""
    """What it does ahead of an exchange, in words."""

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
                _ = below.schema  # before an operator asks for it, and so on down
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
        """What people call its operator."""
        return self.operator().name

    @property
    def parameters(self) -> str:
        """What its operator is told, in words."""
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
    def ordered(self) -> bool:
        """Whether its tuples come in an order that the query asks for."""
        return False

    @property
    def distinct_key(self) -> frozenset[str] | None:
        """Columns in which no two output tuples are alike, or None if nobody knows any.

        No column at all means that there is one tuple.
        """
        return None

    @property
    def repeats(self) -> bool:
        """Whether repeated input makes no more than repeated output: what fails rejects each tuple that comes."""
        return False

    def ignores_duplicates(self, port: int) -> bool:
        """Whether the same comes out, however often a tuple comes in on a port."""
        return False

    def narrowed(self, used: Collection[str]) -> Node:
        """The same node without columns that it computes and that are not ``used``; it keeps one at least."""
        return self

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        """For each input the columns that these columns of the output take."""
        return [below.schema.names for below in self.inputs]

    # What becomes of its inputs' columns, and of what punctuations say of them

    def carries(self, name: str) -> list[tuple[int, str]]:
        """The columns of its inputs, by port, that a column of the output is a copy of; none if it is computed."""
        return []

    def follows(self, name: str) -> list[tuple[int, str]]:
        """The columns of its inputs that have to be closed, all of them, to close a value of this output column."""
        return self.carries(name)

    def is_constrained(self, name: str) -> bool:
        """Whether a punctuation can speak about a column of the output: no aggregate's, nothing else computed."""
        followed = self.follows(name)
        return bool(followed) and all(self.inputs[port].is_constrained(column) for port, column in followed)

    def places(self, name: str) -> list[Place]:
        """The attributes of streams, one per scan below, by which punctuations speak about a column of the output.

        There are none if it is computed.
        """
        below = [self.inputs[port].places(column) for port, column in self.follows(name)]
        return together(below) if all(below) else []

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        """For each input the columns on which punctuations are of use (None: all), given those of the output."""
        return [None] * len(self.inputs)

    # How it runs

    def partition_choices(self) -> list[Choice] | None:
        """By what its operator may be partitioned: any non-empty selection of these will do.

        An empty list: by nothing, it runs on one shard. None: it has no state.
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
        """The same node, whose output also has the attributes with a declared domain that it would leave out."""
        return self

    def holders(self, below: Sequence[Holders]) -> Holders:
        """The attributes of the output that have the partition values, given those of its inputs."""
        sources = {name: {c for port, c in self.carries(name) if port == 0} for name in self.schema.names}
        return [{name for name, source in sources.items() if source & found} for found in below[0]]


@dataclass(frozen=True)
class Unary(Node):
    """A node that reads from one other. Its columns are the input's, if it says nothing else."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0])

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)]


@dataclass(frozen=True)
class Binary(Node):
    """A node that reads from two others. A column is a copy of that of its name, if it says nothing else."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0 if name in self.left.schema else 1, name)]


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


def fresh(name: str, taken: Container[str]) -> str:
    """A name for another column, like ``name``, that is not taken."""
    numbers = (f"{name}#{number}" for number in count(2))
    return next(n for n in chain([name], numbers) if n not in taken)


def lost_domains(schema: Schema, kept: Iterable[str], taken: Iterable[str]) -> list[tuple[str, str]]:
    """The attributes with a domain that are not kept, and what they can be called where names are taken."""
    kept, names = set(kept), set(taken)
    lost: list[tuple[str, str]] = []
    for attribute in schema:
        if attribute.domain is not WILDCARD and attribute.name not in kept:
            lost.append((attribute.name, fresh(attribute.name, names)))
            names.add(lost[-1][1])
    return lost

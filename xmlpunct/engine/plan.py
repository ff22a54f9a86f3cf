"""The plan: a tree of nodes, each of which knows the operator it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from xmlpunct import operators as ops
from xmlpunct.engine.rule_options import USUAL, Rules
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.guard import guarded, marked
from xmlpunct.operators.join import PRESERVED
from xmlpunct.operators.punctuate import AccessOrder
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice


@dataclass(frozen=True)
class Stream:
    """A declared stream: ``source`` as written in WITH or given by ``-s``, relative to the current directory.

    ``order`` is what PUNCTUATE says of its access order, if anything. ``sender`` says which of its source's
    senders this is the stream of, counted from 1; 0 where there is one only, or they are yet to be told apart.
    The tuples of a ``guarded`` one carry what a guard needs.
    """

    name: str
    schema: Schema
    element: str
    source: str | None
    order: AccessOrder | None = None
    sender: int = 0
    guarded: bool = False

    def of_sender(self, number: int) -> Stream:
        """What one of several senders gives: ``bids#2``, of ``bids``."""
        return replace(self, name=f"{self.name}#{number}", sender=number)

    @property
    def declared(self) -> str:
        """The name it was declared by."""
        return self.name.removesuffix(f"#{self.sender}") if self.sender else self.name

    @property
    def layout(self) -> Schema:
        """The columns of its tuples where they are scanned."""
        return guarded(self.schema) if self.guarded else self.schema

    def taken(self, given: Slice) -> Slice:
        """A slice that was read, as a scan takes it."""
        return marked(given, self.schema) if self.guarded else given


@dataclass(frozen=True)
class Node:
    """A node of the plan. ``inputs`` are the nodes it reads from, by port; ``number`` is what people call it."""

    number: int = field(default=0, kw_only=True)
    ways: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True, compare=False)
    """On several shards, the ways to find the partition values in the output, if it matters to know."""
    sifted: bool = field(default=False, kw_only=True, compare=False)
    """Of a fragment's root: whether an operator above it may hold back what it says, since tuples match that."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def over(self, inputs: Sequence[Node]) -> Node:
        """The same node, reading from others."""
        return self

    def operator(self) -> ops.Operator:
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


@dataclass(frozen=True)
class Scan(Node):
    """Reads a stream. ``columns`` are the attributes read, ``names`` what they are called from here on.

    Without ``memory`` punctuations pass one by one only: this scan is rebuilt for every slice.
    """

    stream: Stream
    columns: tuple[str, ...]
    names: tuple[str, ...]
    memory: bool = True

    def operator(self) -> ops.Operator:
        found = ops.Scan.rename(self.stream.layout, self.columns, self.names, self.memory)
        found.ends = not self.stream.guarded  # what comes too late is for the guard to say
        return found


@dataclass(frozen=True)
class Unary(Node):
    """A node that reads from one other."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, input=inputs[0])


@dataclass(frozen=True)
class Select(Unary):
    """Keeps the tuples for which ``predicate`` is true."""

    predicate: Expression

    def operator(self) -> ops.Operator:
        return ops.Select(self.input.schema, self.predicate)


@dataclass(frozen=True)
class Project(Unary):
    """Computes new tuples: for each column its name and its expression.

    ``derived`` says of columns of the input which monotone expressions over other columns they are: this project
    is the upper half of a split one, and has state. Without ``memory`` there is none.
    """

    columns: tuple[tuple[str, Expression], ...]
    derived: tuple[tuple[str, Expression], ...] = ()
    memory: bool = True

    def operator(self) -> ops.Operator:
        return ops.Project(self.input.schema, self.columns, self.derived, self.memory)


@dataclass(frozen=True)
class Punctuate(Unary):
    """Promises what a stream's access order allows, and drops what comes too late."""

    order: AccessOrder
    quiet: bool = False

    def operator(self) -> ops.Operator:
        found = ops.Punctuate(self.input.schema, self.order)
        found.quiet = self.quiet
        return found


@dataclass(frozen=True)
class Guard(Unary):
    """Rejects the late tuples of a guarded stream. A ``quiet`` one says nothing of them, for another one does."""

    stream: Stream
    quiet: bool = False

    def operator(self) -> ops.Operator:
        found = ops.Guard(self.stream.schema)
        found.quiet = self.quiet
        return found


@dataclass(frozen=True)
class DupElim(Unary):
    """Drops tuples that were there before."""

    def operator(self) -> ops.Operator:
        return ops.DupElim(self.input.schema)


@dataclass(frozen=True)
class GroupBy(Unary):
    """Groups by the columns ``keys`` (none: one group) and aggregates.

    With ``whole``, its input are partial aggregates of tuples of that schema.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    whole: Schema | None = None

    def operator(self) -> ops.Operator:
        return ops.GroupBy(self.input.schema, self.keys, self.aggregates, self.whole)


@dataclass(frozen=True)
class PartialGroupBy(Unary):
    """Aggregates slice by slice, for a `GroupBy` behind an exchange.

    Punctuations may speak about the columns ``kept`` too, which tuples have no more.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    kept: tuple[str, ...]

    def operator(self) -> ops.Operator:
        return ops.PartialGroupBy(self.input.schema, self.keys, self.aggregates, self.kept)


@dataclass(frozen=True)
class PartialDupElim(Unary):
    """Drops what comes twice in a slice."""

    def operator(self) -> ops.Operator:
        return ops.PartialDupElim(self.input.schema)


@dataclass(frozen=True)
class Sort(Unary):
    """All tuples in order of ``keys``, ties in order of the other columns."""

    keys: tuple[ops.SortKey, ...]

    def operator(self) -> ops.Operator:
        return ops.Sort(self.input.schema, self.keys)


@dataclass(frozen=True)
class Limit(Unary):
    """The first ``count`` tuples."""

    count: int

    def operator(self) -> ops.Operator:
        return ops.Limit(self.input.schema, self.count)


@dataclass(frozen=True)
class Merge(Node):
    """All tuples of all inputs, matched by position; names are the first's."""

    sides: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, sides=tuple(inputs))

    def operator(self) -> ops.Operator:
        return ops.Merge(tuple(side.schema for side in self.sides))


@dataclass(frozen=True)
class Union(Merge):
    """Each tuple of all inputs once."""

    def operator(self) -> ops.Operator:
        return ops.Union(tuple(side.schema for side in self.sides))


@dataclass(frozen=True)
class Binary(Node):
    """A node that reads from two others."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


Keys = tuple[tuple[str, str], ...]
"""Equality attributes of a join: pairs of a left and a right one, of one type."""


@dataclass(frozen=True)
class Join(Binary):
    """Pairs that agree on ``keys`` and satisfy ``residual``. ``kind`` is inner, left, right or full.

    Attribute names of the two sides differ. An inner join's output has each key once, under its left name.
    """

    keys: Keys
    kind: str = "inner"
    residual: Expression | None = None

    @property
    def preserved(self) -> tuple[int, ...]:
        """The sides whose tuples come out without a partner too."""
        return PRESERVED[self.kind]

    def operator(self) -> ops.Operator:
        return ops.Join(self.left.schema, self.right.schema, self.keys, self.kind, self.residual)


@dataclass(frozen=True)
class SemiJoin(Binary):
    """Left tuples that have a partner on the right; ``anti``: that have none (NOT EXISTS)."""

    keys: Keys
    anti: bool = False
    residual: Expression | None = None

    def operator(self) -> ops.Operator:
        return ops.SemiJoin(self.left.schema, self.right.schema, self.keys, self.anti, self.residual)


@dataclass(frozen=True)
class NotIn(Binary):
    """Left tuples whose ``left_column`` is NOT IN the values of ``right_column``, where nulls can occur."""

    left_column: str
    right_column: str

    def operator(self) -> ops.Operator:
        return ops.NotIn(self.left.schema, self.right.schema, self.left_column, self.right_column)


@dataclass(frozen=True)
class Intersect(Binary):
    """Each tuple that both sides have, once. Columns match by position; names are the left's."""

    def operator(self) -> ops.Operator:
        return ops.Intersect(self.left.schema, self.right.schema)


@dataclass(frozen=True)
class Difference(Binary):
    """Each tuple that the left has and the right has not, once. Columns match by position."""

    def operator(self) -> ops.Operator:
        return ops.Difference(self.left.schema, self.right.schema)


def numbered(root: Node) -> Node:
    """A plan with its nodes numbered 1, 2, ... in the order of `Node.walk`."""
    numbers = count(1)

    def number(node: Node) -> Node:
        return replace(node.over([number(child) for child in node.inputs]), number=next(numbers))

    return number(root)


def columns_read(roots: Iterable[Node], stream: Stream) -> frozenset[str]:
    """The attributes of a stream that the scans of some plans read."""
    scans = (node for root in roots for node in root.walk() if isinstance(node, Scan))
    return frozenset(name for scan in scans if scan.stream.name == stream.name for name in scan.columns)


@dataclass(frozen=True)
class Query:
    """A whole query: its plan, whose nodes are numbered, and the streams it reads, in order of first use.

    ``rules`` are those that are on, of those that can be off; ``reads`` are the sources and other files that its
    statements name, each behind what it is, be it of use or not.
    """

    root: Node
    streams: tuple[Stream, ...]
    sql: str
    rules: Rules = USUAL
    reads: tuple[tuple[str, str], ...] = ()

    @property
    def guards(self) -> dict[int, str]:
        """The numbers of the guards that say what they reject, each with the stream's declared name."""
        nodes = (node for node in self.root.walk() if isinstance(node, Guard) and not node.quiet)
        return {node.number: node.stream.declared for node in nodes}

    @property
    def ordered(self) -> bool:
        """Whether results come in an order that the query asks for: a sort, under nothing that would break it."""
        node = self.root
        while isinstance(node, Project | Select | Limit):
            node = node.input
        return isinstance(node, Sort)

"""The base class of plan nodes.

Planning, partitioning, execution and `explain` use this interface, independent of the kind of a node. The defaults are
safe for any operator: it runs on one shard, reads all columns, and no rule moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import chain, count
from typing import ClassVar, TypeVar

from xmlpunct.engine.plan.schemes import Need, Outlook, has_few_values
from xmlpunct.expressions.expression import Column
from xmlpunct.operators.iterator import Operator
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types.cut_points import hull
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, intersect

N = TypeVar("N", bound="Node")


class Lasting(IntEnum):
    """Maximal lifetime of a relation's tuples: one instant, a bounded number of instants, or unbounded."""

    AN_INSTANT = 0
    A_WHILE = 1
    FOR_EVER = 2


StreamAttribute = tuple[str, str]
"""A stream and one of its attributes."""

Constraint = tuple[int, str, Pattern]
"""An input port, a column of that input, and a pattern for the column."""

Holders = list[set[str]]
"""For each partition value, the attributes that hold it or are null."""


@dataclass(frozen=True)
class PartitionChoice:
    """An attribute by which a stateful node may be partitioned.

    ``inputs`` are its names in each input, ``output`` its name in the output (None: tuples of one value may be on
    several shards after this node).
    """

    inputs: tuple[str, ...]
    output: str | None


@dataclass(frozen=True)
class Node:
    """A node of the plan. ``inputs`` are its children, by port; ``number`` is shown to users."""

    number: int = field(default=0, kw_only=True)
    ways: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True, compare=False)
    """On several shards, the output columns that may hold the partition values, if the operator needs them."""
    all_needed: bool = field(default=False, kw_only=True, compare=False)
    """For a fragment's root: True if an operator above withholds punctuations that its retained tuples match."""
    drops_rejects: bool = field(default=False, kw_only=True, compare=False)
    """True if its operator drops its rejects, because another node of the plan reports the same tuples."""

    by_position: ClassVar[bool] = False
    """True if it matches its inputs' columns by position, so that they are exactly those it `needs`."""
    keeps_order: ClassVar[bool] = False
    """True if its output has the order of its input."""
    by_name: ClassVar[bool] = False
    """True if it selects columns of its input by name, and drops all other columns."""
    withholds: ClassVar[bool] = False
    """True if a punctuation stays pending until no retained tuple matches it, so that shards emit it at different
    times."""
    waiting: ClassVar[str] = ""
    """The part of its state (`EVERYTHING`: all parts) whose tuples punctuations release; empty if there is none."""
    before_exchange: ClassVar[str] = ""
    """Text for its work before an exchange; empty for other nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def over(self, inputs: Sequence[Node]) -> Node:
        """The same node with other inputs."""
        return self

    def operator(self) -> Operator:
        """Create the operator of this node."""
        raise NotImplementedError

    @cached_property
    def schema(self) -> Schema:
        """The schema of the node's output."""
        for below in self.walk():
            if below is not self:
                _ = below.schema  # inputs first, to avoid deep recursion
        return self.operator().schema

    def walk(self) -> Iterator[Node]:
        """All nodes of the tree, inputs first."""
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

    # Descriptions

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator().name

    @property
    def parameters(self) -> str:
        """Text of the operator's parameters."""
        return ""

    def describe(self) -> str:
        """Name and parameters of the operator."""
        return f"{self.name} {self.parameters}".rstrip()

    @property
    def unblocked_by(self) -> str:
        """Text of the punctuations that release its results or state; empty if its needs have it (`purging`)."""
        return ""

    # Tuples

    @property
    def can_fail(self) -> bool:
        """True if it may reject a tuple or a group."""
        return False

    @property
    def ends_only(self) -> bool:
        """True if only the end of an input releases results."""
        return False

    @property
    def ordered(self) -> bool:
        """True if its output has the order of ORDER BY or, without ORDER BY, of the document, on one shard."""
        return self.keeps_order and self.inputs[0].ordered

    @property
    def lasting(self) -> Lasting:
        """Maximal lifetime of a relation's tuples."""
        return Lasting.FOR_EVER

    @property
    def distinct_key(self) -> frozenset[str] | None:
        """A key of the output: no two tuples agree on it. None if unknown; an empty key means at most one tuple."""
        return None

    @property
    def repeats(self) -> bool:
        """True if duplicate input only duplicates output. A node that can fail rejects every duplicate."""
        return False

    def ignores_duplicates(self, port: int) -> bool:
        """True if duplicates on a port do not change the output."""
        return False

    def narrowed(self, used: Collection[str]) -> Node:
        """The same node without computed columns that are not ``used``; it keeps at least one column."""
        return self

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        """For each input, the columns from which the ``used`` output columns are computed."""
        return [below.schema.names for below in self.inputs]

    # Columns and punctuations, in terms of the inputs

    def carries(self, name: str) -> list[tuple[int, str]]:
        """The input columns, with ports, that an output column copies; empty for a computed column."""
        return []

    def follows(self, name: str) -> list[tuple[int, str]]:
        """The input columns that must all be closed to close a value of this output column."""
        return self.carries(name)

    def is_constrained(self, name: str) -> bool:
        """True if punctuations can constrain an output column; False for a computed column."""
        followed = self.follows(name)
        return bool(followed) and all(self.inputs[port].is_constrained(column) for port, column in followed)

    def stream_attributes(self, name: str) -> list[StreamAttribute]:
        """The stream attributes, one per scan below, whose punctuations constrain an output column.

        Empty for a computed column.
        """
        below = [self.inputs[port].stream_attributes(column) for port, column in self.follows(name)]
        return all_attributes(below) if all(below) else []

    def asks(self, requested: Punctuation) -> list[list[Punctuation]]:
        """For each input, a punctuation that suffices for this node to emit ``requested``: the inverse of prop.

        It may close more than necessary, but never less. Retained tuples of a binary node may require more. There are
        several lists if the node combines several punctuations of an input to one of its output.
        """
        return [input_punctuations(self, self.sources(requested))]

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        """The patterns of an output punctuation, as patterns of the input columns that its columns follow.

        Streams of changes emit prefixes of instants only. Where punctuations pass by the need of one input, only its
        keys and instants limit the question.
        """
        limits = self.awaits[0].keys if self.passes_by_needs and len(self.inputs) == 1 else None
        for name, pattern in constraints(requested):
            for port, source in self.follows(name):
                if limits is not None and name != AT and source not in limits:
                    continue
                if AT in (name, source):
                    pattern = hull(self.schema[name].type, [pattern], below=True)
                yield port, source, pattern

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        """For each input, the columns whose punctuations are useful (None: all), given those of the output."""
        return [None] * len(self.inputs)

    def carriers(self, port: int) -> dict[str, list[str]]:
        """Input columns that the output copies, with their output columns."""
        copies: dict[str, list[str]] = {}
        for name in self.schema.names:
            for source_port, source in self.carries(name):
                if source_port == port:
                    copies.setdefault(source, []).append(name)
        return copies

    # Predictions before a run

    passes_by_needs: ClassVar[bool] = False
    """True if only needs let punctuations pass; otherwise punctuations that all inputs support pass, too."""

    @property
    def awaits(self) -> tuple[Need, ...]:
        """The punctuations that it waits for, and its fate without them."""
        return ()

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """The outlook of an input as the output's, as far as columns carry its punctuations."""
        return below[port].renamed(self.carriers(port))

    @property
    def combines(self) -> bool:
        """True if the operator combines punctuations of several inputs to one."""
        return False

    @property
    def closing_keys(self) -> Iterable[Sequence[str]]:
        """The keys whose punctuations follow each tuple of the output."""
        return ()

    @property
    def state_keys(self) -> tuple[str, ...]:
        """The columns that partition state which it retains by definition."""
        return ()

    @property
    def note(self) -> str:
        """A neutral remark for the user, beside the verdict."""
        return ""

    # Execution

    def partition_choices(self) -> list[PartitionChoice] | None:
        """Attributes by which its operator may be partitioned, by default the keys of its need.

        Any non-empty subset will do. An empty list: it runs on one shard. None: it has no state.
        """
        keys = (key for need in self.awaits[:1] for key in need.keys)
        return [PartitionChoice((key,), key) for key in keys if key not in (AT, DIFF)]

    @property
    def stateless(self) -> bool:
        """True if this node and all nodes below it have no state, so that they can run in the reader."""
        return all(node.partition_choices() is None for node in self.walk())

    def forgetful(self) -> Node:
        """The form of this node that is rebuilt for every slice."""
        return self

    def with_domains(self) -> Node:
        """The same node, whose output keeps attributes with a declared domain."""
        return self

    def holders(self, below: Sequence[Holders]) -> Holders:
        """The output attributes that hold the partition values, given those of its inputs."""
        sources = {name: {c for port, c in self.carries(name) if port == 0} for name in self.schema.names}
        return [{name for name, source in sources.items() if source & names} for names in below[0]]

    def adds_up(self, below: Sequence[Holders]) -> bool:
        """True if it combines punctuations of several partition values, given their attributes below."""
        return False


@dataclass(frozen=True)
class Unary(Node):
    """A node with one input. By default it has the columns of its input."""

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
    """A node with two inputs. By default each column copies the input column of the same name."""

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


def input_punctuations(node: Node, requested: Iterable[Constraint]) -> list[Punctuation]:
    """For each input of a node, the punctuation with these patterns."""
    patterns: list[list[Pattern]] = [[WILDCARD] * len(below.schema) for below in node.inputs]
    for port, name, pattern in requested:
        index = node.inputs[port].schema.index(name)
        combined = intersect(patterns[port][index], pattern)
        if combined is not EMPTY or pattern is EMPTY:  # of two disjoint patterns, the first suffices
            patterns[port][index] = combined
    return [Punctuation(below.schema, row) for below, row in zip(node.inputs, patterns, strict=True)]


def all_attributes(lists: Iterable[Iterable[StreamAttribute]]) -> list[StreamAttribute]:
    """The union of lists, without duplicates."""
    return list(dict.fromkeys(attribute for attributes_of_list in lists for attribute in attributes_of_list))


def node_column(node: Node, name: str) -> Column:
    """The expression of a column of a node's output."""
    attribute = node.schema[name]
    return Column(attribute.type, attribute.nullable, name)


def plain(node: Node, names: Iterable[str]) -> tuple[tuple[str, Column], ...]:
    """The columns of a `Project` that copies attributes of a node."""
    return tuple((name, node_column(node, name)) for name in names)


def is_changing(node: Node) -> bool:
    """True if the node's output is a stream of changes."""
    return AT in node.schema


def timing(node: Node) -> tuple[tuple[str, Column], ...]:
    """The columns of a `Project` that copy instant and count of changes; empty for other streams."""
    return plain(node, (AT, DIFF)) if is_changing(node) else ()


def attributes(node: Node) -> list[str]:
    """The columns of a node, without those of changes."""
    return [name for name in node.schema.names if name not in (AT, DIFF)]


def fresh(name: str, used_names: Container[str]) -> str:
    """``name``, or ``name#2``, ``name#3``... if it is in ``used_names``."""
    numbers = (f"{name}#{number}" for number in count(2))
    return next(n for n in chain([name], numbers) if n not in used_names)


def lost_domains(schema: Schema, columns: Iterable[str], used: Iterable[str]) -> list[tuple[str, str]]:
    """The attributes outside ``columns`` with a domain or few values, each with a new name outside ``used``."""
    columns, names = set(columns), set(used)
    lost: list[tuple[str, str]] = []
    for attribute in schema:
        is_coverable = attribute.domain is not WILDCARD or has_few_values(attribute)
        if is_coverable and attribute.name not in columns:
            lost.append((attribute.name, fresh(attribute.name, names)))
            names.add(lost[-1][1])
    return lost

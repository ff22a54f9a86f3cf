"""Conversion between streams and relations: windows, declared relations, ISTREAM, DSTREAM, RSTREAM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.connectors.contract import is_endless
from xmlpunct.engine.plan.node import Constraint, Lasting, Node, PartitionChoice, Unary, attributes
from xmlpunct.engine.plan.operator_text import completion_text
from xmlpunct.engine.plan.schemes import Fate, Need, Outlook, nullable, smallest, within
from xmlpunct.engine.plan.stream_nodes import Scan
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.retained_outline import EVERYTHING
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types import Type
from xmlpunct.types.durations import epoch, in_words

CONTENT = "grows with its distinct content, by definition"


@dataclass(frozen=True)
class ToRelation(Unary):
    """Converts a stream, with instants in the column ``timestamp``, to a relation.

    ``shown`` is the query's name of that column.
    """

    timestamp: str
    instants: Instants
    shown: str

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self._non_empty({*used, self.timestamp})]

    def _non_empty(self, used: Collection[str]) -> list[str]:
        """The used columns in input order, with at least one beside the timestamp."""
        names = [name for name in self.input.schema.names if name in used]
        if all(name == self.timestamp for name in names):
            names.append(next(name for name in self.input.schema.names if name != self.timestamp))
        return names

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name not in (AT, DIFF) else []

    def follows(self, name: str) -> list[tuple[int, str]]:
        # A tuple leaves at another instant.
        return [(0, self.timestamp)] if name == AT else self.carries(name)

    def carriers(self, port: int) -> dict[str, list[str]]:
        copies = super().carriers(port)
        return copies | {self.timestamp: [*copies.get(self.timestamp, ()), AT]}  # `AT` has the same instants

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """Only instants that are closed in ascending order are useful, overall or for each value of other columns."""
        child = below[0].in_order(self.timestamp)
        lasting = (scheme for scheme in child.closes if self.timestamp not in scheme)
        return replace(child, closes=smallest([*child.offers, *lasting])).renamed(self.carriers(0))

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [None if columns is None else [self.timestamp if name == AT else name for name in columns]]

    def partition_choices(self) -> list[PartitionChoice]:
        return self._choices(attributes(self))

    def _choices(self, names: Collection[str]) -> list[PartitionChoice]:
        """Choices except copies of the timestamp: each shard needs punctuations of all instants."""
        instants = self.input.stream_attributes(self.timestamp)
        return [
            PartitionChoice((name,), name) for name in names if self.input.stream_attributes(name) != instants
        ]


@dataclass(frozen=True)
class Window(ToRelation):
    """The elements of the last ``length`` instants (None: all). See the operator."""

    length: int | None
    slide: int | None = None
    origin: int = 0

    def operator(self) -> ops.Operator:
        return ops.Window(
            self.input.schema, self.timestamp, self.instants, self.length, self.slide, self.origin
        )

    @property
    def parameters(self) -> str:
        type_ = self.instants.type
        length = "unbounded" if self.length is None else in_words(type_, self.length)
        slide = "" if self.slide is None else f", slide {_every(type_, self.slide, self.origin)}"
        return f"{self.timestamp}: {length}{slide}"

    @property
    def lasting(self) -> Lasting:
        if self.length is None:
            return Lasting.FOR_EVER
        return Lasting.A_WHILE if self.length or self.slide is not None else Lasting.AN_INSTANT

    @property
    def note(self) -> str:
        return CONTENT if self.lasting is Lasting.FOR_EVER else ""


@dataclass(frozen=True)
class RowsWindow(ToRelation):
    """The last ``count`` elements (of each value of ``by``), extended to whole instants."""

    waiting = EVERYTHING

    count: int
    by: tuple[str, ...]

    def operator(self) -> ops.Operator:
        return ops.RowsWindow(self.input.schema, self.timestamp, self.instants, self.count, self.by)

    @property
    def parameters(self) -> str:
        return f"{self.timestamp}: {self.count}" + (f" of each {', '.join(self.by)}" if self.by else "")

    @property
    def unblocked_by(self) -> str:
        where = "" if self.by else "; on one shard"
        return (
            f"what the window holds at an instant is known once {completion_text(self.input, self.by)}{where}"
        )

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self._non_empty({*used, *self.by, self.timestamp})]

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        columns, nulls = (*self.by, self.timestamp), nullable(self.input.schema)
        return (Need(Fate.BLOCKS, 0, columns, nulls, self.by, order=self.timestamp, passes=0),)

    @property
    def state_keys(self) -> tuple[str, ...]:
        return self.by

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        result, columns = super().translated(port, below), (*self.by, self.timestamp, AT)
        return replace(result, offers=within(result.offers, columns), closes=within(result.closes, columns))

    def partition_choices(self) -> list[PartitionChoice]:
        return self._choices(self.by)


@dataclass(frozen=True)
class Declared(Unary):
    """A declared relation: constant, or with changes at ``timestamp``, whose multiplicity is in ``change``."""

    waiting = EVERYTHING

    instants: Instants
    timestamp: str | None = None
    change: str | None = None
    shown: str = "at"

    def operator(self) -> ops.Operator:
        return ops.Relation(self.input.schema, self.instants, self.timestamp, self.change)

    @property
    def parameters(self) -> str:
        return "constant" if self.timestamp is None else f"by {self.change} at {self.timestamp}"

    @property
    def unblocked_by(self) -> str:
        if self.timestamp is not None:
            return f"a tuple is judged at an instant once {completion_text(self.input, attributes(self))}"
        text = f"its tuples are there always: it is complete once {completion_text(self.input, attributes(self))}"
        endless = [s.stream.name for s in self.find(Scan) if s.stream.source and is_endless(s.stream.source)]
        if endless and not self.drops_rejects:
            text += (
                f"; WARNING: the source of {endless[0]} may never end, and before that, without punctuations, "
                "nothing is complete"
            )
        return text

    @property
    def can_fail(self) -> bool:
        return self.timestamp is not None  # it rejects deletes of missing tuples

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        if self.timestamp is not None:
            return [self.input.schema.names]  # changes are checked per whole tuple
        names = [name for name in self.input.schema.names if name in used]
        return [names or self.input.schema.names[:1]]

    @property
    def awaits(self) -> tuple[Need, ...]:
        schema = self.input.schema
        return () if self.timestamp is None else (Need(Fate.BLOCKS, 0, schema.names, nullable(schema)),)

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        return super().translated(port, below) if below[0].offers else Outlook()

    @property
    def note(self) -> str:
        return CONTENT

    def carries(self, name: str) -> list[tuple[int, str]]:
        if name == AT and self.timestamp is not None:
            return [(0, self.timestamp)]
        return [(0, name)] if name not in (AT, DIFF) else []

    def partition_choices(self) -> list[PartitionChoice] | None:
        if self.timestamp is None:
            return None
        return [PartitionChoice((name,), name) for name in attributes(self)]


@dataclass(frozen=True)
class ToStream(Unary):
    """The stream of inserts (istream), deletes (dstream) or states (rstream, possibly ``every`` n instants)."""

    waiting = EVERYTHING

    kind: str
    timestamp: str
    instants: Instants
    every: int | None = None
    origin: int = 0
    transient: bool = True

    def operator(self) -> ops.Operator:
        return ops.ToStream(
            self.input.schema,
            self.kind,
            self.timestamp,
            self.instants,
            self.every,
            self.origin,
            self.transient,
        )

    @property
    def parameters(self) -> str:
        every = "" if self.every is None else f", every {_every(self.instants.type, self.every, self.origin)}"
        if self.kind != "rstream":
            return self.timestamp
        return f"{self.timestamp}{every}, of a relation that is {'' if self.transient else 'not '}transient"

    @property
    def repeats_states(self) -> bool:
        """True if a state is emitted only when the next change is known, because it might last for ever."""
        return self.kind == "rstream" and not (self.transient or self.instants.is_bounded)

    @property
    def unblocked_by(self) -> str:
        if self.repeats_states:
            when = completion_text(self.input, ())
            return (
                f"a state is told up to the last change behind it, once {when}; on one shard: its tuples may stay "
                "for ever, while NOW or RANGE on a side of a join would end them"
            )
        return f"a tuple is released at an instant once {completion_text(self.input, attributes(self.input))}"

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self.input.schema.names]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, AT if name == self.timestamp else name)]

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        names = (AT,) if self.repeats_states else self.input.schema.names
        return (Need(Fate.BLOCKS, 0, names, nullable(self.input.schema), names, passes=0),)

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        result = super().translated(port, below)
        if self.repeats_states:  # only the timestamp of all tuples is closed
            instants = smallest([[self.timestamp]])
            result = replace(result, offers=instants, closes=instants)
        return result

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        return () if self.repeats_states else super().sources(requested)


def _every(type_: Type, steps: int, origin: int) -> str:
    """Text for an interval in instants, and its origin."""
    start = "" if origin == epoch(type_) else f" from {type_.format(type_.at(origin))}"
    return f"{in_words(type_, steps)}{start}"


def timestamp_name(node: Node) -> str:
    """The query's name of the timestamp of a relation's leftmost input."""
    while not isinstance(node, ToRelation):
        if isinstance(node, Declared) and node.timestamp is not None:
            return node.shown
        timed_inputs = [below for below in node.inputs if _is_timed(below)]
        if not timed_inputs:
            return "at"
        node = timed_inputs[0]
    return node.shown


def _is_timed(node: Node) -> bool:
    return any(
        isinstance(n, ToRelation) or (isinstance(n, Declared) and n.timestamp is not None)
        for n in node.walk()
    )

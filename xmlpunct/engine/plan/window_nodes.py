"""Streams as relations, and relations as streams: windows, declared relations, ISTREAM, DSTREAM, RSTREAM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.connectors.open_source import is_endless
from xmlpunct.engine.plan.node import Choice, Constraint, Lasting, Node, Unary, attributes
from xmlpunct.engine.plan.operator_text import complete
from xmlpunct.engine.plan.schemes import Fate, Outlook, smallest, within
from xmlpunct.engine.plan.stream_nodes import Scan
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.retained_outline import EVERYTHING
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types import Type
from xmlpunct.types.durations import epoch, in_words

CONTENT = "grows with its distinct content, which is its meaning"


@dataclass(frozen=True)
class ToRelation(Unary):
    """A node that makes a relation of a stream, whose column ``timestamp`` says when each element comes.

    ``shown`` is the query's name for it.
    """

    timestamp: str
    instants: Instants
    shown: str

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self._with_one({*used, self.timestamp})]

    def _with_one(self, used: Collection[str]) -> list[str]:
        """Some columns of the input in its order, at least one of them an attribute."""
        names = [name for name in self.input.schema.names if name in used]
        if all(name == self.timestamp for name in names):
            names.append(next(name for name in self.input.schema.names if name != self.timestamp))
        return names

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name not in (AT, DIFF) else []

    def follows(self, name: str) -> list[tuple[int, str]]:
        return [(0, self.timestamp)] if name == AT else self.carries(name)  # a tuple goes at another instant

    def carriers(self, port: int) -> dict[str, list[str]]:
        found = super().carriers(port)
        return found | {
            self.timestamp: [*found.get(self.timestamp, ()), AT]
        }  # which tells of the same instants

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        """Only what closes instants from the first on is of use: a prefix, or one for each value of other columns."""
        given = below[0].in_order(self.timestamp)
        lasting = (scheme for scheme in given.closes if self.timestamp not in scheme)
        said = replace(given, closes=smallest([*given.offers, *lasting])).renamed(self.carriers(0))
        return replace(said, told=CONTENT if self.lasting is Lasting.FOR_EVER else "")

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [None if wanted is None else [self.timestamp if name == AT else name for name in wanted]]

    def partition_choices(self) -> list[Choice]:
        return self._choices(attributes(self))

    def _choices(self, names: Collection[str]) -> list[Choice]:
        """Those that are no copies of the timestamp: each shard has to hear which instants are closed."""
        instants = self.input.places(self.timestamp)
        return [Choice((name,), name) for name in names if self.input.places(name) != instants]


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


@dataclass(frozen=True)
class RowsWindow(ToRelation):
    """The last ``count`` elements (of each value of ``by``), whole instants of them."""

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
        return f"what the window holds at an instant is known once {complete(self.input, self.by)}{where}"

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self._with_one({*used, *self.by, self.timestamp})]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        need = below[0].partition(self.by, self.timestamp, self.input.schema)
        told = below[0].retained(self.by, self.input.schema)
        said = super().outlook(below) if need.by else Outlook()
        offers, closes = (within(s, (*self.by, self.timestamp, AT)) for s in (said.offers, said.closes))
        return replace(said, offers=offers, closes=closes, needs=(need,), told=told)

    def sources(self, wanted: Punctuation) -> Iterable[Constraint]:
        known = [self.schema.index(name) if name in (*self.by, AT) else None for name in self.schema.names]
        return super().sources(wanted.rebase(self.schema, known))

    def partition_choices(self) -> list[Choice]:
        return self._choices(self.by)


@dataclass(frozen=True)
class Declared(Unary):
    """A declared relation: constant, or made by changes at ``timestamp``, of which ``change`` says how many copies."""

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
            return f"a tuple is judged at an instant once {complete(self.input, attributes(self))}"
        text = f"its tuples are there always: it is complete once {complete(self.input, attributes(self))}"
        endless = [s.stream.name for s in self.find(Scan) if s.stream.source and is_endless(s.stream.source)]
        if endless and not self.drops_rejects:
            text += (
                f"; WARNING: the source of {endless[0]} may never end, and before that, without punctuations, "
                "nothing is complete"
            )
        return text

    @property
    def can_fail(self) -> bool:
        return self.timestamp is not None  # it rejects deletes too many

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        if self.timestamp is not None:
            return [self.input.schema.names]  # changes are judged per whole tuple
        names = [name for name in self.input.schema.names if name in used]
        return [names or self.input.schema.names[:1]]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        whole = below[0].need(Fate.BLOCKS, 0, self.input.schema.names, self.input.schema)
        said, needs = super().outlook(below), () if self.timestamp is None else (whole,)
        return replace(said if whole.by else Outlook(), needs=needs, told=CONTENT)

    def carries(self, name: str) -> list[tuple[int, str]]:
        if name == AT and self.timestamp is not None:
            return [(0, self.timestamp)]
        return [(0, name)] if name not in (AT, DIFF) else []

    def partition_choices(self) -> list[Choice] | None:
        if self.timestamp is None:
            return None
        return [Choice((name,), name) for name in attributes(self)]


@dataclass(frozen=True)
class ToStream(Unary):
    """The stream of what comes (istream), goes (dstream) or is there (rstream, perhaps ``every`` so many instants)."""

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
        """Whether states are told once the next change is known, since they might last for ever."""
        return self.kind == "rstream" and not (self.transient or self.instants.is_bounded)

    @property
    def unblocked_by(self) -> str:
        if self.repeats_states:
            when = complete(self.input, ())
            return (
                f"a state is told up to the last change behind it, once {when}; on one shard: its tuples may stay "
                "for ever, while NOW or RANGE on a side of a join would end them"
            )
        return f"a tuple is released at an instant once {complete(self.input, attributes(self.input))}"

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [self.input.schema.names]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, AT if name == self.timestamp else name)]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        (given,) = below
        names = (AT,) if self.repeats_states else self.input.schema.names
        need = given.need(Fate.BLOCKS, 0, names, self.input.schema, closed=True)
        said = given.renamed(self.carriers(0)) if need.by else Outlook()
        if self.repeats_states and need.by:  # no finer than all tuples together
            said = replace(said, offers=smallest([[self.timestamp]]), closes=smallest([[self.timestamp]]))
        return replace(said, needs=(need,))

    def sources(self, wanted: Punctuation) -> Iterable[Constraint]:
        return () if self.repeats_states else super().sources(wanted)

    def partition_choices(self) -> list[Choice]:
        if self.repeats_states:
            return []
        return [Choice((name,), name) for name in attributes(self.input)]


def _every(type_: Type, steps: int, origin: int) -> str:
    """Every so many instants, and from which one on, in words."""
    start = "" if origin == epoch(type_) else f" from {type_.format(type_.at(origin))}"
    return f"{in_words(type_, steps)}{start}"


def timestamp_name(node: Node) -> str:
    """The query's name for the timestamp of a relation's leftmost input."""
    while not isinstance(node, ToRelation):
        if isinstance(node, Declared) and node.timestamp is not None:
            return node.shown
        found = [below for below in node.inputs if _is_timed(below)]
        if not found:
            return "at"
        node = found[0]
    return node.shown


def _is_timed(node: Node) -> bool:
    return any(
        isinstance(n, ToRelation) or (isinstance(n, Declared) and n.timestamp is not None)
        for n in node.walk()
    )

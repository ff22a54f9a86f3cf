"""What is read: declared streams, their scans, and the nodes above a scan that promise, or reject late tuples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from xmlpunct import operators as ops
from xmlpunct.connectors.open_source import columns_named, is_endless
from xmlpunct.engine.plan.node import Choice, Node, Place, Unary, lost_domains
from xmlpunct.engine.plan.schemes import THE_END, Outlook, either, reduced, smallest
from xmlpunct.firehose import StreamSpec
from xmlpunct.firehose.spec import Validity
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.late_filter import guarded, marked
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import ORIGIN, SOURCE, without_origin
from xmlpunct.slice import Slice
from xmlpunct.types.durations import in_words


@dataclass(frozen=True)
class Stream:
    """A declared stream: ``source`` as written in WITH or given by ``-s``, relative to the current directory.

    ``order`` is the access order that PUNCTUATE declares, if any. ``sender`` is the number, from 1, of the sender whose
    stream this is; 0 if there is only one, or they are not told apart yet. Tuples of a ``guarded`` stream carry the
    columns that a guard needs. Its schema may also have the columns of where tuples stood. ``where`` and ``nested``
    are as in `StreamSpec`. Columns that are ``guessed`` nobody declared.
    ``validity`` is the schema by which its tuples have to be valid. ``timestamp`` names the column that has a tuple's
    instant. A ``relation`` is no stream: it holds its tuples always, or has changes at the timestamp, of which the
    column ``change`` says how many copies come. No two tuples agree on one of the ``keys``. ``promised`` are the sets
    of columns that PUNCTUATED BY names: for each, punctuations that constrain nothing else close every tuple in time.
    """

    name: str
    schema: Schema
    element: str
    source: str | None
    order: AccessOrder | None = None
    sender: int = 0
    guarded: bool = False
    where: tuple[str, str] | None = None
    nested: bool = False
    guessed: bool = field(default=False, repr=False)
    validity: Validity | None = None
    timestamp: str | None = None
    relation: bool = False
    change: str | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    promised: tuple[tuple[str, ...], ...] | None = None

    def spec(self, columns: frozenset[str]) -> StreamSpec:
        """What to look for in its source, if some columns are needed."""
        schema, placed = self.sent, self.guarded or SOURCE in self.schema
        return StreamSpec(
            self.name,
            schema,
            self.element,
            columns.union(columns_named(self.source)),
            placed,
            self.guessed,
            where=self.where,
            nested=self.nested,
            validity=self.validity,
        )

    def of_sender(self, number: int) -> Stream:
        """The stream of one of several senders: ``bids#2``, of ``bids``."""
        return replace(self, name=f"{self.name}#{number}", sender=number)

    @property
    def declared(self) -> str:
        """The name it was declared by."""
        return self.name.removesuffix(f"#{self.sender}") if self.sender else self.name

    @property
    def ends(self) -> bool:
        """Whether its end is a promise: it comes from what is finite, and says nothing of what else it promises."""
        told = self.promised is not None or self.order is not None or self.keys or columns_named(self.source)
        return not told and self.source is not None and not is_endless(self.source)

    @property
    def schemes(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns that will be closed: those promised, and what the end of a file closes by its name."""
        named = columns_named(self.source)
        return (*(self.promised or ()), *([named] if named else []))

    @property
    def sent(self) -> Schema:
        """The columns of its tuples and punctuations as they are sent."""
        return without_origin(self.schema)

    @property
    def layout(self) -> Schema:
        """The columns of its tuples where they are scanned."""
        return guarded(self.schema) if self.guarded else self.schema

    def taken(self, given: Slice) -> Slice:
        """A slice that was read, as a scan takes it."""
        if SOURCE in self.schema:
            places = [i if i < len(self.schema) - len(ORIGIN) else None for i in range(len(self.schema))]
            given = replace(given, punctuations=given.punctuations.rebase(self.schema, places))
        return marked(given, self.schema) if self.guarded else given


@dataclass(frozen=True)
class Scan(Node):
    """Reads a stream. ``columns`` are the attributes read, ``names`` their names from here on.

    Without ``memory`` it is rebuilt for every slice, so it passes punctuations only one by one.
    """

    stream: Stream
    columns: tuple[str, ...]
    names: tuple[str, ...]
    memory: bool = True

    def operator(self) -> ops.Operator:
        scan = ops.Scan.rename(self.stream.layout, self.columns, self.names, self.memory)
        scan.ends = not self.stream.guarded  # else the guard judges what comes after the end
        return scan

    @property
    def parameters(self) -> str:
        pairs = zip(self.columns, self.names, strict=True)
        shown = [c if n in (c, f"{self.stream.declared}.{c}") else f"{n} = {c}" for c, n in pairs]
        return f"{self.stream.name}: {', '.join(shown)}"

    def narrowed(self, used: Collection[str]) -> Node:
        pairs = [p for p in zip(self.columns, self.names, strict=True) if p[1] in used]
        pairs = pairs or [(self.columns[0], self.names[0])]
        return replace(self, columns=tuple(c for c, _ in pairs), names=tuple(n for _, n in pairs))

    def is_constrained(self, name: str) -> bool:
        return True

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        promised = reduced(smallest(self.stream.schemes), self.stream.schema)
        offers = THE_END if self.stream.ends else promised
        return self.read(Outlook(offers, offers))

    def read(self, told: Outlook) -> Outlook:
        """What is said of the stream, in the names of the scan."""
        return told.renamed({c: [n] for c, n in zip(self.columns, self.names, strict=True)})

    def places(self, name: str) -> list[Place]:
        return [(self.stream.name, self.columns[self.names.index(name)])]

    def partition_choices(self) -> None:
        return None

    def forgetful(self) -> Node:
        return replace(self, memory=False)

    def with_domains(self) -> Node:
        lost = lost_domains(self.stream.schema, self.columns, self.names)
        columns, names = (name for name, _ in lost), (new for _, new in lost)
        return replace(self, columns=(*self.columns, *columns), names=(*self.names, *names))


@dataclass(frozen=True)
class Key(Unary):
    """Promises after each tuple that its ``keys`` do not come again, and drops a second tuple of one.

    It stands on a scan, or on the merge of a stream's senders. ``remembers``: it knows the tuples of earlier slices.
    """

    keys: tuple[tuple[str, ...], ...]
    remembers: bool = False

    def operator(self) -> ops.Operator:
        return ops.Key(self.input.schema, self.keys, self.remembers)

    @property
    def parameters(self) -> str:
        return "; ".join(", ".join(key) for key in self.keys)

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.keys[0])

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        wanted = {*used, *(name for key in self.keys for name in key)}
        return [[name for name in self.input.schema.names if name in wanted]]

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [wanted]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        return either([below[0], Outlook(closes=smallest(self.keys))])

    def partition_choices(self) -> list[Choice] | None:
        if isinstance(self.input, Scan):
            return None
        # A shard says what it has seen: so whoever may hold tuples of a key has to be one shard.
        common = frozenset.intersection(*(frozenset(key) for key in self.keys))
        return [Choice((name,), name) for name in self.input.schema.names if name in common]


@dataclass(frozen=True)
class Punctuate(Unary):
    """Promises what the access order of a source allows, and drops what comes too late.

    It stands on a scan, or on selects and projects above one: what is below runs where it does, in the source's order.
    """

    order: AccessOrder

    def operator(self) -> ops.Operator:
        return ops.Punctuate(self.input.schema, self.order)

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        """As where a stream says what it promises, its end does not count beside that."""
        ordered = smallest([[self.order.attribute]])
        told = below[0].renamed(self.carriers(0)) if not below[0].ends else Outlook()
        return either([told, Outlook(ordered, ordered, frozenset([self.order.attribute]))])

    @property
    def parameters(self) -> str:
        if self.order.watermark:
            name = self.order.attribute
            waits = in_words(self.input.schema[name].type, int(self.order.slack))
            return f"by {name}, watermark {name}{f' - {waits}' if self.order.slack else ''}"
        of_each = f", each of {len(self.order.senders)} {self.order.by}" if self.order.by else ""
        return f"by {self.order.attribute}, slack {self.order.slack:g}{of_each}"


@dataclass(frozen=True)
class Guard(Unary):
    """Rejects the late tuples of a guarded stream. With `drops_rejects` another guard reports them."""

    stream: Stream

    def operator(self) -> ops.Operator:
        return ops.LateFilter(self.stream.schema)

    def partition_choices(self) -> list[Choice]:
        return [Choice((name,), name) for name in self.stream.schema.names]


def columns_read(roots: Iterable[Node], stream: Stream) -> frozenset[str]:
    """The attributes of a stream that the scans of some plans read."""
    own = (scan for root in roots for scan in root.find(Scan) if scan.stream.name == stream.name)
    return frozenset(name for scan in own for name in scan.columns)

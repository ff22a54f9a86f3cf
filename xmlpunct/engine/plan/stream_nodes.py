"""Declared streams, their scans, and nodes above a scan that add punctuations or reject late tuples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from xmlpunct import operators as ops
from xmlpunct.connectors.contract import columns_named, is_endless
from xmlpunct.engine.plan.node import Node, PartitionChoice, StreamAttribute, Unary, lost_domains
from xmlpunct.engine.plan.schemes import THE_END, Outlook, either, reduced, smallest
from xmlpunct.firehose import StreamSpec
from xmlpunct.firehose.spec import ClosingMark, Remedy, Validity
from xmlpunct.operators.time.access_order import AccessOrder, steps_text
from xmlpunct.operators.time.drop_overlap import Overlap
from xmlpunct.operators.time.late_filter import guard_schema, guarded_slice
from xmlpunct.schema import Schema
from xmlpunct.schema.provenance import ORIGIN, SOURCE, without_origin
from xmlpunct.slice import Slice


@dataclass(frozen=True)
class Stream:
    """A declared stream: ``source`` as written in WITH or given by ``-s``, relative to the current directory.

    ``order`` is the access order that PUNCTUATE declares, if any. ``sender`` is the number of the sender, from 1; 0 if
    there is only one, or senders are not separated yet. Tuples of a ``guarded`` stream carry the columns that a guard
    needs. The schema may also have columns of source positions. ``where`` and ``nested`` are as in `StreamSpec`.
    ``guessed``: the columns are inferred, not declared. A tuple that does not fit them is an error with the ``remedy``;
    without a remedy, and in a guarded stream, it is a reject. ``validity`` is the XML schema of valid tuples.
    ``timestamp`` names the column of a tuple's instant. A ``relation`` is not a stream: it is constant, or has changes
    at the timestamp, with the number of inserted copies in the column ``change``. No two tuples agree on one of the
    ``keys``.
    ``promised`` are the column sets of PUNCTUATED BY: for each, punctuations on these columns only close every tuple in
    time. ``marks`` are the elements of PUNCTUATE ON. ``dtd`` has declarations of named entities.
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
    marks: tuple[ClosingMark, ...] = ()
    dtd: str = field(default="", repr=False)
    remedy: Remedy | None = field(default=None, repr=False, compare=False)
    overlap: Overlap | None = None

    def spec(self, columns: frozenset[str]) -> StreamSpec:
        """The specification for parsing its source, with the needed columns."""
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
            remedy=None if self.guarded else self.remedy,
            marks=self.marks,
            dtd=self.dtd,
        )

    def of_sender(self, number: int) -> Stream:
        """The stream of sender ``number``, such as ``bids#2`` of ``bids``."""
        return replace(self, name=f"{self.name}#{number}", sender=number)

    @property
    def declared(self) -> str:
        """The declared name, without the sender."""
        return self.name.removesuffix(f"#{self.sender}") if self.sender else self.name

    @cached_property
    def ends(self) -> bool:
        """True if its end counts as a punctuation: a finite source, without other declared punctuations."""
        declares = (
            self.promised is not None
            or self.order is not None
            or self.keys
            or self.marks
            or columns_named(self.source)
        )
        return not declares and self.source is not None and not is_endless(self.source)

    @cached_property
    def schemes(self) -> tuple[tuple[str, ...], ...]:
        """The column sets that are closed in time: by promise, by marks, and, at the end of a file, by its name."""
        name_columns = columns_named(self.source)
        of_marks = [tuple(column for column, _ in mark.closes) for mark in self.marks]
        return (*(self.promised or ()), *of_marks, *([name_columns] if name_columns else []))

    @property
    def sent(self) -> Schema:
        """The columns of received tuples and punctuations."""
        return without_origin(self.schema)

    @property
    def layout(self) -> Schema:
        """The columns of tuples at the scan."""
        return guard_schema(self.schema) if self.guarded else self.schema

    def taken(self, slice_: Slice) -> Slice:
        """Convert a slice from the parser for the scan."""
        if SOURCE in self.schema:
            positions = [i if i < len(self.schema) - len(ORIGIN) else None for i in range(len(self.schema))]
            slice_ = replace(slice_, punctuations=slice_.punctuations.rebase(self.schema, positions))
        return guarded_slice(slice_, self.schema) if self.guarded else slice_


@dataclass(frozen=True)
class Scan(Node):
    """Reads a stream. ``columns`` are the attributes read, ``names`` their names from here on.

    Without ``memory`` it is rebuilt for every slice, and does not combine punctuations. ``counts_only``: the plan needs
    tuples of the stream, but no column; the only column may be null.
    """

    stream: Stream
    columns: tuple[str, ...]
    names: tuple[str, ...]
    memory: bool = True
    counts_only: bool = False

    ordered = True

    def operator(self) -> ops.Operator:
        layout = self.stream.layout
        scan = ops.Scan.rename(layout, self.columns, self.names, None if self.memory else layout)
        scan.ends = not self.stream.guarded  # otherwise the guard rejects tuples after the end
        return scan

    @property
    def parameters(self) -> str:
        pairs = zip(self.columns, self.names, strict=True)
        shown = [c if n in (c, f"{self.stream.declared}.{c}") else f"{n} = {c}" for c, n in pairs]
        marks = (
            f"; closed by <{m.element}>: {', '.join(dict(m.closes)) or 'all'}" for m in self.stream.marks
        )
        return f"{self.stream.name}: {', '.join(shown)}{''.join(marks)}"

    def narrowed(self, used: Collection[str]) -> Node:
        pairs = [p for p in zip(self.columns, self.names, strict=True) if p[1] in used]
        columns, names = zip(*(pairs or [(self.columns[0], self.names[0])]), strict=True)
        return replace(self, columns=columns, names=names, counts_only=not pairs and self.stream.guessed)

    def is_constrained(self, name: str) -> bool:
        return True

    @cached_property
    def promised(self) -> Outlook:
        """The outlook that the stream's declaration promises."""
        offers = THE_END if self.stream.ends else reduced(smallest(self.stream.schemes), self.stream.schema)
        return self.read(Outlook(offers, offers))

    def read(self, stream_outlook: Outlook) -> Outlook:
        """Rename the outlook of the stream to the names of the scan."""
        return stream_outlook.renamed({c: [n] for c, n in zip(self.columns, self.names, strict=True)})

    def stream_attributes(self, name: str) -> list[StreamAttribute]:
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
class DropOverlap(Unary):
    """Drops the rows of a live source that its archive has as well. Its input is a scan with source positions."""

    keeps_order = True

    overlap: Overlap

    def operator(self) -> ops.Operator:
        return ops.DropOverlap(self.input.schema, self.overlap)

    @property
    def parameters(self) -> str:
        overlap = self.overlap
        by = (
            f"key {', '.join(overlap.key)}"
            if overlap.column is None
            else f"{overlap.column}, slack {overlap.slack:g}"
        )
        return f"of {overlap.live} with the archive, by {by}"


@dataclass(frozen=True)
class Key(Unary):
    """Emits, after each tuple, punctuations on its ``keys``, and drops later tuples with the same key.

    Its input is a scan, or the merge of a stream's senders. ``remembers``: it retains the keys of earlier slices.
    """

    keeps_order = True

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
        needed = {*used, *(name for key in self.keys for name in key)}
        return [[name for name in self.input.schema.names if name in needed]]

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [columns]

    @property
    def closing_keys(self) -> Iterable[Sequence[str]]:
        return self.keys

    def partition_choices(self) -> list[PartitionChoice] | None:
        if isinstance(self.input, Scan | DropOverlap):
            return None
        # A shard emits punctuations on keys, so all tuples of a key must be on the same shard.
        common = frozenset.intersection(*(frozenset(key) for key in self.keys))
        return [PartitionChoice((name,), name) for name in self.input.schema.names if name in common]


@dataclass(frozen=True)
class Punctuate(Unary):
    """Emits the punctuations that the access order of a source allows, and drops late tuples.

    Its input is a scan, possibly with selects and projects, so that it receives tuples in the order of the source.
    """

    keeps_order = True

    order: AccessOrder

    def operator(self) -> ops.Operator:
        return ops.Punctuate(self.input.schema, self.order)

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """The end of the input does not count, as for a stream with declared punctuations."""
        ordered = smallest([[self.order.attribute]])
        child = super().translated(port, below) if not below[0].ends else Outlook()
        return either([child, Outlook(ordered, ordered, frozenset([self.order.attribute]))])

    @property
    def withholds(self) -> bool:  # type: ignore[override]
        return self.order.ahead is not None

    @property
    def parameters(self) -> str:
        order, type_ = self.order, self.input.schema[self.order.attribute].type
        jumps = "" if order.ahead is None else f", ahead {steps_text(type_, order.ahead)} after {order.after}"
        if order.watermark:
            waits = f" - {steps_text(type_, order.slack)}" if order.slack else ""
            return f"by {order.attribute}, watermark {order.attribute}{waits}{jumps}"
        of_each = f", each of {len(order.senders)} {order.sender_column}" if order.sender_column else ""
        return f"by {order.attribute}, slack {order.slack:g}{jumps}{of_each}"

    @property
    def unblocked_by(self) -> str:
        order = self.order
        if order.ahead is None:
            return ""
        ahead = steps_text(self.input.schema[order.attribute].type, order.ahead)
        return (
            f"a tuple more than {ahead} ahead is held until its sender sends a nearer one, which rejects it, or "
            f"{order.after} such tuples, of which the least is the new maximum"
        )


@dataclass(frozen=True)
class Guard(Unary):
    """Rejects late tuples of a guarded stream. With `drops_rejects`, another guard reports them."""

    keeps_order = True

    stream: Stream

    def operator(self) -> ops.Operator:
        return ops.LateFilter(self.stream.schema)

    def partition_choices(self) -> list[PartitionChoice]:
        return [PartitionChoice((name,), name) for name in self.stream.schema.names]


def columns_read(roots: Iterable[Node], stream: Stream) -> frozenset[str]:
    """The attributes of a stream that the scans of plans read."""
    scans = (scan for root in roots for scan in root.find(Scan) if scan.stream.name == stream.name)
    return frozenset(name for scan in scans if not scan.counts_only for name in scan.columns)

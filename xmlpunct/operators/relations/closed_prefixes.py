"""Closed prefixes: up to which instant punctuations close the tuples of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from xmlpunct.base.frames import Snapshot
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.closed_attribute import ClosedAttribute, Growth, unbounded
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern, ordinals


class ClosedPrefix(NamedTuple):
    """Up to which instant all tuples that ``outline`` matches are closed: up to ``before`` earlier, to ``last`` now."""

    outline: Punctuation
    before: int
    last: int


class ClosedPrefixes:
    """The closed prefixes of a stream's instants, for each pattern of the other attributes or of ``keys`` only.

    A tuple e is closed up to the instant before the least one at which no punctuation matches <e, t>. `ClosedAttribute`
    retains the closed instants; instants outside of T count as closed. Instants with a gap before them are closed once
    a prefix reaches them.

    >>> from xmlpunct.types import INT
    >>> s = Schema.parse("sid STRING, ts INT NOT NULL")
    >>> prefixes = ClosedPrefixes(s, "ts", Instants(INT))
    >>> def add(**patterns):
    ...     grown = prefixes.add(PunctuationBatch([Punctuation.of(s, **patterns)]))
    ...     print(*(f"{prefix.outline} to {prefix.last}" for prefix in grown))
    >>> add(ts="[0,5]")
    <BLANKLINE>
    >>> add(sid="S1", ts="(,-1]")
    <S1, *> to 5
    >>> add(ts="(,7]")
    <*, *> to 7
    """

    def __init__(
        self, schema: Schema, timestamp: str, instants: Instants, keys: Sequence[str] | None = None
    ) -> None:
        self.instants = instants
        possible = ordinals(instants.type, instants.first, instants.last)
        self._closed = ClosedAttribute(
            schema, timestamp, keys, possible, forgets_complete=True, prefixes_only=True
        )
        self._lowest = instants.type.ordinal(instants.type.lowest)
        self.key_paths: list[KeyPath] = [(self._closed.joint, None), (self._closed, None)]

    @property
    def is_simple(self) -> bool:
        """Whether a punctuation that leaves the timestamp open closes nothing beyond itself and implies nothing."""
        return self._closed.is_simple and not self._closed.ownership

    @property
    def opening(self) -> list[ClosedPrefix]:
        """The prefixes that are closed from the start, because of the timestamp's domain."""
        return list(self._prefixes(self._closed.opening))

    def add(self, batch: PunctuationBatch) -> list[ClosedPrefix]:
        """Receive punctuations; return the prefixes that have grown."""
        return list(self._prefixes(self._closed.add(batch, self._is_prefix)))

    def _is_prefix(self, pattern: Pattern) -> bool:
        return unbounded(self.instants.type, pattern, below=True)

    def _prefixes(self, grown: Iterable[Growth]) -> Iterator[ClosedPrefix]:
        for growth in grown:
            (first, last), ends = growth.values.spans[0], growth.new_values.ends
            if first == self._lowest and ends is not None:
                before = max(ends[0][1], self.instants.first) - 1
                last = min(last, self.instants.last)
                if before < last:
                    yield ClosedPrefix(growth.outline, before, last)

    def punctuations(self, prefixes: Iterable[ClosedPrefix], schema: Schema) -> PunctuationBatch:
        """Prefixes as punctuations on changes of a schema."""
        batch = []
        for outline, _, last in prefixes:
            at = self.instants.prefix(last)
            if at is not EMPTY:
                by_name = {**dict(zip(outline.schema.names, outline.patterns, strict=True)), AT: at}
                batch.append(Punctuation(schema, [by_name.get(name, WILDCARD) for name in schema.names]))
        return PunctuationBatch(batch)

    # As a part of the state

    def __len__(self) -> int:
        return len(self._closed)

    def snapshot(self) -> Snapshot:
        """The closed instants, for a checkpoint."""
        return self._closed.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the closed instants from a snapshot."""
        self._closed.restore(snapshot)

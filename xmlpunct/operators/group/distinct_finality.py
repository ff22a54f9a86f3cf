"""Finality of aggregates of distinct values: they are final once every open value has been counted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.arrow_memory import booleans
from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.group.aggregate import Accumulator
from xmlpunct.operators.group.open_groups import VALUE, Groups
from xmlpunct.operators.hash_index import Rows
from xmlpunct.punctuations.closed_attribute import ClosedAttribute
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT
from xmlpunct.types.cut_points import between
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import WILDCARD, Constant, Pattern, constant

MANY = 1000
"""A group with more open values is not tested until at most this number of values are open."""
_OPEN = "$open"
"""The column with the number of a group's values that are not closed."""


class DistinctTest:
    """When COUNT, SUM or AVG of DISTINCT a is final, as punctuations over a group's key and a count of open values.

    ``<hour=5, $open=2>``: two values of a are open in hour 5. So a group that contains both is final.
    ``key_schema``: the key attributes of `Groups`.
    """

    def __init__(self, attribute: ClosedAttribute, key_schema: Schema, accumulator: Accumulator) -> None:
        self._attribute, self._key_schema, self._accumulator = attribute, key_schema, accumulator
        self._closed = PunctuationSet(Schema.of([*key_schema, Attribute(VALUE, accumulator.type, True)]))
        """The closed values, as punctuations over a group's key and a value."""
        self._final = PunctuationSet(Schema.of([*key_schema, Attribute(_OPEN, INT)]))
        self._few = PunctuationSet(key_schema)
        """The keys for which at most `MANY` values are open."""
        self._count(Punctuation.everything(attribute.schema))
        self.add(attribute.punctuations(attribute.opening))

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        return {"closed": self._closed, "final": self._final, "few": self._few}

    def may_hold(self, tuples: pl.DataFrame) -> bool:
        """As `Test.may_hold`."""
        return bool(len(self._final))

    def may_make_final(self, pattern: Pattern) -> bool:
        """As `Test.may_make_final`: any closed interval leaves fewer values open."""
        return True

    def add(self, spans: Iterable[Punctuation]) -> PunctuationSet:
        """Receive closed spans of its argument; return the keys of groups that may be final now."""
        candidates = PunctuationSet(self._key_schema)
        keys = dict[Punctuation, None]()
        for span in spans:
            *key, pattern = span.patterns
            p = Punctuation(self._closed.schema, [*(key or [WILDCARD]), pattern])
            self._closed.absorb(p)
            keys[span.with_pattern(len(key), WILDCARD)] = None
        for outline in keys:
            few = self._count(outline)
            if few is not None:
                candidates.add(few)
        return candidates

    def _count(self, outline: Punctuation) -> Punctuation | None:
        """Record the number of open values for a key; return the key if there are at most `MANY`."""
        size, key = _size(self._attribute.open(outline)), outline.patterns[:-1]
        if size is None or size > MANY:
            return None
        few = Punctuation(self._key_schema, key or [WILDCARD])
        any_count = Punctuation(self._final.schema, [*few.patterns, WILDCARD])
        self._final.discard(
            [q for q in self._final.overlapping(any_count) if q.patterns[:-1] == few.patterns]
        )
        self._final.add(Punctuation(self._final.schema, [*few.patterns, constant(INT, size)]))
        self._few.add(few)
        return few

    def forget(self, closed: PunctuationBatch) -> None:
        """Drop the entries of closed groups; ``closed`` is over keys."""
        key_positions = [*range(len(self._key_schema))]
        for entries in (self._closed, self._final, self._few):
            sources = [*key_positions, *[None] * (len(entries.schema) - len(key_positions))]
            entries.remove_covered(closed.rebase(entries.schema, sources))

    def mask(self, groups: Groups, rows_: pl.DataFrame) -> pl.Series:
        """For each group of ``rows_``, whether it is final."""
        hit = np.flatnonzero(self._few.mask(rows_).to_numpy())
        keys = rows_[hit].select(self._key_schema.names)
        positions, rows = groups.values_of(self._accumulator).probe(keys, key=self._key_schema.names)
        counts = np.bincount(positions[self._open(groups, rows)], minlength=len(hit))
        final = self._final.mask(keys.with_columns(pl.Series(_OPEN, counts, dtype=INT.dtype)))
        flags = np.zeros(rows_.height, np.bool_)
        flags[hit] = final.to_numpy()
        return booleans(flags)

    def _open(self, groups: Groups, rows: Rows) -> NDArray[np.bool_]:
        """Whether the value in each of ``rows`` is open; shape (rows,)."""
        values = groups.values_of(self._accumulator).take(rows, [*self._key_schema.names, VALUE])
        is_open: NDArray[np.bool_] = (~self._closed.mask(values) & values[VALUE].is_not_null()).to_numpy()
        return is_open


def _size(values: IntervalSet) -> int | None:
    """The number of values; None if they are dense."""
    count = 0
    for low, high in values.intervals():
        if values.type.discrete:
            count += high[1] - low[1]
        elif isinstance(between(values.type, low, high), Constant):
            count += 1
        else:
            return None
    return count

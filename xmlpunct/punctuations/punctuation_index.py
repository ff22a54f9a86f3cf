"""The punctuation index: a set of punctuations of one form with fast look-up and matching.

A form is the set of constrained attributes and the kinds of their patterns. `Constants` is a hash index. `Ranges`, with
a range in one attribute and constants in others, is sorted. `Lists` indexes the pieces of lists. `Others` is a linear
scan.

Columnar punctuations stay columnar until a single `Punctuation` is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from xmlpunct.punctuations.forms import FormKey, single
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.schema import Schema

FEW_PUNCTUATIONS = 8
"""Largest number of ranges or lists that are scanned; more are sorted or split into pieces.

A list may have 1,000 pieces (`benchmarks/scaling.py --only ranges`).
"""

IndexBounds = tuple[Any, Any]
"""(minimum, maximum) of some values; (None, None) without values."""


class PunctuationIndex:
    """A set of punctuations of one form over ``schema``, in insertion order.

    They have constants at ``constant_positions``, and a range at ``range_position`` unless it is -1.

    >>> from xmlpunct.punctuations.constant_index import Constants
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> index = Constants(s, [1])
    >>> index.add(Punctuation.of(s, hour=5)), index.add(Punctuation.of(s, hour=5))
    (True, False)
    """

    ranged = False
    """Whether each punctuation is one range of a numbered type."""
    in_columns = False
    """Whether batches of this form are columnar."""

    def __init__(
        self, schema: Schema, constant_positions: Sequence[int] = (), range_position: int = -1
    ) -> None:
        self.schema, self.constant_positions, self.range_position = (
            schema,
            tuple(constant_positions),
            range_position,
        )
        self.positions = (
            self.constant_positions if range_position < 0 else (*self.constant_positions, range_position)
        )
        self._by_key: dict[FormKey, Punctuation | None] | None = {}
        """The punctuations by key; a value is None until it is created. None: ``_batches`` has them."""
        self._batches: list[PunctuationBatch] = []
        """All punctuations as batches, if they came as columnar batches or `all` was called; else empty."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the constrained attributes.

        >>> from xmlpunct.punctuations.constant_index import Constants
        >>> Constants(Schema.parse("sid STRING, hour INT"), [1]).names
        ('hour',)
        """
        return tuple(self.schema.names[i] for i in self.positions)

    def _key(self, p: Punctuation) -> FormKey:
        return p

    def _on_add(self, p: Punctuation) -> None:
        """Hook: a punctuation was added."""

    def _on_remove(self, p: Punctuation) -> None:
        """Hook: a punctuation was removed."""

    def _on_batch_change(self, batch: PunctuationBatch, is_added: bool) -> None:
        """Hook: a columnar batch was added, or removed."""

    @property
    def _members(self) -> dict[FormKey, Punctuation | None]:
        if self._by_key is None:
            self._by_key = dict.fromkeys(self.all().keys)
        return self._by_key

    @property
    def are_few(self) -> bool:
        """Whether a linear scan is faster."""
        return len(self) <= FEW_PUNCTUATIONS

    # Single punctuations

    def add(self, p: Punctuation) -> bool:
        """Add a punctuation of the index's form; False if the index contains it already."""
        key, members = self._key(p), self._members
        if key in members:
            return False
        members[key], self._batches = p, []
        self._on_add(p)
        return True

    def remove(self, p: Punctuation) -> None:
        """Remove a punctuation if the index contains it.

        >>> from xmlpunct.punctuations.constant_index import Constants
        >>> s = Schema.parse("hour INT")
        >>> index = Constants(s, [0])
        >>> index.extend(PunctuationBatch.of_column(s, 0, pl.Series([5, 6])))
        PunctuationBatch([<5>, <6>])
        >>> index.remove(Punctuation.of(s, hour=5))
        >>> list(index)
        [Punctuation(<6>)]
        """
        key, members = self._key(p), self._members
        if key in members:
            del members[key]
            self._batches = []
            self._on_remove(p)

    def __contains__(self, p: Punctuation) -> bool:
        return self._key(p) in self._members

    def __len__(self) -> int:
        return sum(map(len, self._batches)) if self._by_key is None else len(self._by_key)

    def __iter__(self) -> Iterator[Punctuation]:
        return (self._member(key) for key in list(self._members))

    def _member(self, key: FormKey) -> Punctuation:
        p = self._members[key]
        if p is None:
            p = self._members[key] = single(self.schema, self.positions[0], key, self.ranged)
        return p

    # Batches of the index's form

    def all(self) -> PunctuationBatch:
        """All punctuations."""
        if not self._batches:
            self._batches = [self._of_keys(list(self._members))]
        elif len(self._batches) > 1:
            self._batches = [self._batches[0].chain(self._batches)]
        return self._batches[0]

    def _of_keys(self, keys: list[FormKey]) -> PunctuationBatch:
        """The punctuations with these keys."""
        if not self.in_columns:
            return PunctuationBatch(map(self._member, keys))
        punctuations = [p for p in map(self._members.__getitem__, keys) if p is not None]
        all_punctuations = punctuations if len(punctuations) == len(keys) else None
        return PunctuationBatch.of_keys(self.schema, self.positions[0], keys, all_punctuations, self.ranged)

    def extend(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Add the punctuations of a columnar batch; return the new ones.

        >>> from xmlpunct.punctuations.constant_index import Constants
        >>> s = Schema.parse("hour INT")
        >>> index = Constants(s, [0])
        >>> [len(index.extend(PunctuationBatch.of_column(s, 0, pl.Series(hours)))) for hours in ([5, 6], [6, 7])]
        [2, 1]
        """
        if not len(self):
            self._by_key, self._batches = None, [batch]
        else:
            members = self._members
            if not self._batches and len(members) <= len(batch):
                self.all()
            new_keys = [key for key in batch.keys if key not in members]
            batch = batch if len(new_keys) == len(batch) else batch.of_some(new_keys)
            members.update(dict.fromkeys(new_keys))
            self._batches = [*self._batches, batch] if self._batches and len(batch) >= COLUMN_FROM else []
        self._on_batch_change(batch, True)
        return batch

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """The punctuations of a columnar batch that the index contains."""
        if self._equals(batch):
            return batch
        members = self._members
        common_keys = [key for key in batch.keys if key in members]
        return batch if len(common_keys) == len(batch) else batch.of_some(common_keys)

    def discard(self, batch: PunctuationBatch) -> None:
        """Remove the punctuations of a columnar batch; ignore any that the index does not contain."""
        if self._equals(batch):
            self._by_key, self._batches = {}, []
        else:
            members, self._batches = self._members, []
            for key in batch.keys:
                members.pop(key, None)
        self._on_batch_change(batch, False)

    def _equals(self, batch: PunctuationBatch) -> bool:
        """True if a cheap comparison shows that the index has the same punctuations as a batch."""
        batches = self._batches
        return len(batches) == 1 and len(batches[0]) == len(batch) and batches[0].is_same(batch)

    # Matching

    def may_match(self, bounds: Callable[[str], IndexBounds]) -> bool:
        """Whether a tuple within the bounds of each attribute may match a punctuation; False is exact."""
        return True

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any punctuation."""
        raise NotImplementedError

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        """The punctuations that some tuple matches, in any order."""
        raise NotImplementedError

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """The punctuations that overlap ``p``: some tuple can match both."""
        return [q for q in self.candidates(p) if combine(p, q) is not None]

    def candidates(self, p: Punctuation) -> Iterable[Punctuation]:
        """Candidates for `overlapping`: a superset."""
        return self

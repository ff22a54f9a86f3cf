"""The punctuation index: punctuations of one form, looked up and matched without going through all of them.

A form says which attributes are constrained, and how. `Constants` are looked up by hash. `Ranges` have a range in one
attribute and constants in the others, and are sorted. `Lists` are looked up by their pieces. `Others` are tried one by
one.

Punctuations that came in columns stay there until a single one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from xmlpunct.punctuations.batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.punctuations.forms import Key, single
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.schema import Schema

FEW_PUNCTUATIONS = 8
"""At most so many ranges or lists are tried one by one; more are sorted, or taken to pieces.

A list may have 1,000 pieces (`benchmarks/scaling.py --only ranges`).
"""

Bounds = tuple[Any, Any]
"""The least and the greatest of some values; None if there are none."""


class PunctuationIndex:
    """Punctuations of one form over ``schema``, each once, in the order in which they came.

    They have constants at the places ``equal``, and a range at ``place`` if that is not -1.

    >>> from xmlpunct.punctuations.constants import Constants
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> index = Constants(s, [1])
    >>> index.add(Punctuation.of(s, hour=5)), index.add(Punctuation.of(s, hour=5))
    (True, False)
    """

    ranged = False
    """Whether each is one range of a numbered type."""
    in_columns = False
    """Whether a batch of them is in columns."""

    def __init__(self, schema: Schema, equal: Sequence[int] = (), place: int = -1) -> None:
        self.schema, self.equal, self.place = schema, tuple(equal), place
        self.places = self.equal if place < 0 else (*self.equal, place)
        self._known: dict[Key, Punctuation | None] | None = {}
        """Each of them by its key. None: ``_whole`` has them."""
        self._whole: list[PunctuationBatch] = []
        """All of them, in the batches in which they came, if they came in columns or `all` was called."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that they constrain.

        >>> from xmlpunct.punctuations.constants import Constants
        >>> Constants(Schema.parse("sid STRING, hour INT"), [1]).names
        ('hour',)
        """
        return tuple(self.schema.names[i] for i in self.places)

    def _key(self, p: Punctuation) -> Key:
        return p

    def _entered(self, p: Punctuation) -> None:
        """Take note of a punctuation that is new."""

    def _left(self, p: Punctuation) -> None:
        """Take note that a punctuation is in no longer."""

    def _changed(self, batch: PunctuationBatch, is_added: bool) -> None:
        """Take note that the punctuations of a batch in columns were added, or discarded."""

    @property
    def _members(self) -> dict[Key, Punctuation | None]:
        if self._known is None:
            self._known = dict.fromkeys(self.all().keys)
        return self._known

    @property
    def are_few(self) -> bool:
        """Whether it is quicker to try them one by one."""
        return len(self) <= FEW_PUNCTUATIONS

    # One by one

    def add(self, p: Punctuation) -> bool:
        """Add a punctuation of the index's form; False if it was there already."""
        key, members = self._key(p), self._members
        if key in members:
            return False
        members[key], self._whole = p, []
        self._entered(p)
        return True

    def remove(self, p: Punctuation) -> None:
        """Take out a punctuation, if it is in.

        >>> from xmlpunct.punctuations.constants import Constants
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
            self._whole = []
            self._left(p)

    def __contains__(self, p: Punctuation) -> bool:
        return self._key(p) in self._members

    def __len__(self) -> int:
        return sum(map(len, self._whole)) if self._known is None else len(self._known)

    def __iter__(self) -> Iterator[Punctuation]:
        return (self._member(key) for key in list(self._members))

    def _member(self, key: Key) -> Punctuation:
        p = self._members[key]
        if p is None:
            p = self._members[key] = single(self.schema, self.places[0], key, self.ranged)
        return p

    # In batches of the index's form

    def all(self) -> PunctuationBatch:
        """All of them."""
        if not self._whole:
            self._whole = [self._some(list(self._members))]
        elif len(self._whole) > 1:
            self._whole = [self._whole[0].chain(self._whole)]
        return self._whole[0]

    def _some(self, keys: list[Key]) -> PunctuationBatch:
        """Some of them, by their keys."""
        if not self.in_columns:
            return PunctuationBatch(map(self._member, keys))
        made = [p for p in map(self._members.__getitem__, keys) if p is not None]
        known = made if len(made) == len(keys) else None
        return PunctuationBatch.of_keys(self.schema, self.places[0], keys, known, self.ranged)

    def extend(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Add the punctuations of a batch in columns; those that are new.

        >>> from xmlpunct.punctuations.constants import Constants
        >>> s = Schema.parse("hour INT")
        >>> index = Constants(s, [0])
        >>> [len(index.extend(PunctuationBatch.of_column(s, 0, pl.Series(hours)))) for hours in ([5, 6], [6, 7])]
        [2, 1]
        """
        if not len(self):
            self._known, self._whole = None, [batch]
        else:
            members = self._members
            if not self._whole and len(members) <= len(batch):
                self.all()
            fresh = [key for key in batch.keys if key not in members]
            batch = batch if len(fresh) == len(batch) else batch.of_some(fresh)
            members.update(dict.fromkeys(fresh))
            self._whole = [*self._whole, batch] if self._whole and len(batch) >= COLUMN_FROM else []
        self._changed(batch, True)
        return batch

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Those of a batch in columns that are in."""
        if self._is(batch):
            return batch
        members = self._members
        known = [key for key in batch.keys if key in members]
        return batch if len(known) == len(batch) else batch.of_some(known)

    def discard(self, batch: PunctuationBatch) -> None:
        """Take out the punctuations of a batch in columns; those that are not in are passed over."""
        if self._is(batch):
            self._known, self._whole = {}, []
        else:
            members, self._whole = self._members, []
            for key in batch.keys:
                members.pop(key, None)
        self._changed(batch, False)

    def _is(self, batch: PunctuationBatch) -> bool:
        """Whether they are just those of a batch, where that is quick to tell."""
        whole = self._whole
        return len(whole) == 1 and len(whole[0]) == len(batch) and whole[0].is_same(batch)

    # Matching

    def may_match(self, bounds: Callable[[str], Bounds]) -> bool:
        """Whether a tuple within bounds, given by attribute, may match any of them; False is certain."""
        return True

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        raise NotImplementedError

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        """Those that some tuple matches, in whatever order."""
        raise NotImplementedError

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``."""
        return [q for q in self.near(p) if combine(p, q) is not None]

    def near(self, p: Punctuation) -> Iterable[Punctuation]:
        """At least those that overlap ``p``."""
        return self

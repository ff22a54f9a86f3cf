"""Prefixes: up to which instant each key is closed, as an operator asks it of one input."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from xmlpunct.base.frames import Snapshot, nested_snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.punctuations.pattern_expressions import match_expression
from xmlpunct.punctuations.punctuation import Punctuation, Signature, covers, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet, pieces_of
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT
from xmlpunct.types import INT
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import WILDCARD, Constant, Pattern, Values

OPEN = "$open"
"""The first instant that is open, as an ordinal."""


def without_at(p: Punctuation) -> Punctuation:
    """A prefix punctuation with ``*`` for its instants: whose prefix it is."""
    return with_at(p, WILDCARD)


def with_at(q: Punctuation, prefix: Pattern) -> Punctuation:
    """Whose prefix it is, and the prefix: a prefix punctuation."""
    return q.with_pattern(q.schema.index(AT), prefix)


def split(closed: PunctuationBatch) -> tuple[PunctuationBatch, PunctuationBatch]:
    """Prefix punctuations that close tuples for ever, and the others."""
    if not len(closed):
        return closed, closed
    at = closed.schema.index(AT)
    if closed.position is not None:
        return (PunctuationBatch(), closed) if closed.position == at else (closed, PunctuationBatch())
    ever = [p.patterns[at] is WILDCARD for p in closed]
    if all(ever):
        return closed, PunctuationBatch()
    parts = [PunctuationBatch(p for p, e in zip(closed, ever, strict=True) if e is w) for w in (True, False)]
    return parts[0], parts[1]


def closed_bounds(closed: PunctuationBatch, tuples: pl.DataFrame, instants: Instants) -> Ordinals:
    """For each tuple, the last instant of the prefixes that match it; T's end if it is closed for ever. Shape (n,).

    Without a match it is an instant that no tuple has, or the least instant of the type.

    >>> from xmlpunct.schema.change_columns import changes
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> closed = PunctuationBatch(Punctuation.parse(s, text) for text in ("<*, (,3], *>", "<7, (,5], *>"))
    >>> closed_bounds(closed, s.frame([(7, 0, 1), (8, 0, 1)]), Instants(INT)).tolist()
    [5, 3]
    """
    for_ever, prefixes = split(closed)
    first_open = np.full(tuples.height, instants.lo, np.int64)
    if len(prefixes):
        by_key = Prefixes(closed.schema, instants)
        by_key.add(Sorted(closed.schema, instants, prefixes))
        first_open = by_key.first_open(tuples)
    bounds = np.maximum(first_open, instants.type.ordinal(instants.type.lowest) + 1) - 1
    if len(for_ever):
        bounds[PunctuationSet(closed.schema, for_ever).mask(tuples).to_numpy()] = instants.last
    return bounds


class Sorted:
    """Prefix punctuations over a key and ``$at``, none of which is for ever, by what they say of the key.

    >>> from xmlpunct.schema.change_columns import AT
    >>> s = Schema.of([*Schema.parse("k INT"), Attribute(AT, INT, False)])
    >>> texts = "<*, (,3]>", "<{5,7}, (,5]>", "<[9,), (,4]>"
    >>> by_form = Sorted(s, Instants(INT), [Punctuation.parse(s, text) for text in texts])
    >>> by_form.floor, {places: frame.rows() for places, frame in by_form.listed.items()}
    (4, {(0,): [(5, 6), (7, 6)]})
    >>> by_form.others
    {Punctuation(<[9,), *>): 5}
    """

    def __init__(self, schema: Schema, instants: Instants, prefixes: Iterable[Punctuation]) -> None:
        self.floor = instants.lo
        """The first instant that they leave open for all keys."""
        self.others: dict[Punctuation, int] = {}
        """The first instants that those leave open which list no values."""
        listed: dict[Signature, list[tuple[Punctuation, int]]] = {}
        at = schema.index(AT)
        for p in prefixes:
            q, first = without_at(p), instants.bound(p.patterns[at]) + 1
            if q.is_everything:
                self.floor = max(self.floor, first)
            elif first > instants.lo and q.form is not None:
                if all(isinstance(q.patterns[i], Constant | Values) for i in q.constrained):
                    pieces = [q] if q.form[0] == 0 else pieces_of(q)
                    listed.setdefault(q.constrained, []).extend((piece, first) for piece in pieces)
                else:
                    self.others[q] = max(first, self.others.get(q, first))
        self.listed = {places: _listed(schema, places, some) for places, some in listed.items()}
        """For the places of some attributes their constants, and the first instants that are open for them."""


def _listed(schema: Schema, places: Signature, some: list[tuple[Punctuation, int]]) -> pl.DataFrame:
    columns = [
        pl.Series(a.name, [getattr(q.patterns[i], "value") for q, _ in some], a.type.dtype)  # noqa: B009
        for i, a in ((i, schema.attributes[i]) for i in places)
    ]
    return pl.DataFrame([*columns, pl.Series(OPEN, [first for _, first in some], pl.Int64())])


class Prefixes:
    """The closed prefixes of keys, which are tuples of ``schema``; ``$at`` is its last attribute but no part of a key.

    Each key has the furthest of those that match it. What closes keys for ever is not retained here: they are
    forgotten. What the prefix of all keys has overtaken is dropped. Prefixes of listed values are looked up by hash.

    >>> from xmlpunct.schema.change_columns import AT
    >>> s = Schema.of([*Schema.parse("k INT"), Attribute(AT, INT, False)])
    >>> prefixes = Prefixes(s, Instants(INT))
    >>> texts = "<*, (,3]>", "<7, (,5]>", "<[9,), (,4]>"
    >>> prefixes.add(Sorted(s, Instants(INT), [Punctuation.parse(s, text) for text in texts]))
    >>> prefixes.first_open(pl.DataFrame({"k": [7, 8, 9]})).tolist()
    [6, 4, 5]
    >>> len(prefixes)
    2
    """

    def __init__(self, schema: Schema, instants: Instants) -> None:
        self.schema, self.instants = schema, instants
        self.names = [name for name in schema.names if name != AT]
        """The columns of a key."""
        self.floor = instants.lo
        """The first instant that is open for every key of which nothing more is known."""
        self._listed: dict[Signature, Arrangement] = {}
        """By the places that they constrain: constants and the first open instant."""
        self._others: dict[Punctuation, int] = {}
        """For all others, the first open instant."""
        self._others_set = PunctuationSet(schema)
        self._bounded = Schema.of((*schema, Attribute(OPEN, INT, False)))

    def add(self, closed: Sorted) -> None:
        """Take prefix punctuations."""
        if closed.floor > self.floor:
            self._raise(closed.floor)
        for places, frame in closed.listed.items():
            fresh = frame.filter(pl.col(OPEN) > self.floor)
            if fresh.height:
                self._known(places).merge(fresh, [pl.col(OPEN).max()])
        for q, first in closed.others.items():
            if first > self.floor:
                self._add(q, first)

    def _add(self, q: Punctuation, first: int) -> None:
        near = self._others_set.overlapping(q)
        if any(self._others[r] >= first and covers(r, q) for r in near):
            return
        self._drop(r for r in near if self._others[r] <= first and covers(q, r))
        self._others[q] = first
        self._others_set.add(q)

    def _drop(self, some: Iterable[Punctuation]) -> None:
        for q in list(some):
            del self._others[q]
            self._others_set.remove(q)

    def _raise(self, floor: int) -> None:
        """All keys are closed further; drop what that overtakes."""
        self.floor = floor
        overtaken = PunctuationSet(self._bounded, [Punctuation.of(self._bounded, **{OPEN: f"(,{floor}]"})])
        for known in self._listed.values():
            known.remove(known.matching(overtaken))
        self._drop(q for q, first in self._others.items() if first <= floor)

    def _known(self, places: Signature) -> Arrangement:
        if places not in self._listed:
            columns = {a.name: a.type.dtype for a in (self.schema.attributes[i] for i in places)}
            self._listed[places] = Arrangement(
                pl.DataFrame(schema={**columns, OPEN: pl.Int64()}), list(columns)
            )
        return self._listed[places]

    def forget(self, ever: PunctuationBatch) -> None:
        """Some keys are closed for ever, and are asked for no longer."""
        if ever.has_end:
            self._listed, self._others, self._others_set = {}, {}, PunctuationSet(self.schema)
            return
        for places, known in self._listed.items():
            if ever.position is not None:
                within = ever if ever.position in places else PunctuationBatch()
            else:
                within = PunctuationBatch(p for p in ever if set(p.constrained) <= set(places))
            if len(within) and len(known):
                known.remove(known.matching(PunctuationSet(self.schema, within)))
        if self._others:
            said = PunctuationSet(self.schema, ever)
            self._drop(q for q in self._others if any(covers(p, q) for p in said.overlapping(q)))

    @property
    def is_uniform(self) -> bool:
        """Whether all keys are closed alike."""
        return not self._others and not any(map(len, self._listed.values()))

    def first_open(self, keys: pl.DataFrame) -> Ordinals:
        """For each key the first instant that is open; shape (n,)."""
        first: Ordinals = np.full(keys.height, self.floor, np.int64)
        if not keys.height:
            return first
        for known in self._listed.values():
            if len(known):
                places, rows = known.probe(keys)
                first[places] = np.maximum(first[places], known.take(rows, [OPEN]).to_series().to_numpy())
        if self._others and self._others_set.mask(keys).any():
            for q, bound in self._others.items():
                hit = keys.select(match_expression(q).alias("hit"))["hit"].to_numpy()
                first[hit] = np.maximum(first[hit], bound)
        return first

    # As a part of the state

    def __len__(self) -> int:
        return sum(map(len, self._listed.values())) + len(self._others)

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        frame = to_frame(self.schema, [Punctuation.everything(self.schema), *self._others])
        first = pl.Series(OPEN, [self.floor, *self._others.values()], dtype=pl.Int64())
        listed = {
            f"{'_'.join(map(str, places))}/{key}": page
            for places, known in self._listed.items()
            for key, page in known.snapshot().items()
        }
        return {"others": frame.insert_column(0, first), **listed}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        self._listed, self._others, self._others_set = {}, {}, PunctuationSet(self.schema)
        frame = snapshot["others"]
        (self.floor, *bounds), (_, *others) = frame[OPEN], from_frame(self.schema, frame.drop(OPEN))
        self._others = dict(zip(others, bounds, strict=True))
        self._others_set.update(others)
        for name, pages in nested_snapshot(snapshot).items():
            if name != "others":
                self._known(tuple(map(int, name.split("_")))).restore(pages)

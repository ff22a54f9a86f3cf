"""Closed prefixes of keys: the instants up to which an input of changes is closed, for each key."""

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
"""The column with the first open instant, as an ordinal."""


def without_at(p: Punctuation) -> Punctuation:
    """A prefix punctuation with ``*`` for its instants."""
    return with_at(p, WILDCARD)


def with_at(q: Punctuation, prefix: Pattern) -> Punctuation:
    """A punctuation with another pattern for its instants."""
    return q.with_pattern(q.schema.index(AT), prefix)


def split(closed: PunctuationBatch) -> tuple[PunctuationBatch, PunctuationBatch]:
    """The punctuations that close tuples for ever, and the punctuations that close a prefix."""
    if not len(closed):
        return closed, closed
    at = closed.schema.index(AT)
    if closed.position is not None:
        return (PunctuationBatch(), closed) if closed.position == at else (closed, PunctuationBatch())
    is_for_ever = [p.patterns[at] is WILDCARD for p in closed]
    if all(is_for_ever):
        return closed, PunctuationBatch()
    for_ever, prefixes = (
        PunctuationBatch(p for p, flag in zip(closed, is_for_ever, strict=True) if flag is value)
        for value in (True, False)
    )
    return for_ever, prefixes


def closed_bounds(closed: PunctuationBatch, tuples: pl.DataFrame, instants: Instants) -> Ordinals:
    """For each tuple, the last instant of the matching prefixes; T's end if it is closed for ever. Shape (tuples,).

    Without a match, it is an instant before all changes, or the least instant of the type.

    >>> from xmlpunct.schema.change_columns import changes
    >>> s = changes(Schema.parse("x INT"), INT)
    >>> closed = PunctuationBatch(Punctuation.parse(s, text) for text in ("<*, (,3], *>", "<7, (,5], *>"))
    >>> closed_bounds(closed, s.frame([(7, 0, 1), (8, 0, 1)]), Instants(INT)).tolist()
    [5, 3]
    """
    for_ever, prefixes = split(closed)
    first_open = np.full(tuples.height, instants.lo, np.int64)
    if len(prefixes):
        by_key = PrefixesByKey(closed.schema, instants)
        by_key.add(GroupedPrefixes(closed.schema, instants, prefixes))
        first_open = by_key.first_open(tuples)
    bounds = np.maximum(first_open, instants.type.ordinal(instants.type.lowest) + 1) - 1
    if len(for_ever):
        bounds[PunctuationSet(closed.schema, for_ever).mask(tuples).to_numpy()] = instants.last
    return bounds


class GroupedPrefixes:
    """Prefix punctuations, grouped by their patterns of the key. None of them closes tuples for ever.

    >>> s = Schema.of([*Schema.parse("k INT"), Attribute(AT, INT, False)])
    >>> texts = "<*, (,3]>", "<{5,7}, (,5]>", "<[9,), (,4]>"
    >>> grouped = GroupedPrefixes(s, Instants(INT), [Punctuation.parse(s, text) for text in texts])
    >>> grouped.floor, {positions: frame.rows() for positions, frame in grouped.constants.items()}
    (4, {(0,): [(5, 6), (7, 6)]})
    >>> grouped.patterns
    {Punctuation(<[9,), *>): 5}
    """

    def __init__(self, schema: Schema, instants: Instants, prefixes: Iterable[Punctuation]) -> None:
        self.floor = instants.lo
        """The first instant that is open for all keys."""
        self.patterns: dict[Punctuation, int] = {}
        """The first open instant of each pattern that has a range."""
        pieces: dict[Signature, list[tuple[Punctuation, int]]] = {}
        at = schema.index(AT)
        for p in prefixes:
            q, first = without_at(p), instants.bound(p.patterns[at]) + 1
            if q.is_everything:
                self.floor = max(self.floor, first)
            elif first > instants.lo and q.form is not None:
                if all(isinstance(q.patterns[i], Constant | Values) for i in q.constrained):
                    constants = [q] if q.form[0] == 0 else pieces_of(q)
                    pieces.setdefault(q.constrained, []).extend((piece, first) for piece in constants)
                else:
                    self.patterns[q] = max(first, self.patterns.get(q, first))
        self.constants = {positions: _frame(schema, positions, rows) for positions, rows in pieces.items()}
        """By positions of key attributes: their constants, and the first open instant of each (`OPEN`)."""


def _frame(schema: Schema, positions: Signature, pieces: list[tuple[Punctuation, int]]) -> pl.DataFrame:
    columns = [
        pl.Series(a.name, [getattr(q.patterns[i], "value") for q, _ in pieces], a.type.dtype)  # noqa: B009
        for i, a in ((i, schema.attributes[i]) for i in positions)
    ]
    return pl.DataFrame([*columns, pl.Series(OPEN, [first for _, first in pieces], pl.Int64())])


class PrefixesByKey:
    """The first open instant of each key. A key is a tuple of ``schema`` without ``$at``.

    If several prefixes match a key, the longest one counts. Prefixes of constants are looked up by hash, so many keys
    are answered at once; `ClosedPrefixes` derives the prefixes from punctuations of a stream. Keys that are closed for
    ever are not retained (`forget`), and neither are prefixes that the prefix of all keys contains.

    >>> s = Schema.of([*Schema.parse("k INT"), Attribute(AT, INT, False)])
    >>> prefixes = PrefixesByKey(s, Instants(INT))
    >>> texts = "<*, (,3]>", "<7, (,5]>", "<[9,), (,4]>"
    >>> prefixes.add(GroupedPrefixes(s, Instants(INT), [Punctuation.parse(s, text) for text in texts]))
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
        """The first instant that is open for all keys."""
        self._constants: dict[Signature, Arrangement] = {}
        """By positions of key attributes: their constants, and the first open instant of each."""
        self._patterns: dict[Punctuation, int] = {}
        """The first open instant of each pattern that has a range."""
        self._pattern_set = PunctuationSet(schema)
        self._bounded = Schema.of((*schema, Attribute(OPEN, INT, False)))

    def add(self, closed: GroupedPrefixes) -> None:
        """Receive prefix punctuations."""
        if closed.floor > self.floor:
            self._raise(closed.floor)
        for positions, frame in closed.constants.items():
            longer = frame.filter(pl.col(OPEN) > self.floor)
            if longer.height:
                self._arrangement(positions).merge(longer, [pl.col(OPEN).max()])
        for q, first in closed.patterns.items():
            if first > self.floor:
                self._add(q, first)

    def _add(self, q: Punctuation, first: int) -> None:
        overlapping = self._pattern_set.overlapping(q)
        if any(self._patterns[r] >= first and covers(r, q) for r in overlapping):
            return
        self._remove(r for r in overlapping if self._patterns[r] <= first and covers(q, r))
        self._patterns[q] = first
        self._pattern_set.add(q)

    def _remove(self, patterns: Iterable[Punctuation]) -> None:
        for q in list(patterns):
            del self._patterns[q]
            self._pattern_set.remove(q)

    def _raise(self, floor: int) -> None:
        """Raise the floor; remove the prefixes that end before it."""
        self.floor = floor
        ended = PunctuationSet(self._bounded, [Punctuation.of(self._bounded, **{OPEN: f"(,{floor}]"})])
        for constants in self._constants.values():
            constants.remove(constants.matching(ended))
        self._remove(q for q, first in self._patterns.items() if first <= floor)

    def _arrangement(self, positions: Signature) -> Arrangement:
        """The constants of these key attributes; created on first use."""
        if positions not in self._constants:
            columns = {a.name: a.type.dtype for a in (self.schema.attributes[i] for i in positions)}
            empty = pl.DataFrame(schema={**columns, OPEN: pl.Int64()})
            self._constants[positions] = Arrangement(empty, list(columns))
        return self._constants[positions]

    def _clear(self) -> None:
        self._constants, self._patterns, self._pattern_set = {}, {}, PunctuationSet(self.schema)

    def forget(self, for_ever: PunctuationBatch) -> None:
        """Remove the prefixes of keys that are closed for ever. No tuple asks for these keys any more."""
        if for_ever.has_end:
            self._clear()
            return
        for positions, constants in self._constants.items():
            if for_ever.position is not None:
                within = for_ever if for_ever.position in positions else PunctuationBatch()
            else:
                within = PunctuationBatch(p for p in for_ever if set(p.constrained) <= set(positions))
            if len(within) and len(constants):
                constants.remove(constants.matching(PunctuationSet(self.schema, within)))
        if self._patterns:
            closed = PunctuationSet(self.schema, for_ever)
            self._remove(q for q in self._patterns if closed.covers(q))

    @property
    def is_uniform(self) -> bool:
        """Whether the first open instant is the same for all keys."""
        return not self._patterns and not any(map(len, self._constants.values()))

    def first_open(self, keys: pl.DataFrame) -> Ordinals:
        """The first open instant of each key; shape (keys,)."""
        first: Ordinals = np.full(keys.height, self.floor, np.int64)
        if not keys.height:
            return first
        for constants in self._constants.values():
            if len(constants):
                positions, rows = constants.probe(keys)
                bounds = constants.take(rows, [OPEN]).to_series().to_numpy()
                first[positions] = np.maximum(first[positions], bounds)
        if self._patterns and self._pattern_set.mask(keys).any():
            for q, bound in self._patterns.items():
                hit = keys.select(match_expression(q).alias("hit"))["hit"].to_numpy()
                first[hit] = np.maximum(first[hit], bound)
        return first

    # As a part of the state

    def __len__(self) -> int:
        return sum(map(len, self._constants.values())) + len(self._patterns)

    def snapshot(self) -> Snapshot:
        """The prefixes, for a checkpoint."""
        frame = to_frame(self.schema, [Punctuation.everything(self.schema), *self._patterns])
        first = pl.Series(OPEN, [self.floor, *self._patterns.values()], dtype=pl.Int64())
        pages = {
            f"{'_'.join(map(str, positions))}/{key}": page
            for positions, constants in self._constants.items()
            for key, page in constants.snapshot().items()
        }
        return {"patterns": frame.insert_column(0, first), **pages}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the prefixes of a snapshot."""
        self._clear()
        frame = snapshot["patterns"]
        (self.floor, *bounds), (_, *patterns) = frame[OPEN], from_frame(self.schema, frame.drop(OPEN))
        self._patterns = dict(zip(patterns, bounds, strict=True))
        self._pattern_set.update(patterns)
        for name, pages in nested_snapshot(snapshot).items():
            if name != "patterns":
                self._arrangement(tuple(map(int, name.split("_")))).restore(pages)

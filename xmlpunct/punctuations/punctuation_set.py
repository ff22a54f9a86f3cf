"""A set of punctuations that an operator retains.

Punctuations are grouped by *form*: the constrained attributes and the kinds of their patterns. Each form has a
`PunctuationIndex`. So the cost of matching a slice or finding overlaps hardly depends on the size of the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, product

import polars as pl

from xmlpunct.base.frames import Snapshot, any_of
from xmlpunct.punctuations.constant_index import Constants
from xmlpunct.punctuations.pattern_expressions import Others
from xmlpunct.punctuations.punctuation import PatternForm, Punctuation, Signature, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.punctuations.range_index import Ranges
from xmlpunct.punctuations.single_attribute import closes_all
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import Constant, Values


def _form_of_batch(batch: PunctuationBatch) -> PatternForm | None:
    """The form of a columnar batch of one form; None for any other batch."""
    if batch.position is None:
        return None
    return (1, (), batch.position) if batch.ranged else (0, (batch.position,), -1)


def _may_constrain(form: PatternForm, position: int) -> bool:
    """Whether punctuations of a form may constrain an attribute."""
    kind, constant_positions, range_position = form
    return kind > 1 or position in constant_positions or position == range_position


class PunctuationSet:
    """A set of punctuations of one schema, indexed by the attributes that they constrain.

    Parameters
    ----------
    schema : Schema
        The schema of the stream.
    punctuations : iterable of Punctuation
        The first members.

    Examples
    --------
    >>> s = Schema.parse("sid STRING, hour INT")
    >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
    >>> held.mask(s.frame([("S1", 5), ("S1", 6), ("S2", 8)])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, punctuations: Iterable[Punctuation] = ()) -> None:
        self.schema = schema
        self._indexes: dict[PatternForm, PunctuationIndex] = {}
        """Sorted by form."""
        self.update(punctuations)

    def _index(self, form: PatternForm) -> PunctuationIndex:
        """The index of a form; it is created on first use."""
        index = self._indexes.get(form)
        if index is None:
            index = _KINDS[form[0]](self.schema, *form[1:])
            indexes = self._indexes | {form: index}
            self._indexes = {form: indexes[form] for form in sorted(indexes)} if len(indexes) > 1 else indexes
        return index

    def add(self, p: Punctuation) -> bool:
        """Add a punctuation; False if the set contains it already or it is empty.

        >>> s = Schema.parse("hour INT")
        >>> [PunctuationSet(s).add(Punctuation.of(s, hour=hour)) for hour in (5, "{}")]
        [True, False]
        """
        return p.form is not None and self._index(p.form).add(p)

    def update(self, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """Add punctuations; return the new ones."""
        batch = PunctuationBatch.of(punctuations)
        form = _form_of_batch(batch)
        if form is not None:
            return self._index(form).extend(batch)
        if batch.in_columns:
            return PunctuationBatch.concat([self.update(part) for part in batch.parts])
        return PunctuationBatch(p for p in batch if self.add(p))

    def remove(self, p: Punctuation) -> None:
        """Remove a punctuation if the set contains it."""
        if p.form in self._indexes:
            self._indexes[p.form].remove(p)

    def discard(self, punctuations: Iterable[Punctuation]) -> None:
        """Remove punctuations; ignore any that the set does not contain."""
        batch = PunctuationBatch.of(punctuations)
        form = _form_of_batch(batch)
        if form is not None:
            self._index(form).discard(batch)
            return
        if batch.in_columns:
            for part in batch.parts:
                self.discard(part)
            return
        for p in batch:
            self.remove(p)

    def absorb(self, p: Punctuation) -> bool:
        """Add a punctuation and remove those it covers; False, and no change, if the set covers it or it is empty.

        >>> s = Schema.parse("hour INT")
        >>> held = PunctuationSet(s)
        >>> [held.absorb(Punctuation.of(s, hour=hour)) for hour in (5, "[4,6]", 6)], held.all()
        ([True, True, False], PunctuationBatch([<[4,6]>]))
        """
        near = self.overlapping(p)
        if any(covers(q, p) for q in near):
            return False
        self.discard([q for q in near if covers(p, q)])
        return self.add(p)

    def remove_covered(self, punctuations: Iterable[Punctuation]) -> None:
        """Remove each punctuation that one of ``punctuations`` covers."""
        for part in PunctuationBatch.of(punctuations).parts:
            form, position = _form_of_batch(part), part.position
            if position is not None and not closes_all(part):
                # Only punctuations that constrain the attribute can be covered.
                near = [f for f, index in self._indexes.items() if len(index) and _may_constrain(f, position)]
                if not near:
                    continue
                if near == [form] and not part.ranged:
                    self.discard(part)
                    continue
            for p in part:
                self.discard([q for q in self.overlapping(p) if covers(p, q)])

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """The punctuations of a batch that the set contains.

        >>> s = Schema.parse("hour INT")
        >>> batch = PunctuationBatch.of_column(s, 0, pl.Series([5, 6]))
        >>> PunctuationSet(s, [Punctuation.of(s, hour=5)]).common(batch)
        PunctuationBatch([<5>])
        """
        form = _form_of_batch(batch)
        if form is not None:
            return self._index(form).common(batch)
        if batch.in_columns:
            return PunctuationBatch.concat([self.common(part) for part in batch.parts])
        return PunctuationBatch(p for p in batch if p in self)

    def __len__(self) -> int:
        return sum(map(len, self._indexes.values()))

    def __iter__(self) -> Iterator[Punctuation]:
        return chain(*self._indexes.values())

    def __contains__(self, p: object) -> bool:
        return isinstance(p, Punctuation) and p.form in self._indexes and p in self._indexes[p.form]

    def all(self) -> PunctuationBatch:
        """All punctuations; columnar if every index is."""
        indexes = self.groups()
        if len(indexes) == 1 or all(index.in_columns for index in indexes):
            return PunctuationBatch.of_parts([index.all() for index in indexes])
        return PunctuationBatch(self)

    def only(self, batch: PunctuationBatch) -> bool:
        """Whether all punctuations of the set have the form of a columnar batch."""
        forms = [form for form, index in self._indexes.items() if len(index)]
        return forms in ([], [_form_of_batch(batch)])

    def groups(self) -> list[PunctuationIndex]:
        """The indexes that are not empty, by form."""
        return [index for index in self._indexes.values() if len(index)]

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any punctuation of the set."""
        hits = [index.mask(tuples) for index in self.groups()] if tuples.height else []
        return any_of(hits, tuples.height)

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """The punctuations that overlap ``p``: some tuple can match both.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
        >>> held.overlapping(Punctuation.of(s, sid="S1", hour="[8,)"))
        [Punctuation(<*, [7,9]>)]
        """
        if p.form is None:
            return []
        return [q for index in self.groups() for q in index.overlapping(p)]

    def overlaps(self, p: Punctuation, but_end: bool = False) -> bool:
        """Whether any punctuation overlaps ``p``. ``but_end`` ignores the end of the stream."""
        return p.form is not None and any(
            not (but_end and q.is_everything) and combine(p, q) is not None
            for index in self.groups()
            for q in index.candidates(p)
        )

    def combinations(self, p: Punctuation) -> list[Punctuation]:
        """Table 1's setCombine with the set {``p``}: all combinations with ``p`` that are not psi."""
        return [p if q == p else c for q in self.overlapping(p) if (c := combine(p, q)) is not None]

    def covers(self, p: Punctuation) -> bool:
        """Whether one punctuation of the set covers ``p``."""
        return p in self or any(covers(q, p) for q in self.overlapping(p))

    def snapshot(self) -> Snapshot:
        """The punctuations, for a checkpoint."""
        return {"set": self.all().to_frame(self.schema)} if len(self) else {}

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the punctuations by the ones of a snapshot."""
        self.discard(self.all())
        for frame in snapshot.values():
            self.update(PunctuationBatch.from_frame(self.schema, frame))


class Lists(Others):
    """Punctuations with lists. A large index looks them up by their pieces, one for each value of a list.

    >>> s = Schema.parse("hour INT")
    >>> lists = Lists(s)
    >>> all(lists.add(Punctuation.of(s, hour=f"{{{hour},{hour + 2}}}")) for hour in range(20))
    True
    >>> lists.matched(s.frame([(5,)]))
    PunctuationBatch([<{3,5}>, <{5,7}>])
    """

    def __init__(self, schema: Schema, constant_positions: Signature = (), range_position: int = -1) -> None:
        super().__init__(schema, constant_positions, range_position)
        self._insertion_numbers: dict[Punctuation, int] = {}
        self._next_number = 0
        self._pieces: PunctuationSet | None = None
        self._owners: dict[Punctuation, set[Punctuation]] = {}
        """The punctuations that contain each piece."""

    def _on_add(self, p: Punctuation) -> None:
        self._insertion_numbers[p] = self._next_number
        self._next_number += 1
        if self._pieces is not None:
            self._add_pieces(self._pieces, p)

    def _on_remove(self, p: Punctuation) -> None:
        del self._insertion_numbers[p]
        for piece in pieces_of(p) if self._pieces is not None else ():
            self._owners[piece].discard(p)
            if not self._owners[piece] and self._pieces is not None:
                del self._owners[piece]
                self._pieces.remove(piece)

    def _add_pieces(self, pieces: PunctuationSet, p: Punctuation) -> None:
        for piece in pieces_of(p):
            pieces.add(piece)
            self._owners.setdefault(piece, set()).add(p)

    @property
    def _piece_set(self) -> PunctuationSet | None:
        """The pieces of all punctuations; None if these are `are_few`."""
        if self._pieces is None and not self.are_few:
            self._pieces = PunctuationSet(self.schema)
            for p in self:
                self._add_pieces(self._pieces, p)
        return self._pieces

    def _owners_of(self, pieces: Iterable[Punctuation]) -> list[Punctuation]:
        """The punctuations that contain any of these pieces, in insertion order."""
        return sorted(
            {p for piece in pieces for p in self._owners[piece]}, key=self._insertion_numbers.__getitem__
        )

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        pieces = self._piece_set
        return super().mask(tuples) if pieces is None else pieces.mask(tuples)

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        pieces = self._piece_set
        if pieces is None:
            return super().matched(tuples)
        return PunctuationBatch(
            self._owners_of(p for index in pieces.groups() for p in index.matched(tuples))
        )

    def candidates(self, p: Punctuation) -> Iterable[Punctuation]:
        pieces = self._piece_set
        return self if pieces is None else self._owners_of(pieces.overlapping(p))


def pieces_of(p: Punctuation) -> Iterator[Punctuation]:
    """The pieces of a punctuation: one for each combination of its lists' values, as constants.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> [str(piece) for piece in pieces_of(Punctuation.of(s, sid="S1", hour="{5,9}"))]
    ['<S1, 5>', '<S1, 9>']
    """
    choices = [[Constant(q.type, v) for v in q.members] if isinstance(q, Values) else [q] for q in p.patterns]
    return (Punctuation(p.schema, patterns) for patterns in product(*choices))


_KINDS: tuple[type[PunctuationIndex], ...] = (Constants, Ranges, Lists, Others)

"""The set of punctuations that an operator holds.

Punctuations are kept by *form*: the attributes that they constrain, and how. Each form has a `PunctuationIndex`, so
the cost of matching a slice, or of finding what overlaps, hardly depends on how many punctuations are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, product

import polars as pl

from xmlpunct.base.frames import Snapshot, any_of
from xmlpunct.punctuations.constant_index import Constants
from xmlpunct.punctuations.pattern_expressions import Others
from xmlpunct.punctuations.punctuation import Form, Punctuation, Signature, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_index import PunctuationIndex
from xmlpunct.punctuations.range_index import Ranges
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import Constant, Values


def _form_of_batch(batch: PunctuationBatch) -> Form | None:
    """The form of the punctuations of a batch in columns; None if it is not."""
    if batch.place is None:
        return None
    return (1, (), batch.place) if batch.ranged else (0, (batch.place,), -1)


class PunctuationSet:
    """Punctuations of one schema, each once: those of constants, those with one range, those with lists, the others.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
    >>> held.mask(s.frame([("S1", 5), ("S1", 6), ("S2", 8)])).to_list()
    [True, False, True]
    """

    def __init__(self, schema: Schema, punctuations: Iterable[Punctuation] = ()) -> None:
        self.schema = schema
        self._indexes: dict[Form, PunctuationIndex] = {}
        """In the order of the forms."""
        self.update(punctuations)

    def _index(self, form: Form) -> PunctuationIndex:
        """The index of a form, made if there is none."""
        index = self._indexes.get(form)
        if index is None:
            index = _KINDS[form[0]](self.schema, *form[1:])
            known = self._indexes | {form: index}
            self._indexes = {form: known[form] for form in sorted(known)} if len(known) > 1 else known
        return index

    def add(self, p: Punctuation) -> bool:
        """Add one; False if it was there already or can match nothing.

        >>> s = Schema.parse("hour INT")
        >>> [PunctuationSet(s).add(Punctuation.of(s, hour=hour)) for hour in (5, "{}")]
        [True, False]
        """
        return p.form is not None and self._index(p.form).add(p)

    def update(self, punctuations: Iterable[Punctuation]) -> PunctuationBatch:
        """Add some; those that were new."""
        batch = PunctuationBatch.of(punctuations)
        form = _form_of_batch(batch)
        if form is not None:
            return self._index(form).extend(batch)
        if batch.in_columns:
            return PunctuationBatch.concat([self.update(part) for part in batch.parts])
        return PunctuationBatch(p for p in batch if self.add(p))

    def remove(self, p: Punctuation) -> None:
        """Take out one, if it is in."""
        if p.form in self._indexes:
            self._indexes[p.form].remove(p)

    def discard(self, punctuations: Iterable[Punctuation]) -> None:
        """Take out some; those that are not in are passed over."""
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

    def common(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Those of a batch that are in.

        >>> s = Schema.parse("hour INT")
        >>> said = PunctuationBatch.of_column(s, 0, pl.Series([5, 6]))
        >>> PunctuationSet(s, [Punctuation.of(s, hour=5)]).common(said)
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
        """What is held: in columns, if it is of one form and that has them."""
        indexes = self.groups()
        return indexes[0].all() if len(indexes) == 1 else PunctuationBatch(self)

    def only(self, batch: PunctuationBatch) -> bool:
        """Whether nothing is held but punctuations of the form of a batch in columns."""
        held = [form for form, index in self._indexes.items() if len(index)]
        return held in ([], [_form_of_batch(batch)])

    def groups(self) -> list[PunctuationIndex]:
        """What is held, by form."""
        return [index for index in self._indexes.values() if len(index)]

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it matches any of them."""
        hits = [index.mask(tuples) for index in self.groups()] if tuples.height else []
        return any_of(hits, tuples.height)

    def unmatched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        """Table 1's setNomatchPs: those that no tuple matches.

        >>> s = Schema.parse("hour INT")
        >>> PunctuationSet(s, [Punctuation.of(s, hour=hour) for hour in (5, 6)]).unmatched(s.frame([(6,)]))
        PunctuationBatch([<5>])
        """
        free = PunctuationSet(self.schema, self.all())
        for index in self.groups() if tuples.height else ():
            free.discard(index.matched(tuples))
        return free.all()

    def overlapping(self, p: Punctuation) -> list[Punctuation]:
        """Those that some tuple could match together with ``p``.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> held = PunctuationSet(s, [Punctuation.of(s, hour=5), Punctuation.of(s, hour="[7,9]")])
        >>> held.overlapping(Punctuation.of(s, sid="S1", hour="[8,)"))
        [Punctuation(<*, [7,9]>)]
        """
        if p.form is None:
            return []
        return [q for index in self.groups() for q in index.overlapping(p)]

    def overlaps(self, p: Punctuation, but_end: bool = False) -> bool:
        """Whether `overlapping` has any; ``but_end``: the end aside."""
        return p.form is not None and any(
            not (but_end and q.is_everything) and combine(p, q) is not None
            for index in self.groups()
            for q in index.near(p)
        )

    def combinations(self, p: Punctuation) -> list[Punctuation]:
        """Table 1's setCombine with one other: all combinations with ``p`` that are not psi."""
        return [p if q == p else c for q in self.overlapping(p) if (c := combine(p, q)) is not None]

    def covers(self, p: Punctuation) -> bool:
        """Whether some one of them covers ``p``."""
        return p in self or any(covers(q, p) for q in self.overlapping(p))

    def snapshot(self) -> Snapshot:
        """What is held, for a checkpoint."""
        return {"set": self.all().to_frame(self.schema)} if len(self) else {}

    def restore(self, snapshot: Snapshot) -> None:
        """Hold what a snapshot has."""
        self.discard(self.all())
        for frame in snapshot.values():
            self.update(PunctuationBatch.from_frame(self.schema, frame))


class Lists(Others):
    """Punctuations with lists. More than a few are looked up by their pieces, one for each value.

    >>> s = Schema.parse("hour INT")
    >>> lists = Lists(s)
    >>> all(lists.add(Punctuation.of(s, hour=f"{{{hour},{hour + 2}}}")) for hour in range(20))
    True
    >>> lists.matched(s.frame([(5,)]))
    PunctuationBatch([<{3,5}>, <{5,7}>])
    """

    def __init__(self, schema: Schema, equal: Signature = (), place: int = -1) -> None:
        super().__init__(schema, equal, place)
        self._numbers: dict[Punctuation, int] = {}
        self._next = 0
        self._pieces: PunctuationSet | None = None
        self._owners: dict[Punctuation, set[Punctuation]] = {}
        """The members that have a piece."""

    def _entered(self, p: Punctuation) -> None:
        self._numbers[p] = self._next
        self._next += 1
        if self._pieces is not None:
            self._explode(self._pieces, p)

    def _left(self, p: Punctuation) -> None:
        del self._numbers[p]
        for piece in pieces_of(p) if self._pieces is not None else ():
            self._owners[piece].discard(p)
            if not self._owners[piece] and self._pieces is not None:
                del self._owners[piece]
                self._pieces.remove(piece)

    def _explode(self, pieces: PunctuationSet, p: Punctuation) -> None:
        for piece in pieces_of(p):
            pieces.add(piece)
            self._owners.setdefault(piece, set()).add(p)

    @property
    def _exploded(self) -> PunctuationSet | None:
        """The pieces of all of them; None if these are few."""
        if self._pieces is None and not self.are_few:
            self._pieces = PunctuationSet(self.schema)
            for p in self:
                self._explode(self._pieces, p)
        return self._pieces

    def _of(self, pieces: Iterable[Punctuation]) -> list[Punctuation]:
        """Those that have any of some pieces, in their order."""
        return sorted({p for piece in pieces for p in self._owners[piece]}, key=self._numbers.__getitem__)

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        pieces = self._exploded
        return super().mask(tuples) if pieces is None else pieces.mask(tuples)

    def matched(self, tuples: pl.DataFrame) -> PunctuationBatch:
        pieces = self._exploded
        if pieces is None:
            return super().matched(tuples)
        return PunctuationBatch(self._of(p for index in pieces.groups() for p in index.matched(tuples)))

    def near(self, p: Punctuation) -> Iterable[Punctuation]:
        pieces = self._exploded
        return self if pieces is None else self._of(pieces.overlapping(p))


def pieces_of(p: Punctuation) -> Iterator[Punctuation]:
    """A punctuation in pieces, which have a constant wherever it has a list.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> [str(piece) for piece in pieces_of(Punctuation.of(s, sid="S1", hour="{5,9}"))]
    ['<S1, 5>', '<S1, 9>']
    """
    choices = [[Constant(q.type, v) for v in q.members] if isinstance(q, Values) else [q] for q in p.patterns]
    return (Punctuation(p.schema, patterns) for patterns in product(*choices))


_KINDS: tuple[type[PunctuationIndex], ...] = (Constants, Ranges, Lists, Others)

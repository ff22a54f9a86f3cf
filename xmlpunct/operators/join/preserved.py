"""A preserved side of a join: its punctuations, combined with what the other input has closed."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.join.join_keys import SIDES, JoinKeys
from xmlpunct.operators.join.join_output import JoinOutput
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.fused import Past
from xmlpunct.punctuations.ownership import ANYTHING, Ownership, Ways
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import Constant

Met = tuple[Punctuation, Punctuation]
"""A punctuation of the side, and its combination with what the other input has closed."""


def preserved_sides(keys: JoinKeys, output: JoinOutput, pending: Sequence[Pending]) -> dict[int, Preserved]:
    """The preserved sides of a join; ``pending`` are the punctuations of both sides that wait."""
    return {
        s: Preserved(s, keys, output.schema, output.places[s], pending[s])
        for s in SIDES
        if output.preserved[s]
    }


class Preserved:
    """Says at once the combinations of a side's punctuations with the values of k that the other input has closed.

    A tuple that matches both has met its partners or is decided without one, whatever else is retained. So an item
    file that has ended does not hold back closed bids. The left side of a semijoin counts as preserved. What is
    ``pending`` is said by itself later. On several shards, ``past`` remembers what was said and every shard has to
    say, because others may need what it implies. ``places`` has the side's attributes in ``output``.
    """

    def __init__(
        self, side: int, keys: JoinKeys, output: Schema, places: Sequence[int | None], pending: Pending
    ) -> None:
        self.side, self.keys, self.output, self.places, self.pending = side, keys, output, places, pending
        self.schema = pending.schema
        self.past = Past(self.schema)
        self._ownership, self._sifted = ANYTHING, False

    def spread(self, ways: Ways, ownership: Ownership, sifted: bool) -> None:
        """As an operator's `spread`."""
        self.keys.spread(ways, sifted)
        self._ownership, self._sifted = ownership, sifted

    def meet(self, batch: PunctuationBatch) -> list[Met]:
        """New punctuations of the side, each with its combinations with what the other input has closed."""
        alignment, other = self.keys.alignment, 1 - self.side
        if not len(alignment.inputs[other]) + len(alignment.past[other]):
            return []
        return [
            (p, both)
            for p in batch
            for c in self.keys.moved(self.keys.closed(other, p), self.schema, self.side)
            if (both := combine(p, c)) is not None
        ]

    def combined(
        self, said: PunctuationBatch, closed: PunctuationBatch, met: list[Met] | None
    ) -> PunctuationBatch:
        """The combinations that say something new beside ``said``, what the side says by itself.

        They are among those that have ``met`` now, or are made with what the other input has ``closed`` now.
        """
        if self._ownership:
            self.past.update(self._lasting(said))
        if met is None:
            return self._with_closed(closed)
        waiting = self.pending.waiting
        return PunctuationBatch(c for p, c in met if p in waiting or self._is_needed(c, p))

    def _with_closed(self, closed: PunctuationBatch) -> PunctuationBatch:
        """The new combinations with what the other input closes now, as punctuations over k."""
        closed = self.keys.moved(closed, self.schema, self.side)
        waiting, past = self.pending.waiting, self.past
        over = past.complete and not len(waiting) and not (self._sifted and len(past) > 1)
        if over and closed.place is not None and not closed.ranged and not self._lasting(closed):
            return closed
        combinations = [p for c in closed for p in waiting.combinations(c)] if len(waiting) else []
        for c in closed if len(past) else ():
            both = [(p, q) for p in past.overlapping(c) if (q := combine(p, c)) is not None]
            combinations += [q for p, q in both if self._is_needed(q, p)]
        return PunctuationBatch(combinations)

    def _is_needed(self, c: Punctuation, p: Punctuation) -> bool:
        """Whether somebody may need to hear ``c`` although ``p`` has been said, which implies it."""
        return c != p and self._lasts(p) and self._ownership.needs(self._moved(c))

    def _lasting(self, batch: PunctuationBatch) -> PunctuationBatch:
        """Those that somebody may need to hear combined with what is closed later."""
        if batch.place is not None and not batch.ranged:
            moved = batch.rebase(self.output, self.places)
            fixed = self.keys.places[self.side] == [batch.place]
            if fixed or (moved.place is not None and not self._ownership.lasting(moved)):
                return PunctuationBatch()
        return PunctuationBatch(p for p in batch if self._lasts(p))

    def _lasts(self, p: Punctuation) -> bool:
        """Whether a punctuation is one of `_lasting`: one of a single k is combined to nothing but itself."""
        fixed = all(isinstance(p.patterns[i], Constant) for i in self.keys.places[self.side])
        return not (fixed and self.keys.schema.names) and self._ownership.lasts(self._moved(p))

    def _moved(self, p: Punctuation) -> Punctuation:
        """A punctuation of the side as one of the output."""
        return p.rebase(self.output, self.places)

"""A preserved side of a join: its punctuations, combined with values that the other input has closed."""

from __future__ import annotations

from collections.abc import Sequence

from xmlpunct.operators.join.join_keys import LEFT, SIDES, JoinKeys
from xmlpunct.operators.join.join_output import JoinOutput
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.closed_set import REMEMBERED, ClosedSet
from xmlpunct.punctuations.ownership import ANYTHING, KeyPath
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import Constant

Met = tuple[Punctuation, Punctuation]
"""A punctuation of the side, and its combination with values that the other input has closed."""


def preserved_sides(keys: JoinKeys, output: JoinOutput, pending: Sequence[Pending]) -> dict[int, Preserved]:
    """The preserved sides of a join, and the left side of a semijoin; ``pending``: by side."""
    return {
        s: Preserved(s, keys, output.schema, output.origins[s], pending[s])
        for s in SIDES
        if output.preserved[s] or (output.left_only and s == LEFT)
    }


class Preserved:
    """Emits at once the combinations of a side's punctuations with the values of k that the other input has closed.

    A tuple that matches both has met its partners or is decided without one, whatever else is retained. So an item
    file that has ended does not block closed bids. The left side of a semijoin counts as preserved. A ``pending``
    punctuation is emitted uncombined later. On several shards, ``past`` has the emitted punctuations that all shards
    have to emit, because other shards may need the ones that they imply. ``origins`` has the side's attribute for each
    attribute of the output's ``schema``.
    """

    def __init__(
        self, side: int, keys: JoinKeys, schema: Schema, origins: Sequence[int | None], pending: Pending
    ) -> None:
        self.side, self.keys, self.schema, self.origins, self.pending = side, keys, schema, origins, pending
        self.past = ClosedSet(pending.schema, limit=REMEMBERED)
        self.ownership = ANYTHING
        self.key_paths: list[KeyPath] = [keys.key_path, (self, None)]

    def meet(self, batch: PunctuationBatch) -> list[Met]:
        """New punctuations of the side, each with its combinations with values that the other input has closed."""
        alignment, other = self.keys.alignment, 1 - self.side
        if not len(alignment.inputs[other]) + len(alignment.past[other]):
            return []
        return [
            (p, combination)
            for p in batch
            for c in self.keys.to_schema(self.keys.closed(other, p), self.pending.schema, self.side)
            if (combination := combine(p, c)) is not None
        ]

    def combined(
        self, emitted: PunctuationBatch, closed: PunctuationBatch, met: list[Met] | None
    ) -> PunctuationBatch:
        """The combinations that are not implied by ``emitted``, the side's uncombined punctuations.

        They are in ``met``, or are combinations with values that the other input has newly ``closed``.
        """
        if self.ownership:
            self.past.update(self._lasting(emitted))
        if met is None:
            return self._with_closed(closed)
        waiting = self.pending.waiting
        return PunctuationBatch(c for p, c in met if p in waiting or self._is_needed(c, p))

    def _with_closed(self, closed: PunctuationBatch) -> PunctuationBatch:
        """The combinations with ``closed``, newly closed values of the other input, as punctuations over k."""
        closed = self.keys.to_schema(closed, self.pending.schema, self.side)
        waiting, past = self.pending.waiting, self.past
        over = past.has_end and not len(waiting) and not (self.ownership.all_needed and len(past) > 1)
        if over and closed.position is not None and not closed.ranged and not self._lasting(closed):
            return closed
        combinations = [p for c in closed for p in waiting.combinations(c)] if len(waiting) else []
        for c in closed if len(past) else ():
            pairs = [(p, q) for p in past.overlapping(c) if (q := combine(p, c)) is not None]
            combinations += [q for p, q in pairs if self._is_needed(q, p)]
        return PunctuationBatch(combinations)

    def _is_needed(self, c: Punctuation, p: Punctuation) -> bool:
        """Whether a receiver may need ``c`` although ``p``, which implies it, was emitted."""
        return c != p and self._lasts(p) and self.ownership.needs(self._to_output(c))

    def _lasting(self, batch: PunctuationBatch) -> PunctuationBatch:
        """The punctuations whose combinations with values closed later may still be needed."""
        if batch.position is not None and not batch.ranged:
            output = batch.rebase(self.schema, self.origins)
            is_fixed = self.keys.positions[self.side] == [batch.position]
            if is_fixed or (output.position is not None and not self.ownership.lasting(output)):
                return PunctuationBatch()
        return PunctuationBatch(p for p in batch if self._lasts(p))

    def _lasts(self, p: Punctuation) -> bool:
        """Whether a punctuation is in `_lasting`. With a single k, all its combinations are itself."""
        is_fixed = all(isinstance(p.patterns[i], Constant) for i in self.keys.positions[self.side])
        return not (is_fixed and self.keys.schema.names) and self.ownership.lasts(self._to_output(p))

    def _to_output(self, p: Punctuation) -> Punctuation:
        """A punctuation of the side as a punctuation of the output."""
        return p.rebase(self.schema, self.origins)

"""join: symmetric hash join on equalities: inner, left, right, full, semi (IN, EXISTS) and anti (NOT EXISTS).

Preserved sides make it long: their tuples with a partner are retained apart from the tuples without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_inputs import JoinInputs
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES, Equalities, JoinKeys
from xmlpunct.operators.join.join_output import LEFT_ONLY, JoinOutput
from xmlpunct.operators.join.preserved import preserved_sides
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class Join(JoinInputs):
    """Pairs the tuples of two inputs that agree on k, and satisfy ``residual`` if there is one.

    - cpass   = [(t1, t2) | t1.k = t2.k, residual(t1, t2)], and a preserved side's tuple with nulls once the
      other input has closed its k (or k is null) and there was no pair
    - ckeep1  = [t | t in ts1, setNomatch(t.k, joinPs(ps2))]; ckeep2 mirrored
    - cprop   = modPs1(setNomatchPs(ts1', ps1)) ++ modPs2(setNomatchPs(ts2', ps2)) (`JoinOutput`), where ts'
      are the tuples retained after keep; for a preserved side also the punctuations of `Preserved`
    - with ``combines`` also setCombine(modPs1(ps1), modPs2(ps2)), at once: both tuples of a matching pair have arrived

    A tuple whose k the other input has closed is paired and not retained. A tuple with a null in k is not retained.

    A semijoin emits each left tuple at its first pair, an antijoin once it can have none. The differences:

    - cpass   = semi: [t1 | some t2 pairs with t1]; anti: the left tuples to which a left join adds nulls
    - ckeep1  = also without the tuples that have a pair; ckeep2 = of each tuple the columns that k and residual read
    - cprop   = of the right input, semi: the k-part of setNomatchPs(ts2', joinPs(ps2)); anti: nothing

    See semantics 4.7 and 4.8.

    >>> from xmlpunct.operators.notation import show
    >>> bids, items = Schema.parse("item INT, price INT"), Schema.parse("id INT, name STRING")
    >>> it = Join(bids, items, [("item", "id")], "left")
    >>> show(it, "1: 1 10; 2 20; P(1, *)", "2: 1 lamp", "2: P(1, *)", "2: P(2, *)")
    1: 1 10; 2 20; P(1, *) ->
    2: 1 lamp              -> 1 10 1 lamp
    2: P(1, *)             -> P(1, *, *, *); P(*, *, 1, *)
    2: P(2, *)             -> 2 20 null null; P(*, *, 2, *)
    >>> it = Join(bids, items, [("item", "id")], "anti")
    >>> show(it, "1: 1 10; 2 20", "2: 1 lamp; P([1,5], *)", "1: P(2, *)")
    1: 1 10; 2 20          ->
    2: 1 lamp; P([1,5], *) -> 2 20
    1: P(2, *)             -> P(2, *)
    """

    name = "join"

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Equalities,
        kind: str = "inner",
        residual: Expression | None = None,
        combines: bool = False,
    ) -> None:
        inputs = left, right
        k = JoinKeys(inputs, keys)
        self._kind, self._output = kind, JoinOutput(inputs, k, kind, residual)
        self._left_only = kind in LEFT_ONLY
        if self._left_only:
            self.name, self.speaks = "semijoin", True  # a partner can release a pending punctuation
        # a preserved side in pairs has two arrangements: tuples without a partner so far, and tuples with one
        counts = [1 + (preserved and not self._left_only) for preserved in self._output.preserved]
        super().__init__(inputs, self._output.schema, k, residual, self._output.stored, counts)
        self._preserved = preserved_sides(self.keys, self._output, self.pending)
        past = {f"past{side}": preserved.past for side, preserved in self._preserved.items()}
        self._ended = StateCell(0)  # bit by side
        self._alignment = Alignment(self.schema, 2, possible=self._output.possible) if combines else None
        combining = {} if self._alignment is None else {"both": self._alignment}
        for preserved in self._preserved.values():
            self.key_paths += preserved.key_paths
        if self._alignment is not None:
            self.key_paths.append((self._alignment, None))
        self.state = State(**self.sides, ended=self._ended, **past, **combining)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        other, output = 1 - port, list[pl.DataFrame]()
        bounded, unmatchable = self.bounded(port, self._output.to_stored(port, tuples))
        matchable = without(bounded, unmatchable)
        has_partner = np.zeros(matchable.height, np.bool_)
        for number in reversed(range(len(self.retained[other]))):
            pairs, positions, rows = self.meet(port, matchable, number)
            if not self._left_only:
                output.append(pairs.select(self.schema.names))
            has_partner[positions] = True
        if other in self._preserved:
            output += self._first_pairs(other, ascending(rows))
        closed = self.closed_by(other, port, matchable)
        if port in self._preserved:
            is_unpaired, (unpaired, *paired) = pl.Series(~has_partner), self.retained[port]
            unpaired.append(matchable.filter(~closed & is_unpaired))
            for arrangement in paired:
                arrangement.append(matchable.filter(~closed & ~is_unpaired))
            if self._kind == "semi":
                output.append(matchable.filter(~is_unpaired).select(self.schema.names))
            elif unmatchable.any() or closed.any():
                decided = pl.concat([bounded.filter(unmatchable), matchable.filter(closed & is_unpaired)])
                output.append(self._output.without_partner(port, decided))
        elif self._left_only:
            self.retained[port][0].insert(without(matchable, closed))
        else:
            self.retained[port][0].append(without(matchable, closed))
        return pl.concat(output) if output else self.schema.empty()

    def _first_pairs(self, side: int, rows: Rows) -> list[pl.DataFrame]:
        """Take rows of a preserved side from its tuples without a partner. A semijoin emits their tuples."""
        if self._left_only:
            tuples = self.lose(side, rows)
            return [tuples.select(self.schema.names)] if self._kind == "semi" else []
        unpaired, paired = self.retained[side]
        paired.append(unpaired.remove(rows))
        return []

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        # Values closed on both sides are dropped below; before that, they combine with these punctuations.
        met = {side: p.meet(batch) for side, p in self._preserved.items() if side == port}
        closed, (purged, *_) = self.receive(port, batch)  # keep
        other, released = 1 - port, self.schema.empty()
        if self._output.preserved[other]:
            released = self._output.without_partner(other, purged)
        if port == LEFT or not self._left_only:
            self.pending[port].add(batch)
        elif self._kind == "semi":
            self.pending[RIGHT].add(self.keys.to_schema(closed, self._output.stored[RIGHT], RIGHT))
        self._ended.value |= batch.has_end << port
        free = self.free()
        punctuations = [self._output.to_output(side, free[side]) for side in SIDES]
        for side, preserved in self._preserved.items():
            combined = preserved.combined(free[side], closed, met.get(side))
            punctuations.append(self._output.to_output(side, combined))
        if self._alignment is not None:
            punctuations.append(self._combine(self._alignment, port, batch, punctuations[: len(SIDES)]))
        if len(self._preserved) == 2 and self._ended.value == 0b11 and not self.state.rows:
            punctuations = punctuations if self.ownership else []
            punctuations.append(PunctuationBatch([Punctuation.everything(self.schema)]))
        return released, PunctuationBatch.union(punctuations)

    def _combine(
        self, alignment: Alignment, port: int, batch: PunctuationBatch, emitted: Sequence[PunctuationBatch]
    ) -> PunctuationBatch:
        """setCombine(modPs1(ps1), modPs2(ps2)), of punctuations that were not ``emitted`` uncombined."""
        combined = alignment.update(port, self._output.to_output(port, batch))
        for side in SIDES:
            alignment.discard(side, emitted[side])
        return combined

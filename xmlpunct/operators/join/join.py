"""join: symmetric hash join on equality attributes; inner, left, right and full outer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join.join_inputs import JoinInputs
from xmlpunct.operators.join.join_keys import SIDES, Equalities, JoinKeys
from xmlpunct.operators.join.join_output import JoinOutput
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

    See semantics 4.7.

    >>> from xmlpunct.operators.notation import show
    >>> bids, items = Schema.parse("item INT, price INT"), Schema.parse("id INT, name STRING")
    >>> it = Join(bids, items, [("item", "id")], "left")
    >>> show(it, "1: 1 10; 2 20; P(1, *)", "2: 1 lamp", "2: P(1, *)", "2: P(2, *)")
    1: 1 10; 2 20; P(1, *) ->
    2: 1 lamp              -> 1 10 1 lamp
    2: P(1, *)             -> P(1, *, *, *); P(*, *, 1, *)
    2: P(2, *)             -> 2 20 null null; P(*, *, 2, *)
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
        self._output = JoinOutput(inputs, k, kind, residual)
        # a preserved side has two arrangements: tuples without a partner so far, and tuples with one
        counts = [1 + preserved for preserved in self._output.preserved]
        super().__init__(inputs, self._output.schema, k, residual, inputs, counts)
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
        bounded, unmatchable = self.bounded(port, tuples)
        matchable = without(bounded, unmatchable)
        has_partner = np.zeros(matchable.height, np.bool_)
        for number in reversed(range(len(self.retained[other]))):
            pairs, positions, rows = self.meet(port, matchable, number)
            output.append(pairs.select(self.schema.names))
            has_partner[positions] = True
        if other in self._preserved:
            self.retained[other][1].append(self.retained[other][0].remove(ascending(rows)))
        closed = self.closed_by(other, port, matchable)
        if port in self._preserved:
            is_unpaired, (unpaired, paired) = pl.Series(~has_partner), self.retained[port]
            unpaired.append(matchable.filter(~closed & is_unpaired))
            paired.append(matchable.filter(~closed & ~is_unpaired))
            decided = pl.concat([bounded.filter(unmatchable), matchable.filter(closed & is_unpaired)])
            output.append(self._output.with_nulls(port, decided))
        else:
            self.retained[port][0].append(without(matchable, closed))
        return pl.concat(output)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        # Values closed on both sides are dropped below; before that, they combine with these punctuations.
        met = {side: p.meet(batch) for side, p in self._preserved.items() if side == port}
        closed, purged = self.receive(port, batch)  # keep
        is_preserved = 1 - port in self._preserved
        released = self._output.with_nulls(1 - port, purged[0]) if is_preserved else self.schema.empty()
        self.pending[port].add(batch)
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

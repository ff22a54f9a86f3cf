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
from xmlpunct.operators.state import Cell, State
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class Join(JoinInputs):
    """Pairs the tuples of two inputs that agree on k, and satisfy ``residual`` if there is one.

    - cpass   = [(t1, t2) | t1.k = t2.k, residual(t1, t2)], and a preserved side's tuple with nulls once the
      other input has closed its k (or k is null) and no pair was found
    - ckeep1  = [t | t in ts1, setNomatch(t.k, joinPs(ps2))]; ckeep2 mirrored
    - cprop   = modPs1(setNomatchPs(ts1', ps1)) ++ modPs2(setNomatchPs(ts2', ps2)) (`JoinOutput`), where ts'
      is retained after keep; and what `Preserved` says of a preserved side
    - with ``combines`` also setCombine(modPs1(ps1), modPs2(ps2)), at once: both parts of a pair that matches have come

    A tuple whose k the other input has closed is paired and not stored; neither is one with a null in k.

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
        # a preserved side has two arrangements: first tuples without a partner so far
        counts = [1 + preserved for preserved in self._output.preserved]
        super().__init__(inputs, self._output.schema, k, residual, inputs, counts)
        self._preserved = preserved_sides(self.keys, self._output, self.pending)
        past = {f"past{side}": preserved.past for side, preserved in self._preserved.items()}
        self._ended = Cell(0)  # bit by side
        self._both = Alignment(self.schema, 2, possible=self._output.possible) if combines else None
        both = {} if self._both is None else {"both": self._both}
        self.state = State(**self.sides, ended=self._ended, **past, **both)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        for preserved in self._preserved.values():
            preserved.spread(ways, self.ownership, self.sifted)
        if self._both is not None:
            self._both.spread(self.ownership)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        other, output = 1 - port, list[pl.DataFrame]()
        bounded, lost = self.bounded(port, tuples)
        fresh = without(bounded, lost)
        has_partner = np.zeros(fresh.height, np.bool_)
        for number in reversed(range(len(self.retained[other]))):
            pairs, places, rows = self.meet(port, fresh, number)
            output.append(pairs.select(self.schema.names))
            has_partner[places] = True
        if other in self._preserved:
            self.retained[other][1].append(self.retained[other][0].remove(ascending(rows)))
        closed = self.closed_by(other, port, fresh)
        if port in self._preserved:
            is_alone, (alone, paired) = pl.Series(~has_partner), self.retained[port]
            alone.append(fresh.filter(~closed & is_alone))
            paired.append(fresh.filter(~closed & ~is_alone))
            decided = pl.concat([bounded.filter(lost), fresh.filter(closed & is_alone)])
            output.append(self._output.with_nulls(port, decided))
        else:
            self.retained[port][0].append(without(fresh, closed))
        return pl.concat(output)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        # What is closed on both sides is forgotten next, and still combines with these punctuations.
        met = {side: p.meet(batch) for side, p in self._preserved.items() if side == port}
        closed, gone = self.hear(port, batch)  # keep
        is_preserved = 1 - port in self._preserved
        passed = self._output.with_nulls(1 - port, gone[0]) if is_preserved else self.schema.empty()
        self.pending[port].add(batch)
        self._ended.value |= batch.has_end << port
        free = self.free()
        promised = [self._output.said(side, free[side]) for side in SIDES]
        for side, preserved in self._preserved.items():
            combined = preserved.combined(free[side], closed, met.get(side))
            promised.append(self._output.said(side, combined))
        if self._both is not None:
            promised.append(self._combined(self._both, port, batch, promised[: len(SIDES)]))
        if len(self._preserved) == 2 and self._ended.value == 0b11 and not self.state.rows:
            promised = promised if self.ownership else []
            promised.append(PunctuationBatch([Punctuation.everything(self.schema)]))
        return passed, PunctuationBatch.union(promised)

    def _combined(
        self, both: Alignment, port: int, batch: PunctuationBatch, said: Sequence[PunctuationBatch]
    ) -> PunctuationBatch:
        """setCombine(modPs1(ps1), modPs2(ps2)), of those that have not been ``said`` by themselves."""
        combined = both.update(port, self._output.said(port, batch))
        for side in SIDES:
            both.discard(side, said[side])
        return combined

"""join: symmetric hash join on equality attributes; inner, left, right and full outer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.join_keys import LEFT, SIDES, JoinKeys
from xmlpunct.operators.join_output import JoinOutput
from xmlpunct.operators.preserved import Preserved
from xmlpunct.operators.state import Cell, State
from xmlpunct.operators.two_inputs import TwoInputs
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import without


class Join(TwoInputs):
    """Pairs the tuples of two inputs that agree on k, and satisfy ``residual`` if there is one.

    - cpass   = [(t1, t2) | t1.k = t2.k, residual(t1, t2)], and a preserved side's tuple with nulls once the
      other input has closed its k (or k is null) and no pair was found
    - ckeep1  = [t | t in ts1, setNomatch(t.k, joinPs(ps2))]; ckeep2 mirrored
    - cprop   = modPs1(setNomatchPs(ts1', ps1)) ++ modPs2(setNomatchPs(ts2', ps2)), where ts' is retained
      after keep; and what `Preserved` says of a preserved side

    A tuple whose k the other input has closed already is paired and not stored; neither is one with a null
    in k. `JoinOutput` says which attributes come out.
    """

    name = "join"

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Sequence[tuple[str, str]],
        kind: str = "inner",
        residual: Expression | None = None,
    ) -> None:
        inputs = left, right
        self.keys, self.kind = JoinKeys(inputs, keys), kind
        self._output, self._residual = JoinOutput(inputs, self.keys, kind), residual
        self._ended = [Cell(False) for _ in SIDES]
        retained = [  # of a preserved side apart: first what has no partner yet
            [Arrangement(inputs[side].empty(), self.keys.names[side]) for _ in range(1 + preserved)]
            for side, preserved in enumerate(self._output.preserved)
        ]
        super().__init__(inputs, self._output.schema, self.keys.alignment, inputs, retained)
        self._preserved = {
            side: Preserved(side, self.keys, self._output, self.pending[side])
            for side in SIDES
            if self._output.preserved[side]
        }
        past = {f"past{side}": preserved.past for side, preserved in self._preserved.items()}
        self.state = State(**self.sides, left_ended=self._ended[0], right_ended=self._ended[1], **past)

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        for preserved in self._preserved.values():
            preserved.spread(self.ownership, self.sifted)
            self.keys.spread(ways, self.sifted)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        null, other = self.keys.has_null(port, tuples), 1 - port
        fresh = without(tuples, null)
        output, has_partner, partners = list[pl.DataFrame](), np.zeros(fresh.height, np.bool_), list[Rows]()
        for others in self.retained[other]:
            places, rows = others.probe(fresh, self.keys.names[port])
            mine, theirs = fresh[places], others.take(rows)
            left, right = (mine, theirs) if port == LEFT else (theirs, mine)
            pairs, passed = self.satisfying(left, right, self._residual)
            output.append(pairs.select(self.schema.names))
            has_partner[places[passed]] = True
            partners.append(rows[passed])
        if other in self._preserved:
            alone, paired = self.retained[other]
            paired.append(alone.remove(np.unique(partners[0])))
        closed = self.keys.closed_by(other, port, fresh)
        if port not in self._preserved:
            self.retained[port][0].append(without(fresh, closed))
            return pl.concat(output)
        is_alone, (alone, paired) = pl.Series(~has_partner), self.retained[port]
        alone.append(fresh.filter(~closed & is_alone))
        paired.append(fresh.filter(~closed & ~is_alone))
        decided = (tuples.filter(null), fresh.filter(closed & is_alone))
        return pl.concat([*output, *(self._output.with_nulls(port, part) for part in decided)])

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        other, closed = 1 - port, self.keys.closings(port, batch)
        gone = self.close(other, self.keys.moved(closed, self.inputs[other], other))  # keep
        passed = self.schema.empty()
        if other in self._preserved:
            passed = self._output.with_nulls(other, gone[0])
        # What is closed on both sides is forgotten next, and still combines with these punctuations.
        met = self._preserved[port].meet(batch) if port in self._preserved else []
        self.keys.add(port, closed)
        self.pending[port].add(batch)
        self._ended[port].value |= batch.has_end
        free = self.free()
        promised = [self._output.said(side, free[side]) for side in SIDES]
        for side, preserved in self._preserved.items():
            preserved.remember(free[side])
            combined = preserved.fresh(met) if side == port else preserved.combined(closed)
            promised.append(self._output.said(side, combined))
        if self.kind == "full" and all(ended.value for ended in self._ended) and not self.state.rows:
            over = PunctuationBatch([Punctuation.everything(self.schema)])
            promised = [*promised, over] if self.ownership else [over]
        return passed, PunctuationBatch.union(promised)

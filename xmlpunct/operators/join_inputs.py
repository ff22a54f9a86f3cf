"""What the joins share: two inputs that pair by k, and which values of k each of them has closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.join_keys import LEFT, JoinKeys
from xmlpunct.operators.two_inputs import TwoInputs
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.schema import Schema

_ID = "$id"


class JoinInputs(TwoInputs):
    """Two inputs of which each closes, by values of ``keys``, what the other one has retained.

    - joinPs(ps) = the values of k that ps close, alone or together: ``<k=1, sid=S1>`` and ``<k=1, sid=S2>`` close
      k = 1 once they cover the domain of sid

    A ``residual`` is a further condition on pairs.
    """

    def __init__(
        self,
        inputs: tuple[Schema, Schema],
        schema: Schema,
        keys: JoinKeys,
        residual: Expression | None,
        schemas: Sequence[Schema],
        retained: Sequence[Sequence[Arrangement]],
    ) -> None:
        super().__init__(inputs, schema, keys.alignment, schemas, retained)
        self.keys, self.residual = keys, residual
        self._joint = [
            JointCover(given, set(range(len(given))).difference(keys.places[side]))
            for side, given in enumerate(inputs)
        ]
        self.sides |= {f"joint{side}": joint for side, joint in enumerate(self._joint)}

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        for side, joint in enumerate(self._joint):
            joint.spread(Ownership(self.inputs[side], self.keys.ways_of(side, ways), self.sifted))

    def closings(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """joinPs: the values of k that new punctuations of an input close, as punctuations over k."""
        return self._joint[port].add(batch).rebase(self.keys.schema, self.keys.places[port])

    def hear(self, port: int, batch: PunctuationBatch) -> tuple[PunctuationBatch, list[pl.DataFrame]]:
        """The new `closings`; and the tuples that the other side lets go for them."""
        side, closed = 1 - port, self.closings(port, batch)
        gone = self.close(side, self.keys.moved(closed, self.pending[side].schema, side))
        self.keys.add(port, closed)
        return closed, gone

    def meet(self, port: int, tuples: pl.DataFrame, number: int = 0) -> tuple[pl.DataFrame, Rows, Rows]:
        """The pairs of an input's tuple and the other side's that agree on k and satisfy ``residual``.

        With them come the places of the input's tuples, and the rows of the other side's in their arrangement.
        """
        others = self.retained[1 - port][number]
        places, rows = others.probe(tuples, self.keys.names[port])
        mine, theirs = tuples[places], others.take(rows)
        left, right = (mine, theirs) if port == LEFT else (theirs, mine)
        pairs = left.hstack([column for column in right.get_columns() if column.name not in left.columns])
        if self.residual is None or not pairs.height:
            return pairs, places, rows
        pairs = self.passing(pairs.with_row_index(_ID), compiled(self.residual))
        passed = pairs[_ID].to_numpy().astype(np.int64)
        return pairs, places[passed], rows[passed]

"""What the joins share: two inputs that pair by k, and which values of k each of them has closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.join.join_bounds import program_of
from xmlpunct.operators.join.join_boxes import Boxes
from xmlpunct.operators.join.join_keys import LEFT, SIDES, JoinKeys
from xmlpunct.operators.join.two_inputs import TwoInputs
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import Ownership, Ways
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema

_ID = "$id"


class JoinInputs(TwoInputs):
    """Two inputs of which each closes, by values of ``keys``, what the other one has retained.

    - joinPs(ps) = the values of k that ps close, alone or together: ``<k=1, sid=S1>`` and ``<k=1, sid=S2>`` close
      k = 1 once they cover the domain of sid

    A ``residual`` is a further condition on pairs. Where it bounds attributes of the other input, a tuple is also let
    go once that input has closed its box (`Boxes`). ``stored`` are the schemas of what is retained, in so many
    arrangements (``counts``).
    """

    def __init__(
        self,
        inputs: tuple[Schema, Schema],
        schema: Schema,
        keys: JoinKeys,
        residual: Expression | None,
        stored: Sequence[Schema],
        counts: Sequence[int] = (1, 1),
    ) -> None:
        self.boxes = [Boxes(side, keys.names, stored[side], inputs[1 - side], residual) for side in SIDES]
        retained = [
            [Arrangement(boxes.schema.empty(), names) for _ in range(count)]
            for boxes, names, count in zip(self.boxes, keys.names, counts, strict=True)
        ]
        super().__init__(inputs, schema, keys.alignment, stored, retained)
        self.keys = keys
        self._residual = None if residual is None else program_of(residual, inputs)
        self._joint = [
            JointCover(given, set(range(len(given))).difference(keys.places[side]))
            for side, given in enumerate(inputs)
        ]
        self.sides |= {f"joint{side}": joint for side, joint in enumerate(self._joint)}
        for side, boxes in enumerate(self.boxes):
            self.sides |= {f"{name}_{side}": part for name, part in boxes.parts.items()}

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        for side, joint in enumerate(self._joint):
            ownership = Ownership(self.inputs[side], self.keys.ways_of(side, ways), self.sifted)
            joint.spread(ownership)
            self.boxes[1 - side].spread(ownership)

    def closings(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """joinPs: the values of k that new punctuations of an input close, as punctuations over k."""
        return self._joint[port].add(batch).rebase(self.keys.schema, self.keys.places[port])

    def hear(self, port: int, batch: PunctuationBatch) -> tuple[PunctuationBatch, list[pl.DataFrame]]:
        """The new `closings`; and the tuples that the other side lets go for them."""
        side, closed = 1 - port, self.closings(port, batch)
        gone = self.close(side, self.keys.moved(closed, self.pending[side].schema, side))
        if self.boxes[side]:
            boxed = self.boxes[side].hear(batch)
            more = [
                self.lose(side, tuples.matching(boxed), i) for i, tuples in enumerate(self.retained[side])
            ]
            gone = [pl.concat(both) for both in zip(gone, more, strict=True)]
        for boxes in self.boxes:  # of one side no tuple comes any more, of the other each is decided by its k
            boxes.forget(closed)
        self.keys.add(port, closed)
        return closed, gone

    def bounded(self, port: int, tuples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """An input's tuples with their bounds, and which of them can never meet anything: k has a null, say."""
        null = self.keys.has_null(port, tuples)
        if not self.boxes[port]:
            return tuples, null
        tuples, hopeless = self.boxes[port].of(tuples)
        return tuples, null | hopeless

    def closed_by(self, port: int, of: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple of input ``of``, with its bounds, whether input ``port`` has closed all that it could meet."""
        closed = self.keys.closed_by(port, of, tuples)
        return closed | self.boxes[of].closed(tuples) if self.boxes[of] else closed

    def meet(self, port: int, tuples: pl.DataFrame, number: int = 0) -> tuple[pl.DataFrame, Rows, Rows]:
        """The pairs of an input's tuple and the other side's that agree on k and satisfy ``residual``.

        With them come the places of the input's tuples, and the rows of the other side's in their arrangement.
        """
        others = self.retained[1 - port][number]
        places, rows = others.probe(tuples, self.keys.names[port])
        mine, theirs = tuples[places], others.take(rows)
        left, right = (mine, theirs) if port == LEFT else (theirs, mine)
        pairs = left.hstack([column for column in right.get_columns() if column.name not in left.columns])
        if self._residual is None or not pairs.height:
            return pairs, places, rows
        pairs = self.passing(pairs.with_row_index(_ID), self._residual)
        passed = pairs[_ID].to_numpy().astype(np.int64)
        return pairs, places[passed], rows[passed]

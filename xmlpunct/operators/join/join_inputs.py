"""The base of all joins: two inputs paired by k, and the values of k that each input has closed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join.join_bounds import program_of
from xmlpunct.operators.join.join_boxes import Boxes
from xmlpunct.operators.join.join_keys import LEFT, SIDES, JoinKeys
from xmlpunct.operators.join.two_sides import TwoSides
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema

_ID = "$id"


class JoinInputs(TwoSides[Pending], Operator):
    """Two inputs. Each closes retained tuples of the other input, by values of ``keys``.

    - joinPs(ps) = the values of k that ps close, singly or jointly: ``<k=1, sid=S1>`` and ``<k=1, sid=S2>`` close
      k = 1 once they cover the domain of sid

    A ``residual`` is an additional condition on pairs. If it bounds attributes of the other input, a tuple is also
    purged once that input has closed its box (`Boxes`). ``stored`` has the schema of each side's retained tuples,
    ``counts`` the number of its arrangements.
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
        Operator.__init__(self, inputs, schema)
        TwoSides.__init__(self, keys.alignment, [Pending(schema) for schema in stored], retained)
        self.keys = keys
        self._residual = None if residual is None else program_of(residual, inputs)
        self._joint = [
            JointCover(input_, set(range(len(input_))).difference(keys.positions[side]))
            for side, input_ in enumerate(inputs)
        ]
        self.key_paths: list[KeyPath] = [
            (joint, keys.renaming(keys.names[side]))
            for side in SIDES
            for joint in (self._joint[side], *self.boxes[1 - side].joints)
        ]
        self.sides |= {f"joint{side}": joint for side, joint in enumerate(self._joint)}
        for side, boxes in enumerate(self.boxes):
            self.sides |= {f"{name}_{side}": part for name, part in boxes.parts.items()}

    def closings(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """joinPs: the values of k that new punctuations of an input close, as punctuations over k."""
        return self._joint[port].add(batch).rebase(self.keys.schema, self.keys.positions[port])

    def receive(self, port: int, batch: PunctuationBatch) -> tuple[PunctuationBatch, list[pl.DataFrame]]:
        """The new `closings`; and the tuples that are purged from each arrangement of the other side."""
        side, closed = 1 - port, self.closings(port, batch)
        purged = self.close(side, self.keys.to_schema(closed, self.pending[side].schema, side))
        if self.boxes[side]:
            closed_boxes = self.boxes[side].receive(batch)
            boxed = [
                self.lose(side, tuples.matching(closed_boxes), i)
                for i, tuples in enumerate(self.retained[side])
            ]
            purged = [pl.concat(frames) for frames in zip(purged, boxed, strict=True)]
        for (
            boxes
        ) in self.boxes:  # one side has no more tuples of this k; tuples of the other are decided by k alone
            boxes.forget(closed)
        self.keys.add(port, closed)
        return closed, purged

    def bounded(self, port: int, tuples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """An input's tuples with their bounds; and which of them can have no partner, as with a null in k."""
        has_null = self.keys.has_null(port, tuples)
        if not self.boxes[port]:
            return tuples, has_null
        tuples, is_empty = self.boxes[port].bounded(tuples)
        return tuples, has_null | is_empty

    def closed_by(self, port: int, side: int, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple of input ``side``, with its bounds, whether input ``port`` has closed all its partners."""
        closed = self.keys.closed_by(port, side, tuples)
        return closed | self.boxes[side].closed(tuples) if self.boxes[side] else closed

    def meet(self, port: int, tuples: pl.DataFrame, number: int = 0) -> tuple[pl.DataFrame, Rows, Rows]:
        """The pairs of an input's tuple and a retained tuple that agree on k and satisfy ``residual``.

        Also the position in ``tuples`` and the row in arrangement ``number`` of each pair; arrays of shape (pairs,).
        """
        arrangement = self.retained[1 - port][number]
        positions, rows = arrangement.probe(tuples, self.keys.names[port])
        probing, retained = tuples[positions], arrangement.take(rows)
        left, right = (probing, retained) if port == LEFT else (retained, probing)
        pairs = left.hstack([column for column in right.get_columns() if column.name not in left.columns])
        if self._residual is None or not pairs.height:
            return pairs, positions, rows
        pairs = self.passing(pairs.with_row_index(_ID), self._residual)
        ids = pairs[_ID].to_numpy().astype(np.int64)
        return pairs, positions[ids], rows[ids]

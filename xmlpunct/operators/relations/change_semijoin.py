"""semijoin and antijoin of relations: the left tuples with, or without, a partner.

A class of its own beside `ChangeJoin`: pairs are emitted at once, but a left tuple only once the instant is closed.
"""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, Equalities
from xmlpunct.operators.relations.change_join import ChangeJoin
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.sets.pointwise import Pointwise
from xmlpunct.operators.state import State
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT
from xmlpunct.slice import without


class ChangeSemi(Operator):
    """Left tuples at the instants at which a right tuple agrees with them on k and satisfies ``residual``.

    ``kind`` is "semi", or "anti": left tuples at the instants at which no right tuple does.

    - R(τ)  = [e | e in R1(τ), some f in R2(τ): e.k = f.k, residual(e, f)]; anti: [e | e in R1(τ), no such f]
    - J     = the left tuples of `ChangeJoin`, each as often as it has partners
    - cpass, cprop, ckeep = as in `Pointwise` over R1 and J: all copies of a tuple if J has one; anti: if not

    Punctuations on right attributes other than k count once they jointly close k. A left tuple with a null in k has no
    partner, and an antijoin emits it at once.

    >>> from xmlpunct.schema.change_columns import changes
    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> bids, items = (changes(Schema.parse(c), INT) for c in ("item INT, price INT", "id INT"))
    >>> anti = ChangeSemi(bids, items, [("item", "id")], Instants(INT), kind="anti")
    >>> show(anti, "1: 7 10 2 1; 7 10 4 -1; P(*, *, (,5], *)", "2: 7 3 1", "2: P(7, (,5], *)")
    1: 7 10 2 1; 7 10 4 -1; P(*, *, (,5], *) -> P(*, *, (,1], *)
    2: 7 3 1                                 ->
    2: P(7, (,5], *)                         -> 7 10 2 1; 7 10 3 -1; P(*, *, (,5], *)
    """

    name = "semijoin"

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Equalities,
        instants: Instants,
        residual: Expression | None = None,
        kind: str = "semi",
    ) -> None:
        self._join = ChangeJoin(left, right, keys, instants, residual)
        schema = left if kind == "anti" else self._join.keys.without_nulls(left, residual)
        super().__init__((left, right), schema)
        self.kind, self.instants, self.residual, self.keys = kind, instants, residual, self._join.keys
        self._sources: list[int | None] = [self._join.schema.index(name) for name in left.names]
        self._pointwise = Pointwise([left, left], kind, instants)
        constrained = {*self.keys.positions[RIGHT], right.index(AT)}
        self._joint = JointCover(right, {*range(len(right))} - constrained)
        self.key_paths = [
            (self._joint, dict(zip(*self.keys.names, strict=True))),
            *((part, None) for part in (self._join, self._pointwise)),
            *self._join.key_paths,
            *self._pointwise.key_paths,
        ]
        join, pointwise = self._join.state.parts, self._pointwise.state.parts
        self.state = State(
            joint=self._joint,
            **{f"join_{name}": part for name, part in join.items()},
            **{f"pointwise_{name}": part for name, part in pointwise.items()},
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._join.number = self.number
        pairs = self._join.step(port, tuples)[:, self.schema.names]
        self.rejects += [] if self.drops_rejects else self._join.rejects
        self._join.rejects.clear()
        self._pointwise.step(1, pairs)
        if port == RIGHT:
            return self.schema.empty()
        has_null = self.keys.has_null(LEFT, tuples)
        self._pointwise.step(0, without(tuples, has_null))
        return tuples.filter(has_null) if self.kind == "anti" else self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if port == RIGHT:
            batch = self._joint.add(batch)
        _, joined = self._join.punctuate(port, batch)
        results, punctuations = self._pointwise.punctuate(1, joined.rebase(self.schema, self._sources))
        if port == LEFT:
            left_results, left_punctuations = self._pointwise.punctuate(0, batch)
            results = pl.concat([results, left_results])
            punctuations = PunctuationBatch.union([punctuations, left_punctuations])
        return results, punctuations.rename(self.schema)

    def waits(self) -> list[int]:
        return self._join.waits()

"""The output of a join of each kind: its schema, and the translation of an input's tuples and punctuations."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import distinct
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import BOOLEAN
from xmlpunct.types.pattern import EMPTY, intersect, interval

PRESERVED = {
    "inner": (),
    "left": (LEFT,),
    "right": (RIGHT,),
    "full": (LEFT, RIGHT),
    "semi": (),
    "anti": (LEFT,),
}
"""For each kind of join, the preserved sides, whose tuples are emitted even without a partner."""
LEFT_ONLY = ("semi", "anti")
"""The kinds whose output is left tuples, each once, and not pairs."""
_ANY = "$any"


class JoinOutput:
    """All attributes of both inputs; of a semijoin or antijoin (`LEFT_ONLY`), those of the left input.

    An inner join has k once, under the left names. Where all results have a partner (inner, semi), attributes are NOT
    NULL if the condition excludes nulls. An outer join has nulls in place of a missing partner. A punctuation on that
    side is propagated only if it constrains an attribute, because then no row of nulls matches it.

    ``stored`` are the schemas of retained tuples. A semijoin or antijoin retains of a right tuple the columns that k
    and the residual read. ``origins`` has, for each side, the position in ``stored`` of each output attribute, or None.
    """

    def __init__(
        self, inputs: tuple[Schema, Schema], keys: JoinKeys, kind: str, residual: Expression | None = None
    ) -> None:
        self.left_only = kind in LEFT_ONLY
        self.stored = (
            inputs[LEFT],
            self._partner(inputs[RIGHT], keys, residual) if self.left_only else inputs[RIGHT],
        )
        self.preserved = [side in PRESERVED[kind] for side in (LEFT, RIGHT)]
        sides = [
            [a.weakened() if self.preserved[1 - side] else a for a in schema]
            for side, schema in enumerate(self.stored)
        ]
        alias = dict[str, str]()
        if kind in ("inner", "semi"):
            alias = dict(zip(*keys.names, strict=True))
            sides[RIGHT] = [a for a in sides[RIGHT] if a.name not in keys.names[RIGHT]]
        self.schema = Schema.of(sides[LEFT] if self.left_only else [*sides[LEFT], *sides[RIGHT]])
        if kind in ("inner", "semi"):
            self.schema = keys.without_nulls(self.schema, residual)
        self.origins = [
            [self.stored[side].index(name) if name in self.stored[side] else None for name in names]
            for side, names in (
                (LEFT, self.schema.names),
                (RIGHT, [alias.get(n, n) for n in self.schema.names]),
            )
        ]
        pairs = () if kind == "inner" or self.left_only else zip(*keys.names, strict=True)
        self._equal = [(self.schema.index(a), self.schema.index(b)) for a, b in pairs]

    @staticmethod
    def _partner(right: Schema, keys: JoinKeys, residual: Expression | None) -> Schema:
        """The columns of right tuples that k and the residual read; if they read none, a constant one."""
        needed = {*keys.names[RIGHT], *(residual.columns() if residual is not None else ())}
        columns = [a for a in right if a.name in needed]
        return Schema.of(columns or [Attribute(_ANY, BOOLEAN, nullable=False)])

    def to_stored(self, side: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """An input's tuples with the columns in ``stored``; each right tuple of a semijoin or antijoin once."""
        if not self.left_only or side == LEFT:
            return tuples
        return distinct(tuples.with_columns(pl.lit(True).alias(_ANY)).select(self.stored[RIGHT].names))

    def possible(self, p: Punctuation) -> bool:
        """Whether an output tuple can match ``p``: its k is equal on both sides, or null on one."""
        return all(intersect(p.patterns[i], p.patterns[j]) is not EMPTY for i, j in self._equal)

    def without_partner(self, side: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """A preserved side's tuples with nulls for the other side, if that is in the output."""
        names = self.stored[side].names
        nulls = [pl.lit(None, dtype=a.type.dtype).alias(a.name) for a in self.schema if a.name not in names]
        return tuples.with_columns(nulls).select(self.schema.names)

    def to_output(self, side: int, batch: PunctuationBatch) -> PunctuationBatch:
        """modPs: punctuations of an input as punctuations of the output.

        If nulls can replace a side, its end implies only that all its attributes will be null.
        """
        origins = self.origins[side]
        if not (self.preserved[1 - side] and batch.has_end):
            return batch.rebase(self.schema, origins)
        nulls = [
            Punctuation.of(self.schema, **{a.name: interval(a.type, None, None, False, False)})
            for a, origin in zip(self.schema, origins, strict=True)
            if origin is not None
        ]
        constraining = PunctuationBatch(p for p in batch if not p.is_everything)
        return PunctuationBatch([*constraining.rebase(self.schema, origins), *nulls])

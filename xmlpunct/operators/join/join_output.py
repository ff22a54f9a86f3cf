"""The output of a join: its schema, and the translation of an input's tuples and punctuations."""

from __future__ import annotations

import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import EMPTY, intersect, interval

PRESERVED = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""For each kind of join, the preserved sides, whose tuples are emitted even without a partner."""


class JoinOutput:
    """All attributes of both inputs. An inner join has k once, under the left names. Its attributes are NOT NULL where
    its condition excludes nulls.

    An outer join has nulls in place of a missing partner. A punctuation on that side is propagated only if it
    constrains an attribute, because then no row of nulls matches it. ``origins`` has, for each side, the position in
    that input of each output attribute, or None.
    """

    def __init__(
        self, inputs: tuple[Schema, Schema], keys: JoinKeys, kind: str, residual: Expression | None = None
    ) -> None:
        self.inputs = inputs
        self.preserved = [side in PRESERVED[kind] for side in (LEFT, RIGHT)]
        sides = [
            [a.weakened() if self.preserved[1 - side] else a for a in schema]
            for side, schema in enumerate(inputs)
        ]
        alias = dict[str, str]()
        if kind == "inner":
            alias = dict(zip(*keys.names, strict=True))
            sides[RIGHT] = [a for a in sides[RIGHT] if a.name not in keys.names[RIGHT]]
        self.schema = Schema.of([*sides[LEFT], *sides[RIGHT]])
        if kind == "inner":
            self.schema = keys.without_nulls(self.schema, residual)
        self.origins = [
            [inputs[side].index(name) if name in inputs[side] else None for name in names]
            for side, names in (
                (LEFT, self.schema.names),
                (RIGHT, [alias.get(n, n) for n in self.schema.names]),
            )
        ]
        pairs = zip(*keys.names, strict=True) if kind != "inner" else ()
        self._equal = [(self.schema.index(a), self.schema.index(b)) for a, b in pairs]

    def possible(self, p: Punctuation) -> bool:
        """Whether an output tuple can match ``p``: its k is equal on both sides, or null on one."""
        return all(intersect(p.patterns[i], p.patterns[j]) is not EMPTY for i, j in self._equal)

    def with_nulls(self, side: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """A side's tuples with nulls for the other side."""
        names = self.inputs[side].names
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

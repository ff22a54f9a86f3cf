"""join: symmetric hash join on equality attributes; inner, left, right and full outer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled
from xmlpunct.frames import Snapshot
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.pending import Pending
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.fused import Past
from xmlpunct.punctuations.ownership import Ways
from xmlpunct.punctuations.pattern import Constant, interval
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import without

PRESERVED = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""For each kind of join the sides whose tuples come out without a partner too."""
_ID = "$id"
Met = tuple[Punctuation, Punctuation]
"""A punctuation of an input, and its combination with what the other input has closed."""


class Join(Operator):
    """Pairs the tuples of two inputs that agree on k, and satisfy ``residual`` if there is one.

    - cpass   = [(t1, t2) | t1.k = t2.k, residual(t1, t2)], and a preserved side's tuple with nulls once the
      other input has closed its k (or k is null) and no pair was found
    - ckeep1  = [t | t in ts1, setNomatch(t.k, joinPs(ps2))]; ckeep2 mirrored
    - cprop   = modPs1(setNomatchPs(ts1', ps1)) ++ modPs2(setNomatchPs(ts2', ps2)), where ts' is retained
      after keep; and for a preserved side its punctuations combined with what the other has closed

    A tuple whose k the other input has closed already is paired and not stored; neither is one with a null
    in k. An inner join's output has each attribute of k once, under the left's name; an outer join's has
    both, and a punctuation on the null-supplied side counts only if it constrains one of its attributes,
    for then no row of nulls matches it; ``*`` everywhere becomes ``(,)`` on each of them.
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
        self.keys, self.kind = JoinKeys((left, right), keys), kind
        self._preserved = [side in PRESERVED[kind] for side in (LEFT, RIGHT)]
        sides = [
            [a.weakened() if self._preserved[1 - port] else a for a in schema]
            for port, schema in enumerate((left, right))
        ]
        if kind == "inner":
            sides[RIGHT] = [a for a in sides[RIGHT] if a.name not in self.keys.names[RIGHT]]
        super().__init__((left, right), Schema.of([*sides[LEFT], *sides[RIGHT]]))
        self._places = [self._origins(side) for side in (LEFT, RIGHT)]
        self._residual = residual
        self._stored = [
            Arrangement(side.empty(), self.keys.names[port]) for port, side in enumerate((left, right))
        ]
        self._paired = [
            Arrangement(side.empty(), self.keys.names[port]) for port, side in enumerate((left, right))
        ]
        """Of a preserved side, the stored tuples that have found a partner."""
        self._pending = [Pending(left), Pending(right)]
        self._ended = [False, False]
        self._past = [Past(left), Past(right)]
        """On several shards, what has been said of a preserved side that every shard has to say."""

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        if any(self._preserved):
            self.keys.spread(ways, self.sifted)

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        null = self.keys.has_null(port, tuples)
        fresh = without(tuples, null)
        found, matched, partners = list[pl.DataFrame](), np.zeros(fresh.height, np.bool_), list[Rows]()
        for others in self._tuples(1 - port):
            places, rows = others.probe(fresh, self.keys.names[port])
            pairs, passed = self._pairs(port, fresh[places], others.take(rows))
            found.append(pairs)
            matched[places[passed]] = True
            partners.append(rows[passed])
        if self._preserved[1 - port]:
            self._paired[1 - port].append(self._stored[1 - port].remove(np.unique(partners[0])))
        closed = self.keys.closed_by(1 - port, port, fresh)
        if not self._preserved[port]:
            self._stored[port].append(without(fresh, closed))
            return pl.concat(found)
        alone = pl.Series(~matched)
        self._stored[port].append(fresh.filter(~closed & alone))
        self._paired[port].append(fresh.filter(~closed & ~alone))
        left_alone = (tuples.filter(null), fresh.filter(closed & alone))
        return pl.concat([*found, *(self._with_nulls(port, part) for part in left_alone)])

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        other = 1 - port
        closed = self.keys.closings(port, batch)
        gone = PunctuationSet(self.inputs[other], self.keys.moved(closed, self.inputs[other], other))
        removed = [stored.remove(stored.matching(gone)) for stored in self._tuples(other)]  # keep
        passed = self._with_nulls(other, removed[0]) if self._preserved[other] else self.schema.empty()
        for tuples in removed:
            self._pending[other].lose(tuples)
        # What is closed on both sides is forgotten next, and still combines with these punctuations.
        met = self._meet(port, batch) if self._preserved[port] else []
        self.keys.add(port, closed)
        self._ended[port] |= batch.has_end
        self._pending[port].add(batch)
        return passed, self._promised(port, closed, met)

    def _tuples(self, side: int) -> list[Arrangement]:
        """What is stored of an input: where it is preserved, first what has no partner yet."""
        return [self._stored[side], self._paired[side]] if self._preserved[side] else [self._stored[side]]

    # Punctuations

    def _promised(self, port: int, closed: PunctuationBatch, met: list[Met]) -> PunctuationBatch:
        """cprop, once an input has ``closed`` values of k, and its punctuations have ``met`` the other's."""
        found = []
        for side in (LEFT, RIGHT):
            free = self._pending[side].free(self._tuples(side))
            found.append(self._said(side, free))
            if self.ownership and self._preserved[side]:
                self._past[side].update(self._lasting(side, free))
        for side in (LEFT, RIGHT):
            if self._preserved[side]:
                found.append(self._said(side, self._halves(side, port, closed, met)))
        if self.kind == "full" and all(self._ended) and not self.rows:
            over = PunctuationBatch([Punctuation.everything(self.schema)])
            return PunctuationBatch.union([*found, over]) if self.ownership else over
        return PunctuationBatch.union(found)

    def _halves(self, side: int, port: int, closed: PunctuationBatch, met: list[Met]) -> PunctuationBatch:
        """What is new in a preserved side's punctuations combined with what the other has closed."""
        pending = self._pending[side].waiting
        if port == side:
            return PunctuationBatch(c for p, c in met if p in pending or self._is_needed(side, c, p))
        fresh, past = self.keys.moved(closed, self.inputs[side], side), self._past[side]
        over = past.complete and not len(pending) and not (self.sifted and len(past) > 1)
        if over and fresh.place is not None and not fresh.ranged and not self._lasting(side, fresh):
            return fresh
        found = [p for c in fresh for p in pending.combinations(c)] if len(pending) else []
        for c in fresh if len(past) else ():
            both = [(p, q) for p in past.overlapping(c) if (q := combine(p, c)) is not None]
            found += [q for p, q in both if self._is_needed(side, q, p)]
        return PunctuationBatch(found)

    def _is_needed(self, side: int, c: Punctuation, p: Punctuation) -> bool:
        """Whether somebody may need to hear ``c`` though ``p`` has been said, which implies it."""
        return c != p and self._lasts(side, p) and self.ownership.needs(self._moved(side, c))

    def _lasting(self, side: int, batch: PunctuationBatch) -> PunctuationBatch:
        """Those that may imply something that somebody needs to hear, once it is combined with what is closed later."""
        if batch.place is not None and not batch.ranged:
            moved = batch.rebase(self.schema, self._places[side])
            fixed = self.keys.places[side] == [batch.place]
            if fixed or (moved.place is not None and not self.ownership.lasting(moved)):
                return PunctuationBatch()
        return PunctuationBatch(p for p in batch if self._lasts(side, p))

    def _lasts(self, side: int, p: Punctuation) -> bool:
        """Whether a punctuation is one of `_lasting`: one of a single k is combined to nothing but itself."""
        fixed = all(isinstance(p.patterns[i], Constant) for i in self.keys.places[side])
        return not (fixed and self.keys.schema.names) and self.ownership.lasts(self._moved(side, p))

    def _moved(self, side: int, p: Punctuation) -> Punctuation:
        """A punctuation of an input as one of the output."""
        return p.rebase(self.schema, self._places[side])

    def _meet(self, port: int, batch: PunctuationBatch) -> list[Met]:
        """Punctuations of an input, each with its combinations with what the other has closed."""
        schema, alignment, other = self.inputs[port], self.keys.alignment, 1 - port
        found = []
        for p in batch if len(alignment.inputs[other]) + len(alignment.past[other]) else ():
            for c in self.keys.moved(self.keys.closed(other, p), schema, port):
                both = combine(p, c)
                if both is not None:
                    found.append((p, both))
        return found

    def _said(self, side: int, batch: PunctuationBatch) -> PunctuationBatch:
        """modPs: punctuations of an input as ones of the output.

        The end of a null-supplied side says no more than that its attributes will all be null.
        """
        places = self._places[side]
        if not (self._preserved[1 - side] and batch.has_end):
            return batch.rebase(self.schema, places)
        nulls = [
            Punctuation.of(self.schema, **{a.name: interval(a.type, None, None, False, False)})
            for a, place in zip(self.schema, places, strict=True)
            if place is not None
        ]
        others = PunctuationBatch(p for p in batch if not p.is_everything)
        return PunctuationBatch([*others.rebase(self.schema, places), *nulls])

    def _origins(self, side: int) -> list[int | None]:
        """For each attribute of the output its place in an input, if it is there."""
        places: dict[str, int] = {name: i for i, name in enumerate(self.inputs[side].names)}
        if self.kind == "inner" and side == RIGHT:
            for left, right in zip(*self.keys.names, strict=True):
                places[left] = places.pop(right)
        return [places.get(name) for name in self.schema.names]

    # Rows

    def _pairs(self, port: int, mine: pl.DataFrame, others: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
        """The pairs of tuples of equal k, place by place, that satisfy the residual, and their places."""
        left, right = (mine, others) if port == LEFT else (others, mine)
        pairs = left.hstack([column for column in right.get_columns() if column.name not in left.columns])
        passed = np.arange(pairs.height)
        if self._residual is not None and pairs.height:
            pairs = self.passing(pairs.with_row_index(_ID), compiled(self._residual))
            passed = pairs[_ID].to_numpy().astype(np.int64)
        return pairs.select(self.schema.names), passed

    def _with_nulls(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """A preserved side's tuples with nulls for the other side."""
        mine = self.inputs[port].names
        columns = [
            pl.col(a.name) if a.name in mine else pl.lit(None, dtype=a.type.dtype).alias(a.name)
            for a in self.schema
        ]
        return tuples.with_columns(columns).select(self.schema.names)

    # State

    def waits(self) -> list[int]:
        stored = [a.height + b.height for a, b in zip(self._stored, self._paired, strict=True)]
        return stored[::-1]

    @property
    def rows(self) -> int:
        return sum(s.height for s in (*self._stored, *self._paired))

    @property
    def held(self) -> int:
        return self.keys.alignment.held + sum(map(len, self._pending)) + sum(map(len, self._past))

    def snapshot(self) -> Snapshot:
        found = dict[str, pl.DataFrame]()
        for i, (stored, paired) in enumerate(zip(self._stored, self._paired, strict=True)):
            found |= stored.snapshot(f"stored{i}") | paired.snapshot(f"paired{i}")
        pending = {f"pending{i}": p.snapshot() for i, p in enumerate(self._pending)}
        flags = pl.DataFrame({"left": [self._ended[LEFT]], "right": [self._ended[RIGHT]]})
        if self.ownership:
            pending |= {f"remembered{i}": past.snapshot() for i, past in enumerate(self._past)}
        return {**found, **pending, **self.keys.alignment.snapshot(), "flags": flags}

    def restore(self, snapshot: Snapshot) -> None:
        for i, pending in enumerate(self._pending):
            self._stored[i].restore(f"stored{i}", snapshot)
            self._paired[i].restore(f"paired{i}", snapshot)
            pending.restore(snapshot[f"pending{i}"])
        self.keys.alignment.restore(snapshot)
        for i, past in enumerate(self._past if self.ownership else ()):
            past.restore(snapshot[f"remembered{i}"])
        self._ended = list(snapshot["flags"].row(0))

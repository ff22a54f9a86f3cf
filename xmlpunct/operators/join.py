"""join: symmetric hash join on equality attributes; inner, left, right and full outer."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xmlpunct.bundle import Bundle, distinct, has_end, rebased
from xmlpunct.fused import Past
from xmlpunct.operators.evaluate import evaluate
from xmlpunct.operators.expression import Expression
from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.operators.join_keys import LEFT, RIGHT, JoinKeys
from xmlpunct.operators.table import Table
from xmlpunct.ownership import Ways
from xmlpunct.patterns import Constant, interval
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation, combine
from xmlpunct.schema import Schema
from xmlpunct.slice import without

PRESERVED = {"inner": (), "left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""For each kind of join the sides whose tuples come out without a partner too."""
_ID, _MATCHED = "$id", "$matched"


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
        self._residual = None if residual is None else evaluate(residual)
        self._next_id = 0
        self._stored = [Table(self._marked(port, side.empty())) for port, side in enumerate((left, right))]
        self._pending = [PunctuationSet(left), PunctuationSet(right)]
        self._ended = [False, False]
        self._closed: Sequence[Punctuation] = ()
        """What the slice at hand closes, as punctuations over k."""
        self._met: list[tuple[Punctuation, Punctuation]] = []
        self._past = [Past(left), Past(right)]
        """On several shards, what has been said of a preserved side that every shard has to say."""

    def spread(self, ways: Ways) -> None:
        super().spread(ways)
        if any(self._preserved):
            self.keys.spread(ways, self.sifted)

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        mine, others = self._stored[port], self._stored[1 - port]
        null = self.keys.has_null(port, tuples)
        fresh = self._marked(port, without(tuples, null))
        pairs = self._pairs(*((fresh, others.frame) if port == LEFT else (others.frame, fresh)))
        fresh = self._mark(port, fresh, pairs)
        marked = self._mark(1 - port, others.frame, pairs)
        if marked is not others.frame:
            others.change(marked[_MATCHED] & ~others.frame[_MATCHED], marked)
        closed = self.keys.closed_by(1 - port, port, fresh)
        mine.append(without(fresh, closed))
        found = [pairs.select(self.schema.names)]
        if self._preserved[port]:
            found.append(self._with_nulls(port, tuples.filter(null)))
            found.append(self._with_nulls(port, fresh.filter(closed & ~fresh[_MATCHED])))
        return pl.concat(found)

    def pass_(self, port: int, punctuations: Sequence[Punctuation]) -> pl.DataFrame:
        other = 1 - port
        self._closed = self.keys.closings(port, punctuations)
        if not self._preserved[other]:
            return self.schema.empty()
        stored = self._stored[other].frame
        closed = self.keys.among(self._closed, other, stored)
        return self._with_nulls(other, stored.filter(closed & ~stored[_MATCHED]))

    def keep(self, port: int, punctuations: Sequence[Punctuation]) -> None:
        others = self._stored[1 - port]
        others.purge(self.keys.among(self._closed, 1 - port, others.frame))
        # What is closed on both sides is forgotten next, and still combines with these punctuations.
        self._met = self._meet(port, punctuations) if self._preserved[port] else []
        self.keys.add(port, self._closed)
        self._ended[port] |= has_end(punctuations)
        self._pending[port].update(punctuations)

    # Punctuations

    def prop(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        found = []
        for side in (LEFT, RIGHT):
            free = self._pending[side].unmatched(self._stored[side].frame)
            found.append(self._said(side, free))
            self._pending[side].discard(free)
            if self.ownership and self._preserved[side]:
                self._past[side].update(self._lasting(side, free))
        for side in (LEFT, RIGHT):
            if self._preserved[side]:
                found.append(self._said(side, self._halves(side, port)))
        if self.kind == "full" and all(self._ended) and not any(s.height for s in self._stored):
            over = [Punctuation.everything(self.schema)]
            return distinct([*found, over]) if self.ownership else over
        return distinct(found)

    def _halves(self, side: int, port: int) -> Sequence[Punctuation]:
        """What is new in a preserved side's punctuations combined with what the other has closed."""
        pending = self._pending[side]
        if port == side:
            return [c for p, c in self._met if p in pending or self._is_needed(side, c, p)]
        fresh, past = self.keys.moved(self._closed, self.inputs[side], side), self._past[side]
        over = past.complete and not len(pending) and not (self.sifted and len(past) > 1)
        if over and isinstance(fresh, Bundle) and not self._lasting(side, fresh):
            return fresh
        found = [p for c in fresh for p in pending.combinations(c)] if len(pending) else []
        for c in fresh if len(past) else ():
            both = [(p, q) for p in past.overlapping(c) if (q := combine(p, c)) is not None]
            found += [q for p, q in both if self._is_needed(side, q, p)]
        return found

    def _is_needed(self, side: int, c: Punctuation, p: Punctuation) -> bool:
        """Whether somebody may need to hear ``c`` though ``p`` has been said, which implies it."""
        return c != p and self._lasts(side, p) and self.ownership.needs(self._moved(side, c))

    def _lasting(self, side: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        """Those that may imply something that somebody needs to hear, once it is combined with what is closed later."""
        if isinstance(punctuations, Bundle):
            moved = rebased(punctuations, self.schema, self._places[side])
            fixed = self.keys.places[side] == [punctuations.place]
            if fixed or (isinstance(moved, Bundle) and not self.ownership.lasting(moved)):
                return []
        return [p for p in punctuations if self._lasts(side, p)]

    def _lasts(self, side: int, p: Punctuation) -> bool:
        """Whether a punctuation is one of `_lasting`: one of a single k is combined to nothing but itself."""
        fixed = all(isinstance(p.patterns[i], Constant) for i in self.keys.places[side])
        return not (fixed and self.keys.schema.names) and self.ownership.lasts(self._moved(side, p))

    def _moved(self, side: int, p: Punctuation) -> Punctuation:
        """A punctuation of an input as one of the output."""
        return p.rebase(self.schema, self._places[side])

    def _meet(self, port: int, punctuations: Sequence[Punctuation]) -> list[tuple[Punctuation, Punctuation]]:
        """Punctuations of an input, each with its combinations with what the other has closed."""
        schema, meeting, other = self.inputs[port], self.keys.meeting, 1 - port
        found = []
        for p in punctuations if len(meeting.inputs[other]) + len(meeting.past[other]) else ():
            for c in self.keys.moved(self.keys.closed(other, p), schema, port):
                both = combine(p, c)
                if both is not None:
                    found.append((p, both))
        return found

    def _said(self, side: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        """modPs: punctuations of an input as ones of the output.

        The end of a null-supplied side says no more than that its attributes will all be null.
        """
        places = self._places[side]
        if not (self._preserved[1 - side] and has_end(punctuations)):
            return rebased(punctuations, self.schema, places)
        nulls = [
            Punctuation.of(self.schema, **{a.name: interval(a.type, None, None, False, False)})
            for a, place in zip(self.schema, places, strict=True)
            if place is not None
        ]
        others = [p for p in punctuations if not p.is_everything]
        return [*rebased(others, self.schema, places), *nulls]

    def _origins(self, side: int) -> list[int | None]:
        """For each attribute of the output its place in an input, if it is there."""
        places: dict[str, int] = {name: i for i, name in enumerate(self.inputs[side].names)}
        if self.kind == "inner" and side == RIGHT:
            for left, right in zip(*self.keys.names, strict=True):
                places[left] = places.pop(right)
        return [places.get(name) for name in self.schema.names]

    # Rows

    def _marked(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        """Tuples with a number each and a mark whether they have found a partner."""
        if not self._preserved[port]:
            return tuples
        numbers = pl.Series(
            _ID + str(port), range(self._next_id, self._next_id + tuples.height), dtype=pl.Int64
        )
        self._next_id += tuples.height
        return tuples.with_columns(numbers, pl.lit(False).alias(_MATCHED))

    def _mark(self, port: int, tuples: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
        if not self._preserved[port] or not pairs.height:
            return tuples
        identity = _ID + str(port)
        partner = tuples[identity].is_in(pairs[identity].implode())
        return tuples.with_columns((pl.col(_MATCHED) | partner).alias(_MATCHED))

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        pairs = self.keys.pairs(
            *(side.drop(_MATCHED) if _MATCHED in side else side for side in (left, right))
        )
        if self._residual is not None or self.kind != "inner":
            right_keys = zip(*self.keys.names, strict=True)
            pairs = pairs.with_columns(pl.col(k).alias(name) for k, name in right_keys)
        if self._residual is not None:
            if self._residual.error is not None:
                pairs = self.reject_failures(pairs, self._residual.error)
            pairs = pairs.filter(self._residual.value)
        return pairs

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
        return [s.height for s in reversed(self._stored)]

    @property
    def rows(self) -> int:
        return sum(s.height for s in self._stored)

    @property
    def held(self) -> int:
        return self.keys.meeting.held + sum(map(len, self._pending)) + sum(map(len, self._past))

    def snapshot(self) -> Snapshot:
        left, right = (stored.snapshot(f"stored{i}") for i, stored in enumerate(self._stored))
        pending = {f"pending{i}": p.snapshot() for i, p in enumerate(self._pending)}
        flags = pl.DataFrame(
            {"left": [self._ended[LEFT]], "right": [self._ended[RIGHT]], "id": [self._next_id]}
        )
        if self.ownership:
            pending |= {f"remembered{i}": past.snapshot() for i, past in enumerate(self._past)}
        return {**left, **right, **pending, **self.keys.meeting.snapshot(), "flags": flags}

    def restore(self, snapshot: Snapshot) -> None:
        for i, stored in enumerate(self._stored):
            stored.restore(f"stored{i}", snapshot)
        self._pending = [
            PunctuationSet.restored(schema, snapshot[f"pending{i}"]) for i, schema in enumerate(self.inputs)
        ]
        self.keys.meeting.restore(snapshot)
        for i, past in enumerate(self._past if self.ownership else ()):
            past.restore(snapshot[f"remembered{i}"])
        left, right, self._next_id = snapshot["flags"].row(0)
        self._ended = [left, right]

"""join of relations: a symmetric hash join of changes.

A class of its own beside `Join`: each key is closed up to an instant, so tuples settle before they are purged, and a
punctuation is emitted in parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl

from xmlpunct.expressions.conjunctions import condition
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.join.join_keys import LEFT, SIDES, Equalities, JoinKeys
from xmlpunct.operators.join.join_output import JoinOutput
from xmlpunct.operators.join.two_sides import TwoSides
from xmlpunct.operators.relations.counted import Counted, consolidated
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.relations.least import InstantsOf, least_instants
from xmlpunct.operators.relations.pending_prefixes import PendingPrefixes
from xmlpunct.operators.relations.prefixes import OPEN, GroupedPrefixes, PrefixesByKey, split, with_at
from xmlpunct.operators.state import State, StateCell
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.ownership import KeyPath
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT, DIFF, changes, tuple_of
from xmlpunct.slice import without
from xmlpunct.types.ordinals import Ordinals
from xmlpunct.types.pattern import constant


class ChangeJoin(TwoSides[PendingPrefixes], Operator):
    """Pairs the changes of two relations whose tuples agree on k, and satisfy ``residual`` if there is one.

    - R(τ)   = [(e1, e2) | e1 in R1(τ), e2 in R2(τ), e1.k = e2.k, residual(e1, e2)]
    - cpass  = [<(e1, e2), max(t1, t2), n1 * n2> | <e1, t1, n1> in ts1, <e2, t2, n2> in ts2, e1.k = e2.k, residual]
    - ckeep1 = [<e1, max(t1, C2(e1.k) + 1), n1> | <e1, t1, n1> in ts1, C2(e1.k) < oo]; ckeep2 mirrored
    - cprop  = [<q, (,min(b, s - 1)]> | <q, (,b]> in ps1] for the least instant s of ckeep1 that q matches; mirrored;
      ++ setCombine(ps1, ps2)

    C2(k) is the last instant up to which the right input has closed k, jointly. A tuple may still meet partners from
    the next instant on, and only its count from there on matters. So its changes up to C2(k) + 1 become one, which is
    retained in *settled*, without its instant; later changes are retained in *unsettled*. Both are consolidated, as is
    the output for a slice (relations 4.5). A null k equals nothing and is not retained.

    `ChangeSemi` has the semijoin and the antijoin. All other joins are composed:

    - LEFT(A, B) = (A join B) + ANTI(A, B) x nulls: `Merge` of the join and a `Project` that adds the nulls
    - FULL(A, B) = LEFT(A, B) + nulls x ANTI(B, A)
    - A where x NOT IN (B's y), c the correlation's equalities = ANTI_c(σ[x is null] A, B) + ANTI_{c, x = y}(D, B), with
      D = ANTI_c(σ[x is not null] A, σ[y is null] B)

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.types import INT
    >>> bids, items = (changes(Schema.parse(c), INT) for c in ("item INT, price INT", "id INT"))
    >>> join = ChangeJoin(bids, items, [("item", "id")], Instants(INT))
    >>> show(join, "1: 7 10 2 1; 7 10 4 -1", "2: 7 0 1; P(*, (,5], *)", "1: P(7, *, (,3], *)")
    1: 7 10 2 1; 7 10 4 -1  ->
    2: 7 0 1; P(*, (,5], *) -> 7 10 2 1; 7 10 4 -1; P(*, *, (,-1], *)
    1: P(7, *, (,3], *)     -> P(*, *, (,3], *)
    """

    name = "join"

    def __init__(
        self,
        left: Schema,
        right: Schema,
        keys: Equalities,
        instants: Instants,
        residual: Expression | None = None,
    ) -> None:
        inputs = left, right
        self.keys, self.instants, self.residual = JoinKeys(inputs, keys), instants, residual
        self._condition = None if residual is None else condition(residual)
        output = JoinOutput((tuple_of(left), tuple_of(right)), self.keys, "inner", residual)
        Operator.__init__(self, inputs, changes(output.schema, instants.type))
        self._origins = [
            [*output.origins[side], inputs[side].index(AT), inputs[side].index(DIFF)] for side in SIDES
        ]
        self._settled = [Counted(schema.empty().drop(AT)) for schema in inputs]
        self._unsettled = [Counted(schema.empty()) for schema in inputs]
        pending = [PendingPrefixes(schema, instants) for schema in inputs]
        TwoSides.__init__(
            self, self.keys.alignment, pending, [*zip(self._settled, self._unsettled, strict=True)]
        )
        self._joint = [
            JointCover(schema, {*range(len(schema))} - {*positions, schema.index(AT)})
            for schema, positions in zip(inputs, self.keys.positions, strict=True)
        ]
        self._key_schema = Schema.of((*self.keys.schema, Attribute(AT, instants.type, False)))
        self._prefixes = [PrefixesByKey(self._key_schema, instants) for _ in SIDES]
        """The instants up to which each input has closed each k."""
        self._alignment = Alignment(self.schema, 2)
        self._at = self.schema.index(AT)
        self._emitted = StateCell[int | None](None)
        """The emitted bound of all tuples, if there is one."""
        self.key_paths = [*self._key_paths()]
        for side in SIDES:
            self.sides |= {f"joint{side}": self._joint[side], f"prefixes{side}": self._prefixes[side]}
        self.state = State(**self.sides, both=self._alignment, emitted=self._emitted)

    def _key_paths(self) -> Iterator[KeyPath]:
        yield self._alignment, None
        yield self.keys.key_path
        for side, input_ in enumerate(self.inputs):
            origins = zip(self.schema.names, self._origins[side], strict=True)
            names = {name: input_.names[origin] for name, origin in origins if origin is not None}
            yield self._joint[side], names
            yield self.pending[side], names

    # Tuples

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        matchable = without(tuples, self.keys.has_null(port, tuples))
        pairs = self._filter_residual(consolidated(pl.concat(self._pairs(port, matchable))))
        self._retain(port, without(matchable, self.keys.closed_by(1 - port, port, matchable)))
        return pairs[:, self.schema.names]

    def _pairs(self, port: int, tuples: pl.DataFrame) -> list[pl.DataFrame]:
        """The changes of all pairs of an input's tuple and a retained tuple of the other side that agree on k."""
        parts = []
        for arrangement in self.retained[1 - port]:
            positions, rows = arrangement.probe(tuples, self.keys.names[port], self.keys.names[1 - port])
            probing, retained = tuples[positions], arrangement.take(rows)
            left, right = (probing, retained) if port == LEFT else (retained, probing)
            at = probing[AT]
            if AT in retained.columns:
                at = pl.select(pl.max_horizontal(at, retained[AT].alias("$other"))).to_series()
            named = {column.name: column for column in (*right.get_columns(), *left.get_columns())}
            named |= {AT: at.alias(AT), DIFF: (probing[DIFF] * retained[DIFF]).alias(DIFF)}
            names = [name for name in (*left.columns, *right.columns) if name not in (AT, DIFF)]
            parts.append(pl.DataFrame([named[name] for name in dict.fromkeys((*names, AT, DIFF))]))
        return parts

    def _filter_residual(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """The changes of pairs that satisfy the residual. A pair on which it fails is rejected when it is inserted."""
        if self._condition is None or not pairs.height:
            return pairs
        if self._condition.simple is not None:
            return pairs.filter(self._condition.simple)
        (holds,), reasons = self._condition.run(pairs)
        if reasons is None:
            return pairs.filter(holds)
        is_insert = pairs[DIFF] > 0
        self.reject_failures(pairs.filter(is_insert), reasons.filter(is_insert))
        return pairs.filter(holds & reasons.is_null())

    def _retain(self, side: int, tuples: pl.DataFrame) -> None:
        """Retain changes of a side that may still have partners."""
        if not tuples.height:
            return
        is_settled = pl.Series(
            self.instants.ordinals(tuples[AT]) <= self._first_open(1 - side, tuples), dtype=pl.Boolean()
        )
        self._settled[side].add(tuples.filter(is_settled))
        self._unsettled[side].add(tuples.filter(~is_settled))

    def _first_open(self, port: int, tuples: pl.DataFrame) -> Ordinals:
        """For each tuple of the other side, the first instant at which input ``port`` may still change its k."""
        prefixes, names = self._prefixes[port], self.keys.names[1 - port]
        if prefixes.is_uniform:
            return np.full(tuples.height, prefixes.floor, np.int64)
        return prefixes.first_open(tuples.select(names).rename(dict(zip(names, prefixes.names, strict=True))))

    # Punctuations

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        has_closed = self._close(port, batch)  # keep
        unblocked = self._to_output(port, self._unblocked_part(port, batch))  # prop
        to_combine = batch
        if not self.ownership:  # punctuations that are emitted uncombined need not be combined
            is_all = unblocked.position is not None and len(unblocked) == len(batch)
            to_combine = PunctuationBatch(() if is_all else filter(self.pending[port].is_waiting, batch))
        old_bound = self._emitted.value
        combined = self._alignment.update(port, self._to_output(port, to_combine))
        punctuations = [unblocked, combined]
        self._record(punctuations)
        if has_closed:
            side, floor = 1 - port, self._prefixes[port].floor
            # without a bound up to the floor, punctuations that wait for this input only may be new
            if self.ownership or self._emitted.value is None or self._emitted.value < floor - 1:
                self.pending[side].touch([Punctuation.everything(self.inputs[side])])
            free = self.pending[side].free(partial(self._least, side))
            punctuations.append(self._to_output(side, PunctuationBatch(free)))
            self._record(punctuations[-1:])
            if not self.ownership:
                self._alignment.discard(side, punctuations[-1])
        return self.schema.empty(), self._not_implied(PunctuationBatch.union(punctuations), old_bound)

    def _to_output(self, side: int, batch: PunctuationBatch) -> PunctuationBatch:
        """Punctuations of an input as punctuations of the output."""
        return batch.rebase(self.schema, self._origins[side])

    def _close(self, port: int, batch: PunctuationBatch) -> bool:
        """Purge or settle the tuples of the other side that punctuations close; whether they close any k."""
        closed = self._joint[port].add(batch)
        if not len(closed):
            return False
        ever, prefixes = split(
            closed.rebase(self._key_schema, [*self.keys.positions[port], self.inputs[port].index(AT)])
        )
        side = 1 - port
        if len(prefixes):
            grouped = GroupedPrefixes(self._key_schema, self.instants, prefixes)
            self._prefixes[port].add(grouped)
            self._settle(side, grouped)
        if len(ever):
            over = ever.rebase(self.keys.schema, range(len(self.keys.schema)))
            self.close(side, self.keys.to_schema(over, self.inputs[side], side))
            self.keys.add(port, over)
            self._prefixes[port].forget(ever)
        return True

    def _settle(self, side: int, closed: GroupedPrefixes) -> None:
        """Settle the later changes of a side that are no longer after the first open instant of their k."""
        schema, names, unsettled = self.inputs[side], self.keys.names[side], self._unsettled[side]
        settling, rows = PunctuationSet(schema), list[Rows]()
        all_keys = Punctuation.everything(self._key_schema)
        sources = [names.index(n) if n in names else len(names) if n == AT else None for n in schema.names]
        for q, first in ({all_keys: closed.floor} | closed.patterns).items():
            settling.add(with_at(q, self.instants.prefix(first)).rebase(schema, sources))
            if q is not all_keys:
                self.pending[side].touch([q.rebase(schema, sources)])
        if len(unsettled):
            rows.append(unsettled.matching(settling))
        for at, constants in closed.constants.items():
            key_names = [names[i] for i in at]
            columns, types = constants.drop(OPEN), [schema[n].type for n in key_names]
            self.pending[side].touch(
                Punctuation.of(schema, **dict(zip(key_names, map(constant, types, row), strict=True)))
                for row in columns.iter_rows()
            )
            if len(unsettled):
                hit, candidates = unsettled.probe(columns, columns.columns, key_names)
                instants = self.instants.ordinals(unsettled.take(candidates, [AT])[AT])
                rows.append(candidates[instants <= constants[OPEN].to_numpy()[hit]])
        if rows:
            moved = self.lose(side, ascending(np.concatenate(rows)), number=1)
            self._settled[side].add(moved.drop(AT))

    def _unblocked_part(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """The part of an input's punctuations that its retained tuples do not block."""
        pending, least = self.pending[port], partial(self._least, port)
        if batch.position in (None, self.inputs[port].index(AT)):
            pending.add(batch)
            return PunctuationBatch(pending.free(least))
        free = PunctuationSet(self.inputs[port], batch)
        for retained in self.retained[port]:
            if len(retained):
                free.discard(retained.blocked(free).all())
        free_batch = free.all()
        pending.remove(free_batch)
        if len(free_batch) < len(batch):
            pending.add(p for p in batch if p not in free)
        return PunctuationBatch.union([free_batch, pending.free(least)])

    def _record(self, batches: Sequence[PunctuationBatch]) -> None:
        """Update the emitted bound of all tuples."""
        for batch in batches:
            if batch.position in (None, self._at):
                bounds = [self.instants.bound(p.patterns[self._at]) for p in batch if self._is_global(p)]
                old = [] if self._emitted.value is None else [self._emitted.value]
                self._emitted.value = max([*old, *bounds], default=None)

    def _is_global(self, p: Punctuation) -> bool:
        return p.constrained in ((), (self._at,))

    def _not_implied(self, batch: PunctuationBatch, old_bound: int | None) -> PunctuationBatch:
        """The punctuations that the emitted bound of all tuples does not imply; ``old_bound``: before the slice."""
        new_bound = self._emitted.value
        if new_bound is None or (batch.position not in (None, self._at) and new_bound < self.instants.last):
            return batch
        bounds = ((p, self.instants.bound(p.patterns[self._at])) for p in batch)
        return PunctuationBatch(
            p
            for p, bound in bounds
            if bound > new_bound
            or (self._is_global(p) and bound == new_bound != old_bound)
            or self.ownership.needs(p)
        )

    # The least instant retained

    def _least(self, side: int, patterns: Sequence[Punctuation]) -> list[int]:
        """For each pattern the least instant of a side's tuples that match it; T's end + 1 if there are none."""
        retained: list[tuple[Arrangement, InstantsOf]] = [
            (self._settled[side], partial(self._first_open, 1 - side)),
            (self._unsettled[side], lambda rows: self.instants.ordinals(rows[AT])),
        ]
        constrained = [q for q in patterns if not q.is_everything]
        least = iter(least_instants(constrained, retained, self.instants.last + 1))
        return [self._least_of_all(side) if q.is_everything else next(least) for q in patterns]

    def _least_of_all(self, side: int) -> int:
        """The least instant that a side retains."""
        least, floor = self.instants.last + 1, self._prefixes[1 - side].floor
        for block in self._settled[side].blocks():
            least = min(least, int(self._first_open(1 - side, block).min()))
            if least == floor:  # no retained tuple is earlier
                return least
        for block in self._unsettled[side].blocks():
            least = min(least, int(self.instants.ordinals(block[AT]).min()))
        return least

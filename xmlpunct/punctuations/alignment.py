"""Alignment of the punctuations of several inputs: the output punctuations that all inputs together justify."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from random import Random
from typing import cast

import numpy as np
import polars as pl

from xmlpunct.base import frames
from xmlpunct.base.frames import Snapshot
from xmlpunct.punctuations.closed_set import REMEMBERED, ClosedSet, Row
from xmlpunct.punctuations.ownership import ANYTHING
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import are_apart, closed_values
from xmlpunct.schema import Schema
from xmlpunct.types.ordinals import is_numbered

MANY = 16
"""With more inputs than this, a tally maps punctuations to inputs, so that not every input must be searched.

Set by `benchmarks/scaling.py --only agreement`: 1,000 shards that agree take 160 ms without it, 10 ms with it.
"""

SORTED_PER_RANGE = 256
"""Most retained ranges per received range that are sorted; among more, a received range is looked up.

Set by `benchmarks/scaling.py --only growth`: from there on looking up is quicker.
"""


class _Tally:
    """Maps each retained punctuation to the bit set of inputs that retain it."""

    def __init__(self, schema: Schema, inputs: Sequence[PunctuationSet]) -> None:
        self._retained, self._ports = PunctuationSet(schema), dict[Punctuation, int]()
        for port, retained in enumerate(inputs):
            for p in retained if len(retained) else ():
                self.add(port, p)

    def overlapping(self, p: Punctuation) -> dict[Punctuation, int]:
        """The punctuations that overlap ``p``, each with the inputs that retain it."""
        return {q: self._ports[q] for q in self._retained.overlapping(p)}

    def add(self, port: int, p: Punctuation) -> None:
        """Record that an input retains a punctuation."""
        if p not in self._ports:
            self._retained.add(p)
        self._ports[p] = self._ports.get(p, 0) | 1 << port

    def remove(self, ports: int, p: Punctuation) -> None:
        """Record that these inputs (a bit set) no longer retain a punctuation."""
        self._ports[p] &= ~ports
        if not self._ports[p]:
            del self._ports[p]
            self._retained.remove(p)


class Alignment:
    """Incremental setCombine of the punctuations of several inputs of one schema.

    A combination is the intersection of one punctuation of each input. A retained punctuation is dropped when the
    combinations cover it, because its later combinations are then implied. A range is dropped when the same input
    emits a larger one. A combination is remembered while it overlaps a retained punctuation. An input's end marker is
    retained until all inputs have ended, because consumers wait for the marker itself. After that no combination is
    emitted.

    On several shards an owned combination must be emitted even if another combination covers it, because other shards
    may not emit the covering one yet (see `Ownership`). So a dropped punctuation is remembered in `past`, unless it is
    owned itself. Owned combinations are emitted even after the end.

    ``alike`` omits combinations of two punctuations that each constrain an attribute that the other does not. If all
    inputs emit the same punctuations in the end, this only delays some results, and it avoids the product of all
    punctuations. Combinations that are not ``possible`` (no tuple can match them) are omitted, too.
    """

    def __init__(
        self,
        schema: Schema,
        ports: int,
        alike: bool = False,
        possible: Callable[[Punctuation], bool] | None = None,
    ) -> None:
        self.schema, self.alike, self._is_possible = schema, alike, possible
        self.inputs = [PunctuationSet(schema) for _ in range(ports)]
        """The retained punctuations of each input."""
        self.past = [ClosedSet(schema, limit=REMEMBERED) for _ in range(ports)]
        """On several shards: the dropped punctuations of each input that every shard emits."""
        self._combinations = ClosedSet(schema, drops_implied=True)
        """The remembered combinations."""
        self._unapplied: list[Punctuation] = []
        """New combinations that `_purge` has not applied to the retained punctuations yet."""
        self._released: list[Punctuation] = []
        """Dropped punctuations, and combinations with `past`. `_purge` drops combinations that overlap only these."""
        self._end = Punctuation.everything(schema)
        self.ownership = ANYTHING
        """The combinations that must be emitted although implied."""
        self._all_ports, self._tally = (1 << ports) - 1, cast("_Tally | None", None)
        # Inputs mostly emit in turn, in ascending or descending order; a random order finds the missing one early.
        self._order = Random(0).sample(range(ports), ports)

    def add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """Receive a punctuation from an input; return its new combinations with the other inputs."""
        combinations = self._add(port, p)
        self._purge()
        return combinations

    def _add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """`add` without `_purge`: punctuations that the combinations cover stay retained."""
        plain = p.form is not None and not p.is_everything
        tally = self._current_tally()
        overlapping = None if tally is None else tally.overlapping(p)
        is_agreed = plain and (
            self._all_agree(port, p)
            if overlapping is None
            else overlapping == {p: self._all_ports ^ 1 << port}
        )
        if is_agreed and not self._combinations.overlaps(p) and not self._combine_with_past(port, p):
            # Fast path for the common case: all inputs emitted this punctuation, and it overlaps no other.
            for i, retained in enumerate(self.inputs):
                if i != port:
                    retained.remove(p)
            if tally is not None:
                tally.remove(self._all_ports, p)
            self._remember(range(len(self.inputs)), p)
            return [p]
        if self.ownership and plain and self.passes(port):
            return self._add_after_ends(port, p)
        if self.ended or not self.inputs[port].add(p):
            return []
        if tally is not None:
            tally.add(port, p)
        if p.form is not None and p.form[0] == 1:
            self._drop_covered_ranges(port, p)
        may_combine = overlapping is None or reduce(or_, overlapping.values(), 1 << port) == self._all_ports
        combined = self._combine(port, p) if may_combine else []
        new_combinations = [c for c in (*combined, *self._combine_with_past(port, p)) if self._must_emit(c)]
        if new_combinations:
            self._combinations.update(new_combinations)
            self._unapplied += new_combinations
        elif len(self._combinations) and self._combinations.cover(p):
            self._drop(port, p)
        return new_combinations

    def _must_emit(self, c: Punctuation) -> bool:
        """Whether earlier combinations do not imply this one, or a consumer must receive it although they do."""
        return not self._combinations.covers(c) or self.ownership.needs(c)

    def _drop_covered_ranges(self, port: int, p: Punctuation) -> None:
        """Drop the ranges that a new range of the same input covers: (,5] after (,6]."""
        for q in self.inputs[port].overlapping(p):
            if q.form == p.form and q != p and covers(p, q):
                self._drop(port, q)

    def discard(self, port: int, emitted: PunctuationBatch) -> None:
        """Drop the punctuations of an input that ``emitted`` covers. The output emitted it without the other inputs.

        Combinations of dropped punctuations are implied. On several shards some must be emitted nevertheless, so
        ``emitted`` is added to `past`.
        """
        retained, self._tally = self.inputs[port], None
        if self.ownership and self.ownership.lasting(emitted):
            self.past[port].update([p for p in emitted if self.ownership.lasts(p) and not p.is_everything])
        if emitted.position is not None and retained.only(emitted):
            retained.discard(emitted)
        else:
            retained.remove_covered(emitted)
        if len(self._combinations) and not self.ended:
            self._combinations.leave(emitted, self._overlaps_retained)

    def _all_agree(self, port: int, p: Punctuation) -> bool:
        """Whether all other inputs retain ``p``, and no other retained punctuation overlaps it."""
        all_retain = all(self.inputs[i].overlapping(p) == [p] for i in self._other_ports(port))
        return all_retain and not self.inputs[port].overlapping(p)

    def _current_tally(self) -> _Tally | None:
        """The tally, if there are many inputs; it is created on first use."""
        if self._tally is None and len(self.inputs) > MANY:
            self._tally = _Tally(self.schema, self.inputs)
        return self._tally

    def update(self, port: int, punctuations: Sequence[Punctuation]) -> PunctuationBatch:
        """`add` for several punctuations of an input, in order; return the distinct combinations."""
        if self.ended and not self.ownership:
            return PunctuationBatch()
        batch = PunctuationBatch.of(punctuations)
        if len(batch.parts) > 1 and not self.ownership:
            return PunctuationBatch.union([self.update(port, part) for part in batch.parts])
        # The columnar path reads every input (`benchmarks/scaling.py --only agreement`).
        per_punctuation = 1 if batch.ranged else 4
        worth_it = len(self.inputs) <= max(MANY, per_punctuation * len(batch))
        if (
            batch.position is not None
            and worth_it
            and (combinations := self._update_columns(port, batch)) is not None
        ):
            return combinations
        distinct = PunctuationBatch(dict.fromkeys(c for p in batch for c in self._add(port, p)))
        self._purge()
        return distinct

    def meet(self, ports: Sequence[int], p: Punctuation) -> PunctuationBatch:
        """`update` for several inputs that emit the same punctuation.

        >>> from xmlpunct.schema import Schema
        >>> s = Schema.parse("hour INT")
        >>> shards = Alignment(s, 3)
        >>> shards.meet([0, 1], Punctuation.of(s, hour=5)), shards.meet([2], Punctuation.of(s, hour=5))
        (PunctuationBatch([]), PunctuationBatch([<5>]))
        """
        plain = p.form is not None and not p.is_everything and not self.ownership
        if plain and len(ports) == len(self.inputs) > 1 and not self._combinations.overlaps(p):
            tally = self._current_tally()
            overlapping = (
                any(x.overlaps(p) for x in self.inputs) if tally is None else bool(tally.overlapping(p))
            )
            if not overlapping:
                return PunctuationBatch([p])
        return PunctuationBatch(dict.fromkeys(c for port in ports for c in self.update(port, [p])))

    def _update_columns(self, port: int, batch: PunctuationBatch) -> PunctuationBatch | None:
        """The columnar path of `update`; None if it does not apply."""
        if batch.ranged and self.ownership:
            return None
        lasting, other_ports = self.ownership.lasting(batch), self._other_ports(port)
        recalls = any(self.past[i].may_overlap(batch) for i in other_ports)
        self._tally = None
        if self.ownership and self.passes(port):
            if (recalls and lasting) or any(len(self.inputs[i]) > 1 for i in other_ports):
                return None
            combinations, ports = batch, [port]
        elif not recalls and not len(self._combinations) and self._is_disjoint(batch):
            combinations, ports = self._update_equal(port, batch), list(range(len(self.inputs)))
        else:
            return self._update_constants(port, batch, batch.position or 0)
        if lasting:
            for i in ports:
                self.past[i].update(combinations)
        return combinations

    def _is_disjoint(self, batch: PunctuationBatch) -> bool:
        """Whether all retained punctuations have a batch's form, and they and the batch are pairwise disjoint."""
        if not all(retained.only(batch) for retained in self.inputs):
            return False
        if not batch.ranged:
            return True
        if sum(map(len, self.inputs)) <= SORTED_PER_RANGE * len(batch):
            return are_apart([batch, *(retained.all() for retained in self.inputs if len(retained))])
        return are_apart([batch]) and all(
            retained.overlapping(p) in ([], [p]) for p in batch for retained in self.inputs
        )

    def _update_equal(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """`update` if only equal punctuations overlap (`_is_disjoint`)."""
        new_punctuations = self.inputs[port].update(batch)
        agreed = new_punctuations
        for i in self._other_ports(port):
            agreed = self.inputs[i].common(agreed)
            if not len(agreed):
                return agreed
        for retained in self.inputs:
            retained.discard(agreed)
        return agreed

    def _update_constants(self, port: int, batch: PunctuationBatch, position: int) -> PunctuationBatch | None:
        """`update` of constants, if both inputs retain only constants and few ranges of their attribute; else None."""
        row, indexes = Row(position, self._end), [retained.groups() for retained in self.inputs]
        are_few = all(
            index.in_columns and index.positions == (position,) and (index.are_few or not index.ranged)
            for groups in indexes
            for index in groups
        )
        is_plain = self._is_possible is None and not self.ownership and not batch.ranged
        is_plain = is_plain and is_numbered(self.schema.attributes[position].type) and len(indexes) == 2
        if not (is_plain and are_few and all(combined == row for combined in self._combinations)):
            return None
        own, other = self.inputs[port], self.inputs[1 - port]
        new = own.update(batch)
        tuples = new.values.alias(self.schema.names[position]).to_frame()
        was_combined = self._combinations.values(row).mask(new.values)
        is_combined = other.mask(tuples) & ~was_combined
        own.discard(new.take(np.flatnonzero(was_combined | is_combined)))
        combinations = new.take(np.flatnonzero(is_combined))
        if not len(combinations):
            return combinations
        other.discard(combinations)
        self._combinations.add_values(row, closed_values(combinations))
        ranges = [
            (i, q) for i, groups in enumerate(indexes) for index in groups if index.ranged for q in index
        ]
        for i, q in ranges:
            if self._combinations.cover(q):
                self._drop(i, q)
        tuples = tuples.filter(is_combined)
        is_alone = np.flatnonzero(~(own.mask(tuples) | other.mask(tuples)))
        released, self._released = self._released, []
        self._combinations.leave([*released, *combinations.take(is_alone)], self._overlaps_retained)
        return combinations

    def passes(self, port: int) -> bool:
        """Whether all other inputs have ended, so that punctuations of this input are emitted at once."""
        return self.ended or all(self._end in self.inputs[i] for i in self._other_ports(port))

    def _add_after_ends(self, port: int, p: Punctuation) -> list[Punctuation]:
        """`add` after all other inputs have ended."""
        past_combinations = self._combine_with_past(port, p) if self.ownership.lasts(p) else []
        combined = [p, *self._combine(port, p), *past_combinations]
        for i in self._other_ports(port):
            for q in self.inputs[i].overlapping(p):
                if not q.is_everything and covers(p, q):
                    self._drop(i, q)
        self._remember([port], p)
        return list(dict.fromkeys(combined))

    def _combine(self, port: int, p: Punctuation, recall: bool = False) -> list[Punctuation]:
        """The combinations of ``p`` with one punctuation of each other input. ``recall`` includes `past`.

        With ``alike``, the constrained attributes of any two must be nested. Each punctuation is compared with all
        members of a combination, so the order of inputs does not matter.
        """
        combinations = {(p, frozenset([p.constrained])): None}
        for i in self._other_ports(port):
            past = self.past[i] if recall else None
            ended = [self._end] if recall and self.ended else []
            combinations = dict.fromkeys(
                (c, kinds | {q.constrained} if self.alike else kinds)
                for partial, kinds in combinations
                for q in (
                    *self.inputs[i].overlapping(partial),
                    *(past.overlapping(partial) if past is not None else ()),
                    *ended,
                )
                if not self.alike or all(_are_nested(q.constrained, kind) for kind in kinds)
                if (c := combine(partial, q)) is not None
                and (self._is_possible is None or self._is_possible(c))
            )
            if not combinations:
                break
        return list(dict.fromkeys(c for c, _ in combinations))

    def _combine_with_past(self, port: int, p: Punctuation) -> list[Punctuation]:
        """The combinations of ``p`` with `past` that a consumer must receive."""
        if not self.ownership or not any(self.past[i].overlapping(p) for i in self._other_ports(port)):
            return []
        combinations = [c for c in self._combine(port, p, recall=True) if self.ownership.needs(c)]
        self._released += combinations
        return combinations

    def _other_ports(self, port: int) -> list[int]:
        """The other inputs, in random order."""
        return [i for i in self._order if i != port]

    def _drop(self, port: int, p: Punctuation) -> None:
        """Stop retaining a punctuation of an input."""
        self.inputs[port].remove(p)
        self._released.append(p)
        if self._tally is not None:
            self._tally.remove(1 << port, p)
        self._remember([port], p)

    def _remember(self, ports: Iterable[int], p: Punctuation) -> None:
        """Add a punctuation to the `past` of inputs, if it may imply others that a consumer must receive."""
        if not p.is_everything and self.ownership.lasts(p):
            for i in ports:
                self.past[i].update([p])

    def _purge(self) -> None:
        """Drop retained punctuations that the combinations cover, then combinations that overlap no retained one."""
        new_combinations, self._unapplied = self._unapplied, []
        overlapping = dict.fromkeys(
            (i, q)
            for c in new_combinations
            for i, retained in enumerate(self.inputs)
            for q in retained.overlapping(c)
        )
        # Every combination overlaps the end, and none but the end covers it.
        for i, q in [(i, q) for i, q in overlapping if self._combinations.cover(q)]:
            self._drop(i, q)
        # A combination of retained punctuations overlaps them.
        released, self._released = self._released, []
        self._combinations.leave(dict.fromkeys(released), self._overlaps_retained)

    @property
    def ended(self) -> bool:
        """Whether all inputs have ended."""
        return self._combinations.has_end

    def waits(self, retained: pl.DataFrame | None = None) -> list[int]:
        """For each input, the number of retained tuples that another input has closed but this input has not.

        Without tuples: the number of punctuations of other inputs that wait for this input.
        """
        if retained is None:
            waiting = sum(map(len, self.inputs))
            return [waiting - len(retained_set) for retained_set in self.inputs]
        masks = [retained_set.mask(retained) if len(retained_set) else None for retained_set in self.inputs]
        nonempty_masks = [mask for mask in masks if mask is not None]
        if not nonempty_masks:
            return [0] * len(masks)
        closed_by_any = reduce(or_, nonempty_masks)
        return [int((closed_by_any if mask is None else closed_by_any & ~mask).sum()) for mask in masks]

    def _overlaps_retained(self, c: Punctuation) -> bool:
        """Whether a combination overlaps a retained punctuation. On several shards, end markers of inputs do not count.

        The combined end is always remembered, because it applies to all later punctuations.
        """
        return c.is_everything or any(
            retained.overlaps(c, but_end=bool(self.ownership)) for retained in self.inputs
        )

    def __len__(self) -> int:
        """The number of retained punctuations."""
        return 0 if self.ended else sum(map(len, self.inputs)) + sum(map(len, self.past))

    @property
    def _parts(self) -> dict[str, frames.SnapshotPart]:
        retained = {f"said{i}": retained for i, retained in enumerate(self.inputs)}
        return {
            **retained,
            **{f"past{i}": past for i, past in enumerate(self.past)},
            "found": self._combinations,
        }

    def snapshot(self) -> Snapshot:
        """The retained punctuations, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the retained punctuations of a snapshot."""
        frames.restore(self._parts, snapshot)
        self._tally = None


def _are_nested(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether one set of constrained attributes contains the other."""
    return set(first).issubset(second) or set(first).issuperset(second)

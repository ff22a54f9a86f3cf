"""Where the punctuations of several inputs meet: what all inputs have said together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from random import Random
from typing import cast

import numpy as np
import polars as pl

from xmlpunct import frames
from xmlpunct.frames import Snapshot
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.fused import Past
from xmlpunct.punctuations.joint_cover import Closed
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema

MANY = 16
"""With more inputs than this, a tally says who retains what, instead of a look at every input.

Set by `benchmarks/scaling.py --only agreement`: 1,000 shards that agree take 160 ms without it, 10 ms with it.
"""

SORTED_PER_RANGE = 256
"""So many retained ranges at most are sorted for each range that comes; among more it is looked up.

Set by `benchmarks/scaling.py --only growth`: from there on looking up is quicker.
"""


class _Tally:
    """Which of many inputs retain which punctuations, as the bits of a number."""

    def __init__(self, schema: Schema, inputs: Sequence[PunctuationSet]) -> None:
        self._said, self._ports = PunctuationSet(schema), dict[Punctuation, int]()
        for port, said in enumerate(inputs):
            for p in said if len(said) else ():
                self.add(port, p)

    def near(self, p: Punctuation) -> dict[Punctuation, int]:
        """Those that overlap ``p``, each with the inputs that retain it."""
        return {q: self._ports[q] for q in self._said.overlapping(p)}

    def add(self, port: int, p: Punctuation) -> None:
        """An input retains a punctuation."""
        if p not in self._ports:
            self._said.add(p)
        self._ports[p] = self._ports.get(p, 0) | 1 << port

    def remove(self, ports: int, p: Punctuation) -> None:
        """Some inputs retain a punctuation no longer."""
        self._ports[p] &= ~ports
        if not self._ports[p]:
            del self._ports[p]
            self._said.remove(p)


class Alignment:
    """setCombine over several inputs' punctuations of one schema, as they come.

    The combinations cover a retained punctuation sooner or later. It then says nothing new, combined with whatever
    may still come, and goes. So does a range once the same input has said a larger one. A combination is remembered
    while it overlaps a retained punctuation. An input's end stays until all inputs have ended, for those who wait for
    the end wait for that punctuation itself. After that there is nothing to say.

    On several shards (`spread`) a combination about this shard's values has to be said even if another one covers
    it, since other shards may be unable to say that one. So what is covered is remembered, fused, unless it is owned
    itself. Even after the end there is something to say.

    ``alike`` leaves out combinations of two punctuations each of which constrains an attribute that the other does
    not. Inputs that all say the same in the end lose only time by this, and avoid the product of all they say.
    Combinations that no tuple can match, which are not ``possible``, are left out, too.
    """

    def __init__(
        self,
        schema: Schema,
        ports: int,
        alike: bool = False,
        possible: Callable[[Punctuation], bool] = lambda _: True,
    ) -> None:
        self.schema, self.alike, self._possible = schema, alike, possible
        self.inputs = [PunctuationSet(schema) for _ in range(ports)]
        """What each input has said and is retained."""
        self.past = [Past(schema) for _ in range(ports)]
        """On several shards, what of the rest each input has said that every shard has to say."""
        self._met = Closed(schema)
        """The combinations that are remembered."""
        self._fresh: list[Punctuation] = []
        """Those whose effect on what is retained is yet to be seen."""
        self._loose: list[Punctuation] = []
        """What is retained no longer, and combinations with the past. What they overlap may overlap nothing else."""
        self._everything = Punctuation.everything(schema)
        self._ownership = ANYTHING
        self._every, self._tally = (1 << ports) - 1, cast("_Tally | None", None)
        # Inputs mostly speak one after the other, in their order or against it.
        self._order = Random(0).sample(range(ports), ports)

    def spread(self, ownership: Ownership) -> None:
        """Run on one of several shards. ``ownership`` is about the combinations."""
        self._ownership = ownership

    @property
    def heeds(self) -> bool:
        """Whether an operator has to hear what is implied."""
        return bool(self._ownership)

    def add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """Take a punctuation of an input; return its new combinations with one of each other input."""
        combined = self._add(port, p)
        self._forget()
        return combined

    def _add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """`add`, but what the combinations cover is retained."""
        plain = p.form is not None and not p.is_everything
        tally = self._tallied()
        near = None if tally is None else tally.near(p)
        alone = plain and (self._agree(port, p) if near is None else near == {p: self._every ^ 1 << port})
        if alone and not self._met.overlaps(p) and not self._recall(port, p):
            # The usual case, made quick: all have said just this, and it overlaps nothing else.
            for i, said in enumerate(self.inputs):
                if i != port:
                    said.remove(p)
            if tally is not None:
                tally.remove(self._every, p)
            self._remember(range(len(self.inputs)), p)
            return [p]
        if self.heeds and plain and self.passes(port):
            return self._pass(port, p)
        if self.ended or not self.inputs[port].add(p):
            return []
        if tally is not None:
            tally.add(port, p)
        if p.form is not None and p.form[0] == 1:
            self._overtake(port, p)
        heard = near is None or reduce(or_, near.values(), 1 << port) == self._every
        combined = self._combine(port, p) if heard else []
        fresh = [c for c in (*combined, *self._recall(port, p)) if self._is_news(c)]
        if fresh:
            self._met.update(fresh)
            self._fresh += fresh
        elif len(self._met) and self._met.cover(p):
            self._drop(port, p)
        return fresh

    def _is_news(self, c: Punctuation) -> bool:
        """Whether what was said before does not imply a combination, or somebody has to hear it all the same."""
        return not self._met.covers(c) or self._ownership.needs(c)

    def _overtake(self, port: int, p: Punctuation) -> None:
        """Retain no longer the ranges that a new one of the same input covers: (,5] once (,6] is said."""
        for h in self.inputs[port].overlapping(p):
            if h.form == p.form and h != p and covers(p, h):
                self._drop(port, h)

    def discard(self, port: int, said: PunctuationBatch) -> None:
        """Retain no longer what of an input has been said without the others: no combination of it is news.

        On several shards one may be: what every shard has to say is remembered.
        """
        retained, self._tally = self.inputs[port], None
        if self.heeds and self._ownership.lasting(said):
            self.past[port].update([p for p in said if self._ownership.lasts(p) and not p.is_everything])
        if said.place is not None and retained.only(said):
            retained.discard(said)
        else:
            for p in said:
                retained.discard([h for h in retained.overlapping(p) if covers(p, h)])
        if len(self._met) and not self.ended:
            for p in said:
                self._met.leave(p, self._touches)

    def _agree(self, port: int, p: Punctuation) -> bool:
        """Whether all other inputs retain ``p``, and nothing else that is retained overlaps it."""
        others = all(self.inputs[i].overlapping(p) == [p] for i in self._others(port))
        return others and not self.inputs[port].overlapping(p)

    def _tallied(self) -> _Tally | None:
        """Of many inputs: who retains what."""
        if self._tally is None and len(self.inputs) > MANY:
            self._tally = _Tally(self.schema, self.inputs)
        return self._tally

    def update(self, port: int, punctuations: Sequence[Punctuation]) -> PunctuationBatch:
        """`add` several of an input, each in its turn; what they combine to, each once."""
        if self.ended and not self.heeds:
            return PunctuationBatch()
        batch = PunctuationBatch.of(punctuations)
        # Columns take a look at every input (`benchmarks/scaling.py --only agreement`).
        per_punctuation = 1 if batch.ranged else 4
        worth_it = len(self.inputs) <= max(MANY, per_punctuation * len(batch))
        if batch.place is not None and worth_it and (met := self._as_one(port, batch)) is not None:
            return met
        combined = PunctuationBatch(dict.fromkeys(c for p in batch for c in self._add(port, p)))
        self._forget()
        return combined

    def meet(self, ports: Sequence[int], p: Punctuation) -> PunctuationBatch:
        """`update` for several inputs that say the same.

        >>> from xmlpunct.schema import Schema
        >>> s = Schema.parse("hour INT")
        >>> shards = Alignment(s, 3)
        >>> shards.meet([0, 1], Punctuation.of(s, hour=5)), shards.meet([2], Punctuation.of(s, hour=5))
        (PunctuationBatch([]), PunctuationBatch([<5>]))
        """
        plain = p.form is not None and not p.is_everything and not self.heeds
        if plain and len(ports) == len(self.inputs) > 1 and not self._met.overlaps(p):
            tally = self._tallied()
            near = any(x.overlaps(p) for x in self.inputs) if tally is None else bool(tally.near(p))
            if not near:
                return PunctuationBatch([p])
        return PunctuationBatch(dict.fromkeys(c for port in ports for c in self.update(port, [p])))

    def _as_one(self, port: int, batch: PunctuationBatch) -> PunctuationBatch | None:
        """`update` in columns; None if the punctuations have to be taken one by one."""
        if batch.ranged and self.heeds:
            return None
        lasting, others = self._ownership.lasting(batch), self._others(port)
        recalls = any(self.past[i].may_overlap(batch) for i in others)
        self._tally = None
        if self.heeds and self.passes(port):
            if (recalls and lasting) or any(len(self.inputs[i]) > 1 for i in others):
                return None
            met, ports = batch, [port]
        elif not recalls and not len(self._met) and self._apart(batch):
            met, ports = self._update(port, batch), list(range(len(self.inputs)))
        else:
            return None
        if lasting:
            for i in ports:
                self.past[i].update(met)
        return met

    def _apart(self, batch: PunctuationBatch) -> bool:
        """Whether all that is retained is of a batch's form, and none of all these overlaps another."""
        if not all(said.only(batch) for said in self.inputs):
            return False
        if not batch.ranged:
            return True
        if sum(map(len, self.inputs)) <= SORTED_PER_RANGE * len(batch):
            return _are_apart([batch, *(said.all() for said in self.inputs if len(said))])
        return _are_apart([batch]) and all(
            said.overlapping(p) in ([], [p]) for p in batch for said in self.inputs
        )

    def _update(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """`update` where everything retained has the batch's form, so that a punctuation meets only its equal."""
        fresh = self.inputs[port].update(batch)
        met = fresh
        for i in self._others(port):
            met = self.inputs[i].common(met)
            if not len(met):
                return met
        for said in self.inputs:
            said.discard(met)
        return met

    def passes(self, port: int) -> bool:
        """Whether all other inputs have ended, so that what this one says is said at once."""
        return self.ended or all(self._everything in self.inputs[i] for i in self._others(port))

    def _pass(self, port: int, p: Punctuation) -> list[Punctuation]:
        """`add` where all other inputs have ended: nothing waits."""
        recalled = self._recall(port, p) if self._ownership.lasts(p) else []
        combined = [p, *self._combine(port, p), *recalled]
        for i in self._others(port):
            for h in self.inputs[i].overlapping(p):
                if not h.is_everything and covers(p, h):
                    self._drop(i, h)
        self._remember([port], p)
        return list(dict.fromkeys(combined))

    def _combine(self, port: int, p: Punctuation, recall: bool = False) -> list[Punctuation]:
        """The combinations of ``p`` with one punctuation of each other input; ``alike``: of which any two are alike.

        Each punctuation is compared with all those in a combination, so the order of inputs makes no difference.
        ``recall``: the past counts as retained.
        """
        combinations = {(p, frozenset([p.constrained])): None}
        for i in self._others(port):
            past = self.past[i] if recall else None
            ended = [self._everything] if recall and self.ended else []
            combinations = dict.fromkeys(
                (c, kinds | {q.constrained} if self.alike else kinds)
                for so_far, kinds in combinations
                for q in (
                    *self.inputs[i].overlapping(so_far),
                    *(past.overlapping(so_far) if past is not None else ()),
                    *ended,
                )
                if not self.alike or all(_nested(q.constrained, kind) for kind in kinds)
                if (c := combine(so_far, q)) is not None and self._possible(c)
            )
            if not combinations:
                break
        return list(dict.fromkeys(c for c, _ in combinations))

    def _recall(self, port: int, p: Punctuation) -> list[Punctuation]:
        """The combinations of ``p`` with the past that an operator may need to hear."""
        if not self.heeds or not any(self.past[i].overlapping(p) for i in self._others(port)):
            return []
        recalled = [c for c in self._combine(port, p, recall=True) if self._ownership.needs(c)]
        self._loose += recalled
        return recalled

    def _others(self, port: int) -> list[int]:
        """The other inputs, in an order in which one that has not spoken comes early."""
        return [i for i in self._order if i != port]

    def _drop(self, port: int, p: Punctuation) -> None:
        """Retain no longer what an input has said."""
        self.inputs[port].remove(p)
        self._loose.append(p)
        if self._tally is not None:
            self._tally.remove(1 << port, p)
        self._remember([port], p)

    def _remember(self, ports: Iterable[int], p: Punctuation) -> None:
        """Keep what some inputs have said, if it may imply what an operator needs to hear."""
        if not p.is_everything and self._ownership.lasts(p):
            for i in ports:
                self.past[i].update([p])

    def _forget(self) -> None:
        """Drop what the new combinations cover, then the combinations that overlap nothing retained."""
        fresh, self._fresh = self._fresh, []
        near = dict.fromkeys(
            (i, h) for c in fresh for i, said in enumerate(self.inputs) for h in said.overlapping(c)
        )
        # Every combination overlaps the end, and none but the end covers it.
        for i, h in [(i, h) for i, h in near if self._met.cover(h)]:
            self._drop(i, h)
        # A combination of what is retained overlaps that.
        loose, self._loose = self._loose, []
        for p in dict.fromkeys(loose):
            self._met.leave(p, self._touches)

    @property
    def ended(self) -> bool:
        """Whether all inputs have ended."""
        return self._met.complete

    def waits(self, retained: pl.DataFrame | None = None) -> list[int]:
        """For each input, how many retained tuples the others have closed and it has not.

        Without tuples: how many punctuations of the others wait for one of its own.
        """
        if retained is None:
            waiting = sum(map(len, self.inputs))
            return [waiting - len(said) for said in self.inputs]
        masks = [said.mask(retained) if len(said) else None for said in self.inputs]
        known = [mask for mask in masks if mask is not None]
        if not known:
            return [0] * len(masks)
        some = reduce(or_, known)
        return [int((some if mask is None else some & ~mask).sum()) for mask in masks]

    def _touches(self, c: Punctuation) -> bool:
        """Whether a combination overlaps what an input retains; on several shards, an end does not count.

        The end does, for all that comes after it.
        """
        return c.is_everything or any(said.overlaps(c, but_end=self.heeds) for said in self.inputs)

    def __len__(self) -> int:
        """How many punctuations are retained."""
        return 0 if self.ended else sum(map(len, self.inputs)) + sum(map(len, self.past))

    @property
    def _parts(self) -> dict[str, frames.Part]:
        said = {f"said{i}": said for i, said in enumerate(self.inputs)}
        return {**said, **{f"past{i}": past for i, past in enumerate(self.past)}, "found": self._met}

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        frames.restore(self._parts, snapshot)
        self._tally = None


def _nested(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether the attributes that one punctuation constrains are among those of the other."""
    return set(some).issubset(others) or set(some).issuperset(others)


def _are_apart(batches: Iterable[PunctuationBatch]) -> bool:
    """Whether any two ranges of some batches, all of one attribute, are equal or do not overlap."""
    bounds = [batch.bounds for batch in batches if len(batch)]
    if not bounds:
        return True
    firsts, lasts = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
    order = np.lexsort((lasts, firsts))
    firsts, lasts = firsts[order], lasts[order]
    equal = (firsts[1:] == firsts[:-1]) & (lasts[1:] == lasts[:-1])
    return bool((equal | (firsts[1:] > lasts[:-1])).all())

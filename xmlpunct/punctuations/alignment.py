"""Where the punctuations of several inputs meet: what all inputs have said together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import repeat
from operator import or_
from random import Random
from typing import cast

import numpy as np
import polars as pl

from xmlpunct import frames
from xmlpunct.frames import Snapshot
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.fused import Past
from xmlpunct.punctuations.joint_cover import jointly_cover
from xmlpunct.punctuations.ownership import ANYTHING, Ownership
from xmlpunct.punctuations.punctuation import Punctuation, combine, covers
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema

MANY = 16
"""Of more inputs it is tallied who retains what. (1,000 shards that agree: 160 ms without, 10 ms with.)"""


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

    A punctuation is retained until what all inputs have said together covers it: combined with whatever may
    still come, it would say nothing new. What was found is remembered only where it overlaps a retained one.
    An input's end is retained until all have ended, whatever covers it: whoever waits for the end waits for
    that punctuation itself. When they have, that is remembered, and nothing is to be said any more.

    On several shards (`spread`) that a combination is covered by what was found is no reason not to say it, if it is
    about this shard's values: other shards may be unable to say what covers it. So what is covered is remembered,
    fused, unless it is owned itself; and after the end there is still something to say.

    ``alike`` leaves out the combinations with two punctuations each of which constrains an attribute that the
    other does not. Inputs that all say the same sooner or later lose nothing by it but haste, and are spared
    the product of all that they say.
    """

    def __init__(self, schema: Schema, ports: int, alike: bool = False) -> None:
        self.schema, self.alike = schema, alike
        self.inputs = [PunctuationSet(schema) for _ in range(ports)]
        """What each input has said and is retained."""
        self.past = [Past(schema) for _ in range(ports)]
        """On several shards, what of the rest each input has said that every shard has to say."""
        self._found = PunctuationSet(schema)
        self._everything = Punctuation.everything(schema)
        self._ownership = ANYTHING
        self._every, self._tally = (1 << ports) - 1, cast("_Tally | None", None)
        # Inputs mostly speak one after the other, in their order or against it.
        self._order = Random(0).sample(range(ports), ports)

    def spread(self, ownership: Ownership) -> None:
        """As an operator's `spread`. ``ownership`` is about what is found."""
        self._ownership = ownership

    @property
    def heeds(self) -> bool:
        """Whether somebody has to hear what is implied."""
        return bool(self._ownership)

    def add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """Take a punctuation of an input; return its new combinations with one of each other input."""
        plain = p.form is not None and not p.is_everything
        tally = self._tallied()
        near = None if tally is None else tally.near(p)
        alone = plain and (self._agree(port, p) if near is None else near == {p: self._every ^ 1 << port})
        if alone and not self._found.overlapping(p) and not self._recall(port, p):
            # The usual case, made quick: now all have said just this, and nothing else is touched by it.
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
        heard = near is None or reduce(or_, near.values(), 1 << port) == self._every
        combined = self._combine(port, p) if heard else []
        found = [c for c in (*combined, *self._recall(port, p)) if c not in self._found]
        if found:
            self._forget(found)
        elif len(self._found) and self._is_covered(self._found.overlapping(p), p):
            self._drop(port, p)
        return found

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
        each = 1 if batch.ranged else 4  # in columns every input is looked at, whether it has spoken or not
        worth_it = len(self.inputs) <= max(MANY, each * len(batch))
        if batch.place is not None and worth_it and (found := self._as_one(port, batch)) is not None:
            return found
        return PunctuationBatch(dict.fromkeys(c for p in batch for c in self.add(port, p)))

    def _as_one(self, port: int, batch: PunctuationBatch) -> PunctuationBatch | None:
        """`update` in a column; None: they have to be looked at one by one."""
        if batch.ranged and self.heeds:
            return None
        lasting, others = self._ownership.lasting(batch), self._others(port)
        recalls = any(self.past[i].may_overlap(batch) for i in others)
        self._tally = None
        if self.heeds and self.passes(port):
            if (recalls and lasting) or any(len(self.inputs[i]) > 1 for i in others):
                return None
            met, ports = batch, [port]
        elif not recalls and not len(self._found) and self._apart(batch):
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
        return not batch.ranged or _are_apart([batch, *(said.all() for said in self.inputs if len(said))])

    def _update(self, port: int, batch: PunctuationBatch) -> PunctuationBatch:
        """`update` where all that is retained is of the batch's kind: a punctuation touches none but itself."""
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
        """`add` where all other inputs have ended. Nothing of it waits."""
        recalled = self._recall(port, p) if self._ownership.lasts(p) else []
        found = [p, *self._combine(port, p), *recalled]
        for i in self._others(port):
            for h in self.inputs[i].overlapping(p):
                if not h.is_everything and covers(p, h):
                    self._drop(i, h)
        self._remember([port], p)
        return list(dict.fromkeys(found))

    def _combine(self, port: int, p: Punctuation, recall: bool = False) -> list[Punctuation]:
        """The combinations of ``p`` with one of each other input; ``alike``: of which any two are alike.

        In whatever order they come, the same are found: so each is held against all that made a combination.
        To ``recall`` is to take the past for retained.
        """
        found = {(p, frozenset([p.constrained])): None}
        for i in self._others(port):
            past = self.past[i] if recall else None
            ended = [self._everything] if recall and self.ended else []
            found = dict.fromkeys(
                (c, kinds | {q.constrained} if self.alike else kinds)
                for so_far, kinds in found
                for q in (
                    *self.inputs[i].overlapping(so_far),
                    *(past.overlapping(so_far) if past is not None else ()),
                    *ended,
                )
                if not self.alike or all(_nested(q.constrained, kind) for kind in kinds)
                if (c := combine(so_far, q)) is not None
            )
            if not found:
                break
        return list(dict.fromkeys(c for c, _ in found))

    def _recall(self, port: int, p: Punctuation) -> list[Punctuation]:
        """The combinations of ``p`` with what is past that somebody may need to hear."""
        if not self.heeds or not any(self.past[i].overlapping(p) for i in self._others(port)):
            return []
        return [c for c in self._combine(port, p, recall=True) if self._ownership.needs(c)]

    def _others(self, port: int) -> list[int]:
        """The other inputs, in an order in which one that has not spoken comes early."""
        return [i for i in self._order if i != port]

    def _drop(self, port: int, p: Punctuation) -> None:
        """Retain no longer what an input has said."""
        self.inputs[port].remove(p)
        if self._tally is not None:
            self._tally.remove(1 << port, p)
        self._remember([port], p)

    def _remember(self, ports: Iterable[int], p: Punctuation) -> None:
        """Put down what some inputs have said, if that may imply what somebody needs to hear."""
        if not p.is_everything and self._ownership.lasts(p):
            for i in ports:
                self.past[i].update([p])

    def _forget(self, found: Iterable[Punctuation]) -> None:
        """Remember what was found; drop what it covers, then what overlaps nothing that is retained."""
        fresh = self._found.update(found)
        doubtful = dict.fromkeys(fresh)
        for c in fresh:
            for i, said in enumerate(self.inputs):
                for h in said.overlapping(c):
                    if h.is_everything and not c.is_everything:
                        continue  # all that was found overlaps it, and does not cover it
                    pieces = self._found.overlapping(h)
                    if self._is_covered(pieces, h):
                        self._drop(i, h)
                        doubtful.update(dict.fromkeys(pieces))
        self._found.discard(
            c for c in doubtful if not c.is_everything and not any(map(self._touches, self.inputs, repeat(c)))
        )

    @property
    def ended(self) -> bool:
        """Whether all inputs have ended."""
        return self._everything in self._found

    def waits(self, retained: pl.DataFrame | None = None) -> list[int]:
        """For each input, how many retained tuples others have closed and it has not.

        Without tuples: how many punctuations of the others wait for it to say the like.
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

    def _touches(self, said: PunctuationSet, c: Punctuation) -> bool:
        """Whether what was found overlaps what an input has retained; its end need not count: nothing waits for it."""
        return any(not (self.heeds and h.is_everything) for h in said.overlapping(c))

    def _is_covered(self, pieces: list[Punctuation], p: Punctuation) -> bool:
        return p in pieces if p.is_everything else jointly_cover(pieces, p)

    def __len__(self) -> int:
        """How many punctuations are retained."""
        return 0 if self.ended else sum(map(len, self.inputs)) + sum(map(len, self.past))

    @property
    def _parts(self) -> dict[str, frames.Part]:
        said = {f"said{i}": said for i, said in enumerate(self.inputs)}
        return {**said, **{f"past{i}": past for i, past in enumerate(self.past)}, "found": self._found}

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        return frames.snapshot_of(self._parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""
        frames.restore(self._parts, snapshot)
        self._tally = None


def _nested(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether one of two punctuations' constrained attributes are among the other's."""
    return set(some).issubset(others) or set(some).issuperset(others)


def _are_apart(batches: Iterable[PunctuationBatch]) -> bool:
    """Whether of the ranges of some batches, which are all of one attribute, any two are equal or do not overlap."""
    bounds = [batch.bounds for batch in batches if len(batch)]
    if not bounds:
        return True
    firsts, lasts = (np.concatenate(ends) for ends in zip(*bounds, strict=True))
    order = np.lexsort((lasts, firsts))
    firsts, lasts = firsts[order], lasts[order]
    equal = (firsts[1:] == firsts[:-1]) & (lasts[1:] == lasts[:-1])
    return bool((equal | (firsts[1:] > lasts[:-1])).all())

"""Where the punctuations of several inputs meet: what all inputs have said together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from random import Random

import polars as pl

from xmlpunct.bundle import Bundle
from xmlpunct.operators.iterator import Snapshot
from xmlpunct.punctset import PunctuationSet, jointly_cover
from xmlpunct.punctuation import Punctuation, combine
from xmlpunct.schema import Schema


class Meeting:
    """setCombine over several inputs' punctuations of one schema, as they come.

    A punctuation is retained until what all inputs have said together covers it: combined with whatever may
    still come, it would say nothing new. What was found is remembered only where it overlaps a retained one.
    An input's end is retained until all have ended, whatever covers it: whoever waits for the end waits for
    that punctuation itself. When they have, that is remembered, and nothing is to be said any more.

    ``alike`` leaves out the combinations with two punctuations each of which constrains an attribute that the
    other does not. Inputs that all say the same sooner or later lose nothing by it but haste, and are spared
    the product of all that they say.
    """

    def __init__(self, schema: Schema, ports: int, alike: bool = False) -> None:
        self.schema, self.alike = schema, alike
        self.inputs = [PunctuationSet(schema) for _ in range(ports)]
        """What each input has said and is retained."""
        self._found = PunctuationSet(schema)
        # Inputs mostly speak one after the other, in their order or against it.
        self._order = Random(0).sample(range(ports), ports)

    def add(self, port: int, p: Punctuation) -> list[Punctuation]:
        """Take a punctuation of an input; return its new combinations with one of each other input."""
        mine, others = self.inputs[port], self._others(port)
        plain = not (p.is_everything or p.is_empty)
        alone = plain and all(said.overlapping(p) == [p] for said in others)
        if alone and not mine.overlapping(p) and not self._found.overlapping(p):
            # The usual case, made quick: now all have said just this, and nothing else is touched by it.
            for said in others:
                said.discard([p])
            return [p]
        if self._ended or not mine.add(p):
            return []
        found = [c for c in self._combine(port, p) if c not in self._found]
        if found:
            self._forget(found)
        elif len(self._found) and self._is_covered(self._found.overlapping(p), p):
            mine.discard([p])
        return found

    def update(self, port: int, punctuations: Sequence[Punctuation]) -> Sequence[Punctuation]:
        """`add` several of an input, each in its turn; what they combine to, each once."""
        if isinstance(punctuations, Bundle) and not len(self._found):
            place = punctuations.place
            if all(said.only(place) for said in self.inputs):
                return self._update(port, punctuations)
        return list(dict.fromkeys(c for p in punctuations for c in self.add(port, p)))

    def _update(self, port: int, bundle: Bundle) -> Bundle:
        """`update` where all that is retained is of the bundle's kind: a punctuation touches none but itself."""
        fresh = self.inputs[port].update(bundle)
        assert isinstance(fresh, Bundle)
        met = fresh
        for i, said in enumerate(self.inputs):
            if i != port:
                met = said.common(met)
        for said in self.inputs:
            said.discard(met)
        return met

    def _combine(self, port: int, p: Punctuation) -> list[Punctuation]:
        """The combinations of ``p`` with one of each other input; ``alike``: of which any two are alike.

        In whatever order they come, the same are found: so each is held against all that made a combination.
        """
        found = {(p, frozenset([p.constrained])): None}
        for said in self._others(port):
            found = dict.fromkeys(
                (c, kinds | {q.constrained} if self.alike else kinds)
                for so_far, kinds in found
                for q in said.overlapping(so_far)
                if not self.alike or all(_nested(q.constrained, kind) for kind in kinds)
                if (c := combine(so_far, q)) is not None
            )
            if not found:
                break
        return list(dict.fromkeys(c for c, _ in found))

    def _others(self, port: int) -> list[PunctuationSet]:
        """What the other inputs have said, in an order in which one that has not spoken comes early."""
        return [self.inputs[i] for i in self._order if i != port]

    def _forget(self, found: Iterable[Punctuation]) -> None:
        """Remember what was found; drop what it covers, then what overlaps nothing that is retained."""
        fresh = self._found.update(found)
        doubtful = dict.fromkeys(fresh)
        for c in fresh:
            for said in self.inputs:
                for h in said.overlapping(c):
                    pieces = self._found.overlapping(h)
                    if self._is_covered(pieces, h):
                        said.discard([h])
                        doubtful.update(dict.fromkeys(pieces))
        self._found.discard(
            c
            for c in doubtful
            if not c.is_everything and not any(said.overlapping(c) for said in self.inputs)
        )

    @property
    def _ended(self) -> bool:
        return Punctuation.everything(self.schema) in self._found

    def waits(self, retained: pl.DataFrame | None = None) -> list[int]:
        """For each input, how many retained tuples others have closed and it has not.

        Without tuples: how many punctuations of the others wait for it to say the like.
        """
        if retained is None:
            return [self.held - len(said) for said in self.inputs]
        masks = [said.mask(retained) if len(said) else None for said in self.inputs]
        known = [mask for mask in masks if mask is not None]
        if not known:
            return [0] * len(masks)
        some = reduce(or_, known)
        return [int((some if mask is None else some & ~mask).sum()) for mask in masks]

    def _is_covered(self, pieces: list[Punctuation], p: Punctuation) -> bool:
        return p in pieces if p.is_everything else jointly_cover(pieces, p)

    @property
    def held(self) -> int:
        """How many punctuations are retained."""
        return sum(map(len, self.inputs))

    def snapshot(self) -> Snapshot:
        """What is retained, for a checkpoint."""
        frames = {f"said{i}": said.snapshot() for i, said in enumerate(self.inputs)}
        return frames | {"found": self._found.snapshot()}

    def restore(self, snapshot: Snapshot) -> None:
        """Take what a snapshot retained."""

        def load(name: str) -> PunctuationSet:
            return PunctuationSet.restored(self.schema, snapshot[name])

        self.inputs = [load(f"said{i}") for i in range(len(self.inputs))]
        self._found = load("found")


def _nested(some: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether one of two punctuations' constrained attributes are among the other's."""
    return set(some).issubset(others) or set(some).issuperset(others)

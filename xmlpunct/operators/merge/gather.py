"""gather: the merge of a fragment's shards, at whoever receives from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.merge.merge import Merge
from xmlpunct.punctuations.ownership import Ways, listed
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import values

Owners = Callable[[list[Tuple]], list[int]]
"""Gives for each tuple of partition values the shard that it belongs to."""


def split_by_owner(p: Punctuation, keys: list[int], owners: Owners) -> dict[int, list[Punctuation]] | None:
    """A punctuation in parts, each about values of one shard; None if it is about too many to list.

    Ownership is decided by the set of values, not by its spelling: ``[0,1]`` is ``{0,1}``.
    """
    places = list(dict.fromkeys(keys))  # an attribute may be a key twice
    members = listed(p, places)
    if members is None:
        return None
    points: list[Tuple] = list(product(*members))
    order = [places.index(key) for key in keys]
    by_owner: dict[int, list[Tuple]] = {}
    for point, owner in zip(points, owners([tuple(t[i] for i in order) for t in points]), strict=True):
        by_owner.setdefault(owner, []).append(point)
    return {owner: _with_points(p, places, own) for owner, own in by_owner.items()}


def _with_points(p: Punctuation, places: list[int], points: list[Tuple]) -> list[Punctuation]:
    """``p`` at these values only: one punctuation for one attribute, else one for each combination."""
    groups = [points] if len(places) == 1 else [[point] for point in points]
    parts = []
    for group in groups:
        patterns = list(p.patterns)
        for place, column in zip(places, zip(*group, strict=True), strict=True):
            patterns[place] = values(p.schema.attributes[place].type, column)
        parts.append(Punctuation(p.schema, patterns))
    return parts


class Gather(Merge):
    """`Merge` over the shards of one fragment; port i is shard i.

    Each shard promises from the start that it has no tuple whose partition values belong elsewhere. So what it promises
    about its own values needs no other shard, and what it promises about others' values is nothing new. Every shard
    has to promise a punctuation about too many values to list; and any, if the output has lost a partition attribute.

    ``keys`` are the ways to find the partition values in the output; none if they were lost. (A null matches no
    pattern that can be listed.) ``onward`` are the receiver's ways, if it sifts what is implied (`Operator.spread`).
    Otherwise nothing is said after the end.

    See semantics 5.1.

    >>> from xmlpunct.operators.notation import show
    >>> x = Schema.parse("x INT")
    >>> by_parity = Gather(x, 2, [("x",)], lambda points: [n % 2 for (n,) in points])
    >>> show(by_parity, "1: 0; P([0,3])", "2: 5; P(5)", "2: P(4)")
    1: 0; P([0,3]) -> 0; P({0,2})
    2: 5; P(5)     -> 5; P(5)
    2: P(4)        ->
    """

    name = "gather"

    def __init__(self, schema: Schema, shards: int, keys: Ways, owners: Owners, onward: Ways = ()) -> None:
        # All shards hear, and say, the same in the end.
        super().__init__([schema] * shards, alike=True)
        self._ways, self._owners = [[schema.index(key) for key in way] for way in keys], owners
        if onward:
            self.sifted = True
            self.spread(onward)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self.alignment.ended and not self.ownership:
            return self.schema.empty(), PunctuationBatch()
        promised, others = self.divide(port, batch)
        return self.schema.empty(), self.meet(promised, [((port,), others)])

    def divide(self, port: int, batch: PunctuationBatch) -> tuple[PunctuationBatch, Sequence[Punctuation]]:
        """What a shard promises of its own values, which holds by itself; and what every shard has to promise.

        This asks for no state, so it can be done anywhere, and the rest by `meet`.
        """
        if len(self.inputs) == 1:
            return batch, ()
        for way in self._ways:
            if set(way) == {batch.place} and not batch.ranged:
                return self._own(port, batch, len(way)), ()
        own: dict[Punctuation, None] = {}
        others: list[Punctuation] = []
        for p in batch:
            splits = (split_by_owner(p, way, self._owners) for way in self._ways)
            split = next((parts for parts in splits if parts is not None), None)
            if split is None:
                others.append(p)
            else:
                own.update(dict.fromkeys(split.get(port, [])))
        return PunctuationBatch(own), others

    def meet(
        self, promised: PunctuationBatch, said: Iterable[tuple[Sequence[int], Sequence[Punctuation]]]
    ) -> PunctuationBatch:
        """What all shards promise together, given what `divide` gives: what holds by itself, and the rest by shards
        that say the same."""
        if self.alignment.ended and not self.ownership:
            return PunctuationBatch()
        if len(self.inputs) == 1 and promised.has_end:
            self.alignment.add(0, Punctuation.everything(self.schema))
        met = [c for ports, others in said for p in others for c in self.alignment.meet(ports, p)]
        return PunctuationBatch.union([promised, met]) if met else promised

    def _own(self, port: int, batch: PunctuationBatch, times: int) -> PunctuationBatch:
        """The punctuations of a batch about a shard's own values, which stand in a way ``times`` times."""
        owners = self._owners([(key,) * times for key in batch.keys])
        return batch.of_some(key for key, owner in zip(batch.keys, owners, strict=True) if owner == port)

"""gather: the merge of a fragment's shards, where their output is received.

Punctuations on several values make it long: they are split by owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

from xmlpunct.operators.iterator import Outcome
from xmlpunct.operators.merge.merge import Merge
from xmlpunct.punctuations.ownership import Ways, listed_values
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.pattern import values

Owners = Callable[[list[Tuple]], list[int]]
"""Maps tuples of partition values to the shards that own them."""


def split_by_owner(p: Punctuation, keys: list[int], owners: Owners) -> dict[int, list[Punctuation]] | None:
    """A punctuation split by the shard that owns its values; None if it has too many values to list.

    Ownership is decided by the set of values, not by its spelling: ``[0,1]`` is ``{0,1}``.
    """
    attributes = list(dict.fromkeys(keys))  # an attribute may be a key twice
    members = listed_values(p, attributes)
    if members is None:
        return None
    points: list[Tuple] = list(product(*members))
    order = [attributes.index(key) for key in keys]
    by_owner: dict[int, list[Tuple]] = {}
    for point, owner in zip(points, owners([tuple(t[i] for i in order) for t in points]), strict=True):
        by_owner.setdefault(owner, []).append(point)
    return {owner: _with_points(p, attributes, points) for owner, points in by_owner.items()}


def _with_points(p: Punctuation, attributes: list[int], points: list[Tuple]) -> list[Punctuation]:
    """``p`` restricted to values: one punctuation for one attribute, otherwise one for each combination."""
    groups = [points] if len(attributes) == 1 else [[point] for point in points]
    parts = []
    for group in groups:
        patterns = list(p.patterns)
        for i, column in zip(attributes, zip(*group, strict=True), strict=True):
            patterns[i] = values(p.schema.attributes[i].type, column)
        parts.append(Punctuation(p.schema, patterns))
    return parts


class Gather(Merge):
    """`Merge` over the shards of one fragment; port i is shard i.

    From the start, a shard has no tuple whose partition values another shard owns. So a punctuation on values that the
    shard owns is emitted without the other shards, and a punctuation on values of another shard is not new. All shards
    have to emit a punctuation with too many values to list before it holds; and every punctuation, if the output has
    lost a partition attribute.

    ``keys`` are the ways to find the partition values in the output; empty if they were lost. (A null matches no
    pattern that can be listed.) With ``all_needed``, the receiver needs implied punctuations
    (`Operator.emit_implied`). Otherwise no punctuation is emitted after the end.

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

    def __init__(
        self, schema: Schema, shards: int, keys: Ways, owners: Owners, all_needed: bool = False
    ) -> None:
        # In the end all shards receive, and emit, the same punctuations.
        super().__init__([schema] * shards, alike=True)
        self._ways, self._owners = [[schema.index(key) for key in way] for way in keys], owners
        if all_needed:
            self.emit_implied(all_needed=True)

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        if self.alignment.ended and not self.ownership:
            return self.schema.empty(), PunctuationBatch()
        owned, shared = self.divide(port, batch)
        return self.schema.empty(), self.meet(owned, [((port,), shared)])

    def divide(self, port: int, batch: PunctuationBatch) -> tuple[PunctuationBatch, Sequence[Punctuation]]:
        """Punctuations on values that a shard owns, which hold at once; and punctuations that all shards have to emit.

        This needs no state, so it can run in any process. `meet` completes it.
        """
        if len(self.inputs) == 1:
            return batch, ()
        for way in self._ways:
            if set(way) == {batch.position} and not batch.ranged:
                return self._owned_part(port, batch, len(way)), ()
        owned: dict[Punctuation, None] = {}
        shared: list[Punctuation] = []
        for p in batch:
            splits = (split_by_owner(p, way, self._owners) for way in self._ways)
            split = next((parts for parts in splits if parts is not None), None)
            if split is None:
                shared.append(p)
            else:
                owned.update(dict.fromkeys(split.get(port, [])))
        return PunctuationBatch(owned), shared

    def meet(
        self, owned: PunctuationBatch, shared: Iterable[tuple[Sequence[int], Sequence[Punctuation]]]
    ) -> PunctuationBatch:
        """The punctuations of all shards together, from the results of `divide`. ``shared`` has lists of shards that
        emitted the same punctuations."""
        if self.alignment.ended and not self.ownership:
            return PunctuationBatch()
        if len(self.inputs) == 1 and owned.has_end:
            self.alignment.add(0, Punctuation.everything(self.schema))
        met = [c for ports, ps in shared for p in ps for c in self.alignment.meet(ports, p)]
        return PunctuationBatch.union([owned, met]) if met else owned

    def _owned_part(self, port: int, batch: PunctuationBatch, times: int) -> PunctuationBatch:
        """The punctuations on values that a shard owns. The attribute is a partition key ``times`` times."""
        owners = self._owners([(key,) * times for key in batch.keys])
        return batch.of_some(key for key, owner in zip(batch.keys, owners, strict=True) if owner == port)

"""merge: all tuples of several inputs, SQL's UNION ALL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from xmlpunct.operators.iterator import Operator, Snapshot
from xmlpunct.punctset import PunctuationSet, jointly_cover
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Attribute, Schema


class Merge(Operator):
    """Passes every tuple of every input on. Inputs match by position; names are the first input's.

    - cpass(ts1, ps1, ..., tsn, psn)  = ts1 ++ ... ++ tsn
    - cprop(ts1, ps1, ..., tsn, psn)  = setCombine(ps1, ..., psn)
    - ckeep                           = []

    A punctuation is retained until what was promised covers it, alone or jointly: combined with whatever may
    still come, it would say nothing new. What was promised is remembered only where it overlaps a retained one.
    """

    name = "merge"

    def __init__(self, inputs: Sequence[Schema]) -> None:
        super().__init__(tuple(inputs), merged(inputs))
        self._held = [PunctuationSet(self.schema) for _ in inputs]
        self._sent = PunctuationSet(self.schema)

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        return (
            tuples
            if tuples.columns == list(self.schema.names)
            else tuples.rename(dict(zip(tuples.columns, self.schema.names, strict=True)))
        )

    def prop(self, port: int, punctuations: list[Punctuation]) -> list[Punctuation]:
        promised: dict[Punctuation, None] = {}
        for given in punctuations:
            p = Punctuation(self.schema, given.patterns)
            if self._held[port].add(p):
                found = self._combine(port, p)
                promised.update(dict.fromkeys(found))
                self._forget(found)
                if not found and jointly_cover(self._sent.overlapping(p), p):
                    self._held[port].discard([p])
        return list(promised)

    def _combine(self, port: int, p: Punctuation) -> list[Punctuation]:
        """The combinations of ``p`` with one punctuation of each other input that were not sent yet."""
        found = [p]
        for other, held in enumerate(self._held):
            if other != port and found:
                found = list(dict.fromkeys(c for q in found for c in held.combinations(q)))
        return [c for c in found if c not in self._sent]

    def _forget(self, sent: Iterable[Punctuation]) -> None:
        """Remember what was sent; drop retained punctuations it covers, then what no retained one overlaps."""
        fresh = self._sent.update(sent)
        doubtful = dict.fromkeys(fresh)
        for c in fresh:
            for held in self._held:
                for h in held.overlapping(c):
                    pieces = self._sent.overlapping(h)
                    if jointly_cover(pieces, h):
                        held.discard([h])
                        doubtful.update(dict.fromkeys(pieces))
        self._sent.discard(c for c in doubtful if not any(held.overlapping(c) for held in self._held))

    @property
    def held(self) -> int:
        return sum(map(len, self._held))

    def snapshot(self) -> Snapshot:
        frames = {f"held{i}": to_frame(self.schema, held) for i, held in enumerate(self._held)}
        return frames | {"sent": to_frame(self.schema, self._sent)}

    def restore(self, snapshot: Snapshot) -> None:
        def load(name: str) -> PunctuationSet:
            return PunctuationSet(self.schema, from_frame(self.schema, snapshot[name]))

        self._held = [load(f"held{i}") for i in range(len(self.inputs))]
        self._sent = load("sent")


def merged(inputs: Sequence[Schema]) -> Schema:
    """The schema of a merge: NOT NULL and a domain hold where every input declares them alike.

    Raises ValueError where the inputs' attributes differ in number or type.
    """
    first = inputs[0]
    if any([a.type for a in schema] != [a.type for a in first] for schema in inputs):
        raise ValueError("the inputs of a merge have attributes of the same types in the same order")
    attributes = []
    for column in zip(*inputs, strict=True):
        head = column[0]
        nullable = any(a.nullable for a in column)
        alike = all(a.domain == head.domain for a in column)
        if alike:
            attributes.append(Attribute(head.name, head.type, nullable, head.name, head.domain))
        else:
            attributes.append(Attribute(head.name, head.type, nullable))
    return Schema.of(attributes)

"""The images of punctuations on an attribute under a monotone expression of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.tuple.carriers import CarrierChoice, Carriers
from xmlpunct.punctuations.closed_set import ClosedSet, Row
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern


class Images:
    """The images of *fused* patterns: 3600 seconds that close one by one close ``ts / 3600 = 1`` together.

    Punctuations that agree on all other attributes are fused in the attribute that an expression reads. The part of
    the image that was not emitted yet is emitted.
    """

    def __init__(self, source: Schema, schema: Schema, carriers: Carriers) -> None:
        self.source, self.schema = source, schema
        fusing = [
            (i, column) for i, cs in enumerate(carriers.by_attribute) for column, m in cs if m is not None
        ]
        self._received = {i: ClosedSet(source) for i, _ in sorted(fusing)}
        self._emitted = {column: ClosedSet(schema) for column in sorted(column for _, column in fusing)}

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """Received patterns of each attribute that an expression reads; emitted patterns of each expression."""
        received = {f"said{i}": fused for i, fused in self._received.items()}
        return {**received, **{f"given{column}": fused for column, fused in self._emitted.items()}}

    def add(self, p: Punctuation) -> None:
        """Fuse a punctuation with earlier ones."""
        for i in self._received.keys() & set(p.constrained):
            self._received[i].add(p, i)

    def of(self, p: Punctuation, choice: CarrierChoice) -> Iterator[Punctuation]:
        """The new output punctuations for ``p``, carried by the columns of ``choice``."""
        fused = [i for i, (_, monotone) in choice.items() if monotone is not None]
        if not fused:
            source = {column: i for i, (column, _) in choice.items()}
            yield p.rebase(self.schema, [source.get(k) for k in range(len(self.schema))])
        elif len({column for column, _ in choice.values()}) == len(choice):
            for i in fused:
                yield from self._images(p, choice, i)

    def _images(self, p: Punctuation, choice: CarrierChoice, fused: int) -> Iterator[Punctuation]:
        """The new images of ``p``, fused in one attribute with punctuations that agree on all other attributes."""
        attributes = self.source.attributes
        row = Row(fused, p.with_pattern(fused, WILDCARD))
        touched = self._received[fused].values(row).overlapping(p.patterns[fused])
        alternatives: list[list[tuple[int, Pattern]]] = []
        for i, (column, monotone) in choice.items():
            if monotone is None:
                alternatives.append([(column, p.patterns[i])])
            elif i != fused:
                parts = cuts(p.patterns[i])
                alternatives.append([(column, monotone.image(attributes[i], *part)) for part in parts])
        fused_column, monotone = choice[fused]
        assert monotone is not None
        images = [monotone.image(attributes[fused], *interval) for interval in touched.intervals()]
        for carried in product(*alternatives):
            patterns: list[Pattern] = [WILDCARD] * len(self.schema)
            for column, pattern in carried:
                patterns[column] = pattern
            if EMPTY not in patterns:
                for image in images:
                    yield from self._emit_new(patterns, fused_column, image)

    def _emit_new(self, patterns: list[Pattern], column: int, image: Pattern) -> Iterator[Punctuation]:
        """The parts of an image in ``column`` that were not emitted yet, with these patterns in all other columns."""
        emitted = self._emitted[column]
        whole = Punctuation(self.schema, patterns).with_pattern(column, image)
        for pattern in emitted.missing(whole, column):
            punctuation = whole.with_pattern(column, pattern)
            emitted.add(punctuation, column)
            yield punctuation

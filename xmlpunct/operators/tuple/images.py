"""What punctuations on an attribute say about a monotone expression of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xmlpunct.base.frames import Part
from xmlpunct.operators.tuple.carriers import Carriers, Choice
from xmlpunct.punctuations.fused import Fused
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern


class Images:
    """The images of *fused* patterns: 3600 seconds that close one by one close ``ts / 3600 = 1`` together.

    Punctuations that agree on all other attributes are fused in the one that an expression reads. What is new of the
    image goes out.
    """

    def __init__(self, source: Schema, schema: Schema, carriers: Carriers) -> None:
        self.source, self.schema = source, schema
        fusing = [
            (i, place) for i, cs in enumerate(carriers.by_attribute) for place, m in cs if m is not None
        ]
        self._said = {i: Fused(source) for i, _ in sorted(fusing)}
        self._given = {place: Fused(schema) for place in sorted(place for _, place in fusing)}

    @property
    def parts(self) -> dict[str, Part]:
        """What was said of each attribute that an expression reads, and what was given out of each expression."""
        said = {f"said{i}": said for i, said in self._said.items()}
        return {**said, **{f"given{place}": given for place, given in self._given.items()}}

    def add(self, p: Punctuation) -> None:
        """Fuse a punctuation with the others."""
        for i in self._said.keys() & set(p.constrained):
            self._said[i].add(p, i)

    def of(self, p: Punctuation, choice: Choice) -> Iterator[Punctuation]:
        """What ``p`` newly says about the output, carried in this way."""
        fused = [i for i, (_, monotone) in choice.items() if monotone is not None]
        if not fused:
            source = {place: i for i, (place, _) in choice.items()}
            yield p.rebase(self.schema, [source.get(k) for k in range(len(self.schema))])
        elif len({place for place, _ in choice.values()}) == len(choice):
            for i in fused:
                yield from self._images(p, choice, i)

    def _images(self, p: Punctuation, choice: Choice, fused: int) -> Iterator[Punctuation]:
        """What ``p`` newly says when it is fused in one attribute with those that agree elsewhere."""
        attributes = self.source.attributes
        row = (fused, (*p.patterns[:fused], WILDCARD, *p.patterns[fused + 1 :]))
        touched = self._said[fused].values(row).overlapping(p.patterns[fused])
        beside: list[list[tuple[int, Pattern]]] = []
        for i, (place, monotone) in choice.items():
            if monotone is None:
                beside.append([(place, p.patterns[i])])
            elif i != fused:
                beside.append([(place, monotone.image(attributes[i], *part)) for part in cuts(p.patterns[i])])
        at, monotone = choice[fused]
        assert monotone is not None
        images = [monotone.image(attributes[fused], *interval) for interval in touched.intervals()]
        for others in product(*beside):
            patterns: list[Pattern] = [WILDCARD] * len(self.schema)
            for place, pattern in others:
                patterns[place] = pattern
            if EMPTY not in patterns:
                for image in images:
                    yield from self._fresh(patterns, at, image)

    def _fresh(self, patterns: list[Pattern], at: int, image: Pattern) -> Iterator[Punctuation]:
        """What is new of an image, beside these patterns."""
        given = self._given[at]
        for pattern in given.missing(at, [*patterns[:at], image, *patterns[at + 1 :]]):
            whole = Punctuation(self.schema, [*patterns[:at], pattern, *patterns[at + 1 :]])
            given.add(whole, at)
            yield whole

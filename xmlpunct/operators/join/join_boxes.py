"""Boxes: what a join's stored tuple can still meet, by conditions such as ``y.u BETWEEN x.ts AND x.ts + 5``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import polars as pl

from xmlpunct.base.frames import Part, any_of
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled
from xmlpunct.operators.join.join_bounds import Bound, bounds_of
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.punctuation import Punctuation, covers
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.spans import Spans, inside, unbounded
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.cut_points import Cut, between, cuts, ends
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

MANY = 64
"""Of so many punctuations that bound several attributes at once it is remembered what they close.

Only tuples that come later need that: forgetting makes some stay longer.
"""


class Box:
    """The interval of one attribute of the other side in which a stored tuple's partners lie.

    Each of its bounds has a column, with the value of the bound's ``own`` for each stored tuple. Where that fails, the
    column is null and the bound is none.
    """

    def __init__(
        self,
        number: int,
        side: int,
        keys: Sequence[Sequence[str]],
        mine: Schema,
        other: Schema,
        bounds: Sequence[Bound],
    ) -> None:
        self._attribute = other[bounds[0].attribute]
        self.place = other.index(self._attribute.name)
        self._spans = Spans(other, keys[1 - side], self._attribute.name)
        groups: dict[tuple[Expression, bool], list[Bound]] = {}
        for bound in bounds:
            groups.setdefault((bound.subject, bound.is_low), []).append(bound)
        self._columns = [
            BoxColumn(f"${'low' if is_low else 'high'}{side}.{number}.{i}", group)
            for i, ((_, is_low), group) in enumerate(groups.items())
        ]
        self._keys = len(keys[side])
        self.attributes = [column.attribute for column in self._columns]
        self._schema = Schema.of([*(mine[k] for k in keys[side]), *self.attributes])
        self._closed = PunctuationSet(self._schema)
        """The boxes that are closed, as punctuations over k and the bounds."""
        self._add(self._spans.opening())

    @property
    def parts(self) -> dict[str, Part]:
        """What is remembered."""
        return {"spans": self._spans, "closed": self._closed}

    def spread(self, ownership: Ownership) -> None:
        """As `Spans.spread`."""
        self._spans.spread(ownership)

    def of(self, tuples: pl.DataFrame) -> tuple[list[pl.Series], pl.Series]:
        """The bounds of tuples, and which tuples have an empty box."""
        computed = [column.of(tuples) for column in self._columns]
        empty = any_of([is_null for _, is_null in computed], tuples.height)
        for low, (lows, _) in zip(self._columns, computed, strict=True):
            for high, (highs, _) in zip(self._columns, computed, strict=True):
                if low.is_low and not high.is_low and low.subject == high.subject:
                    is_none = lows >= highs if low.strict or high.strict else lows > highs
                    empty = empty | is_none.fill_null(False)
        return [values for values, _ in computed], empty

    def hear(self, batch: PunctuationBatch) -> list[Punctuation]:
        """Take punctuations of the other side; return what boxes are closed now."""
        return self._add(self._spans.add(batch, lambda pattern: bool(self.within(pattern))))

    def _add(self, spans: Sequence[Punctuation]) -> list[Punctuation]:
        fresh = []
        for span in spans:
            *keys, pattern = span.patterns
            for way in self.within(pattern):
                box = Punctuation(self._schema, [*keys, *way])
                self._closed.discard([q for q in self._closed.overlapping(box) if covers(box, q)])
                self._closed.add(box)
                fresh.append(box)
        return fresh

    def within(self, pattern: Pattern) -> list[list[Pattern]]:
        """Patterns of the bounds whose boxes lie within a pattern of the attribute, in each way to be certain of that.

        None if the pattern is several ranges. One bound at each end is enough.
        """
        anything: list[Pattern] = [WILDCARD] * len(self._columns)
        if pattern is WILDCARD:
            return [anything]
        if len(cuts(pattern)) != 1:
            return []
        ways = [anything]
        for end, is_low in enumerate((True, False)):
            if unbounded(self._attribute.type, pattern, is_low):
                continue
            cut, narrower = cuts(pattern)[0][end], []
            for i, column in enumerate(self._columns):
                values = column.beyond(self._attribute, cut, is_low)
                if values is not EMPTY:
                    narrower += [[*way[:i], values, *way[i + 1 :]] for way in ways]
            ways = narrower
        return ways

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget what is closed for k for which no tuple of this side comes any more; ``closed`` is over k."""
        every = [*range(self._keys)]
        self._spans.forget(closed.rebase(self._spans.schema, [*every, None]))
        for c in closed.rebase(self._schema, [*every, *[None] * len(self.attributes)]):
            self._closed.discard([q for q in self._closed.overlapping(c) if covers(c, q)])

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple with its bounds, whether its box is closed."""
        return self._closed.mask(tuples)


class BoxColumn:
    """The narrowest of some bounds of one subject at one end, for each stored tuple."""

    def __init__(self, name: str, bounds: Sequence[Bound]) -> None:
        self._bound = bounds[0]
        self.subject, self.is_low = self._bound.subject, self._bound.is_low
        self.strict = all(b.strict for b in bounds)
        self.attribute = Attribute(name, self.subject.type, True)
        self._programs = [compiled(b.own) for b in bounds]

    def of(self, tuples: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The values of tuples, and which of them are null without failing: such a tuple meets nothing."""
        narrowest = pl.Series([None], dtype=self.subject.type.dtype).new_from_index(0, tuples.height)
        is_null = pl.Series([False]).new_from_index(0, tuples.height)
        for program in self._programs:
            (values,), reasons = program.run(tuples)
            if reasons is None:
                is_null = is_null | values.is_null()
            else:
                is_null = is_null | (values.is_null() & reasons.is_null())
                values = values.zip_with(reasons.is_null(), values.clear(tuples.height))
            better = (values > narrowest) if self.is_low else (values < narrowest)
            narrowest = values.zip_with((better | narrowest.is_null()).fill_null(False), narrowest)
        return narrowest.alias(self.attribute.name), is_null

    def beyond(self, attribute: Attribute, cut: Cut, is_low: bool) -> Pattern:
        """The values for which nothing is left below (``is_low``) or above a place of the attribute; EMPTY if none."""
        if self._bound.bounds_below is not is_low:
            return EMPTY
        image, first, last = self._bound.image, *ends(attribute.type)
        span = between(attribute.type, *((cut, last) if is_low else (first, cut)))
        if image is not None:
            span = image.end_image(attribute, cut, is_low)
        if span is EMPTY or unbounded(self.subject.type, span, self.is_low):
            return span if span is EMPTY else WILDCARD
        return inside(self.subject.type, span, self.is_low, self.strict)


class Boxes:
    """The `Box`es of a stored side, one for each attribute of the other one that conditions bound.

    A tuple meets nothing more once one of them is closed, or one punctuation closes what they have in common.
    ``schema`` is that of the stored tuples, with their bounds. Without conditions it is the input's own, and nothing is
    ever closed by them.
    """

    def __init__(
        self,
        side: int,
        keys: Sequence[Sequence[str]],
        stored: Schema,
        other: Schema,
        residual: Expression | None,
    ) -> None:
        bounds, own = bounds_of(residual, stored, other)
        names = dict.fromkeys(b.attribute for b in bounds if b.attribute not in keys[1 - side])
        self._boxes = [
            Box(i, side, keys, stored, other, [b for b in bounds if b.attribute == name])
            for i, name in enumerate(names)
        ]
        self._own = [compiled(part) for part in own]
        self._keys = [
            (stored.index(a), other.index(b)) for a, b in zip(keys[side], keys[1 - side], strict=True)
        ]
        self.schema = Schema.of([*stored, *(a for box in self._boxes for a in box.attributes)])
        self._common = PunctuationSet(self.schema)
        """What single punctuations have closed of several boxes."""

    @property
    def parts(self) -> dict[str, Part]:
        """What is remembered."""
        found = {f"{name}{i}": part for i, box in enumerate(self._boxes) for name, part in box.parts.items()}
        return {**found, "common": self._common} if len(self._boxes) > 1 else found

    def spread(self, ownership: Ownership) -> None:
        """As `Spans.spread`."""
        for box in self._boxes:
            box.spread(ownership)

    def __bool__(self) -> bool:
        return bool(self._boxes or self._own)

    def of(self, tuples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Tuples with their bounds, and for each whether it can meet nothing that may still come."""
        hopeless = []
        for condition in self._own:
            (holds,), reasons = condition.run(tuples)
            is_lost = ~holds.fill_null(False)
            hopeless.append(is_lost if reasons is None else is_lost & reasons.is_null())
        for box in self._boxes:
            columns, empty = box.of(tuples)
            hopeless.append(empty)
            tuples = tuples.with_columns(columns)
        return tuples, any_of(hopeless, tuples.height)

    def closed(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple with its bounds, whether the other side has closed a box of it."""
        closed = [box.mask(tuples) for box in self._boxes]
        if len(self._common):
            closed.append(self._common.mask(tuples))
        return any_of(closed, tuples.height)

    def hear(self, batch: PunctuationBatch) -> PunctuationSet:
        """Take punctuations of the other side; return what stored tuples they let go."""
        gone = PunctuationSet(self.schema)
        for box in self._boxes:
            for p in box.hear(batch):
                at = {name: i for i, name in enumerate(p.schema.names)}
                gone.add(p.rebase(self.schema, [at.get(name) for name in self.schema.names]))
        for p in batch if len(self._boxes) > 1 else ():
            for common in self._in_common(p):
                gone.add(common)
                self._remember(common)
        return gone

    def _in_common(self, p: Punctuation) -> Iterator[Punctuation]:
        """What a punctuation of the other side that bounds several attributes closes, over k and all bounds."""
        places = {box.place for box in self._boxes}
        if not set(p.constrained) <= places.union(other for _, other in self._keys):
            return
        if len(places.intersection(p.constrained)) < 2:  # the box knows
            return
        patterns: list[Pattern] = [WILDCARD] * (
            len(self.schema) - sum(len(b.attributes) for b in self._boxes)
        )
        for mine, other in self._keys:
            patterns[mine] = p.patterns[other]
        for ways in product(*(box.within(p.patterns[box.place]) for box in self._boxes)):
            yield Punctuation(self.schema, [*patterns, *(end for ends in ways for end in ends)])

    def _remember(self, common: Punctuation) -> None:
        self._common.discard([q for q in self._common.overlapping(common) if covers(common, q)])
        if len(self._common) >= MANY:
            self._common.remove(next(iter(self._common)))
        self._common.add(common)

    def forget(self, closed: PunctuationBatch) -> None:
        """As `Box.forget`."""
        for box in self._boxes:
            box.forget(closed)
        if len(self._common):
            places: list[int | None] = [None] * len(self.schema)
            for i, (mine, _) in enumerate(self._keys):
                places[mine] = i
            for c in closed.rebase(self.schema, places):
                self._common.discard([q for q in self._common.overlapping(c) if covers(c, q)])

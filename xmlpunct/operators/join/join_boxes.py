"""Boxes: where a stored tuple's partners can lie, by conditions like ``y.u BETWEEN x.ts AND x.ts + 5``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import polars as pl

from xmlpunct.base.frames import SnapshotPart, any_of
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import compiled
from xmlpunct.operators.join.join_bounds import Bound, bounds_of
from xmlpunct.punctuations.closed_attribute import ClosedAttribute, inside, unbounded
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.punctuations.single_attribute import constraining_beyond
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.cut_points import Cut, between, cuts, ends
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

MANY = 64
"""The most closed boxes that are retained for punctuations that bound several attributes at once.

Only tuples that arrive later need them: without them, some tuples are retained longer.
"""


class Box:
    """The interval of one attribute of the other side in which a stored tuple's partners lie.

    Each of its bounds has a column, with the value of the bound's ``limit`` for each stored tuple. If that fails, the
    column is null and there is no bound.
    """

    def __init__(
        self,
        number: int,
        side: int,
        keys: Sequence[Sequence[str]],
        stored: Schema,
        other: Schema,
        bounds: Sequence[Bound],
    ) -> None:
        self._attribute = other[bounds[0].attribute]
        self.position = other.index(self._attribute.name)
        self._closed_values = ClosedAttribute(
            other, self._attribute.name, keys[1 - side], forgets_complete=True
        )
        groups: dict[tuple[Expression, bool], list[Bound]] = {}
        for bound in bounds:
            groups.setdefault((bound.subject, bound.is_low), []).append(bound)
        self._columns = [
            BoxColumn(f"${'low' if is_low else 'high'}{side}.{number}.{i}", group)
            for i, ((_, is_low), group) in enumerate(groups.items())
        ]
        self._keys = len(keys[side])
        self.attributes = [column.attribute for column in self._columns]
        self._schema = Schema.of([*(stored[k] for k in keys[side]), *self.attributes])
        self._closed = PunctuationSet(self._schema)
        """The closed boxes, as punctuations over k and the bounds."""
        self._add(self._closed_values.punctuations(self._closed_values.opening))

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        return {"values": self._closed_values, "closed": self._closed}

    @property
    def joint(self) -> JointCover:
        """The joint cover of the other side's punctuations."""
        return self._closed_values.joint

    def bounds(self, tuples: pl.DataFrame) -> tuple[list[pl.Series], pl.Series]:
        """The bounds of tuples, and whether the box of each tuple is empty."""
        computed = [column.values(tuples) for column in self._columns]
        empty = any_of([is_null for _, is_null in computed], tuples.height)
        for low, (lows, _) in zip(self._columns, computed, strict=True):
            for high, (highs, _) in zip(self._columns, computed, strict=True):
                if low.is_low and not high.is_low and low.subject == high.subject:
                    is_none = lows >= highs if low.strict or high.strict else lows > highs
                    empty = empty | is_none.fill_null(False)
        return [values for values, _ in computed], empty

    def receive(self, batch: PunctuationBatch) -> list[Punctuation]:
        """Receive punctuations of the other side; return the boxes that they close."""
        grown = self._closed_values.add(batch, lambda pattern: bool(self.within(pattern)))
        return self._add(self._closed_values.punctuations(grown))

    def _add(self, spans: Sequence[Punctuation]) -> list[Punctuation]:
        closed = []
        for span in spans:
            *keys, pattern = span.patterns
            for way in self.within(pattern):
                box = Punctuation(self._schema, [*keys, *way])
                if self._closed.absorb(box):
                    closed.append(box)
        return closed

    def within(self, pattern: Pattern) -> list[list[Pattern]]:
        """Patterns of the bounds that imply that the box lies within a pattern of the attribute.

        One list of patterns for each way to imply it, with one bound at each end. Empty if the pattern is several
        ranges.
        """
        wildcards: list[Pattern] = [WILDCARD] * len(self._columns)
        if pattern is WILDCARD:
            return [wildcards]
        if len(cuts(pattern)) != 1:
            return []
        ways = [wildcards]
        for end, is_low in enumerate((True, False)):
            if unbounded(self._attribute.type, pattern, is_low):
                continue
            cut, narrower = cuts(pattern)[0][end], []
            for i, column in enumerate(self._columns):
                values = column.values_within(self._attribute, cut, is_low)
                if values is not EMPTY:
                    narrower += [[*way[:i], values, *way[i + 1 :]] for way in ways]
            ways = narrower
        return ways

    def forget(self, closed: PunctuationBatch) -> None:
        """Drop closed boxes of keys that this side has closed, as no more tuples need them; ``closed`` is over k."""
        key_positions = [*range(self._keys)]
        self._closed_values.forget(closed.rebase(self._closed_values.schema, [*key_positions, None]))
        self._closed.remove_covered(
            closed.rebase(self._schema, [*key_positions, *[None] * len(self.attributes)])
        )

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple with its bounds, whether its box is closed."""
        return self._closed.mask(tuples)


class BoxColumn:
    """The narrowest of several bounds of one subject at one end, for each stored tuple."""

    def __init__(self, name: str, bounds: Sequence[Bound]) -> None:
        self._bound = bounds[0]
        self.subject, self.is_low = self._bound.subject, self._bound.is_low
        self.strict = all(b.strict for b in bounds)
        self.attribute = Attribute(name, self.subject.type, True)
        self._programs = [compiled(b.limit) for b in bounds]

    def values(self, tuples: pl.DataFrame) -> tuple[pl.Series, pl.Series]:
        """The bounds of tuples, and a mask of bounds that are null without failing: those tuples have no partner."""
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

    def values_within(self, attribute: Attribute, cut: Cut, is_low: bool) -> Pattern:
        """The values of the bound for which the box has nothing below (``is_low``) or above ``cut``; EMPTY if none."""
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
    """The `Box`es of a stored side, one for each attribute of the other side that conditions bound.

    A tuple has no more partners once one of its boxes is closed, or one punctuation closes their intersection.
    ``schema`` is the schema of the stored tuples, with their bounds. Without conditions it is the input's own schema,
    and there are no boxes.
    """

    def __init__(
        self,
        side: int,
        keys: Sequence[Sequence[str]],
        stored: Schema,
        other: Schema,
        residual: Expression | None,
    ) -> None:
        bounds, conditions = bounds_of(residual, stored, other)
        names = dict.fromkeys(b.attribute for b in bounds if b.attribute not in keys[1 - side])
        self._boxes = [
            Box(i, side, keys, stored, other, [b for b in bounds if b.attribute == name])
            for i, name in enumerate(names)
        ]
        self._conditions = [compiled(part) for part in conditions]
        self._keys = [
            (stored.index(a), other.index(b)) for a, b in zip(keys[side], keys[1 - side], strict=True)
        ]
        self.schema = Schema.of([*stored, *(a for box in self._boxes for a in box.attributes)])
        self._common = PunctuationSet(self.schema)
        """Intersections of several boxes that single punctuations have closed."""

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        parts = {f"{name}{i}": part for i, box in enumerate(self._boxes) for name, part in box.parts.items()}
        return {**parts, "common": self._common} if len(self._boxes) > 1 else parts

    @property
    def joints(self) -> list[JointCover]:
        """The joint covers of the other side's punctuations."""
        return [box.joint for box in self._boxes]

    def __bool__(self) -> bool:
        return bool(self._boxes or self._conditions)

    def bounded(self, tuples: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Tuples with their bounds; and for each, whether it can have no partner among future tuples."""
        unmatchable = []
        for condition in self._conditions:
            (holds,), reasons = condition.run(tuples)
            is_false = ~holds.fill_null(False)
            unmatchable.append(is_false if reasons is None else is_false & reasons.is_null())
        for box in self._boxes:
            columns, is_empty = box.bounds(tuples)
            unmatchable.append(is_empty)
            tuples = tuples.with_columns(columns)
        return tuples, any_of(unmatchable, tuples.height)

    def closed(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple with its bounds, whether the other side has closed one of its boxes."""
        closed = [box.mask(tuples) for box in self._boxes]
        if len(self._common):
            closed.append(self._common.mask(tuples))
        return any_of(closed, tuples.height)

    def receive(self, batch: PunctuationBatch) -> PunctuationSet:
        """Receive punctuations of the other side; return punctuations that match the stored tuples to purge."""
        closed, key_positions = PunctuationSet(self.schema), {other for _, other in self._keys}
        batch = constraining_beyond(batch, key_positions)  # k alone closes all boxes of its tuples
        for box in self._boxes:
            for p in box.receive(batch):
                positions = {name: i for i, name in enumerate(p.schema.names)}
                closed.add(p.rebase(self.schema, [positions.get(name) for name in self.schema.names]))
        for p in batch if len(self._boxes) > 1 else ():
            for intersection in self._intersections(p):
                closed.add(intersection)
                self._common.remove_covered([intersection])
                if len(self._common) >= MANY:
                    self._common.remove(next(iter(self._common)))
                self._common.add(intersection)
        return closed

    def _intersections(self, p: Punctuation) -> Iterator[Punctuation]:
        """The intersections of boxes, over k and all bounds, that a punctuation on several attributes closes."""
        positions = {box.position for box in self._boxes}
        if not set(p.constrained) <= positions.union(other for _, other in self._keys):
            return
        if len(positions.intersection(p.constrained)) < 2:  # then one box handles it
            return
        patterns: list[Pattern] = [WILDCARD] * (
            len(self.schema) - sum(len(b.attributes) for b in self._boxes)
        )
        for stored, other in self._keys:
            patterns[stored] = p.patterns[other]
        for ways in product(*(box.within(p.patterns[box.position]) for box in self._boxes)):
            yield Punctuation(self.schema, [*patterns, *(end for ends in ways for end in ends)])

    def forget(self, closed: PunctuationBatch) -> None:
        """As `Box.forget`."""
        for box in self._boxes:
            box.forget(closed)
        if len(self._common):
            sources: list[int | None] = [None] * len(self.schema)
            for i, (stored, _) in enumerate(self._keys):
                sources[stored] = i
            self._common.remove_covered(closed.rebase(self.schema, sources))

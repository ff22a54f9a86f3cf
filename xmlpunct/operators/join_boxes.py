"""Boxes: what a join's stored tuple can still meet, by conditions such as ``y.u BETWEEN x.ts AND x.ts + 5``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from xmlpunct.expressions.expression import Call, Column, Expression, Literal
from xmlpunct.expressions.functions.arithmetic import MINUS, PLUS
from xmlpunct.expressions.functions.conditions import AND, AT_LEAST, AT_MOST, EQUAL, GREATER, LESS
from xmlpunct.expressions.program import can_fail, compiled
from xmlpunct.frames import Part, any_of
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.cuts import cuts
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.pattern import WILDCARD, Pattern
from xmlpunct.punctuations.punctuation import Punctuation, covers
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.punctuations.spans import Spans, inside, unbounded
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import INT

MANY = 64
"""Of so many punctuations that bound several attributes at once it is remembered what they close.

Only tuples that come later need that: forgetting makes some stay longer.
"""
_COMPARISONS = (EQUAL, LESS, AT_MOST, GREATER, AT_LEAST)


@dataclass(frozen=True)
class Bound:
    """The other side's ``attribute`` is at least (``is_low``) or at most ``own``, of the stored tuple.

    If it is ``strict``, it is not equal.
    """

    attribute: str
    own: Expression
    is_low: bool
    strict: bool


def bounds_of(residual: Expression, mine: Schema, other: Schema) -> tuple[list[Bound], list[Expression]]:
    """What the conditions of a residual say of the tuples that a side's tuple meets, and those about itself alone.

    A condition of another form says nothing. If one could fail on a tuple that the others rule out, none does: that
    tuple would be rejected or not as the input is cut.
    """
    parts = residual.operands if isinstance(residual, Call) and residual.record is AND else [residual]
    bounds, own = list[Bound](), list[Expression]()
    for number, part in enumerate(parts):
        if set(part.columns()) <= set(mine.names):
            own.append(part)
            continue
        known = list(_bounds(part, mine, other))
        if can_fail(part) and not known:
            return [], []
        fails = isinstance(part, Call) and any(map(can_fail, _of_other(part, other)))
        if fails and number < len(parts) - 1:
            return [], []
        bounds += known
    return bounds, own


def _of_other(part: Call, other: Schema) -> list[Expression]:
    return [a for a in part.args if set(a.columns()) & set(other.names)]


def _bounds(part: Expression, mine: Schema, other: Schema) -> Iterator[Bound]:
    """The bounds in one comparison."""
    if not isinstance(part, Call) or part.record not in _COMPARISONS:
        return
    for (subject, own), holds in (
        (part.args, part.record.holds),
        (part.args[::-1], part.record.holds and part.record.holds[::-1]),
    ):
        assert holds is not None
        below, at, above = holds
        if not set(own.columns()) <= set(mine.names) or own.type != subject.type:
            continue
        for is_low, open_there in ((True, below), (False, above)):
            if open_there:
                continue
            moved = _moved(subject, own, is_low)
            if moved is not None and moved[0] in other:
                yield Bound(moved[0], moved[1], is_low, not at)


def _moved(subject: Expression, own: Expression, is_low: bool) -> tuple[str, Expression] | None:
    """``a + 5 >= own`` as ``a >= own - 5``: the column, and what it is compared with.

    Where ``a + 5`` fails it is beyond all numbers, and the other comparison holds. It would not for ``a + 5 <= own``.
    """
    if isinstance(subject, Column):
        return subject.name, own
    inverse = {PLUS: MINUS, MINUS: PLUS}.get(subject.record) if isinstance(subject, Call) else None
    if inverse is None or not isinstance(subject, Call) or subject.type is not INT:
        return None
    a, c = subject.args
    if not (isinstance(a, Column) and isinstance(c, Literal) and c.value is not None):
        return None
    if a.type is not INT or c.type is not INT or c.value < 0 or is_low != (inverse is MINUS):
        return None
    return a.name, inverse(own, c)


class Box:
    """The interval of one attribute of the other side in which a stored tuple's partners lie."""

    def __init__(
        self,
        number: int,
        side: int,
        keys: Sequence[Sequence[str]],
        mine: Schema,
        other: Schema,
        bounds: Sequence[Bound],
    ) -> None:
        attribute = other[bounds[0].attribute]
        self.place = other.index(attribute.name)
        self._type, self._bounds = attribute.type, bounds
        self._spans = Spans(other, keys[1 - side], attribute.name)
        ends = [is_low for is_low in (True, False) if any(b.is_low is is_low for b in bounds)]
        self._columns = {is_low: f"${'low' if is_low else 'high'}{side}.{number}" for is_low in ends}
        self._strict = {is_low: all(b.strict for b in bounds if b.is_low is is_low) for is_low in ends}
        self._keys = len(keys[side])
        self.attributes = [Attribute(name, self._type, True) for name in self._columns.values()]
        self._schema = Schema.of([*(mine[k] for k in keys[side]), *self.attributes])
        self._closed = PunctuationSet(self._schema)
        """The boxes that are closed, as punctuations over k and the bounds."""
        self._add(self._spans.opening())
        self._programs = [(b.is_low, compiled(b.own)) for b in bounds]

    @property
    def parts(self) -> dict[str, Part]:
        """What is remembered."""
        return {"spans": self._spans, "closed": self._closed}

    def spread(self, ownership: Ownership) -> None:
        """As `Spans.spread`."""
        self._spans.spread(ownership)

    def of(self, tuples: pl.DataFrame) -> tuple[list[pl.Series], pl.Series]:
        """The bounds of tuples, and which tuples have an empty box. Where an expression fails, bounds are null."""
        known: dict[bool, list[pl.Series]] = {is_low: [] for is_low in self._columns}
        empty = pl.Series([False]).new_from_index(0, tuples.height)
        failed = empty
        for is_low, program in self._programs:
            results, reasons = program.run(tuples)
            values = results.to_series()
            known[is_low].append(values)
            if reasons is not None:
                failed = failed | reasons.is_not_null()
            empty = empty | values.is_null()
        columns, unknown = [], pl.Series([None], dtype=self._type.dtype).new_from_index(0, tuples.height)
        for is_low, name in self._columns.items():
            columns.append(_extreme(known[is_low], is_low).zip_with(~failed, unknown).alias(name))
        if len(columns) == 2:
            low, high = columns
            empty = empty | (low >= high if any(self._strict.values()) else low > high).fill_null(False)
        return columns, empty & ~failed

    def hear(self, batch: PunctuationBatch) -> list[Punctuation]:
        """Take punctuations of the other side; return what boxes are closed now."""
        return self._add(self._spans.add(batch, lambda pattern: self.within(pattern) is not None))

    def _add(self, spans: Sequence[Punctuation]) -> list[Punctuation]:
        fresh = []
        for span in spans:
            *keys, pattern = span.patterns
            ends = self.within(pattern)
            if ends is None:
                continue
            box = Punctuation(self._schema, [*keys, *ends])
            self._closed.discard([q for q in self._closed.overlapping(box) if covers(box, q)])
            self._closed.add(box)
            fresh.append(box)
        return fresh

    def within(self, pattern: Pattern) -> list[Pattern] | None:
        """Of which bounds all values between match a pattern; None if there are none, or they are several ranges."""
        if pattern is WILDCARD:
            return [WILDCARD for _ in self._strict]
        free = [
            is_low for is_low in (True, False) if is_low not in self._strict
        ]  # the box has no bound there
        if len(cuts(pattern)) != 1 or not all(unbounded(self._type, pattern, is_low) for is_low in free):
            return None
        return [inside(self._type, pattern, is_low, strict) for is_low, strict in self._strict.items()]

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget what is closed for k for which no tuple of this side comes any more; ``closed`` is over k."""
        every = [*range(self._keys)]
        self._spans.forget(closed.rebase(self._spans.schema, [*every, None]))
        for c in closed.rebase(self._schema, [*every, *[None] * len(self.attributes)]):
            self._closed.discard([q for q in self._closed.overlapping(c) if covers(c, q)])

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple with its bounds, whether its box is closed."""
        return self._closed.mask(tuples)


def _extreme(values: Sequence[pl.Series], greatest: bool) -> pl.Series:
    """Of several bounds the narrowest."""
    narrowest = values[0]
    for other in values[1:]:
        better = (other > narrowest) if greatest else (other < narrowest)
        narrowest = narrowest.zip_with(~better.fill_null(False), other)
    return narrowest


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
        bounds, own = ([], []) if residual is None else bounds_of(residual, stored, other)
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
        hopeless = [pl.Series([False]).new_from_index(0, tuples.height)]
        failed = hopeless[0]
        for condition in self._own:
            results, reasons = condition.run(tuples)
            hopeless.append(~results.to_series().fill_null(False))
            if reasons is not None:
                failed = failed | reasons.is_not_null()
        for box in self._boxes:
            columns, empty = box.of(tuples)
            hopeless.append(empty)
            tuples = tuples.with_columns(columns)
        return tuples, any_of(hopeless, tuples.height) & ~failed

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
            common = self._in_common(p)
            if common is not None:
                gone.add(common)
                self._remember(common)
        return gone

    def _in_common(self, p: Punctuation) -> Punctuation | None:
        """What a punctuation of the other side that bounds several attributes closes, over k and all bounds."""
        places = {box.place for box in self._boxes}
        if not set(p.constrained) <= places.union(other for _, other in self._keys):
            return None
        if len(places.intersection(p.constrained)) < 2:  # the box knows
            return None
        patterns: list[Pattern] = [WILDCARD] * (
            len(self.schema) - sum(len(b.attributes) for b in self._boxes)
        )
        for mine, other in self._keys:
            patterns[mine] = p.patterns[other]
        for box in self._boxes:
            ends = box.within(p.patterns[box.place])
            if ends is None:
                return None
            patterns += ends
        return Punctuation(self.schema, patterns)

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

"""What a stream has promised so far, fused: for telling which tuples come too late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.frames import any_of
from xmlpunct.punctuations.punctuation import Punctuation, Signature, from_frame, to_frame
from xmlpunct.punctuations.punctuation_batch import COLUMN_FROM, PunctuationBatch
from xmlpunct.punctuations.punctuation_index import FEW_PUNCTUATIONS
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.types import pattern as pt
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.ordinals import is_numbered, ordinal_bounds

LATEST = 64
"""With so many of its kind at most a punctuation is compared. One that implies an older one costs memory, no more."""


class Outermost(PunctuationSet):
    """Punctuations of the same attributes, without punctuations that another one implies.

    ``<(,6], (,9]>`` replaces ``<(,5], (,9]>``. Punctuations are compared if they have equal constants. Beside equal
    constants, ranges of a numbered type are fused if they overlap or are adjacent.

    >>> s = Schema.parse("k INT, v INT")
    >>> held = Outermost(s)
    >>> [held.add(Punctuation.of(s, k=f"(,{k}]", v="(,500]")) for k in (5, 7, 6)]
    [True, True, False]
    >>> [held.add(Punctuation.of(s, k=5, v=v)) for v in ("[1,2]", "[3,4]", "[2,3]")]
    [True, True, False]
    >>> list(held)
    [Punctuation(<5, [1,4]>), Punctuation(<(,7], (,500]>)]
    """

    def __init__(self, schema: Schema) -> None:
        self._kinds: dict[tuple[Any, ...], dict[Punctuation, None]] = {}
        """Punctuations with a range or a list, by their attributes and constants, the oldest first."""
        super().__init__(schema)

    def add(self, p: Punctuation) -> bool:
        if p.constants is not None or p.is_everything:
            return super().add(p)
        if p.is_empty or self.implies(p):
            return False
        near = self._near(p)
        p = _hull([p, *(q for q in near if _touch(p, q))])
        for q in near:
            if _implies(p, q):
                self.remove(q)
        self._kinds.setdefault(_kind(p), {})[p] = None
        return super().add(p)

    def remove(self, p: Punctuation) -> None:
        super().remove(p)
        alike = self._kinds.get(_kind(p), {})
        alike.pop(p, None)
        if not alike:
            self._kinds.pop(_kind(p), None)

    def implies(self, p: Punctuation) -> bool:
        """Whether one of the punctuations implies ``p``."""
        return p in self or any(_implies(q, p) for q in self._near(p))

    def _near(self, p: Punctuation) -> list[Punctuation]:
        """The punctuations to compare with ``p``: all that it can fuse with, or otherwise the latest of its kind."""
        alike = self._kinds.get(_kind(p), {})
        if len(alike) <= FEW_PUNCTUATIONS or not _fuses(p):
            return list(islice(reversed(alike), LATEST))
        assert p.form is not None
        first, last = _ordinals(p)
        return [q for q in self._index(p.form).candidates(_between(p, first - 1, last + 1)) if q in alike]


def _kind(p: Punctuation) -> tuple[Any, ...]:
    """The attributes that a punctuation constrains, and its constants."""
    return p.constrained, p.keys(p.constrained)


def _implies(p: Punctuation, q: Punctuation) -> bool:
    """Whether ``p`` matches whatever ``q`` matches, by the patterns alone: a declared domain does not count."""
    return all(map(pt.covers, p.patterns, q.patterns))


def _fuses(p: Punctuation) -> bool:
    """Whether a punctuation has exactly one range, of a numbered type, and otherwise constants."""
    return p.form is not None and p.form[0] == 1 and is_numbered(p.schema.attributes[p.form[2]].type)


def _ordinals(p: Punctuation) -> tuple[int, int]:
    """The first and the last ordinal of the range of a punctuation that fuses."""
    assert p.form is not None
    bounds = pt.bounds(p.patterns[p.form[2]])
    assert bounds is not None
    return bounds


def _touch(p: Punctuation, q: Punctuation) -> bool:
    """Whether two punctuations of a kind can fuse, and their ranges overlap or are adjacent."""
    if p.form != q.form or not _fuses(p):
        return False
    (low, high), (first, last) = _ordinals(p), _ordinals(q)
    return first - 1 <= high and low <= last + 1


def _hull(touching: list[Punctuation]) -> Punctuation:
    """One punctuation for several whose ranges all touch the range of the first, so that no gap is between them."""
    if len(touching) == 1:
        return touching[0]
    firsts, lasts = zip(*map(_ordinals, touching), strict=True)
    return _between(touching[0], min(firsts), max(lasts))


def _between(p: Punctuation, first: int, last: int) -> Punctuation:
    """``p`` with another range, between two ordinals."""
    assert p.form is not None
    place = p.form[2]
    range_ = pt.ordinals(p.schema.attributes[place].type, first, last)
    return p.with_pattern(place, range_)


def _fused(some: list[Punctuation]) -> list[Punctuation]:
    """Fewer punctuations that match the same tuples. All have a range in one attribute, constants in equal other ones.

    >>> s = Schema.parse("k INT, v INT")
    >>> _fused([Punctuation.of(s, k=k, v=v) for k, v in ((5, "[3,4]"), (6, "[1,2]"), (5, "[1,2]"))])
    [Punctuation(<5, [1,4]>), Punctuation(<6, [1,2]>)]
    """
    assert some[0].form is not None
    attributes, (_, equal, place) = some[0].schema.attributes, some[0].form
    keys = (map(attributes[i].type.key, [p.patterns[i].value for p in some]) for i in equal)  # type: ignore[attr-defined]
    firsts, lasts = ordinal_bounds(attributes[place].type, *_columns(some, place))
    runs: list[list[Any]] = []
    latest: dict[tuple[Any, ...], list[Any]] = {}
    for key, first, last, p in zip(
        zip(*keys, strict=True), firsts.tolist(), lasts.tolist(), some, strict=True
    ):
        run = latest.get(key)
        if run is not None and run[0] - 1 <= last and first <= run[1] + 1:
            run[0], run[1] = min(run[0], first), max(run[1], last)
        else:
            run = latest[key] = [first, last, p]
            runs.append(run)
    return [_between(p, first, last) for first, last, p in runs]


def _columns(some: list[Punctuation], place: int) -> tuple[pl.Series, pl.Series]:
    """The inclusive bounds of the constants, or of the ranges, of a numbered type at a place."""
    dtype, patterns = some[0].schema.attributes[place].type.dtype, [p.patterns[place] for p in some]
    names = ("value", "value") if isinstance(patterns[0], pt.Constant) else ("low", "high")
    lows, highs = (pl.Series([*map(attrgetter(name), patterns)], dtype=dtype) for name in names)
    return lows, highs


class Promised:
    """The tuples that any of the punctuations added so far matches.

    Punctuations that constrain one numbered attribute are fused into disjoint intervals, so a stream that closes
    hour after hour, or item after item, is remembered in a few numbers. Ranges beside equal constants are fused, too.
    All other punctuations are remembered one by one, until one of the same attributes implies them (`Outermost`).

    ``most`` limits memory, not time. Beyond so many intervals and punctuations, those attributes forget that have
    most: their lowest intervals, or their oldest punctuations. ``forgotten`` counts them; a late tuple that only they
    match goes unnoticed.
    """

    def __init__(self, schema: Schema, most: int = 100_000) -> None:
        self.schema, self.most, self.forgotten = schema, most, 0
        self._values: dict[int, IntervalSet] = {}
        self._others: dict[Signature, Outermost] = {}

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Add some punctuations."""
        for batch in PunctuationBatch.of(punctuations).parts:
            if batch.position is None:
                for some in batch.alike:
                    self._add_alike(some)
            elif not self.complete:
                self._add_column(batch, batch.position)
        self._limit()

    def _add_alike(self, some: list[Punctuation]) -> None:
        places = some[0].constrained
        if not places:  # the end says everything, and its scheme comes before all others
            self._values, self._others = {}, {}
        elif self.complete or some[0].is_empty:
            return
        if len(places) == 1 and is_numbered(self.schema.attributes[places[0]].type):
            if len(some) >= COLUMN_FROM and not isinstance(some[0].patterns[places[0]], pt.Values):
                self._values_at(places[0]).add_ranges(*_columns(some, places[0]))
            else:
                for p in some:
                    self._values_at(places[0]).add(p.patterns[places[0]])
        else:
            others = self._others.setdefault(places, Outermost(self.schema))
            for p in _fused(some) if len(some) > 1 and _fuses(some[0]) else some:
                others.add(p)

    def _limit(self) -> None:
        """Forget what is beyond ``most``."""
        while (excess := len(self) - self.most) > 0:
            groups: list[IntervalSet | PunctuationSet] = [*self._values.values(), *self._others.values()]
            most = max(groups, key=len)
            count = min(excess, -(-len(most) // 2))
            if isinstance(most, IntervalSet):
                most.forget(count)
            else:
                most.discard(list(islice(most, count)))
            self.forgotten += count

    def _add_column(self, batch: PunctuationBatch, place: int) -> None:
        if is_numbered(self.schema.attributes[place].type):
            self._values_at(place).add_ranges(*batch.columns)
        else:
            self._others.setdefault((place,), Outermost(self.schema)).update(batch)

    def _values_at(self, place: int) -> IntervalSet:
        if place not in self._values:
            self._values[place] = IntervalSet(self.schema.attributes[place].type)
        return self._values[place]

    @property
    def complete(self) -> bool:
        """Whether the stream has promised its end."""
        return () in self._others

    def news(self, punctuations: PunctuationBatch) -> PunctuationBatch:
        """Those that no earlier one implies, or of one numbered attribute not all earlier ones together.

        So do all earlier ones that have a range of it beside the same constants.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> promised = Promised(s)
        >>> first = PunctuationBatch([Punctuation.of(s, hour="[0,4]"), Punctuation.of(s, sid="S1")])
        >>> promised.add(first)
        >>> promised.news(PunctuationBatch([*first, Punctuation.of(s, hour="[3,5]")]))
        PunctuationBatch([<*, [3,5]>])
        """
        if self.complete:
            return PunctuationBatch()
        parts = []
        for part in punctuations.parts:
            known = self._known(part)
            parts.append(part.take(np.flatnonzero(~known)) if known.any() else part)
        return PunctuationBatch.concat(parts)

    def _known(self, part: PunctuationBatch) -> NDArray[np.bool_]:
        """Which of some punctuations, of one form if in columns, say nothing new."""
        place = part.position
        if place is None or not is_numbered(self.schema.attributes[place].type):
            return np.fromiter(map(self._has, part), np.bool_, len(part))
        if place not in self._values:
            return np.zeros(len(part), np.bool_)
        (firsts, lasts), (lows, highs) = self._values[place].bounds, part.bounds
        at = firsts.searchsorted(lows, side="right") - 1
        known: NDArray[np.bool_] = (at >= 0) & (lasts[at] >= highs)
        return known

    def _has(self, p: Punctuation) -> bool:
        """Whether a punctuation says nothing new."""
        places = p.constrained
        if len(places) == 1 and is_numbered(self.schema.attributes[places[0]].type):
            return places[0] in self._values and self._values[places[0]].covers(p.patterns[places[0]])
        return places in self._others and self._others[places].implies(p)

    def missing(self, p: Punctuation) -> Punctuation | None:
        """What of a punctuation has not been promised; None if nothing. It may be more than that, and is never less.
        Nothing but the end is the end.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> promised = Promised(s)
        >>> promised.add([Punctuation.of(s, hour="[0,4]"), Punctuation.of(s, sid="S1")])
        >>> str(promised.missing(Punctuation.of(s, hour="[3,6]"))), promised.missing(Punctuation.of(s, sid="S1"))
        ('<*, [5,6]>', None)
        """
        if self.complete or p.is_empty or p.is_everything:
            return p if p.is_everything and not self.complete else None
        for place in p.constrained:
            if place not in self._values:
                continue
            missing = list(self._values[place].missing(p.patterns[place]))
            if not missing:
                return None
            if len(missing) == 1:
                p = p.with_pattern(place, missing[0])
        return None if any(others.covers(p) for others in self._others.values()) else p

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it was promised not to come."""
        return any_of([late for _, late in self.masks(tuples)], tuples.height)

    def schemes(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, the names of the attributes by which it was promised not to come, joined by commas.

        Null if it was not; where several schemes of punctuations match, the first in the order of strings.
        """
        schemes = pl.Series([None], dtype=pl.String()).new_from_index(0, tuples.height)
        for places, late in self.masks(tuples):
            schemes = earliest(schemes, late, scheme_of(self.schema, places))
        return schemes

    def masks(self, tuples: pl.DataFrame) -> Iterator[tuple[tuple[int, ...], pl.Series]]:
        """For each scheme of punctuations, by its attributes' places, which tuples match one."""
        for place, values in self._values.items():
            yield (place,), values.mask(tuples[self.schema.names[place]])
        for places, others in self._others.items():
            if len(others):
                yield places, others.mask(tuples)

    def __len__(self) -> int:
        """How many intervals and punctuations are remembered; where no tuple is to come, none has to be."""
        if self.complete:
            return 0
        return sum(map(len, self._others.values())) + sum(map(len, self._values.values()))

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The contents as data frames."""
        schema = {"place": pl.Int64(), "first": pl.Int64(), "last": pl.Int64()}
        bounds = [pl.DataFrame(schema=schema)]
        for place, values in self._values.items():
            firsts, lasts = values.bounds
            bounds.append(pl.DataFrame([np.full(len(firsts), place), firsts, lasts], schema=schema))
        return {
            "intervals": pl.concat(bounds),
            "others": to_frame(self.schema, (p for others in self._others.values() for p in others)),
            "forgotten": pl.DataFrame({"forgotten": [self.forgotten]}),
        }

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take the contents of a snapshot."""
        self._values, self._others = {}, {}
        for bounds in snapshot["intervals"].partition_by("place", maintain_order=True):
            place = bounds["place"][0]
            type_ = self.schema.attributes[place].type
            self._values[place] = IntervalSet.of_bounds(type_, bounds["first"], bounds["last"])
        for p in from_frame(self.schema, snapshot["others"]):
            self._others.setdefault(p.constrained, Outermost(self.schema)).add(p)
        self.forgotten = snapshot["forgotten"].item()


def scheme_of(schema: Schema, places: Iterable[int]) -> str:
    """The names of the attributes at some places, joined by commas, which stand in no name."""
    return ",".join(schema.names[i] for i in places)


def earliest(known: pl.Series, late: pl.Series, scheme: str | pl.Series) -> pl.Series:
    """The schemes ``known``, with ``scheme`` at the tuples that are ``late`` unless a known one comes before it."""
    if not late.any():
        return known
    column = pl.lit(scheme, dtype=pl.String()) if isinstance(scheme, str) else scheme
    frame = pl.DataFrame({"known": known, "late": late}).with_columns(scheme=column)
    better = pl.col("late") & (pl.col("known").is_null() | (pl.col("scheme") < pl.col("known")))
    return frame.select(pl.when(better).then("scheme").otherwise("known").alias("known"))["known"]

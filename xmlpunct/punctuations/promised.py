"""The closed tuples of a stream, to detect late tuples."""

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
"""A punctuation is compared with at most so many of its kind. An implied one that stays costs memory, and no more."""


class WidestPunctuations(PunctuationSet):
    """Punctuations of equal attributes, without any that another one implies.

    ``<(,6], (,9]>`` replaces ``<(,5], (,9]>``. Punctuations are compared if they have equal constants. Beside equal
    constants, ranges of a numbered type are fused if they overlap or are adjacent.

    >>> s = Schema.parse("k INT, v INT")
    >>> held = WidestPunctuations(s)
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
        candidates = self._candidates(p)
        p = _hull([p, *(q for q in candidates if _touch(p, q))])
        for q in candidates:
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
        return p in self or any(_implies(q, p) for q in self._candidates(p))

    def _candidates(self, p: Punctuation) -> list[Punctuation]:
        """The punctuations to compare with ``p``: all that it can fuse with, or else the latest of its kind."""
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
    """Whether each pattern of ``p`` covers that of ``q``. Unlike in `covers`, a declared domain does not count."""
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
    position = p.form[2]
    range_ = pt.ordinals(p.schema.attributes[position].type, first, last)
    return p.with_pattern(position, range_)


def _fused(punctuations: list[Punctuation]) -> list[Punctuation]:
    """Fewer punctuations that match the same tuples. All have a range of one attribute, and constants of the same ones.

    >>> s = Schema.parse("k INT, v INT")
    >>> _fused([Punctuation.of(s, k=k, v=v) for k, v in ((5, "[3,4]"), (6, "[1,2]"), (5, "[1,2]"))])
    [Punctuation(<5, [1,4]>), Punctuation(<6, [1,2]>)]
    """
    assert punctuations[0].form is not None
    attributes, (_, equal, position) = punctuations[0].schema.attributes, punctuations[0].form
    keys = (map(attributes[i].type.key, [p.patterns[i].value for p in punctuations]) for i in equal)  # type: ignore[attr-defined]
    firsts, lasts = ordinal_bounds(attributes[position].type, *_columns(punctuations, position))
    runs: list[list[Any]] = []
    latest: dict[tuple[Any, ...], list[Any]] = {}
    for key, first, last, p in zip(
        zip(*keys, strict=True), firsts.tolist(), lasts.tolist(), punctuations, strict=True
    ):
        run = latest.get(key)
        if run is not None and run[0] - 1 <= last and first <= run[1] + 1:
            run[0], run[1] = min(run[0], first), max(run[1], last)
        else:
            run = latest[key] = [first, last, p]
            runs.append(run)
    return [_between(p, first, last) for first, last, p in runs]


def _columns(punctuations: list[Punctuation], position: int) -> tuple[pl.Series, pl.Series]:
    """The inclusive bounds of constants, or of ranges, of the attribute at a position. Its type is numbered."""
    dtype, patterns = (
        punctuations[0].schema.attributes[position].type.dtype,
        [p.patterns[position] for p in punctuations],
    )
    names = ("value", "value") if isinstance(patterns[0], pt.Constant) else ("low", "high")
    lows, highs = (pl.Series([*map(attrgetter(name), patterns)], dtype=dtype) for name in names)
    return lows, highs


class Promised:
    """The tuples that a stream has closed: each of them that arrives now is late.

    Punctuations that constrain one numbered attribute are fused into disjoint intervals, so a stream that closes
    hour after hour, or item after item, takes a few numbers. Ranges beside equal constants are fused, too. All other
    punctuations are retained one by one, until one of the same attributes implies them (`WidestPunctuations`).

    Not a `ClosedSet`: it has an interval set for each combination of the other patterns, so 100,000 closed pairs
    ``<S1, 5>`` would be 100,000 masks of each slice. `masks` needs one index for all punctuations of equal attributes,
    which finds the matches of a whole column by one join, and it reports the attributes by which a tuple is late.

    With more than ``most`` intervals and punctuations, the attributes that have the most forget their lowest intervals
    or their oldest punctuations. ``forgotten`` counts these. A late tuple that only they match is not detected.
    """

    def __init__(self, schema: Schema, most: int = 100_000) -> None:
        self.schema, self.most, self.forgotten = schema, most, 0
        self._values: dict[int, IntervalSet] = {}
        self._by_scheme: dict[Signature, WidestPunctuations] = {}

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Receive punctuations."""
        for batch in PunctuationBatch.of(punctuations).parts:
            if batch.position is None:
                for alike in batch.alike:
                    self._add_list(alike)
            elif not self.complete:
                self._add_column(batch, batch.position)
        self._limit()

    def _add_list(self, punctuations: list[Punctuation]) -> None:
        positions = punctuations[0].constrained
        if not positions:  # the end implies all punctuations, and its scheme sorts before all schemes
            self._values, self._by_scheme = {}, {}
        elif self.complete or punctuations[0].is_empty:
            return
        if len(positions) == 1 and is_numbered(self.schema.attributes[positions[0]].type):
            intervals, patterns = (
                self._intervals(positions[0]),
                [p.patterns[positions[0]] for p in punctuations],
            )
            if len(patterns) >= COLUMN_FROM and not isinstance(patterns[0], pt.Values):
                intervals.add_ranges(*_columns(punctuations, positions[0]))
            else:
                for pattern in patterns:
                    intervals.add(pattern)
        else:
            widest = self._by_scheme.setdefault(positions, WidestPunctuations(self.schema))
            fuses = len(punctuations) > 1 and _fuses(punctuations[0])
            for p in _fused(punctuations) if fuses else punctuations:
                widest.add(p)

    def _limit(self) -> None:
        """Forget intervals and punctuations beyond ``most``."""
        while (excess := len(self) - self.most) > 0:
            parts: list[IntervalSet | PunctuationSet] = [*self._values.values(), *self._by_scheme.values()]
            largest = max(parts, key=len)
            count = min(excess, -(-len(largest) // 2))
            if isinstance(largest, IntervalSet):
                largest.forget(count)
            else:
                largest.discard(list(islice(largest, count)))
            self.forgotten += count

    def _add_column(self, batch: PunctuationBatch, position: int) -> None:
        if is_numbered(self.schema.attributes[position].type):
            self._intervals(position).add_ranges(*batch.columns)
        else:
            self._by_scheme.setdefault((position,), WidestPunctuations(self.schema)).update(batch)

    def _intervals(self, position: int) -> IntervalSet:
        if position not in self._values:
            self._values[position] = IntervalSet(self.schema.attributes[position].type)
        return self._values[position]

    @property
    def complete(self) -> bool:
        """Whether the stream has ended."""
        return () in self._by_scheme

    def news(self, punctuations: PunctuationBatch) -> PunctuationBatch:
        """The punctuations that earlier ones do not imply.

        Earlier punctuations count together if they have ranges of one numbered attribute beside equal constants.

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
            is_implied = self._is_implied(part)
            parts.append(part.take(np.flatnonzero(~is_implied)) if is_implied.any() else part)
        return PunctuationBatch.concat(parts)

    def _is_implied(self, part: PunctuationBatch) -> NDArray[np.bool_]:
        """For each punctuation of a columnar part, or of a list, whether earlier ones imply it."""
        position = part.position
        if position is None or not is_numbered(self.schema.attributes[position].type):
            return np.fromiter(map(self._implies, part), np.bool_, len(part))
        if position not in self._values:
            return np.zeros(len(part), np.bool_)
        (firsts, lasts), (lows, highs) = self._values[position].bounds, part.bounds
        at = firsts.searchsorted(lows, side="right") - 1
        is_implied: NDArray[np.bool_] = (at >= 0) & (lasts[at] >= highs)
        return is_implied

    def _implies(self, p: Punctuation) -> bool:
        """Whether earlier punctuations imply ``p``."""
        positions = p.constrained
        if len(positions) == 1 and is_numbered(self.schema.attributes[positions[0]].type):
            (position,) = positions
            return position in self._values and self._values[position].covers(p.patterns[position])
        return positions in self._by_scheme and self._by_scheme[positions].implies(p)

    def missing(self, p: Punctuation) -> Punctuation | None:
        """The part of a punctuation that earlier ones do not imply, or a larger part; None if they imply all of it.

        Only the end implies the end.

        >>> s = Schema.parse("sid STRING, hour INT")
        >>> promised = Promised(s)
        >>> promised.add([Punctuation.of(s, hour="[0,4]"), Punctuation.of(s, sid="S1")])
        >>> str(promised.missing(Punctuation.of(s, hour="[3,6]"))), promised.missing(Punctuation.of(s, sid="S1"))
        ('<*, [5,6]>', None)
        """
        if self.complete or p.is_empty or p.is_everything:
            return p if p.is_everything and not self.complete else None
        for position in p.constrained:
            if position not in self._values:
                continue
            missing = list(self._values[position].missing(p.patterns[position]))
            if not missing:
                return None
            if len(missing) == 1:
                p = p.with_pattern(position, missing[0])
        return None if any(widest.covers(p) for widest in self._by_scheme.values()) else p

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it is late."""
        return any_of([late for _, late in self.masks(tuples)], tuples.height)

    def schemes(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, the names of the attributes by which it is late, joined by commas; null if it is not late.

        If punctuations of several schemes match, the first scheme in the order of strings counts.
        """
        schemes = pl.Series([None], dtype=pl.String()).new_from_index(0, tuples.height)
        for positions, late in self.masks(tuples):
            schemes = earliest(schemes, late, scheme_of(self.schema, positions))
        return schemes

    def masks(self, tuples: pl.DataFrame) -> Iterator[tuple[tuple[int, ...], pl.Series]]:
        """For each scheme, given by the positions of its attributes: whether each tuple matches a punctuation."""
        for position, values in self._values.items():
            yield (position,), values.mask(tuples[self.schema.names[position]])
        for positions, widest in self._by_scheme.items():
            if len(widest):
                yield positions, widest.mask(tuples)

    def __len__(self) -> int:
        """The number of intervals and punctuations; 0 after the end, when no more tuple is expected."""
        if self.complete:
            return 0
        return sum(map(len, self._by_scheme.values())) + sum(map(len, self._values.values()))

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The intervals and punctuations, for a checkpoint."""
        schema = {"position": pl.Int64(), "first": pl.Int64(), "last": pl.Int64()}
        bounds = [pl.DataFrame(schema=schema)]
        for position, values in self._values.items():
            firsts, lasts = values.bounds
            bounds.append(pl.DataFrame([np.full(len(firsts), position), firsts, lasts], schema=schema))
        return {
            "intervals": pl.concat(bounds),
            "punctuations": to_frame(self.schema, (p for widest in self._by_scheme.values() for p in widest)),
            "forgotten": pl.DataFrame({"forgotten": [self.forgotten]}),
        }

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Restore the intervals and punctuations of a snapshot."""
        self._values, self._by_scheme = {}, {}
        for bounds in snapshot["intervals"].partition_by("position", maintain_order=True):
            position = bounds["position"][0]
            type_ = self.schema.attributes[position].type
            self._values[position] = IntervalSet.of_bounds(type_, bounds["first"], bounds["last"])
        for p in from_frame(self.schema, snapshot["punctuations"]):
            self._by_scheme.setdefault(p.constrained, WidestPunctuations(self.schema)).add(p)
        self.forgotten = snapshot["forgotten"].item()


def scheme_of(schema: Schema, positions: Iterable[int]) -> str:
    """The names of the attributes at these positions, joined by commas, which no name contains."""
    return ",".join(schema.names[i] for i in positions)


def earliest(schemes: pl.Series, late: pl.Series, scheme: str | pl.Series) -> pl.Series:
    """For each tuple the first of its scheme and, if it is ``late``, of ``scheme``, in the order of strings."""
    if not late.any():
        return schemes
    column = pl.lit(scheme, dtype=pl.String()) if isinstance(scheme, str) else scheme
    frame = pl.DataFrame({"old": schemes, "late": late}).with_columns(scheme=column)
    better = pl.col("late") & (pl.col("old").is_null() | (pl.col("scheme") < pl.col("old")))
    return frame.select(pl.when(better).then("scheme").otherwise("old").alias("old"))["old"]

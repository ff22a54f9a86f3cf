"""What a stream has promised so far, fused: for telling which tuples come too late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from operator import or_

import numpy as np
import numpy.typing as npt
import polars as pl

from xmlpunct.arrow import booleans
from xmlpunct.bundle import Bundle
from xmlpunct.patterns import cuts
from xmlpunct.punctset import PunctuationSet, Signature
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import DATE, INT, TIMESTAMP

Ints = npt.NDArray[np.int64]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_NUMBERED = (INT, DATE, TIMESTAMP)
"""Discrete types whose columns are ordinals, but for DATE's other epoch."""


class Coverage:
    """The tuples that any of the punctuations added so far matches.

    Punctuations that constrain one numbered attribute are fused into disjoint intervals, so a stream that closes
    hour after hour, or item after item, is remembered in a few numbers. The others are kept one by one. There are
    at most ``most`` intervals and punctuations; past that some are forgotten (and ``forgotten`` counts them), of
    the attributes that have most of them: the lowest intervals, the oldest punctuations. A tuple they match is
    late unseen.
    """

    def __init__(self, schema: Schema, most: int = 100_000) -> None:
        self.schema, self.most, self.forgotten = schema, most, 0
        self._spans: dict[int, _Spans] = {}
        self._others: dict[Signature, PunctuationSet] = {}

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Add some punctuations."""
        if isinstance(punctuations, Bundle) and not self.complete:
            self._add_bundle(punctuations)
            punctuations = ()
        for p in punctuations:
            places = p.constrained
            if not places:  # there is nothing that it does not say, and its scheme comes before all others
                self._spans, self._others = {}, {}
            elif self.complete:
                continue
            if len(places) == 1 and self.schema.attributes[places[0]].type in _NUMBERED:
                spans = self._spans_at(places[0])
                for low, high in cuts(p.patterns[places[0]]):
                    spans.add(low[1], high[1] - 1)
            else:
                self._others.setdefault(places, PunctuationSet(self.schema)).add(p)
        while (excess := len(self) - self.most) > 0:
            groups: list[_Spans | PunctuationSet] = [*self._spans.values(), *self._others.values()]
            most = max(groups, key=len)
            count = min(excess, -(-len(most) // 2))
            if isinstance(most, _Spans):
                most.forget(count)
            else:
                most.discard(list(islice(most, count)))
            self.forgotten += count

    def _add_bundle(self, bundle: Bundle) -> None:
        attribute = self.schema.attributes[bundle.place]
        if attribute.type in _NUMBERED:
            self._spans_at(bundle.place).extend(bundle.values)
        else:
            self._others.setdefault((bundle.place,), PunctuationSet(self.schema)).update(bundle)

    def _spans_at(self, place: int) -> _Spans:
        return self._spans.setdefault(place, _Spans(self.schema.attributes[place]))

    @property
    def complete(self) -> bool:
        """Whether no tuple at all was promised to come."""
        return () in self._others

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it was promised not to come."""
        found = [late for _, late in self._masks(tuples)]
        return reduce(or_, found) if found else pl.Series([False]).new_from_index(0, tuples.height)

    def schemes(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, the names of the attributes by which it was promised not to come, joined by commas.

        Null if it was not; where several schemes of punctuations match, the first in the order of strings.
        """
        found = no_schemes(tuples.height)
        for scheme, late in self._masks(tuples):
            found = earliest(found, late, scheme)
        return found

    def _masks(self, tuples: pl.DataFrame) -> Iterator[tuple[str, pl.Series]]:
        """For each scheme of punctuations, which tuples match one."""
        for place, spans in self._spans.items():
            yield scheme_of(self.schema, (place,)), spans.mask(tuples)
        for places, others in self._others.items():
            if len(others):
                yield scheme_of(self.schema, places), others.mask(tuples)

    def __len__(self) -> int:
        return sum(map(len, self._others.values())) + sum(map(len, self._spans.values()))

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The contents as data frames."""
        schema = {"place": pl.Int64(), "start": pl.Int64(), "last": pl.Int64()}
        found = [pl.DataFrame(schema=schema)]
        for place, spans in self._spans.items():
            starts, lasts = spans.bounds
            found.append(pl.DataFrame([np.full(len(starts), place), starts, lasts], schema=schema))
        return {
            "intervals": pl.concat(found),
            "others": to_frame(self.schema, (p for others in self._others.values() for p in others)),
            "forgotten": pl.DataFrame({"forgotten": [self.forgotten]}),
        }

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take the contents of a snapshot."""
        self._spans, self._others = {}, {}
        for place, start, last in snapshot["intervals"].iter_rows():
            self._spans.setdefault(place, _Spans(self.schema.attributes[place])).add(start, last)
        for p in from_frame(self.schema, snapshot["others"]):
            self._others.setdefault(p.constrained, PunctuationSet(self.schema)).add(p)
        self.forgotten = snapshot["forgotten"].item()


class _Spans:
    """Disjoint intervals of the values of a numbered attribute, none next to another, in order."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._starts, self._lasts = np.empty(0, np.int64), np.empty(0, np.int64)
        self._new: list[tuple[int, int]] = []
        self._values: list[Ints] = []

    def extend(self, values: pl.Series) -> None:
        """Add values, none of them null."""
        if values.len():
            self._values.append(self._ordinals(values))

    def add(self, start: int, last: int) -> None:
        """Add an interval, whose bounds may lie beyond what a column can hold."""
        self._new.append((max(start, _LOWEST), min(last, _HIGHEST)))

    def forget(self, count: int) -> None:
        """Forget the lowest ones."""
        starts, lasts = self.bounds
        self._starts, self._lasts = starts[count:], lasts[count:]

    @property
    def bounds(self) -> tuple[Ints, Ints]:
        """Where they start, and their last values."""
        if self._new or self._values:
            new = np.array(self._new, np.int64).reshape(-1, 2)
            starts = np.concatenate((self._starts, new[:, 0], *self._values))
            order = np.argsort(starts, kind="stable")
            starts, lasts = starts[order], np.concatenate((self._lasts, new[:, 1], *self._values))[order]
            reached = np.maximum.accumulate(lasts)
            # What starts behind a gap begins an interval; none but the first starts at the lowest value of all.
            begins = np.concatenate(([True], (starts[1:] > reached[:-1]) & (starts[1:] - 1 > reached[:-1])))
            self._starts, self._lasts = starts[begins], reached[np.append(begins[1:], True)]
            self._new, self._values = [], []
        return self._starts, self._lasts

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether its value lies in one of them."""
        column = tuples[self._attribute.name]
        values = self._ordinals(column)
        starts, lasts = self.bounds
        if not len(starts):
            return pl.Series([False]).new_from_index(0, tuples.height)
        found = np.searchsorted(starts, values, side="right") - 1
        inside = (found >= 0) & (values <= lasts[np.maximum(found, 0)])
        return booleans(inside & column.is_not_null().to_numpy() if column.null_count() else inside)

    def _ordinals(self, column: pl.Series) -> Ints:
        """The ordinals of a column's values; anything for nulls."""
        if self._attribute.type is INT and not column.null_count():
            return column.to_numpy()  # without any of what follows, which takes longer
        values: Ints = column.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
        return values + 719163 if self._attribute.type is DATE else values

    def __len__(self) -> int:
        return len(self.bounds[0])


def scheme_of(schema: Schema, places: Iterable[int]) -> str:
    """The names of the attributes at some places, joined by commas, which stand in no name."""
    return ",".join(schema.names[i] for i in places)


def no_schemes(count: int) -> pl.Series:
    """So many nulls: of no tuple it is known that it is late."""
    return pl.Series([None], dtype=pl.String()).new_from_index(0, count)


def earliest(found: pl.Series, late: pl.Series, scheme: str | pl.Series) -> pl.Series:
    """``found``, with ``scheme`` at the tuples that are ``late`` unless what is there comes before it."""
    if not late.any():
        return found
    frame = pl.DataFrame({"found": found, "late": late}).with_columns(scheme=scheme_column(scheme))
    better = pl.col("late") & (pl.col("found").is_null() | (pl.col("scheme") < pl.col("found")))
    return frame.select(pl.when(better).then("scheme").otherwise("found").alias("found"))["found"]


def scheme_column(scheme: str | pl.Series) -> pl.Series | pl.Expr:
    """One scheme for all tuples, or one for each."""
    return pl.lit(scheme, dtype=pl.String()) if isinstance(scheme, str) else scheme

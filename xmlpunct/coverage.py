"""What a stream has promised so far, fused: for telling which tuples come too late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from xmlpunct.patterns import cuts, fuse
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation, from_frame, to_frame
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, INT, TIMESTAMP

_NUMBERED = (INT, DATE, TIMESTAMP)
"""Discrete types whose columns are ordinals, but for DATE's other epoch."""


class Coverage:
    """The tuples that any of the punctuations added so far matches.

    Punctuations that constrain one numbered attribute are fused into disjoint intervals, so a stream that closes
    hour after hour, or item after item, is remembered in a few numbers. The others are kept one by one; past
    ``most`` of them the oldest are forgotten (and ``forgotten`` counts them): a tuple they match is late unseen.
    """

    def __init__(self, schema: Schema, most: int = 100_000) -> None:
        self.schema, self.most, self.forgotten = schema, most, 0
        self._intervals: dict[int, tuple[list[int], list[int]]] = {}
        self._others = PunctuationSet(schema)

    def add(self, punctuations: Iterable[Punctuation]) -> None:
        """Add some punctuations."""
        for p in punctuations:
            places = p.constrained
            if len(places) == 1 and self.schema.attributes[places[0]].type in _NUMBERED:
                lows, highs = self._intervals.setdefault(places[0], ([], []))
                for low, high in cuts(p.patterns[places[0]]):
                    fuse(lows, highs, low[1], high[1])
            else:
                self._others.add(p)
        while len(self._others) > self.most:
            self._others.discard([next(iter(self._others))])
            self.forgotten += 1

    def mask(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple, whether it was promised not to come."""
        late = self._others.mask(tuples)
        for place, (lows, highs) in self._intervals.items():
            attribute = self.schema.attributes[place]
            column = tuples[attribute.name]
            values = column.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
            values = values + 719163 if attribute.type is DATE else values
            # Bounds are clipped to int64; no value lies beyond, and the clipped ends stay exact.
            starts = np.array([max(low, -(2**63)) for low in lows], dtype=np.int64)
            lasts = np.array([min(high - 1, 2**63 - 1) for high in highs], dtype=np.int64)
            found = np.searchsorted(starts, values, side="right") - 1
            inside = (found >= 0) & (values <= lasts[np.maximum(found, 0)])
            late = late | (pl.Series(inside) & column.is_not_null())
        return late

    def __len__(self) -> int:
        return len(self._others) + sum(len(lows) for lows, _ in self._intervals.values())

    def snapshot(self) -> dict[str, pl.DataFrame]:
        """The contents as data frames."""
        rows = [
            (place, str(low), str(high))
            for place, pair in self._intervals.items()
            for low, high in zip(*pair, strict=True)
        ]
        schema = {"place": pl.Int64(), "low": pl.String(), "high": pl.String()}
        return {
            "intervals": pl.DataFrame(rows, schema=schema, orient="row"),
            "others": to_frame(self.schema, self._others),
            "forgotten": pl.DataFrame({"forgotten": [self.forgotten]}),
        }

    def restore(self, snapshot: Mapping[str, pl.DataFrame]) -> None:
        """Take the contents of a snapshot."""
        self._intervals = {}
        for place, low, high in snapshot["intervals"].iter_rows():
            lows, highs = self._intervals.setdefault(place, ([], []))
            lows.append(int(low))
            highs.append(int(high))
        self._others = PunctuationSet(self.schema, from_frame(self.schema, snapshot["others"]))
        self.forgotten = snapshot["forgotten"].item()

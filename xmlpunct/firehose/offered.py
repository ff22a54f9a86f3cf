"""Finds the schemes of a recorded stream: the attribute sets by which its punctuations closed its tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from xmlpunct.base.frames import any_of
from xmlpunct.punctuations.promised import Promised
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

MOST = 1_000_000
"""Maximum number of remembered punctuations that cannot be fused. This bounds memory."""
SAMPLE = 10_000
"""The sample has at least this many tuples, evenly spaced, and fewer than twice as many. This also bounds memory."""
_PLACE = "$place"


class Offered:
    """Finds the sets of attributes that a stream's punctuations closed.

    A set is offered if the punctuations that constrain only its attributes closed each tuple of the stream's first half
    that has no null in them. The second half does not count: the end of the stream may have closed its tuples.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> offered = Offered(s)
    >>> offered.take(pl.DataFrame({"sid": ["a", "b", "a"], "hour": [1, 1, 2]}), [Punctuation.of(s, hour=1)])
    >>> list(offered.schemes())
    [('hour',)]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self._punctuations = schema, Promised(schema, MOST)
        self._count, self._sampling_step = 0, 1
        self._tuples = schema.empty().with_columns(pl.Series(_PLACE, [], dtype=pl.Int64()))
        self._schemes: dict[tuple[int, ...], None] = {}

    def take(self, tuples: pl.DataFrame, punctuations: Iterable[Punctuation]) -> None:
        """Add the next tuples and punctuations."""
        positions = pl.int_range(self._count, self._count + tuples.height, dtype=pl.Int64(), eager=True)
        self._count += tuples.height
        positioned = tuples.with_columns(positions.alias(_PLACE))
        self._tuples = pl.concat([self._tuples, positioned.filter(pl.col(_PLACE) % self._sampling_step == 0)])
        while self._tuples.height >= 2 * SAMPLE:
            self._sampling_step *= 2
            self._tuples = self._tuples.filter(pl.col(_PLACE) % self._sampling_step == 0)
        for p in punctuations:
            self._schemes[p.constrained] = None
        self._punctuations.add(punctuations)

    def schemes(self) -> Iterator[tuple[str, ...]]:
        """The minimal sets that were offered, the smallest first; empty for a stream without tuples."""
        if not self._count:
            return
        early = self._tuples.filter(pl.col(_PLACE) * 2 < self._count)
        closed = dict(self._punctuations.masks(early))
        offered: list[set[int]] = []
        for scheme in sorted(self._schemes, key=lambda scheme: (len(scheme), scheme)):
            if scheme and not any(smaller <= set(scheme) for smaller in offered):
                names = [self.schema.names[i] for i in scheme]
                has_null = early.select(pl.any_horizontal(pl.col(names).is_null())).to_series()
                masks = [mask for constrained, mask in closed.items() if set(constrained) <= set(scheme)]
                if any_of([has_null, *masks], early.height).all():
                    offered.append(set(scheme))
                    yield tuple(names)

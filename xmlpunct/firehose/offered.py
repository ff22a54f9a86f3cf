"""What a recorded stream offered: by which attributes its tuples were closed before its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from xmlpunct.base.frames import any_of
from xmlpunct.punctuations.promised import Promised
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

MOST = 1_000_000
"""It remembers at most so many punctuations, those that cannot be fused. This bounds memory."""
SAMPLE = 10_000
"""It looks at more than so many tuples, spread evenly, but at less than twice as many. This too bounds memory."""
_PLACE = "$place"


class Offered:
    """Finds the sets of attributes that a stream offered.

    It offered a set if the punctuations that constrain nothing else closed each tuple of the stream's first half that
    has no null there. Of the second half the end may have closed some.

    >>> s = Schema.parse("sid STRING, hour INT")
    >>> found = Offered(s)
    >>> found.take(pl.DataFrame({"sid": ["a", "b", "a"], "hour": [1, 1, 2]}), [Punctuation.of(s, hour=1)])
    >>> list(found.schemes())
    [('hour',)]
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self._said = schema, Promised(schema, MOST)
        self._seen, self._step = 0, 1
        self._tuples = schema.empty().with_columns(pl.Series(_PLACE, [], dtype=pl.Int64()))
        self._schemes: dict[tuple[int, ...], None] = {}

    def take(self, tuples: pl.DataFrame, punctuations: Iterable[Punctuation]) -> None:
        """The next tuples and punctuations."""
        places = pl.int_range(self._seen, self._seen + tuples.height, dtype=pl.Int64(), eager=True)
        self._seen += tuples.height
        placed = tuples.with_columns(places.alias(_PLACE))
        self._tuples = pl.concat([self._tuples, placed.filter(pl.col(_PLACE) % self._step == 0)])
        while self._tuples.height >= 2 * SAMPLE:
            self._step *= 2
            self._tuples = self._tuples.filter(pl.col(_PLACE) % self._step == 0)
        for p in punctuations:
            self._schemes[p.constrained] = None
        self._said.add(punctuations)

    def schemes(self) -> Iterator[tuple[str, ...]]:
        """The sets that were offered, the smallest ones first. Without tuples nothing is known."""
        if not self._seen:
            return
        early = self._tuples.filter(pl.col(_PLACE) * 2 < self._seen)
        closed = dict(self._said.masks(early))
        offered: list[set[int]] = []
        for places in sorted(self._schemes, key=lambda places: (len(places), places)):
            if places and not any(smaller <= set(places) for smaller in offered):
                names = [self.schema.names[i] for i in places]
                known = early.select(pl.any_horizontal(pl.col(names).is_null())).to_series()
                masks = [late for scheme, late in closed.items() if set(scheme) <= set(places)]
                if any_of([known, *masks], early.height).all():
                    offered.append(set(places))
                    yield tuple(names)

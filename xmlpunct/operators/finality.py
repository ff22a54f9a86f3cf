"""Finality: the groups that no tuple can change any more, though they are not closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import and_

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.frames import Part
from xmlpunct.operators.aggregate import Accumulator, Aggregate
from xmlpunct.operators.arrangement import Arrangement
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.punctuations.batch import PunctuationBatch
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.pattern import WILDCARD, Pattern, constant
from xmlpunct.punctuations.punctuation import Punctuation, covers
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.punctuations.spans import Spans, inside, unbounded
from xmlpunct.schema import Attribute, Schema


def asked(aggregates: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """The attributes on which punctuations may make a group final; none if it never is before it is closed."""
    names = [a.argument for a in aggregates if a.argument is not None and not a.needs_values]
    able = keys and len(names) == len(aggregates) and not set(names).intersection(keys)
    return list(dict.fromkeys(names)) if able else []


class Test:
    """When an aggregate can change no more, as punctuations over a group's key and its partial extreme, if it has one.

    MAX(a) once all a above it are closed, MIN(a) once all below; others, and without a value, once all a are.
    """

    def __init__(self, spans: Spans, given: Schema, keys: Schema, accumulator: Accumulator) -> None:
        self._type, column = accumulator.type, accumulator.extreme
        extreme = [] if column is None else [Attribute(column, self._type, True)]
        self.schema = Schema.of([*keys, *extreme])
        self._is_extreme, self._is_max = bool(extreme), accumulator.aggregate.function == "MAX"
        self.final = PunctuationSet(self.schema)
        last = self._type.highest if self._is_max else self._type.lowest
        self._last = last if self._is_extreme else None
        self._column = (
            column if column is not None and column in given else str(accumulator.aggregate.argument)
        )
        self._at_last: Punctuation | None = None
        if self._last is not None:  # beyond it there is nothing
            self._at_last = Punctuation(
                self.schema, [*[WILDCARD] * len(keys), constant(self._type, self._last)]
            )
            self.final.add(self._at_last)
        self.add(spans.opening())

    def may_hold(self, tuples: pl.DataFrame) -> bool:
        """Whether it may hold for a group of some tuples; False is certain, if it did not hold before them."""
        if len(self.final) > (self._at_last in self.final):
            return True
        return self._at_last is not None and bool((tuples[self._column] == self._last).any())

    def may_make_final(self, pattern: Pattern) -> bool:
        """Whether a group can be final because an interval is closed."""
        if not unbounded(self._type, pattern, not self._is_max):
            return False
        return self._is_extreme or unbounded(self._type, pattern, self._is_max)

    def add(self, spans: Iterable[Punctuation]) -> PunctuationSet:
        """Take the spans of its argument; return what groups may be final now."""
        fresh = PunctuationSet(self.schema)
        for span in spans:
            *keys, pattern = span.patterns
            if not self.may_make_final(pattern):
                continue
            is_all = unbounded(self._type, pattern, self._is_max)
            end = WILDCARD if is_all else inside(self._type, pattern, self._is_max, strict=True)
            p = Punctuation(self.schema, [*keys, *[end] * self._is_extreme])
            self.final.discard([q for q in self.final.overlapping(p) if covers(p, q)])
            self.final.add(p)
            fresh.add(p)
        return fresh

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget what is known of closed groups; ``closed`` is over keys."""
        every = len(self.schema) - self._is_extreme
        for c in closed.rebase(self.schema, [*range(every), *[None] * self._is_extreme]):
            self.final.discard([q for q in self.final.overlapping(c) if covers(c, q)])


class Finality:
    """Which groups are final: each aggregate's `Test` says so.

    Only MIN, MAX, and COUNT, SUM and AVG of an argument can be final before their group is closed.
    """

    def __init__(self, schema: Schema, keys: Schema, accumulators: Sequence[Accumulator]) -> None:
        self._keys = keys
        names = dict.fromkeys(str(a.aggregate.argument) for a in accumulators)
        self._spans = {name: Spans(schema, keys.names, name) for name in names}
        arguments = [str(a.aggregate.argument) for a in accumulators]
        self._tests = [
            (n, Test(self._spans[n], schema, keys, a)) for n, a in zip(arguments, accumulators, strict=True)
        ]
        self._fresh: list[PunctuationSet] = []

    @staticmethod
    def of(schema: Schema, keys: Schema, accumulators: Sequence[Accumulator]) -> Finality | None:
        """The finality of groups with these aggregates over tuples of a schema; None if there is none."""
        names = asked([a.aggregate for a in accumulators], keys.names)
        if not names or any(name not in schema for name in names):
            return None
        return Finality(schema, keys, accumulators)

    @property
    def parts(self) -> dict[str, Part]:
        """What is remembered."""
        spans = {f"spans{i}": part for i, part in enumerate(self._spans.values())}
        return {**spans, **{f"final{i}": test.final for i, (_, test) in enumerate(self._tests)}}

    def spread(self, ownership: Ownership) -> None:
        """As `Spans.spread`."""
        for spans in self._spans.values():
            spans.spread(ownership)

    def hear(self, batch: PunctuationBatch) -> None:
        """Take punctuations of the input. Those about keys alone close groups, which go anyway."""
        places = {next(iter(self._spans.values())).place_of(key) for key in self._keys.names}
        if batch.place is not None and batch.place in places:
            return
        news = [p for p in batch if not places.issuperset(p.constrained)]
        if news:
            found = {name: spans.add(news, self._asked(name)) for name, spans in self._spans.items()}
            self._fresh += [test.add(found[name]) for name, test in self._tests]

    def _asked(self, name: str) -> Callable[[Pattern], bool]:
        """Which intervals of an attribute matter to some test."""
        tests = [test for argument, test in self._tests if argument == name]
        return lambda pattern: any(test.may_make_final(pattern) for test in tests)

    def forget(self, closed: PunctuationBatch) -> None:
        """Forget what is known of closed groups."""
        every = [*range(len(self._keys)), None]
        for spans in self._spans.values():
            spans.forget(closed.rebase(spans.schema, every))
        for _, test in self._tests:
            test.forget(closed)

    def may_hold(self, tuples: pl.DataFrame) -> bool:
        """Whether these tuples may make a group final."""
        return bool(tuples.height) and any(test.may_hold(tuples) for _, test in self._tests)

    def touched(self, groups: Arrangement) -> Rows:
        """The final groups among those that new punctuations are about."""
        fresh, self._fresh = self._fresh, []
        rows = [groups.matching(some) for some in fresh if len(some)]
        return self.among(groups, ascending(np.concatenate(rows))) if rows else _NONE

    def among(self, groups: Arrangement, rows: Rows) -> Rows:
        """The final ones among some groups."""
        if not len(rows):
            return rows
        some = groups.take(rows)
        is_final: pl.Series = reduce(and_, (test.final.mask(some) for _, test in self._tests))
        hit: NDArray[np.bool_] = is_final.to_numpy()
        final: Rows = rows[hit]
        return final


_NONE = np.empty(0, np.int64)

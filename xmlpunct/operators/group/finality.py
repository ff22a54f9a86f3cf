"""Finality: groups that are not closed but that no tuple can change any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xmlpunct.base.frames import SnapshotPart
from xmlpunct.operators.group.aggregate import Accumulator, Aggregate
from xmlpunct.operators.group.distinct_finality import DistinctTest
from xmlpunct.operators.group.open_groups import Groups, grouping
from xmlpunct.operators.hash_index import Rows, ascending
from xmlpunct.punctuations.closed_attribute import ClosedAttribute, inside, unbounded
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types.pattern import WILDCARD, Pattern, constant


def final_attributes(aggregates: Sequence[Aggregate], keys: Sequence[str]) -> list[str] | None:
    """The attributes on which punctuations may make a group final; None if it never is before it is closed.

    COUNT(*) never makes a group final, and neither does XMLAGG, because patterns do not constrain XML. COUNT, SUM and
    AVG of a grouping attribute also change with every tuple of the group. MIN, MAX and DISTINCT of a grouping attribute
    are final with the first tuple and need no attribute. This is not so for ARG_MIN or with FILTER, because the first
    tuple may not count. Aggregates that count nulls are never final, because no pattern but ``*`` matches null.

    >>> final_attributes([Aggregate("MAX", "temp", False, "top"), Aggregate("MIN", "hour", False, "h")], ["hour"])
    ['temp']
    >>> final_attributes([Aggregate("COUNT", None, False, "n")], ["hour"])
    """
    names = dict[str, None]()
    for a in aggregates:
        if a.argument is None or a.needs_all or a.takes_null:
            return None
        if a.argument in keys and (not a.ignores_duplicates or a.order or a.where):
            return None
        if a.argument not in keys:
            names[a.argument] = None
    return list(names) if names or keys else None


class FinalityTest:
    """When an aggregate is final, as punctuations over a group's key and its partial extreme, if it has one.

    ``key_schema``: the key attributes of `Groups`.

    MAX(a) is final once all a above it are closed, and MIN(a) once all a below it are. All other aggregates, and those
    without a value, are final once all a are closed.
    """

    def __init__(
        self, attribute: ClosedAttribute, source: Schema, key_schema: Schema, accumulator: Accumulator
    ) -> None:
        self._type, column = accumulator.type, accumulator.extreme
        extreme = [] if column is None else [Attribute(column, self._type, True)]
        self.schema = Schema.of([*key_schema, *extreme])
        self._is_extreme, self._is_max = bool(extreme), accumulator.aggregate.function == "MAX"
        self.final = PunctuationSet(self.schema)
        last = self._type.highest if self._is_max else self._type.lowest
        self._last = last if self._is_extreme else None
        self._column = (
            column if column is not None and column in source else str(accumulator.aggregate.argument)
        )
        self._at_last: Punctuation | None = None
        if self._last is not None:  # no value is beyond it
            self._at_last = Punctuation(
                self.schema, [*[WILDCARD] * len(key_schema), constant(self._type, self._last)]
            )
            self.final.add(self._at_last)
        self.add(attribute.punctuations(attribute.opening))

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        return {"": self.final}

    def may_hold(self, tuples: pl.DataFrame) -> bool:
        """Whether a group of these tuples may be final. False is certain if no group was final before them."""
        if len(self.final) > (self._at_last in self.final):
            return True
        return self._at_last is not None and bool((tuples[self._column] == self._last).any())

    def may_make_final(self, pattern: Pattern) -> bool:
        """Whether a group can be final because an interval is closed."""
        if not unbounded(self._type, pattern, not self._is_max):
            return False
        return self._is_extreme or unbounded(self._type, pattern, self._is_max)

    def add(self, spans: Iterable[Punctuation]) -> PunctuationSet:
        """Receive closed spans of its argument; return punctuations that match the groups that may be final now."""
        new = PunctuationSet(self.schema)
        for span in spans:
            *keys, pattern = span.patterns
            if not self.may_make_final(pattern):
                continue
            is_all = unbounded(self._type, pattern, self._is_max)
            end = WILDCARD if is_all else inside(self._type, pattern, self._is_max, strict=True)
            p = Punctuation(self.schema, [*(keys or [WILDCARD]), *[end] * self._is_extreme])
            if self.final.absorb(p):
                new.add(p)
        return new

    def mask(self, groups: Groups, rows_: pl.DataFrame) -> pl.Series:
        """For each group of ``rows_``, whether it is final."""
        return self.final.mask(rows_)

    def forget(self, closed: PunctuationBatch) -> None:
        """Drop the entries of closed groups; ``closed`` is over keys."""
        key_count = len(self.schema) - self._is_extreme
        self.final.remove_covered(closed.rebase(self.schema, [*range(key_count), *[None] * self._is_extreme]))


class Finality:
    """The final groups, for which the `FinalityTest` or `DistinctTest` of each aggregate holds.

    MIN, MAX and DISTINCT aggregates of a grouping attribute have no test: they never change.
    """

    def __init__(
        self, schema: Schema, keys: Schema, names: Iterable[str], accumulators: Sequence[Accumulator]
    ) -> None:
        self._keys = keys
        self._attributes = {name: ClosedAttribute(schema, name, keys.names) for name in names}
        key_schema = grouping(keys)
        self._tests: list[tuple[str, FinalityTest | DistinctTest]] = []
        for a in accumulators:
            name = str(a.aggregate.argument)
            if name in self._attributes:
                attribute = self._attributes[name]
                is_distinct = a.aggregate.needs_values
                test = (
                    DistinctTest(attribute, key_schema, a)
                    if is_distinct
                    else FinalityTest(attribute, schema, key_schema, a)
                )
                self._tests.append((name, test))
        self._candidates: list[PunctuationSet] = []

    @staticmethod
    def of(schema: Schema, keys: Schema, accumulators: Sequence[Accumulator]) -> Finality | None:
        """The finality of groups with these aggregates; None if no group is final before it is closed."""
        names = final_attributes([a.aggregate for a in accumulators], keys.names)
        if names is None or any(name not in schema for name in names):
            return None
        return Finality(schema, keys, names, accumulators)

    @property
    def parts(self) -> dict[str, SnapshotPart]:
        """The parts of an operator's state."""
        attributes = {f"closed{i}": part for i, part in enumerate(self._attributes.values())}
        tests = enumerate(test for _, test in self._tests)
        return {**attributes, **{f"final{i}{n}": part for i, test in tests for n, part in test.parts.items()}}

    @property
    def joints(self) -> list[JointCover]:
        """The joint covers of the input's punctuations."""
        return [attribute.joint for attribute in self._attributes.values()]

    def receive(self, batch: PunctuationBatch) -> None:
        """Receive punctuations of the input. Punctuations on keys only close groups anyway, and are skipped."""
        if not self._attributes:
            return
        first = next(iter(self._attributes.values()))
        key_positions = {first.position_of(key) for key in self._keys.names}
        if batch.position is not None and batch.position in key_positions:
            return
        relevant = [p for p in batch if not key_positions.issuperset(p.constrained)]
        if relevant:
            closed = {
                name: attribute.punctuations(attribute.add(relevant, self._is_relevant(name)))
                for name, attribute in self._attributes.items()
            }
            self._candidates += [test.add(closed[name]) for name, test in self._tests]

    def _is_relevant(self, name: str) -> Callable[[Pattern], bool]:
        """Tells whether a closed interval of an attribute can make a test hold."""
        tests = [test for argument, test in self._tests if argument == name]
        return lambda pattern: any(test.may_make_final(pattern) for test in tests)

    def forget(self, closed: PunctuationBatch) -> None:
        """Drop the entries of closed groups; ``closed`` is over keys."""
        sources = [*range(len(self._keys)), None]
        for attribute in self._attributes.values():
            attribute.forget(closed.rebase(attribute.schema, sources))
        for _, test in self._tests:
            test.forget(closed)

    def may_hold(self, tuples: pl.DataFrame) -> bool:
        """Whether these tuples may make a group final."""
        if not self._tests:
            return bool(tuples.height)
        return bool(tuples.height) and any(test.may_hold(tuples) for _, test in self._tests)

    def newly_final(self, groups: Groups) -> Rows:
        """The final groups among those that new punctuations may have made final."""
        candidates, self._candidates = self._candidates, []
        rows = [groups.matching(patterns) for patterns in candidates if len(patterns)]
        return self.final_rows(groups, ascending(np.concatenate(rows))) if rows else _NONE

    def final_rows(self, groups: Groups, rows: Rows) -> Rows:
        """The rows of final groups among ``rows``."""
        for _, test in self._tests:
            if len(rows):
                hit: NDArray[np.bool_] = test.mask(groups, groups.take(rows)).to_numpy()
                rows = rows[hit]
        return rows


_NONE = np.empty(0, np.int64)

"""over: each tuple with results about those near it in the order of time, once they are final."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans, integers
from xmlpunct.base.frames import join
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.state import State
from xmlpunct.operators.time.over.calls import END, EXTREMES, SUMS, Call
from xmlpunct.operators.time.over.closed import ClosedPartitions
from xmlpunct.operators.time.over.frame_values import PEERS, ROWS, Values
from xmlpunct.operators.time.over.segment import GROUP, ROW, Places, Segment
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.types.ordinals import Ordinals


class Over(Operator):
    """Adds ``calls`` OVER (PARTITION BY ``keys`` ORDER BY ``order``), all of one `Release` (relations 12).

    ``order`` begins with a timestamp, ascending. Ties go by the other columns, so the output is determined. C(k) is how
    far the partition k is closed; rows past it may still come.

    - cpass(ts, ps)  = [<t, f(t)> | t in ts, final(t, C(t.k))]
    - cprop(ts, ps)  = [p | p in ps, setNomatch(ts', p)], with ts' what has not passed, and ``*`` for the results
    - ckeep(ts, ps)  = ts', what frames of later tuples reach, and a summary of what is older; nothing of a partition
      that is closed for ever

    Where all calls are sums over the same last instants, the summary is of what frames reach: a slice looks at the rows
    that leave it and those that come. Where all are extremes of some, a row is kept until a later one is as good.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.operators.time.over.calls import Frame
    >>> bids = Schema.parse("item STRING, price INT, ts INT NOT NULL")
    >>> total = Call("SUM", "total", "price", frame=Frame("ROWS", -1, 0))
    >>> it = Over(bids, ["item"], [SortKey("ts")], [total])
    >>> show(it, "A 20 2; A 10 1; B 5 1", "P(A, *, (,2])", "A 50 3; P(*, *, (,3])")
    A 20 2; A 10 1; B 5 1 ->
    P(A, *, (,2])         -> A 10 1 10; A 20 2 30; P(A, *, (,2], *)
    A 50 3; P(*, *, (,3]) -> B 5 1 5; A 50 3 70; P(*, *, (,3], *)
    """

    name = "over"

    def __init__(
        self, schema: Schema, keys: Sequence[str], order: Sequence[SortKey], calls: Sequence[Call]
    ) -> None:
        super().__init__((schema,), Schema.of([*schema, *(call.attribute(schema) for call in calls)]))
        self._release, *others = {call.release for call in calls}
        assert not others
        self._order, self._by = tuple(order), list(keys) or [ALL]
        self._ties = [a.name for a in schema if a.type.comparable and a.name not in {k.column for k in order}]
        functions = {call.function for call in calls}
        is_sliding = all(call.is_sliding for call in calls)
        self._slides = is_sliding and functions <= {*SUMS} and len({call.frame for call in calls}) == 1
        """Whether the rows that leave the frames are taken off, and those that stay need not be looked at."""
        self._narrows = is_sliding and functions <= {*EXTREMES}
        """Whether rows are forgotten once better ones came."""
        self._values = [Values(call, i, schema, self._slides) for i, call in enumerate(calls)]
        self._rows_before = max(call.rows_before for call in calls)
        instants = max(call.instants_before for call in calls)
        self._instants_before = (
            instants + self._release.ahead * (self._release.kind == "range") if instants else 0
        )
        summary = {name: column for values in self._values for name, column in values.summary.items()}
        self._none = {name: value for name, (_, value) in summary.items()}
        empty = schema.empty() if keys else schema.empty().with_columns(pl.lit(0).alias(ALL))
        self._waiting, self._tail = Arrangement(empty, self._by), Arrangement(empty, self._by)
        dtypes = {name: empty.schema[name] for name in self._by} | {n: d for n, (d, _) in summary.items()}
        self._summary = Arrangement(pl.DataFrame(schema=dtypes), self._by)
        self._closed = ClosedPartitions(schema, order[0].column, keys)
        self._pending = Pending(schema)
        self.state = State(
            waiting=self._waiting,
            tail=self._tail,
            summary=self._summary,
            closed=self._closed,
            pending=self._pending,
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._waiting.append(tuples if ALL not in self._by else tuples.with_columns(pl.lit(0).alias(ALL)))
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._pending.add(batch)
        passed, closed = self.schema.empty(), self._closed.add(batch)
        if len(closed):
            passed = self._pass(closed)
        places = [i if i < len(self.inputs[0]) else None for i in range(len(self.schema))]
        return passed, self._pending.free([self._waiting]).rebase(self.schema, places)  # prop

    def _pass(self, closed: PunctuationBatch) -> pl.DataFrame:
        """Release what is final now, and forget what no later row needs."""
        ends = self._closed.ends(closed)
        final = self._closed.older(ends if self._release == END else closed, 0)
        waiting = self._waiting.matching(final)
        tail = self._tail.matching(
            self._closed.older(ends if self._instants_before == 0 else closed, self._instants_before)
        )
        keys = distinct(pl.concat([self._waiting.take(waiting, self._by), self._tail.take(tail, self._by)]))
        passed = self.schema.empty()
        if keys.height:
            if not self._slides:
                tail = self._tail.probe(keys)[1]
            passed = self._advance(keys, ascending(tail), waiting, self._closed.bounds(closed, keys))
        if len(ends):  # partitions without any row at hand
            self._summary.remove(self._summary.matching(self._closed.older(ends, 0)))
        return passed

    def _advance(self, keys: pl.DataFrame, tail: Places, waiting: Places, bounds: Ordinals) -> pl.DataFrame:
        """Release the final rows of some partitions, which are closed up to ``bounds``."""
        numbers = keys.with_columns(integers(GROUP, np.arange(keys.height)))
        old, new = (
            join(rows, numbers, self._by, "left", nulls_equal=True, order="left").with_columns(
                integers(ROW, places)
            )
            for rows, places in ((self._tail.take(tail), tail), (self._waiting.take(waiting), waiting))
        )
        segment = Segment(old, new, keys.height, self._order, self._ties, self._closed.instants.type)
        for_ever = bounds == self._closed.instants.last
        is_new = segment.is_new
        final = is_new & self._is_final(segment, bounds, for_ever)
        released = np.flatnonzero(final)
        known = segment.starts + np.bincount(segment.group[~is_new], minlength=keys.height)
        kept = self._kept(keys)
        if self._slides:
            kept = self._summarized(segment, kept, known, segment.starts)
        passed = self._results(segment, kept, known, released)
        gone = segment.rows[released]
        self._pending.lose(self._waiting.remove(np.sort(gone[ROW].to_numpy())))
        self._forget(segment, keys, kept, known, final, bounds, for_ever)
        return passed

    def _is_final(self, segment: Segment, bounds: Ordinals, for_ever: Flags) -> Flags:
        """Which rows of a segment nothing that comes can change."""
        kind, count = self._release
        places, group = np.arange(len(segment.group)), segment.group
        if kind == "rows":
            return for_ever[group] | (segment.ends[group] - places > count)
        if kind == "range":
            return for_ever[group] | self._is_older(segment, bounds, count)
        return np.ones(len(group), np.bool_)

    @staticmethod
    def _is_older(segment: Segment, bounds: Ordinals, count: int) -> Flags:
        """Which rows are ``count`` instants, or more, before the bounds of their partitions. None is behind them."""
        if count >= 2**64:
            return np.zeros(len(segment.group), np.bool_)
        distances = bounds[segment.group].view(np.uint64) - segment.instants.view(np.uint64)
        older: Flags = distances >= np.uint64(count)
        return older

    def _kept(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The summaries of some partitions, in their order."""
        if not self._none:
            return keys
        places, rows = self._summary.probe(keys)
        number = np.full(keys.height, len(rows))
        number[places] = np.arange(len(rows))
        none = self._summary.empty.clear(1).with_columns(
            pl.lit(value).cast(self._summary.empty.schema[name]).alias(name)
            for name, value in self._none.items()
        )
        known = pl.concat([self._summary.take(rows), none])[number]
        return known.with_columns(keys[name] for name in self._by)

    def _results(self, segment: Segment, kept: pl.DataFrame, known: Places, rows: Places) -> pl.DataFrame:
        """The released rows with their results; rejects those with one that does not fit."""
        given = self.inputs[0]
        columns = segment.rows[rows].select(given.names)
        results, reasons = [], pl.Series([None], dtype=pl.String).new_from_index(0, len(rows))
        for attribute, values in zip(self.schema.attributes[len(given) :], self._values, strict=True):
            column, failed = values.of(segment, kept, known, rows)
            results.append(column.alias(attribute.name).cast(attribute.type.dtype))
            if failed is not None and failed.any():
                told = pl.Series([f"{attribute.name} does not fit {attribute.type}"])
                reasons = told.zip_with(failed & reasons.is_null(), reasons)
        passed = columns.hstack(results)
        return self.reject_failures(passed, reasons) if reasons.null_count() < len(reasons) else passed

    def _forget(
        self,
        segment: Segment,
        keys: pl.DataFrame,
        kept: pl.DataFrame,
        known: Places,
        final: Flags,
        bounds: Ordinals,
        for_ever: Flags,
    ) -> None:
        """Keep what frames of later rows reach; summarize what is older; drop all of what is closed for ever."""
        group, places = segment.group, np.arange(len(segment.group))
        next_ = known + np.bincount(group[final], minlength=keys.height)
        """For each partition the place of its first row that is not released."""
        stays = next_[group] - places <= self._rows_before
        if self._instants_before:
            stays |= ~self._is_older(segment, bounds, self._instants_before)
        released = places < next_[group]
        stays &= released & ~for_ever[group]
        if self._narrows:
            stays &= np.logical_or.reduce([values.is_best(segment) for values in self._values])
        is_old = ~segment.is_new
        self._tail.remove(np.sort(segment.rows[ROW].to_numpy()[is_old & ~stays]))
        self._tail.append(segment.rows[np.flatnonzero(stays & ~is_old)].select(self._tail.empty.columns))
        if not self._none:
            return
        self._summary.remove(ascending(self._summary.probe(keys)[1]))
        left = segment.starts + np.bincount(group[released & ~stays], minlength=keys.height)
        low, high = (left, segment.ends) if self._slides else (segment.starts, left)
        summary = self._summarized(segment, kept, low, high)
        columns: dict[str, pl.Series] = {}
        if ROWS in self._none:
            columns[ROWS] = kept[ROWS] + integers("", left - segment.starts)
        if PEERS in self._none:
            fresh = segment.is_first_peer & final
            columns[PEERS] = kept[PEERS] + integers("", np.bincount(group[fresh], minlength=keys.height))
        summary = summary.with_columns(column.alias(name) for name, column in columns.items())
        none = zip(self._none.items(), self._summary.empty.select(*self._none).dtypes, strict=True)
        says_something = [pl.col(name).ne_missing(pl.lit(value, dtype)) for (name, value), dtype in none]
        kept = summary.filter(booleans(~for_ever)).filter(pl.any_horizontal(says_something))
        self._summary.append(kept.select(self._summary.empty.columns))

    def _summarized(self, segment: Segment, kept: pl.DataFrame, low: Places, high: Places) -> pl.DataFrame:
        """Summaries once the rows from ``low`` to ``high`` are in them, or no more (`Values.summarized`)."""
        columns = [c for values in self._values for c in values.summarized(segment, kept, low, high)]
        return kept.with_columns(columns)

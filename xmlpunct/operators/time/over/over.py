"""over: each tuple with results over nearby tuples in the order of time, once they are final.

Sliding frames and summaries of dropped rows make it long.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.base.arrow_memory import Flags, booleans, integers
from xmlpunct.base.frames import join
from xmlpunct.operators.arrangement import Arrangement, distinct
from xmlpunct.operators.group.aggregate import EXTREMES, SUMS
from xmlpunct.operators.group.open_groups import ALL
from xmlpunct.operators.hash_index import ascending
from xmlpunct.operators.iterator import Operator, Outcome
from xmlpunct.operators.pending import Pending
from xmlpunct.operators.relations.prefixes import closed_bounds, split
from xmlpunct.operators.state import State
from xmlpunct.operators.time.over.calls import END, WindowCall
from xmlpunct.operators.time.over.closed import ClosedPartitions
from xmlpunct.operators.time.over.frame_values import PEERS, ROWS, FrameValues
from xmlpunct.operators.time.over.segment import GROUP, ROW, RowPositions, Segment
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT
from xmlpunct.types.ordinals import Ordinals

INSTANT = "$instant"
"""A constant timestamp, for an order without a timestamp."""


class Over(Operator):
    """Adds ``calls`` OVER (PARTITION BY ``keys`` ORDER BY ``order``), all of one `Release` (relations 12).

    ``order`` begins with a timestamp, ascending. The remaining columns break ties, so the output is deterministic. C(k)
    is the instant up to which the partition k is closed; later rows may still arrive. Without ``has_timestamp``, the
    order is any, or empty: then all rows of a partition are peers. Its rows are final once it is closed for ever.

    - cpass(ts, ps)  = [<t, f(t)> | t in ts, final(t, C(t.k))]
    - cprop(ts, ps)  = [p | p in ps, setNomatch(ts', p)], with ts' the pending tuples, and ``*`` for the results
    - ckeep(ts, ps)  = ts', the rows in frames of later tuples, and a summary of older rows; nothing for a partition
      that is closed for ever

    If all calls are sums over the same last instants, the summary covers the rows in the frame: a slice processes only
    the rows that leave and enter it. If all calls are extremes over last instants, a row is retained until a later row
    is at least as good.

    >>> from xmlpunct.operators.notation import show
    >>> from xmlpunct.operators.time.over.calls import Frame
    >>> bids = Schema.parse("item STRING, price INT, ts INT NOT NULL")
    >>> total = WindowCall("SUM", "total", "price", frame=Frame("ROWS", -1, 0))
    >>> it = Over(bids, ["item"], [SortKey("ts")], [total])
    >>> show(it, "A 20 2; A 10 1; B 5 1", "P(A, *, (,2])", "A 50 3; P(*, *, (,3])")
    A 20 2; A 10 1; B 5 1 ->
    P(A, *, (,2])         -> A 10 1 10; A 20 2 30; P(A, *, (,2], *)
    A 50 3; P(*, *, (,3]) -> B 5 1 5; A 50 3 70; P(*, *, (,3], *)
    """

    name = "over"

    def __init__(
        self,
        schema: Schema,
        keys: Sequence[str],
        order: Sequence[SortKey],
        calls: Sequence[WindowCall],
        has_timestamp: bool = True,
    ) -> None:
        super().__init__((schema,), Schema.of([*schema, *(call.attribute(schema) for call in calls)]))
        self._release, *different = {call.release if has_timestamp else END for call in calls}
        assert not different
        constants = [INSTANT] * (not has_timestamp) + [ALL] * (not keys)
        self._constants = [pl.lit(0).alias(name) for name in constants]
        """Columns that are 0 in all rows: a timestamp, and the key of the only partition."""
        if not has_timestamp:
            order = [SortKey(INSTANT), *order]
        self._order, self._keys = tuple(order), list(keys) or [ALL]
        self._ties = [a.name for a in schema if a.type.comparable and a.name not in {k.column for k in order}]
        functions = {call.function for call in calls}
        is_sliding = all(call.is_sliding for call in calls)
        self._slides = is_sliding and functions <= {*SUMS} and len({call.frame for call in calls}) == 1
        """Whether rows that leave the frames are subtracted, so that the remaining rows need not be read."""
        self._narrows = is_sliding and functions <= {*EXTREMES}
        """Whether rows are dropped once better ones have arrived."""
        self._values = [FrameValues(call, i, schema, self._slides) for i, call in enumerate(calls)]
        self._rows_before = max(call.rows_before for call in calls)
        instants = max(call.instants_before for call in calls)
        self._instants_before = (
            instants + self._release.following * (self._release.kind == "range") if instants else 0
        )
        summary = {name: column for values in self._values for name, column in values.summary.items()}
        self._empty_summary = {name: value for name, (_, value) in summary.items()}
        empty = schema.empty().with_columns(self._constants)
        self._waiting, self._tail = Arrangement(empty, self._keys), Arrangement(empty, self._keys)
        dtypes = {name: empty.schema[name] for name in self._keys} | {n: d for n, (d, _) in summary.items()}
        self._summary = Arrangement(pl.DataFrame(schema=dtypes), self._keys)
        self._timed = schema if has_timestamp else Schema.of([*schema, Attribute(INSTANT, INT, False)])
        self._closed = ClosedPartitions(self._timed, order[0].column, keys)
        self._pending = Pending(schema)
        self.state = State(
            waiting=self._waiting,
            tail=self._tail,
            summary=self._summary,
            closed=self._closed.prefixes,
            pending=self._pending,
        )

    def step(self, port: int, tuples: pl.DataFrame) -> pl.DataFrame:
        self._waiting.append(tuples.with_columns(self._constants))
        return self.schema.empty()

    def punctuate(self, port: int, batch: PunctuationBatch) -> Outcome:
        self._pending.add(batch)
        results, closed = self.schema.empty(), self._closed.add(self._extended(batch, self._timed))
        if len(closed):
            results = self._release_final(closed)
        return results, self._extended(self._pending.free([self._waiting]), self.schema)  # prop

    def _extended(self, batch: PunctuationBatch, schema: Schema) -> PunctuationBatch:
        """Punctuations of the input, with ``*`` for the further columns of ``schema``."""
        width = len(self.inputs[0])
        if len(schema) == width:
            return batch
        return batch.rebase(schema, [i if i < width else None for i in range(len(schema))])

    def _release_final(self, closed: PunctuationBatch) -> pl.DataFrame:
        """Release the final rows, and purge the rows that no later row needs."""
        ends, _ = split(closed)
        final = self._closed.older(ends if self._release == END else closed, 0)
        waiting = self._waiting.matching(final)
        tail = self._tail.matching(
            self._closed.older(ends if self._instants_before == 0 else closed, self._instants_before)
        )
        keys = distinct(
            pl.concat([self._waiting.take(waiting, self._keys), self._tail.take(tail, self._keys)])
        )
        results = self.schema.empty()
        if keys.height:
            if not self._slides:
                tail = self._tail.probe(keys)[1]
            results = self._advance(
                keys, ascending(tail), waiting, closed_bounds(closed, keys, self._closed.instants)
            )
        if len(ends):  # partitions without retained rows
            self._summary.remove(self._summary.matching(self._closed.older(ends, 0)))
        return results

    def _advance(
        self, keys: pl.DataFrame, tail: RowPositions, waiting: RowPositions, bounds: Ordinals
    ) -> pl.DataFrame:
        """Release the final rows of the partitions ``keys``, which are closed up to ``bounds``."""
        numbers = keys.with_columns(integers(GROUP, np.arange(keys.height)))
        old, new = (
            join(rows, numbers, self._keys, "left", nulls_equal=True, order="left").with_columns(
                integers(ROW, positions)
            )
            for rows, positions in ((self._tail.take(tail), tail), (self._waiting.take(waiting), waiting))
        )
        segment = Segment(old, new, keys.height, self._order, self._ties, self._closed.instants.type)
        for_ever = bounds == self._closed.instants.last
        is_new = segment.is_new
        final = is_new & self._is_final(segment, bounds, for_ever)
        released = np.flatnonzero(final)
        first_new = segment.starts + np.bincount(segment.group[~is_new], minlength=keys.height)
        summaries = self._summaries(keys)
        if self._slides:
            summaries = self._summarize(segment, summaries, first_new, segment.starts)
        results = self._results(segment, summaries, first_new, released)
        released_rows = segment.rows[released][ROW].to_numpy()
        self._pending.lose(self._waiting.remove(np.sort(released_rows)))
        self._purge(segment, keys, summaries, first_new, final, bounds, for_ever)
        return results

    def _is_final(self, segment: Segment, bounds: Ordinals, for_ever: Flags) -> Flags:
        """Whether no later row can change the result of each row of a segment; shape (rows,)."""
        kind, count = self._release
        positions, group = np.arange(len(segment.group)), segment.group
        if kind == "rows":
            return for_ever[group] | (segment.ends[group] - positions > count)
        if kind == "range":
            return for_ever[group] | self._is_older(segment, bounds, count)
        return np.ones(len(group), np.bool_)

    @staticmethod
    def _is_older(segment: Segment, bounds: Ordinals, count: int) -> Flags:
        """Whether each row is ``count`` or more instants before its partition's bound. No row is after the bound."""
        if count >= 2**64:
            return np.zeros(len(segment.group), np.bool_)
        distances = bounds[segment.group].view(np.uint64) - segment.instants.view(np.uint64)
        older: Flags = distances >= np.uint64(count)
        return older

    def _summaries(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The summaries of the partitions ``keys``, in their order."""
        if not self._empty_summary:
            return keys
        positions, rows = self._summary.probe(keys)
        number = np.full(keys.height, len(rows))
        number[positions] = np.arange(len(rows))
        empty = self._summary.empty.clear(1).with_columns(
            pl.lit(value).cast(self._summary.empty.schema[name]).alias(name)
            for name, value in self._empty_summary.items()
        )
        summaries = pl.concat([self._summary.take(rows), empty])[number]
        return summaries.with_columns(keys[name] for name in self._keys)

    def _results(
        self, segment: Segment, summaries: pl.DataFrame, first_new: RowPositions, rows: RowPositions
    ) -> pl.DataFrame:
        """The released rows with their results; rejects rows with a result outside the range of its type."""
        source = self.inputs[0]
        columns = segment.rows[rows].select(source.names)
        results, reasons = [], pl.Series([None], dtype=pl.String).new_from_index(0, len(rows))
        for attribute, values in zip(self.schema.attributes[len(source) :], self._values, strict=True):
            column, failed = values.of(segment, summaries, first_new, rows)
            results.append(column.alias(attribute.name).cast(attribute.type.dtype))
            if failed is not None and failed.any():
                reason = pl.Series([f"{attribute.name} does not fit {attribute.type}"])
                reasons = reason.zip_with(failed & reasons.is_null(), reasons)
        tuples = columns.hstack(results)
        return self.reject_failures(tuples, reasons) if reasons.null_count() < len(reasons) else tuples

    def _purge(
        self,
        segment: Segment,
        keys: pl.DataFrame,
        summaries: pl.DataFrame,
        first_new: RowPositions,
        final: Flags,
        bounds: Ordinals,
        for_ever: Flags,
    ) -> None:
        """Retain rows in frames of later rows; summarize older rows; drop partitions that are closed for ever."""
        group, positions = segment.group, np.arange(len(segment.group))
        next_ = first_new + np.bincount(group[final], minlength=keys.height)
        """For each partition the position of its first row that is not released."""
        stays = next_[group] - positions <= self._rows_before
        if self._instants_before:
            stays |= ~self._is_older(segment, bounds, self._instants_before)
        released = positions < next_[group]
        stays &= released & ~for_ever[group]
        if self._narrows:
            stays &= np.logical_or.reduce([values.is_best(segment) for values in self._values])
        is_old = ~segment.is_new
        self._tail.remove(np.sort(segment.rows[ROW].to_numpy()[is_old & ~stays]))
        self._tail.append(segment.rows[np.flatnonzero(stays & ~is_old)].select(self._tail.empty.columns))
        if not self._empty_summary:
            return
        self._summary.remove(ascending(self._summary.probe(keys)[1]))
        left = segment.starts + np.bincount(group[released & ~stays], minlength=keys.height)
        low, high = (left, segment.ends) if self._slides else (segment.starts, left)
        summary = self._summarize(segment, summaries, low, high)
        columns: dict[str, pl.Series] = {}
        if ROWS in self._empty_summary:
            columns[ROWS] = summaries[ROWS] + integers("", left - segment.starts)
        if PEERS in self._empty_summary:
            is_new_peer = segment.is_first_peer & final
            counts = np.bincount(group[is_new_peer], minlength=keys.height)
            columns[PEERS] = summaries[PEERS] + integers("", counts)
        summary = summary.with_columns(column.alias(name) for name, column in columns.items())
        dtypes = self._summary.empty.select(*self._empty_summary).dtypes
        empty = zip(self._empty_summary.items(), dtypes, strict=True)
        is_not_empty = [pl.col(name).ne_missing(pl.lit(value, dtype)) for (name, value), dtype in empty]
        open_summaries = summary.filter(booleans(~for_ever)).filter(pl.any_horizontal(is_not_empty))
        self._summary.append(open_summaries.select(self._summary.empty.columns))

    def _summarize(
        self, segment: Segment, summaries: pl.DataFrame, low: RowPositions, high: RowPositions
    ) -> pl.DataFrame:
        """Summaries with the rows from ``low`` to ``high`` added or removed (`FrameValues.summarize`)."""
        columns = [c for values in self._values for c in values.summarize(segment, summaries, low, high)]
        return summaries.with_columns(columns)

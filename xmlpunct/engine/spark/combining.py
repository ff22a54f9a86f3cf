"""Combines the output of many shards, group by group, before the driver aligns it.

Most punctuations come from every shard, because they match more values than can be listed. The driver would read each
of them from each of the S shards. So each of about sqrt(S) tasks combines the output of a group of shards in a
micro-batch: their tuples, the punctuations on values of one shard, and each other punctuation once, with the numbers of
its shards. The driver's result is the same, and these tasks have no state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isqrt
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from xmlpunct.base.codec import load, pack, pieces
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import ROW_SCHEMA, Port, StageRow, batch_to_rows, rows_to_batch
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.slice import Slice, concat

MANY = 256
"""With more shards than this, their output is combined. Combining takes about 0.1 s, and aligning a shard that is not
combined takes the driver 0.1 to 0.4 ms (`benchmarks/capacity.py`)."""
MOST_BYTES = 2**24
"""The greatest size of a combined row, unless one shard alone has more output."""
_SLICE = "slice"


class ShardOutput(NamedTuple):
    """The output of shards in a micro-batch.

    ``slice_`` has the tuples, in the order of shards, and the punctuations that one shard alone justifies. ``others``
    has the other punctuations, each list with the shards that emitted it.
    """

    slice_: Slice
    others: Sequence[tuple[Sequence[int], Sequence[Punctuation]]]

    @classmethod
    def of(cls, gather: Gather, rows: Iterable[StageRow]) -> ShardOutput:
        """The output in rows of single shards or in combined rows.

        ``gather`` is a gather that receives from these shards; it is not changed.
        """
        schema, parts = gather.schema, list[Slice]()
        others: dict[tuple[Punctuation, ...], list[int]] = {}
        for row in sorted(rows, key=lambda row: row.order):
            named = pieces(row.payload)
            combined = named.pop(_SLICE, None)
            part = Slice.from_bytes(schema, row.payload if combined is None else combined)
            if combined is None:
                promised, remaining = gather.divide(row.seq, part.punctuations)
                part = Slice(part.tuples, promised)
                if remaining:
                    others.setdefault(tuple(remaining), []).append(row.seq)
            else:
                for shards, piece in named.items():
                    punctuations = PunctuationBatch.from_frame(schema, load(piece))
                    others.setdefault(tuple(punctuations), []).extend(json.loads(shards))
            parts.append(part)
        return cls(concat(schema, parts), [(shards, remaining) for remaining, shards in others.items()])

    def to_bytes(self) -> bytes:
        """The payload of a combined row."""
        named = {_SLICE: self.slice_.to_bytes()}
        others = {json.dumps(shards): PunctuationBatch.of(batch) for shards, batch in self.others}
        return pack(named | {shards: batch.to_frame(batch.schema) for shards, batch in others.items()})

    def without_tuples(self) -> ShardOutput:
        """The same output without its tuples."""
        return self._replace(slice_=Slice(self.slice_.tuples.clear(), self.slice_.punctuations))

    def aligned(self, gather: Gather) -> Slice:
        """The tuples, and the punctuations that a gather emits for this output."""
        return Slice(self.slice_.tuples, gather.meet(self.slice_.punctuations, self.others))


@dataclass(frozen=True)
class Combiner:
    """Combines the output of neighbouring shards to the same port. All other rows pass."""

    job: Job

    @property
    def group(self) -> int:
        """The number of shards in a group."""
        return isqrt(self.job.shards - 1) + 1

    @property
    def pays(self) -> bool:
        """Whether combining is faster than aligning every shard."""
        return self.job.shards > MANY and bool(self._sources())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield rows_to_batch(self.rows(chain.from_iterable(map(batch_to_rows, batches))))

    def rows(self, rows: Iterable[StageRow]) -> Iterator[StageRow]:
        """The rows, with one combined row in place of the rows of each group of shards."""
        groups: dict[tuple[int, int], list[StageRow]] = {}
        sources = self._sources()
        for row in rows:
            if row.stage == self.job.sink and row.port in sources:
                groups.setdefault((row.port, row.seq // self.group), []).append(row)
            else:
                yield row
        for (port, _), group_rows in groups.items():
            gather = gather_of(self.job, sources[port])
            for part in _parts(sorted(group_rows, key=lambda row: row.order)):
                yield (
                    part[0]._replace(payload=ShardOutput.of(gather, part).to_bytes()) if part[1:] else part[0]
                )

    def spread(self, rows: DataFrame) -> DataFrame:
        """The rows of all tasks, combined if `pays`, with a partition for each group."""
        if not self.pays:
            return rows
        keys = shard_keys(-(-self.job.shards // self.group))
        number = F.expr(f"CAST(pmod(seq, {self.job.shards}) DIV {self.group} AS INT)")
        key = F.element_at(F.array(*map(F.lit, keys)), number + 1)
        return rows.repartition(len(keys), key).mapInArrow(self, ROW_SCHEMA)

    def _sources(self) -> dict[int, int]:
        """The ports whose rows are combined, with their fragments."""
        fragments = self.job.fragments
        many = {
            number: answer.source
            for number, answer in enumerate(fragments.answers)
            if not answer.from_edge and not fragments.fragments[answer.source].single
        }
        return {Port.PROMISES: many[0]} if self.job.merges and many else many


def _parts(rows: Iterable[StageRow]) -> Iterator[list[StageRow]]:
    """Rows in parts that have no more than `MOST_BYTES`, or are one row."""
    part: list[StageRow] = []
    for row in rows:
        if part and sum(len(r.payload) for r in part) + len(row.payload) > MOST_BYTES:
            yield part
            part = []
        part.append(row)
    if part:
        yield part

"""What many shards say, put together in groups on the way to who aligns it.

Shards mostly say the same: a promise about more values than can be listed comes from each of them. Whoever aligns
them would read it from each. So each of some sqrt(S) tasks puts together what a group of shards says in a micro-batch:
their tuples, what each promises of its own values, and the rest once, with the shards that say it. Nothing is lost by
that, so the outcome is the same, and these tasks have no state.
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
"""More shards than this are combined: a step more of so few tasks takes some 0.1 s, and aligning a shard that is not
combined 0.1 to 0.4 ms of the driver (`benchmarks/capacity.py`)."""
MOST_BYTES = 2**24
"""What is combined has no more bytes, unless one shard alone says more."""
_SLICE = "slice"


class ShardOutput(NamedTuple):
    """What shards say in a micro-batch: tuples with the promises that hold by themselves, in the order of shards; and
    ``others``, those that every shard has to make, by the shards that make the same ones."""

    slice_: Slice
    others: Sequence[tuple[Sequence[int], Sequence[Punctuation]]]

    @classmethod
    def of(cls, gather: Gather, rows: Iterable[StageRow]) -> ShardOutput:
        """What rows say, be they of one shard each or combined.

        ``gather`` is any that receives from these shards; it stays as it is.
        """
        schema, parts = gather.schema, list[Slice]()
        others: dict[tuple[Punctuation, ...], list[int]] = {}
        for row in sorted(rows, key=lambda row: row.order):
            named = pieces(row.payload)
            combined = named.pop(_SLICE, None)
            part = Slice.from_bytes(schema, row.payload if combined is None else combined)
            if combined is None:
                promised, rest = gather.divide(row.seq, part.punctuations)
                part = Slice(part.tuples, promised)
                if rest:
                    others.setdefault(tuple(rest), []).append(row.seq)
            else:
                for shards, piece in named.items():
                    said = PunctuationBatch.from_frame(schema, load(piece))
                    others.setdefault(tuple(said), []).extend(json.loads(shards))
            parts.append(part)
        return cls(concat(schema, parts), [(shards, rest) for rest, shards in others.items()])

    def to_bytes(self) -> bytes:
        """The payload of a row that has been combined."""
        named = {_SLICE: self.slice_.to_bytes()}
        rest = {json.dumps(shards): PunctuationBatch.of(said) for shards, said in self.others}
        return pack(named | {shards: said.to_frame(said.schema) for shards, said in rest.items()})

    def without_tuples(self) -> ShardOutput:
        """The same, but for the tuples."""
        return self._replace(slice_=Slice(self.slice_.tuples.clear(), self.slice_.punctuations))

    def met(self, gather: Gather) -> Slice:
        """What it comes to at a gather, which remembers it."""
        return Slice(self.slice_.tuples, gather.meet(self.slice_.punctuations, self.others))


@dataclass(frozen=True)
class Combiner:
    """Combines what shards say to who aligns them, a group of neighbours at a time. All other rows pass."""

    job: Job

    @property
    def group(self) -> int:
        """How many shards a group has."""
        return isqrt(self.job.shards - 1) + 1

    @property
    def pays(self) -> bool:
        """Whether there is so much to combine that it is worth a step more."""
        return self.job.shards > MANY and bool(self._sources())

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield rows_to_batch(self.rows(chain.from_iterable(map(batch_to_rows, batches))))

    def rows(self, rows: Iterable[StageRow]) -> Iterator[StageRow]:
        """The rows that some come to."""
        groups: dict[tuple[int, int], list[StageRow]] = {}
        sources = self._sources()
        for row in rows:
            if row.stage == self.job.sink and row.port in sources:
                groups.setdefault((row.port, row.seq // self.group), []).append(row)
            else:
                yield row
        for (port, _), mine in groups.items():
            gather = gather_of(self.job, sources[port])
            for part in _parts(sorted(mine, key=lambda row: row.order)):
                yield (
                    part[0]._replace(payload=ShardOutput.of(gather, part).to_bytes()) if part[1:] else part[0]
                )

    def spread(self, rows: DataFrame) -> DataFrame:
        """The same rows, combined, if that pays: a partition for each group."""
        if not self.pays:
            return rows
        keys = shard_keys(-(-self.job.shards // self.group))
        number = F.expr(f"CAST(pmod(seq, {self.job.shards}) DIV {self.group} AS INT)")
        key = F.element_at(F.array(*map(F.lit, keys)), number + 1)
        return rows.repartition(len(keys), key).mapInArrow(self, ROW_SCHEMA)

    def _sources(self) -> dict[int, int]:
        """The ports whose rows are combined, and the fragments that they come from."""
        fragments = self.job.fragments
        many = {
            place: answer.source
            for place, answer in enumerate(fragments.answers)
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

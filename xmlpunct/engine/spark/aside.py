"""Tasks stage the tuples of answers that go to datasets, and report the locations to the driver.

So these tuples do not pass through the driver. A row of the answer continues without its tuples, but with the locations
of their chunks. This needs no extra task: it is appended to the last step of a micro-batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from xmlpunct.base.codec import load, pack, pieces, unpack
from xmlpunct.base.errors import Reject
from xmlpunct.engine.run.datasets.chunks import Chunk, put_aside
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.sink import make_output
from xmlpunct.engine.spark.combining import ShardOutput
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.engine.spark.stage_messages import ROW_SCHEMA, StageRow, batch_to_rows, rows_to_batch
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_SAID, _TOLD, _KEYS = "said", "told", "keys"


class PutAside(NamedTuple):
    """The outcome for the tuples of a row: numbers of staged and of dropped ``late`` tuples, and the rejects.
    ``keyed`` are the chunks of staged tuples, each with the values of the partition columns."""

    tuples: int
    late: int
    rejects: list[Reject]
    keyed: list[tuple[tuple[object, ...], Chunk]]

    def to_bytes(self, punctuations: bytes, keys: Schema) -> bytes:
        """The payload of a row: its serialized punctuations and this outcome."""
        counts = {
            "tuples": self.tuples,
            "late": self.late,
            "rejects": [asdict(reject) for reject in self.rejects],
            "chunks": [asdict(chunk) for _, chunk in self.keyed],
        }
        values = {_KEYS: keys.frame([key for key, _ in self.keyed])} if len(keys) else {}
        return pack({_SAID: punctuations, _TOLD: json.dumps(counts).encode(), **values})

    @classmethod
    def from_bytes(cls, payload: bytes) -> tuple[bytes, PutAside]:
        """The inverse of `to_bytes`: the serialized punctuations, and the outcome."""
        parts = pieces(payload)
        counts = json.loads(parts[_TOLD])
        chunks = [Chunk(**values) for values in counts["chunks"]]
        keys = load(parts[_KEYS]).rows() if _KEYS in parts else [()] * len(chunks)
        rejects = [Reject(**values) for values in counts["rejects"]]
        return parts[_SAID], cls(counts["tuples"], counts["late"], rejects, [*zip(keys, chunks, strict=True)])


@dataclass(frozen=True)
class AsideFolder:
    """The staging folder of an answer, which all machines share. ``options`` are those of its output; ``written`` is
    the state of the output before the micro-batch, or empty."""

    folder: Path
    options: RunOptions
    written: bytes = b""


@dataclass(frozen=True)
class Aside:
    """Stages the tuples of the answers that go to datasets, in micro-batch ``batch``. All other rows pass.

    ``places`` are the staging folders by index of the answer; None drops the rows of a complete answer.
    """

    job: Job
    batch: int
    places: Mapping[int, AsideFolder | None]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield rows_to_batch(self.rows(chain.from_iterable(map(batch_to_rows, batches))))

    def spread(self, rows: DataFrame) -> DataFrame:
        """The same rows, without the tuples that this stages."""
        return rows.mapInArrow(self, ROW_SCHEMA) if self.places else rows

    def rows(self, rows: Iterable[StageRow]) -> Iterator[StageRow]:
        """The rows without staged tuples."""
        outputs: dict[int, tuple[Output, Gather | None]] = {}
        for row in rows:
            if row.stage != self.job.sink or row.port not in self.places:
                yield row
            elif (folder := self.places[row.port]) is not None:
                if row.port not in outputs:
                    outputs[row.port] = self._output(row.port, folder)
                yield _without_tuples(row, self.batch, folder, *outputs[row.port])

    def _output(self, number: int, folder: AsideFolder) -> tuple[Output, Gather | None]:
        """The output of an answer before this micro-batch, and the gather of its shards, if any."""
        output = make_output(folder.options, self.job.query.answers[number])
        if folder.written:
            output.restore(unpack(folder.written))
        answer = self.job.fragments.answers[number]
        return output, None if answer.from_edge else gather_of(self.job, answer.source)


def _without_tuples(
    row: StageRow, batch: int, folder: AsideFolder, output: Output, gather: Gather | None
) -> StageRow:
    """Stage the tuples of a row. Its punctuations are divided here too, which relieves the driver."""
    schema, by = output.schema, folder.options.partition_by
    if gather is None:
        slice_ = Slice.from_bytes(schema, row.payload)
        punctuations = Slice(schema.empty(), slice_.punctuations).to_bytes()
    else:
        of_shard = ShardOutput.of(gather, [row])
        slice_, punctuations = of_shard.slice_, of_shard.without_tuples().to_bytes()
    fits, rejects = output.fitting(Slice(slice_.tuples))
    before = output.late
    tuples = output.prepare(fits).tuples
    keyed: list[tuple[tuple[object, ...], Chunk]] = []
    if tuples.height:
        parts: dict[tuple[object, ...], pl.DataFrame] = {(): tuples}
        if by:
            other_columns = [name for name in schema.names if name not in by]
            groups = tuples.partition_by(by, as_dict=True, maintain_order=True)
            parts = {key: rows.select(other_columns) for key, rows in groups.items()}
        keyed = [*zip(parts, put_aside(folder.folder, f"{batch}-{row.seq}", parts.values()), strict=True)]
    put = PutAside(tuples.height, output.late - before, rejects, keyed)
    return row._replace(payload=put.to_bytes(punctuations, Schema.of(schema[name] for name in by)))

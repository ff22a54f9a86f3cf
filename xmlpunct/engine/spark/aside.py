"""What tasks do with the tuples of answers that go to datasets: they put them aside, and tell the driver where.

So no tuple of theirs passes the driver. A row of such an answer goes on without its tuples, and says what became of
them. This takes no task of its own: it is a step behind the last one of a micro-batch, of which the driver knows what
was written before.
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
from xmlpunct.engine.spark.combining import Said
from xmlpunct.engine.spark.job import ROW_SCHEMA, Job, Row, batch_to_rows, rows_to_batch
from xmlpunct.engine.spark.processor import gather_of
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_SAID, _TOLD, _KEYS = "said", "told", "keys"


class PutAside(NamedTuple):
    """What became of the tuples of a row: so many were put aside and so many were ``late``, which are dropped; others
    are rejects. ``keyed`` are the places of the former, by the values of the columns to partition by."""

    tuples: int
    late: int
    rejects: list[Reject]
    keyed: list[tuple[tuple[object, ...], Chunk]]

    def to_bytes(self, said: bytes, keys: Schema) -> bytes:
        """The payload of a row that has ``said`` something, and these tuples."""
        told = {
            "tuples": self.tuples,
            "late": self.late,
            "rejects": [asdict(reject) for reject in self.rejects],
            "chunks": [asdict(chunk) for _, chunk in self.keyed],
        }
        values = {_KEYS: keys.frame([key for key, _ in self.keyed])} if len(keys) else {}
        return pack({_SAID: said, _TOLD: json.dumps(told).encode(), **values})

    @classmethod
    def from_bytes(cls, payload: bytes) -> tuple[bytes, PutAside]:
        """The inverse of `to_bytes`: what was said, and what became of the tuples."""
        parts = pieces(payload)
        told = json.loads(parts[_TOLD])
        chunks = [Chunk(**values) for values in told["chunks"]]
        keys = load(parts[_KEYS]).rows() if _KEYS in parts else [()] * len(chunks)
        rejects = [Reject(**values) for values in told["rejects"]]
        return parts[_SAID], cls(told["tuples"], told["late"], rejects, [*zip(keys, chunks, strict=True)])


@dataclass(frozen=True)
class Place:
    """Where the tuples of an answer are put aside: in ``folder``, which all machines share. ``options`` say how they
    are written; ``written`` is the state of the output before the micro-batch, if there was one."""

    folder: Path
    options: RunOptions
    written: bytes = b""


@dataclass(frozen=True)
class Aside:
    """Puts aside the tuples of the answers that go to datasets, in micro-batch ``batch``. All other rows pass.

    ``places`` are by the answers' places in the job. Without one, nothing is wanted of the answer any more.
    """

    job: Job
    batch: int
    places: Mapping[int, Place | None]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield rows_to_batch(self.rows(chain.from_iterable(map(batch_to_rows, batches))))

    def spread(self, rows: DataFrame) -> DataFrame:
        """The same rows without these tuples."""
        return rows.mapInArrow(self, ROW_SCHEMA) if self.places else rows

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows that some come to."""
        outputs: dict[int, tuple[Output, Gather | None]] = {}
        for row in rows:
            if row.stage != self.job.sink or row.port not in self.places:
                yield row
            elif (place := self.places[row.port]) is not None:
                if row.port not in outputs:
                    outputs[row.port] = self._output(row.port, place)
                yield _without_tuples(row, self.batch, place, *outputs[row.port])

    def _output(self, number: int, place: Place) -> tuple[Output, Gather | None]:
        """The output of an answer, as it was before this micro-batch; and who receives from its shards, if it has."""
        output = make_output(place.options, self.job.query.answers[number])
        if place.written:
            output.restore(unpack(place.written))
        given = self.job.fragments.answers[number]
        return output, None if given.from_edge else gather_of(self.job, given.source)


def _without_tuples(row: Row, batch: int, place: Place, output: Output, gather: Gather | None) -> Row:
    """A row whose tuples are put aside. What its shard promises is looked at here, so that the driver need not."""
    schema, by = output.schema, place.options.partition_by
    if gather is None:
        given = Slice.from_bytes(schema, row.payload)
        said = Slice(schema.empty(), given.punctuations).to_bytes()
    else:
        of_shard = Said.of(gather, [row])
        given, said = of_shard.slice_, of_shard.without_tuples().to_bytes()
    fits, rejects = output.fitting(Slice(given.tuples))
    before = output.late
    tuples = output.prepare(fits).tuples
    keyed: list[tuple[tuple[object, ...], Chunk]] = []
    if tuples.height:
        parts: dict[tuple[object, ...], pl.DataFrame] = {(): tuples}
        if by:
            rest = [name for name in schema.names if name not in by]
            groups = tuples.partition_by(by, as_dict=True, maintain_order=True)
            parts = {key: rows.select(rest) for key, rows in groups.items()}
        keyed = [*zip(parts, put_aside(place.folder, f"{batch}-{row.seq}", parts.values()), strict=True)]
    put = PutAside(tuples.height, output.late - before, rejects, keyed)
    return row._replace(payload=put.to_bytes(said, Schema.of(schema[name] for name in by)))

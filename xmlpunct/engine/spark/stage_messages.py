"""Messages between the reader, the stages and the sink of a query on Spark.

All of them travel as rows of one schema, `StageRow`. A row with a port from 0 on holds a slice: for an input of a
fragment, or for an answer. A row with another port holds the message of that `Port`:

============  =========================================================================
TASK_REPORT   `TaskReport`, from a task of the reader to the sink
SHARD_REPORT  `ShardReport`, from a shard of a fragment to the sink
FAILURE       `Failure`, from a task of the reader to all stages and to the sink
PROMISES      a slice: punctuations of the only answer, which `Job.merges` to one shard
============  =========================================================================
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, NamedTuple, TypeVar

import polars as pl
import pyarrow as pa

from xmlpunct.base.errors import Reject, SourceError
from xmlpunct.base.unread import Overlooked
from xmlpunct.engine.run.stats import InputStats, OperatorStats
from xmlpunct.operators.retained_outline import Outline
from xmlpunct.slice import Slice

ROW_SCHEMA = "shard INT, stage INT, port INT, seq BIGINT, payload BINARY, part INT"
"""The columns of `StageRow` as a Spark schema."""
_ARROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("stage", pa.int32()),
        ("port", pa.int32()),
        ("seq", pa.int64()),
        ("payload", pa.binary()),
        ("part", pa.int32()),
    ]
)
PAYLOAD_BYTES = 8 * 2**20
"""Maximal payload of a row with a slice, unless a single tuple is larger: the JVM holds several copies of a row."""
RESULT = 0
"""Port of the first answer."""


class Port(IntEnum):
    """Ports of messages that are no slices of an input or of an answer."""

    TASK_REPORT = -1
    SHARD_REPORT = -2
    FAILURE = -3
    PROMISES = -4


class StageRow(NamedTuple):
    """A row between stages.

    ``shard`` is the key of the receiving shard (see `shard_keys`), and ``stage`` the number of the receiving fragment,
    or `Job.sink`. ``seq`` is the number of the sending shard, or the `task_seq` of a task of the reader. A large slice
    is divided into rows with numbers ``part``.
    """

    shard: int
    stage: int
    port: int
    seq: int
    payload: bytes
    part: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of the rows of a port."""
        return self.seq, self.part


def task_seq(number: int, ordinal: int) -> int:
    """The ``seq`` of task ``ordinal`` of input ``number`` in a micro-batch."""
    return number << 32 | ordinal


@dataclass(frozen=True)
class Message:
    """A message of the kind ``port``."""

    port: ClassVar[Port]

    def to_row(self, shard: int, stage: int, seq: int) -> StageRow:
        """The row that holds this message."""
        return StageRow(shard, stage, self.port, seq, pickle.dumps(self))


M = TypeVar("M", bound=Message)


def received(kind: type[M], rows: Iterable[StageRow]) -> list[tuple[int, M]]:
    """The messages of a kind in some rows, each with its ``seq``, in the order of these."""
    return sorted(
        ((row.seq, pickle.loads(row.payload)) for row in rows if row.port == kind.port),
        key=lambda message: message[0],
    )


@dataclass(frozen=True)
class OperatorReport:
    """The counters of an operator in a micro-batch, the size of its state, and `Operator.waits`."""

    stats: OperatorStats
    waits: list[int]


@dataclass(frozen=True)
class TaskReport(Message):
    """The report of a task that reads an input.

    ``streams`` and ``overlooked`` are the counters and the unread content of each stream of the input; empty for tasks
    of data frames. ``has_ended``: the input has ended. ``checksums`` are those of completely read files, by the number
    of the part. ``operators`` are the stateless operators above the scan. ``sent`` are the received punctuations, and
    ``positions`` the positions of tuples (`source_positions`), both by number of the stream.
    """

    port = Port.TASK_REPORT
    streams: Sequence[InputStats] = ()
    overlooked: Sequence[Overlooked] = ()
    has_ended: bool = False
    checksums: Mapping[int, int] = field(default_factory=dict)
    operators: Sequence[OperatorReport] = ()
    rejects: Sequence[Reject] = ()
    sent: Mapping[int, bytes] = field(default_factory=dict)
    positions: Mapping[int, pl.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardReport(Message):
    """The report of a shard of fragment ``stage``.

    ``waits`` is the amount of retained state that waits for each input of the query; ``outlines`` outline the retained
    state by number of the operator.
    """

    port = Port.SHARD_REPORT
    stage: int
    operators: Sequence[OperatorReport] = ()
    waits: Sequence[int] = ()
    outlines: Mapping[int, Outline] = field(default_factory=dict)
    rejects: Sequence[Reject] = ()


@dataclass(frozen=True)
class Failure(Message):
    """The input of a task failed. Later tasks of the input do not count."""

    port = Port.FAILURE
    error: SourceError


def rejects_in(rows: Sequence[StageRow]) -> list[Reject]:
    """The rejects of all reports in some rows."""
    reports: list[tuple[int, TaskReport | ShardReport]] = [
        *received(TaskReport, rows),
        *received(ShardReport, rows),
    ]
    return [reject for _, report in reports for reject in report.rejects]


def slice_rows(shard: int, stage: int, port: int, seq: int, slice_: Slice) -> Iterator[StageRow]:
    """The rows of a slice, of at most about `PAYLOAD_BYTES` each."""
    for number, part in enumerate(slice_.parts(PAYLOAD_BYTES)):
        yield StageRow(shard, stage, port, seq, part.to_bytes(), number)


def rows_to_batch(rows: Iterable[StageRow]) -> pa.RecordBatch:
    """Rows as an Arrow batch for Spark."""
    columns = [*zip(*rows, strict=True)] or [()] * len(_ARROW)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )


def batch_to_rows(table: pa.RecordBatch | pa.Table) -> Iterator[StageRow]:
    """The inverse of `rows_to_batch`."""
    columns = [table.column(name).to_pylist() for name in StageRow._fields]
    return map(StageRow._make, zip(*columns, strict=True))

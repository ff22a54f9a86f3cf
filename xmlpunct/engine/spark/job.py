"""What every process that works on a query has to know, and the rows that travel between them."""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from xmlpunct.base.secrets import stored
from xmlpunct.engine.partition.fragments import Fragments
from xmlpunct.engine.plan import Query, Stream, columns_read
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.run_options import Destination
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.firehose.spec import ElementName, StreamSpec, elements_of
from xmlpunct.slice import Slice

ROW_SCHEMA = "shard INT, stage INT, port INT, seq BIGINT, payload BINARY, part INT"
"""The columns of `StageRow`, as Spark reads them."""
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

RESULT = 0
(
    COUNTS, EDGE_OPERATORS, EDGE_REJECTS, OPERATORS, REJECTS, WAITS, FAILURE, PLACES, SAID, RETAINED, PROMISES,
) = range(-1, -12, -1)  # fmt: skip
"""Ports of the sink: `RESULT` is that of the first answer, 1 that of the second, and so on; then those of what is to be
told. `FAILURE` is a port of every stage.

`PROMISES` are punctuations of the only answer that come apart from its tuples: see `Job.merges`.
"""

PAYLOAD_BYTES = 8 * 2**20
"""How large a `StageRow` is, unless a tuple alone is larger: Java has each of them in its memory several times over."""

ANOTHER_JOB = (
    "the checkpoint belongs to another query, to other inputs or to another number of shards: pass the same ones "
    "(shards=N), or another checkpointLocation"
)


class StageRow(NamedTuple):
    """What travels between the reader, the stages and the sink.

    ``shard`` is the key of a shard (see `keys.shard_keys`) and ``stage`` a fragment's number, or `Job.sink`.
    What comes from the reader has as ``seq`` the number of its input times 2^32 plus that of its task in the
    micro-batch; what comes from a fragment, the number of the shard that sent it. What is large comes in parts, whose
    number is ``part``.
    """

    shard: int
    stage: int
    port: int
    seq: int
    payload: bytes
    part: int = 0

    @property
    def order(self) -> tuple[int, int]:
        """What those of one port are sorted by."""
        return self.seq, self.part


def rows_of(shard: int, stage: int, port: int, seq: int, slice_: Slice) -> Iterator[StageRow]:
    """The rows of a slice, of about `PAYLOAD_BYTES` at most."""
    for number, part in enumerate(slice_.parts(PAYLOAD_BYTES)):
        yield StageRow(shard, stage, port, seq, part.to_bytes(), number)


def rows_to_batch(rows: Iterable[StageRow]) -> pa.RecordBatch:
    """Rows as Spark takes them."""
    columns = [*zip(*rows, strict=True)] or [()] * len(_ARROW)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, _ARROW, strict=True)], schema=_ARROW
    )


def batch_to_rows(table: pa.RecordBatch | pa.Table) -> Iterator[StageRow]:
    """The inverse of `rows_to_batch`."""
    columns = [table.column(name).to_pylist() for name in StageRow._fields]
    return map(StageRow._make, zip(*columns, strict=True))


def task_seq(number: int, ordinal: int) -> int:
    """The ``seq`` of what task ``ordinal`` of input ``number`` says."""
    return number << 32 | ordinal


_WITH_URLS = {Query: ("sql", "reads"), Destination: ("output",), Stream: ("source",), Input: ("source",)}
"""The fields that hold URLs, by class. Workers open none of them."""


class _WithoutPasswords(pickle.Pickler):
    """Pickles a job without the passwords of the URLs in it: it is an option, and Spark's pages show options."""

    def reducer_override(self, value: Any) -> Any:
        urls = {name: getattr(value, name) for name in _WITH_URLS.get(type(value), ())}
        changed = {name: text for name, url in urls.items() if (text := stored(url)) != url}
        return replace(value, **changed).__reduce_ex__(pickle.DEFAULT_PROTOCOL) if changed else NotImplemented


@dataclass(frozen=True)
class Job:
    """A query, cut, over inputs that are known. ``pacing`` is the file by which the sink paces the reader.
    ``said`` is the `SaidLog`, ``cuts`` the file of `xmlpunct.engine.run.inputs.uncut`, if there is one.
    ``shares``: the reader tells where all tuples stood, so that the share of rejects among them can be judged.
    ``merges``: the punctuations of the only answer travel apart from its tuples, to one shard, which merges them.
    ``fingerprint`` tells the job from others where nothing else does: it goes into offsets and states.
    """

    query: Query
    fragments: Fragments
    inputs: tuple[Input, ...]
    shards: int
    slice_bytes: int | None
    punct_namespace: str
    pacing: str = ""
    shares: bool = False
    said: str = ""
    merges: bool = False
    fingerprint: str = ""
    cuts: str = ""

    @property
    def sink(self) -> int:
        """The stage after the last."""
        return len(self.fragments.fragments)

    def shards_of(self, stage: int) -> int:
        """How many shards a fragment runs on."""
        return 1 if self.fragments.fragments[stage].single else self.shards

    def stream_of(self, edge: int) -> Stream:
        """The stream that an edge reads."""
        return self.query.streams[self.fragments.edges[edge].stream]

    def inputs_of(self, stage: int, port: int) -> list[int]:
        """The inputs whose tuples come to a fragment by one of its ports."""
        feed = self.fragments.fragments[stage].feeds[port]
        if feed.from_edge:
            stream = self.fragments.edges[feed.source].stream
            return [i for i, given in enumerate(self.inputs) if stream in given.streams]
        ports = range(len(self.fragments.fragments[feed.source].feeds))
        return [i for below in ports for i in self.inputs_of(feed.source, below)]

    def input_of(self, stream: int) -> int:
        """The input that carries the stream of that number."""
        return next(i for i, given in enumerate(self.inputs) if stream in given.streams)

    def specs(self, number: int) -> list[StreamSpec]:
        """What to look for in an input."""
        streams = (self.query.streams[i] for i in self.inputs[number].streams)
        edges = [edge.root for edge in self.fragments.edges]
        return [s.spec(columns_read(edges, s)) for s in streams]

    def elements(self, number: int) -> frozenset[ElementName]:
        """The elements of an input that must not be cut."""
        return elements_of(self.specs(number), self.punct_namespace)

    def answers_of(self, from_edge: bool, source: int) -> list[int]:
        """The places of the answers that an edge or fragment gives."""
        parts = ((answer.from_edge, answer.source) for answer in self.fragments.answers)
        return [place for place, part in enumerate(parts) if part == (from_edge, source)]

    def results(self, answer: int, shard: int, seq: int, output: Slice) -> Iterator[StageRow]:
        """The rows of a part of an answer that the shard of that key has, if it has any."""
        if self.merges and output.punctuations:
            said = Slice(output.tuples.clear(), output.punctuations)
            yield StageRow(shard_keys(self.shards)[0], self.sink, PROMISES, seq, said.to_bytes())
            output = Slice(output.tuples)
        if output:
            yield from rows_of(shard, self.sink, answer, seq, output)

    def to_text(self) -> str:
        """The job as the value of an option."""
        file = io.BytesIO()
        _WithoutPasswords(file).dump(self)
        return base64.b64encode(file.getvalue()).decode()

    @classmethod
    def from_text(cls, text: str) -> Job:
        """The inverse of `to_text`."""
        job = pickle.loads(base64.b64decode(text))
        assert isinstance(job, cls)
        return job

"""The job: the parameters of a query on Spark that all processes share."""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from xmlpunct.base.secrets import stored
from xmlpunct.engine.partition.fragments import Fragments
from xmlpunct.engine.plan import Query, Stream, columns_read
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.run_options import Destination
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.stage_messages import Port, StageRow, slice_rows
from xmlpunct.firehose.spec import ElementName, StreamSpec, elements_of
from xmlpunct.slice import Slice

ANOTHER_JOB = (
    "the checkpoint belongs to another query, to other inputs or to another number of shards: pass the same ones "
    "(shards=N), or another checkpointLocation"
)


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
    """A query, divided into fragments, over its inputs.

    ``pacing`` is the file by which the sink paces the reader, ``said`` the `InjectionLog`, and ``cuts`` the file of
    `xmlpunct.engine.run.inputs.uncut`, or empty. ``shares``: tasks report the positions of all tuples, because the
    share of rejects is limited. ``merges``: one shard merges the punctuations of the only answer, which travel apart
    from its tuples. ``fingerprint`` identifies the job in offsets and states. ``counts`` is the folder of
    `xmlpunct.engine.spark.first_counts`, or empty.
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
    counts: str = ""

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
        """The elements to parse in an input."""
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
        """The rows of an answer's slice, which is in the shard with this key; none if it is empty."""
        if self.merges and output.punctuations:
            promises = Slice(output.tuples.clear(), output.punctuations)
            yield StageRow(shard_keys(self.shards)[0], self.sink, Port.PROMISES, seq, promises.to_bytes())
            output = Slice(output.tuples)
        if output:
            yield from slice_rows(shard, self.sink, answer, seq, output)

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

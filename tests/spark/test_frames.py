"""Data frames as inputs and results of a query, driven as Spark would, without Spark."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import xmlpunct
from tests.spark.support import NAMESPACE, Warehouse
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_stages import Cluster
from tests.spark.test_state import Store
from xmlpunct import Punctuation, Schema, SourceError, StrictError, UsageError
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.run.inputs.tables import Table
from xmlpunct.engine.spark.frame_queries import FrameEdge, MergeProcessor, ResultRows
from xmlpunct.engine.spark.job import ANOTHER_JOB, Job
from xmlpunct.engine.spark.processor import check_owner
from xmlpunct.engine.spark.shard_keys import shard_keys
from xmlpunct.engine.spark.spark_source import QueryReader
from xmlpunct.engine.spark.stage_messages import RESULT, Failure, Port, StageRow, rows_to_batch
from xmlpunct.engine.spark.table.document_columns import Documents
from xmlpunct.engine.spark.table.table_options import DOCUMENTS, TableOptions
from xmlpunct.engine.spark.worker_stubs import LightProcessor
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import match

READINGS = Schema.parse("sid STRING, hour INT, temp INT")
HOTTEST = "SELECT hour, MAX(temp) AS t, COUNT(*) AS n FROM readings GROUP BY hour"


def frame_job(sql: str, shards: int = 2, merges: bool = False) -> Job:
    empty = pl.DataFrame(READINGS.empty())
    planned = plan(sql, tables={"readings": Table("readings", empty.lazy(), empty.collect_schema())})
    fragments = cut_plan(planned.root, [s.name for s in planned.streams])
    return Job(planned, fragments, (), shards, None, NAMESPACE, merges=merges, fingerprint="f")


def batch(rows: list[tuple[Any, ...]], punctuations: list[str | None] | None = None) -> pa.RecordBatch:
    """Rows of a frame; column p has punctuations."""
    values = [*zip(*rows, strict=True)] or [(), (), ()]
    names = ["sid", "hour", "temp"]
    arrays = [pa.array(v, t) for v, t in zip(values, (pa.string(), pa.int32(), pa.int64()), strict=True)]
    if punctuations is not None:
        names, arrays = [*names, "p"], [*arrays, pa.array(punctuations, pa.string())]
    return pa.RecordBatch.from_arrays(arrays, names=names)


class Merged:
    """The merging stage, with the state that Spark stores for its shards."""

    def __init__(self, job: Job) -> None:
        self.job, self._stores = job, {key: Store() for key in shard_keys(job.shards)}

    def push(self, rows: list[StageRow]) -> list[StageRow]:
        rows_out = []
        for key, store in self._stores.items():
            shard_rows = [row for row in rows if row.shard == key]
            if shard_rows:
                processor = MergeProcessor(self.job)
                processor.init(SimpleNamespace(getMapState=lambda *_, store=store: store))
                rows_out += [
                    StageRow(*row) for row in processor.handleInputRows((key,), iter(shard_rows), None)
                ]
        return rows_out


def results(job: Job, rows: list[StageRow], punctuation: str | None = None) -> list[dict[str, Any]]:
    result_rows = pickle.loads(pickle.dumps(ResultRows(job, punctuation)))
    half = len(rows) // 2
    batches = iter([rows_to_batch(rows[:half]), rows_to_batch(rows[half:])])
    return [row for batch in result_rows(batches) for row in batch.to_pylist()]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_frame_with_punctuations_equals_the_stream(shards: int) -> None:
    """Micro-batches in one or two tasks: a result is released once its hour is closed, and never again."""
    random_ = random.Random(shards)
    job = frame_job(HOTTEST, shards, merges=True)
    edge = pickle.loads(pickle.dumps(FrameEdge(job, 0, 0, READINGS, "p")))
    cluster, merged = Cluster(job), Merged(job)
    all_tuples: list[tuple[str, int, int]] = []
    all_rows: list[dict[str, Any]] = []
    emitted: list[Punctuation] = []
    for hour in range(12):
        tuples = [("S1", hour, random_.randrange(90)) for _ in range(random_.randrange(1, 9))]
        all_tuples += tuples
        null_row = (None, None, None)
        rows = [*tuples, null_row]
        punctuations: list[str | None] = [None] * len(tuples) + [
            f"<*, (,{hour}], *>" if hour < 11 else "<*, *, *>"
        ]
        # Two tasks: the second one has the punctuation, maybe alone.
        cut_at = random_.randrange(len(rows) + 1)
        batches = [batch(rows[:cut_at], punctuations[:cut_at]), batch(rows[cut_at:], punctuations[cut_at:])]
        edge_rows = []
        for task, task_batch in enumerate(batches):
            edge_rows += list(edge.rows(pa.Table.from_batches([task_batch]), task))
        new_rows = results(job, merged.push(cluster.push(edge_rows)), "p")
        new_tuples = [(row["hour"], row["t"], row["n"]) for row in new_rows if row["p"] is None]
        assert not any(match(t, p) for t in new_tuples for p in emitted)
        emitted += [Punctuation.parse(job.fragments.schema, row["p"]) for row in new_rows if row["p"]]
        all_rows += new_rows
        result_hours = {row["hour"] for row in all_rows if row["p"] is None}
        assert result_hours == {*range(hour + 1)}
    feed = pl.DataFrame(all_tuples, schema=["sid", "hour", "temp"], orient="row")
    expected = [r for r in xmlpunct.query(HOTTEST, readings=feed) if not isinstance(r, Punctuation)]
    assert sorted(tuple(r.values())[:3] for r in all_rows if r["p"] is None) == sorted(expected)
    assert any(p.is_everything for p in emitted)
    assert len({*map(str, emitted)}) == len(emitted) >= 12


def test_a_frame_declared_in_order_needs_no_punctuations() -> None:
    declared = "CREATE STREAM readings (sid STRING, hour INT NOT NULL, temp INT) PUNCTUATE ORDER BY hour; "
    job = frame_job(declared + HOTTEST)
    edge, cluster = FrameEdge(job, 0, 0, READINGS), Cluster(job)
    first = [*edge.rows(pa.Table.from_batches([batch([("S1", 0, 5), ("S1", 1, 6)])]), 0)]
    second = [*edge.rows(pa.Table.from_batches([batch([("S1", 1, 7), ("S1", 2, 8), ("S1", None, 9)])]), 1)]
    rows = results(job, cluster.push([*second, *first]))  # the order of the rows is arbitrary
    assert sorted(row["hour"] for row in rows) == [0, 1]
    assert max(row["t"] for row in rows) == 7


def test_a_punctuation_on_a_column_outside_the_stream_is_dropped() -> None:
    declared = "CREATE STREAM readings (hour INT, temp INT); "
    job = frame_job(declared + "SELECT hour, temp FROM readings", merges=True)
    edge = FrameEdge(job, 0, 0, READINGS, "p")
    null_row = (None, None, None)
    frame = batch([("S1", 3, 4), null_row, null_row], [None, "<S1, 3, *>", "<*, [1,3], *>"])
    rows = results(job, Cluster(job).push([*edge.rows(pa.Table.from_batches([frame]), 0)]), "p")
    assert [tuple(row.values()) for row in rows] == [(None, None, "<[1,3], *>"), (3, 4, None)]


def test_failures_and_rejects_raise_errors_in_the_result() -> None:
    job = frame_job("CREATE STREAM readings (hour INT NOT NULL, temp INT); SELECT hour FROM readings")
    edge = FrameEdge(job, 0, 0, READINGS)
    rows = [*edge.rows(pa.Table.from_batches([batch([("S1", None, 4), ("S1", 5, 4)])]), 0)]
    assert results(job, rows) == [{"hour": 5}]
    with pytest.raises(StrictError, match="NOT NULL"):
        list(ResultRows(job, strict=True)(iter([rows_to_batch(rows)])))
    broken = Failure(SourceError("a.xml", "malformed", 3, 40)).to_row(0, job.sink, 0)
    with pytest.raises(SourceError, match=r"a\.xml, line 3, byte 40: malformed"):
        results(job, [broken, broken])


def test_punctuations_have_their_own_rows_only_if_they_are_merged() -> None:
    for merges in (False, True):
        job = frame_job("SELECT hour FROM readings", merges=merges)
        edge = FrameEdge(job, 0, 0, READINGS, "p")
        rows = [*edge.rows(pa.Table.from_batches([batch([("S1", 3, 4)] * 2, [None, "<*, 3, *>"])]), 0)]
        assert ({row.port for row in rows} >= {RESULT, Port.PROMISES}) == merges


def test_a_state_or_an_offset_of_another_job_is_refused(tmp_path: Path, warehouse: Warehouse) -> None:
    from dataclasses import replace

    job, store = frame_job(HOTTEST), Store()
    check_owner(store, job, new=True)
    check_owner(store, job, new=False)
    with pytest.raises(UsageError, match="another query"):
        check_owner(store, replace(job, fingerprint="g"), new=False)
    processor = LightProcessor(replace(job, fingerprint="g").to_text(), [0])
    processor.init(SimpleNamespace(getMapState=lambda *_: store))
    store.contents[("", 0)] = (b"",)
    read = job_of(warehouse.hottest(), tmp_path)
    start = QueryReader(read).initialOffset()
    with pytest.raises(UsageError, match="another query"):
        QueryReader(replace(read, fingerprint="g")).latestOffset(start, None)
    assert "shards" in ANOTHER_JOB


def test_available_now_ends_where_files_end(tmp_path: Path, warehouse: Warehouse) -> None:
    job = job_of(warehouse.hottest(), tmp_path, 2, 700)
    reader = QueryReader(job)
    reader.prepareForTriggerAvailableNow()
    start, count = reader.initialOffset(), 0
    while (end := reader.latestOffset(start, None)) != start:
        start, count = end, count + 1
    assert count == len(micro_batches(job))
    assert not reader._is_growing(start)


def struct(**columns: str) -> spark.StructType:
    schema = spark.StructType()
    for name, type_ in columns.items():
        schema.add(name, type_)
    return schema


@pytest.mark.parametrize("element", [None, "o"])
def test_documents_in_a_column(element: str | None) -> None:
    options = {} if element is None else {"element": element}
    columns = struct(_id="integer", city="string", _corrupt_record="string")
    documents = pickle.loads(pickle.dumps(Documents(columns, TableOptions.read(options, DOCUMENTS))))
    texts = [
        "<?xml version='1.0'?><o id='1'><city>Oslo</city></o>",
        None,
        "<all><o id='2'/><o id='x'/><o id='3'/></all>",
        "<o id='4'>",
        "",
        "<q:o xmlns:q='urn:q' id='5'><q:city>Turin</q:city></q:o>",
    ]
    results = documents.read(pa.array(texts)).to_pylist()
    assert results[1] is None
    if element is None:
        assert [row and row["_id"] for row in results] == [1, None, None, None, None, 5]
        assert results[0] == {"_id": 1, "city": "Oslo", "_corrupt_record": None}
        assert results[5]["city"] == "Turin"
        assert "line 1" in results[3]["_corrupt_record"]
        assert results[4]["_corrupt_record"]
    else:
        ids = [rows and [row["_id"] for row in rows] for rows in results]
        assert ids == [[1], None, [2, 3, None], [None], [None], []]
        assert results[2][2]["_corrupt_record"] == "<o id='x'/>"
    strict = Documents(columns, TableOptions.read({**options, "mode": "FAILFAST"}, DOCUMENTS))
    with pytest.raises(StrictError):
        strict.read(pa.array(texts))

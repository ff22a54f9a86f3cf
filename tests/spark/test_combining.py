"""Rows of many shards, combined: the output equals that of each shard's own rows."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import SparkContext

from tests.operators.harness import FEWER
from tests.sinks.test_create_sink import QUERIES, feed, on_shards, sinks
from tests.spark.simulated import combined
from tests.spark.support import NAMESPACE, locally, on_spark, read_back, split
from tests.spark.test_ranges import job_of
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.spark import combining, runner
from xmlpunct.engine.spark.combining import Combiner, ShardOutput
from xmlpunct.engine.spark.spark_session import state_format
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.stage_messages import RESULT, StageRow
from xmlpunct.engine.sql import plan
from xmlpunct.operators import run
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

X = Schema.parse("x INT")
WIDE = 10_000
"""No shard alone owns a range of this width."""
HOTTEST = """CREATE STREAM readings (sid INT, hour INT NOT NULL, temp INT)
    WITH (source = '{folder}/feed.xml', element = 'reading');
    CREATE SINK hot WITH (output = '{folder}/0.xml') AS
    SELECT sid, hour, MAX(temp) AS t FROM readings GROUP BY sid, hour;
    CREATE SINK all WITH (output = '{folder}/1.xml') AS SELECT MAX(temp) AS t, hour FROM readings GROUP BY hour;
    SELECT DISTINCT sid, hour FROM readings"""


def outputs(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    many: int,
    shards: int,
    query: str | Sequence[str],
    size: int = 400,
) -> list[bytes]:
    """All outputs of one query, or of several, combined if there are more than ``many`` shards."""
    monkeypatch.setattr(combining, "MANY", many)
    query_plan = plan(query.format(folder=folder)) if isinstance(query, str) else sinks(folder, query)
    last = len(query_plan.answers) - 1
    for path in [folder / "log", *(folder / f"{n}.xml" for n in range(last + 1))]:
        path.unlink(missing_ok=True)
    on_shards(query_plan, folder, last, shards, size=size)
    return [(folder / f"{n}.xml").read_bytes() for n in range(last + 1)]


@pytest.mark.parametrize("seed", range(4))
def test_several_sinks_get_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    chance = random.Random(seed)
    (tmp_path / "feed.xml").write_text(feed(seed, hours=3))
    queries = [sql for sql in chance.sample(QUERIES, 5) if "LIMIT" not in sql]
    for shards in (2, 7):
        expected = outputs(tmp_path, monkeypatch, shards, shards, queries)
        assert outputs(tmp_path, monkeypatch, 1, shards, queries) == expected


def write_readings(path: Path) -> None:
    """The feed of `HOTTEST`."""
    chance, lines = random.Random(1), [f'<s xmlns:punct="{NAMESPACE}">']
    for hour in range(7):
        for _ in range(9):
            sid, temp = chance.randrange(30), chance.randrange(90)
            lines.append(f"<reading><sid>{sid}</sid><hour>{hour}</hour><temp>{temp}</temp></reading>")
        lines.append(f"<punct:reading><hour>(,{hour}]</hour></punct:reading>")
    path.write_text("\n".join([*lines, "</s>"]))


def test_the_number_of_shards_makes_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Punctuations that all shards must emit, several of them in one micro-batch."""
    write_readings(tmp_path / "feed.xml")
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 2000)
    for size, cases in ((2000, ((10**9, 2), (1, 2), (1, 5), (1, 40))), (10**6, ((1, 200),))):
        expected = outputs(tmp_path, monkeypatch, 10**9, 1, HOTTEST, size)
        assert all(data.count(b"<punct:") == 7 for data in expected)
        for many, shards in cases:
            assert outputs(tmp_path, monkeypatch, many, shards, HOTTEST, size) == expected, (many, shards)


PATTERNS = st.sampled_from(
    [f"[{low * WIDE},{high * WIDE}]" for low in range(3) for high in range(low + 1, 4)]
)


@FEWER
@given(
    shards=st.integers(2, 20),
    batches=st.lists(st.lists(st.tuples(PATTERNS, st.booleans()), max_size=3), max_size=5),
    data=st.data(),
)
def test_any_order_of_punctuations_gives_the_same_result(
    shards: int, batches: list[list[tuple[str, bool]]], data: st.DataObject
) -> None:
    """All shards emit all punctuations, some shards one micro-batch later than others."""
    reference, combined_gather = (
        Gather(X, shards, [("x",)], lambda ps: [n % shards for (n,) in ps]) for _ in range(2)
    )
    delayed: dict[int, list[Punctuation]] = {}
    expected, actual = list[Punctuation](), list[Punctuation]()
    for batch in [*batches, [], [("*", False)]]:
        on_time: dict[int, list[Punctuation]] = {shard: delayed.pop(shard, []) for shard in range(shards)}
        for text, is_delayed in batch:
            slow_shards = data.draw(st.sets(st.integers(0, shards - 1))) if is_delayed else set[int]()
            for shard in range(shards):
                target = (
                    delayed.setdefault(shard, [])
                    if shard in slow_shards or shard in delayed
                    else on_time[shard]
                )
                target.append(Punctuation.of(X, x=text))
        rows = []
        for shard, punctuations in on_time.items():
            slice_ = Slice(X.frame([]), [Punctuation.of(X, x=shard), *punctuations])
            expected += run(reference, shard, slice_).punctuations
            rows.append(StageRow(0, 1, RESULT, shard, slice_.to_bytes()))
        groups = [rows[at : at + 4] for at in range(0, shards, 4)]
        joined = [
            g[0]._replace(payload=ShardOutput.of(combined_gather, g).to_bytes()) if g[1:] else g[0]
            for g in groups
        ]
        actual += ShardOutput.of(combined_gather, joined).aligned(combined_gather).punctuations
        for x in [0, 1, *(n * WIDE + d for n in range(4) for d in (-1, 0, 1))]:
            assert any(match((x,), p) for p in actual) == any(match((x,), p) for p in expected)
    assert any(p.is_everything for p in actual)


def test_combined_rows_have_a_maximal_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Combined rows keep the order of shards; rows from the reader pass unchanged."""
    (tmp_path / "feed.xml").write_text("<s/>")
    monkeypatch.setattr(combining, "MANY", 8)
    job = job_of(plan(HOTTEST.format(folder=tmp_path)), tmp_path, 16)
    schema = job.fragments.answers[0].schema
    parts = [Slice(schema.frame([(1, shard, n) for n in range(9)])).to_bytes() for shard in range(16)]
    rows = [StageRow(0, job.sink, 0, shard, part) for shard, part in enumerate(parts)]
    uncombined = [
        StageRow(0, job.sink, -1, 1 << 32, b"of the reader"),
        StageRow(0, 0, 0, 3, b"to a fragment"),
    ]
    monkeypatch.setattr(combining, "MOST_BYTES", 3 * len(parts[0]))
    rows_out = combined(job, [*rows, *uncombined])
    assert Combiner(job).group == 4
    assert {row for row in rows_out if row in uncombined} == set(uncombined)
    assert sorted(row.seq for row in rows_out if row not in uncombined) == [0, 3, 4, 7, 8, 11, 12, 15]
    gather = combining.gather_of(job, job.fragments.answers[0].source)
    combined_output = ShardOutput.of(gather, [row for row in rows_out if row not in uncombined])
    assert combined_output.slice_.tuples["hour"].to_list() == [shard for shard in range(16) for _ in range(9)]
    assert PunctuationBatch.of(combined_output.slice_.punctuations) == []


@pytest.mark.spark
def test_on_spark_through_a_restart(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five shards in two groups give the local engine's output, also after a restart.

    The restart has another default state format, as on another cluster: the checkpoint's format stays.
    """
    write_readings(tmp_path / "feed.xml")
    query = plan(HOTTEST.format(folder=tmp_path))
    paths = [tmp_path / f"{n}.xml" for n in range(len(query.answers))]

    def read_outputs() -> list[Any]:
        schemas = (answer.root.schema for answer in query.answers)
        return [split(read_back(path, schema)) for path, schema in zip(paths, schemas, strict=True)]

    locally(query, paths[-1])
    expected = read_outputs()
    for path in paths:
        path.unlink()
    take, batches = MicroBatchSink.take, list[list[StageRow]]()

    def fail_in_second_batch(self: MicroBatchSink, rows: Iterable[StageRow], batch: int) -> None:
        batches.append([*rows])
        if len(batches) == 2:
            raise OSError("died")
        take(self, batches[-1], batch)

    monkeypatch.setattr(MicroBatchSink, "take", fail_in_second_batch)
    monkeypatch.setattr(SparkContext, "defaultParallelism", 5)
    monkeypatch.setattr(combining, "MANY", 4)
    options = {"checkpoint": str(tmp_path / "checkpoint"), "slice_bytes": 1600}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(runner, "state_format", lambda *_: "2")
        with pytest.raises(XmlPunctError, match="died"):
            on_spark(spark, query, paths[-1], **options)
    folder = tmp_path / "checkpoint" / "spark"
    assert state_format(spark, folder) == "2"
    assert state_format(spark, tmp_path) == "1"
    assert not any(path.read_text().endswith("</stream>\n") for path in paths)
    on_spark(spark, query, paths[-1], **options)
    assert read_outputs() == expected
    for rows in batches:
        seqs = [row.seq for row in rows if row.port == RESULT]
        assert len(seqs) <= 2, "a row for each group"
    assert len(batches) > 3

"""What many shards say, combined: the outcome is that of each shard's own rows."""

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
from xmlpunct.engine.spark.job import RESULT, StageRow
from xmlpunct.engine.spark.spark_session import state_format
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.sql import plan
from xmlpunct.operators import run
from xmlpunct.operators.merge.gather import Gather
from xmlpunct.punctuations.punctuation import Punctuation, match
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

X = Schema.parse("x INT")
WIDE = 10_000
"""A range of so many values belongs to no shard alone."""
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
    """All outputs of a query, or of several, combined if there are more than ``many`` shards."""
    monkeypatch.setattr(combining, "MANY", many)
    planned = plan(query.format(folder=folder)) if isinstance(query, str) else sinks(folder, query)
    last = len(planned.answers) - 1
    for path in [folder / "log", *(folder / f"{n}.xml" for n in range(last + 1))]:
        path.unlink(missing_ok=True)
    on_shards(planned, folder, last, shards, size=size)
    return [(folder / f"{n}.xml").read_bytes() for n in range(last + 1)]


@pytest.mark.parametrize("seed", range(4))
def test_several_sinks_get_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    chance = random.Random(seed)
    (tmp_path / "feed.xml").write_text(feed(seed, hours=3))
    queries = [sql for sql in chance.sample(QUERIES, 5) if "LIMIT" not in sql]
    for shards in (2, 7):
        each = outputs(tmp_path, monkeypatch, shards, shards, queries)
        assert outputs(tmp_path, monkeypatch, 1, shards, queries) == each


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
    """Promises that all shards have to make, of which a micro-batch has several."""
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
def test_what_is_said_in_any_order_comes_to_the_same(
    shards: int, batches: list[list[tuple[str, bool]]], data: st.DataObject
) -> None:
    """Each shard says all in the end, but some of it a micro-batch later than others."""
    plain, other = (Gather(X, shards, [("x",)], lambda ps: [n % shards for (n,) in ps]) for _ in range(2))
    late: dict[int, list[Punctuation]] = {}
    plainly, together = list[Punctuation](), list[Punctuation]()
    for batch in [*batches, [], [("*", False)]]:
        said: dict[int, list[Punctuation]] = {shard: late.pop(shard, []) for shard in range(shards)}
        for text, hesitates in batch:
            slow = data.draw(st.sets(st.integers(0, shards - 1))) if hesitates else set[int]()
            for shard in range(shards):
                to = late.setdefault(shard, []) if shard in slow or shard in late else said[shard]
                to.append(Punctuation.of(X, x=text))
        rows = []
        for shard, its in said.items():
            slice_ = Slice(X.frame([]), [Punctuation.of(X, x=shard), *its])
            plainly += run(plain, shard, slice_).punctuations
            rows.append(StageRow(0, 1, RESULT, shard, slice_.to_bytes()))
        groups = [rows[at : at + 4] for at in range(0, shards, 4)]
        joined = [
            g[0]._replace(payload=ShardOutput.of(other, g).to_bytes()) if g[1:] else g[0] for g in groups
        ]
        together += ShardOutput.of(other, joined).met(other).punctuations
        for x in [0, 1, *(n * WIDE + d for n in range(4) for d in (-1, 0, 1))]:
            assert any(match((x,), p) for p in together) == any(match((x,), p) for p in plainly)
    assert any(p.is_everything for p in together)


def test_what_is_combined_is_not_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is that of shards; what comes from the reader passes."""
    (tmp_path / "feed.xml").write_text("<s/>")
    monkeypatch.setattr(combining, "MANY", 8)
    job = job_of(plan(HOTTEST.format(folder=tmp_path)), tmp_path, 16)
    schema = job.fragments.answers[0].schema
    parts = [Slice(schema.frame([(1, shard, n) for n in range(9)])).to_bytes() for shard in range(16)]
    rows = [StageRow(0, job.sink, 0, shard, part) for shard, part in enumerate(parts)]
    others = [StageRow(0, job.sink, -1, 1 << 32, b"of the reader"), StageRow(0, 0, 0, 3, b"to a fragment")]
    monkeypatch.setattr(combining, "MOST_BYTES", 3 * len(parts[0]))
    found = combined(job, [*rows, *others])
    assert Combiner(job).group == 4
    assert {row for row in found if row in others} == set(others)
    assert sorted(row.seq for row in found if row not in others) == [0, 3, 4, 7, 8, 11, 12, 15]
    gather = combining.gather_of(job, job.fragments.answers[0].source)
    whole = ShardOutput.of(gather, [row for row in found if row not in others])
    assert whole.slice_.tuples["hour"].to_list() == [shard for shard in range(16) for _ in range(9)]
    assert PunctuationBatch.of(whole.slice_.punctuations) == []


@pytest.mark.spark
def test_on_spark_through_a_restart(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five shards in two groups give what the local engine does, and go on where the run died.

    It began on a cluster, so to speak, and goes on elsewhere: the format of state is the checkpoint's.
    """
    write_readings(tmp_path / "feed.xml")
    query = plan(HOTTEST.format(folder=tmp_path))
    paths = [tmp_path / f"{n}.xml" for n in range(len(query.answers))]

    def found() -> list[Any]:
        schemas = (answer.root.schema for answer in query.answers)
        return [split(read_back(path, schema)) for path, schema in zip(paths, schemas, strict=True)]

    locally(query, paths[-1])
    expected = found()
    for path in paths:
        path.unlink()
    take, taken = MicroBatchSink.take, list[list[StageRow]]()

    def watched(self: MicroBatchSink, rows: Iterable[StageRow], batch: int) -> None:
        taken.append([*rows])
        if len(taken) == 2:
            raise OSError("died")
        take(self, taken[-1], batch)

    monkeypatch.setattr(MicroBatchSink, "take", watched)
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
    assert found() == expected
    for rows in taken:
        seqs = [row.seq for row in rows if row.port == RESULT]
        assert len(seqs) <= 2, "a row for each group"
    assert len(taken) > 3

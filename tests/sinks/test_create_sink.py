"""Several queries in one file: each has the same results as in a file of its own, and each stream is read once."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkpoints import Keeping, committed
from tests.reliability.faults import Death
from tests.spark.simulated import run_sink, without_spark
from tests.spark.test_ranges import job_of
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.engine.plan import Query
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.local import ledger
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.sink import make_outputs
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.engine.sql import plan

DECLARED = """CREATE STREAM a (x INT, hour INT NOT NULL, t STRING) WITH (source = '{folder}/feed.xml', element = 'a');
CREATE STREAM b (x INT, hour INT NOT NULL) WITH (source = '{folder}/feed.xml', element = 'b');
CREATE VIEW both AS SELECT x, hour FROM a UNION ALL SELECT x, hour FROM b;
CREATE VIEW hours AS SELECT hour, COUNT(*) AS n, MAX(x) AS most FROM a GROUP BY hour;
"""
QUERIES = (
    "SELECT x, hour FROM a WHERE x > 2",
    "SELECT x, hour FROM a",
    "SELECT hour, n FROM hours",
    "SELECT * FROM hours",
    "SELECT most, COUNT(*) AS times FROM hours GROUP BY most",
    "SELECT DISTINCT hour FROM both",
    "SELECT hour, SUM(x) AS s FROM both GROUP BY hour",
    "SELECT a.hour, a.x, b.x AS y FROM a JOIN b ON a.hour = b.hour AND a.x = b.x",
    "SELECT hour FROM a EXCEPT SELECT hour FROM b",
    "SELECT x, hour, t FROM a ORDER BY hour, x, t",
    "SELECT x FROM both LIMIT 5",
    "SELECT hour, COUNT(*) AS n FROM a WHERE t = 'p' GROUP BY hour LIMIT 2",
    "SELECT 60 / x AS y, hour FROM a",
    "SELECT 'p' AS t FROM b WHERE hour NOT IN (SELECT hour FROM a WHERE x = 1)",
)


def feed(seed: int, hours: int = 5, late: bool = False) -> str:
    """A document with both streams; with ``late``, a few tuples violate its punctuations."""
    rng = random.Random(seed)
    lines = [f'<s xmlns:punct="{PUNCT_NAMESPACE}">']
    for hour in range(hours):
        for _ in range(rng.randrange(2, 9)):
            tuple_hour = hour - (late and rng.random() < 0.2)
            stream = rng.choice("ab")
            t = f"<t>{rng.choice('pq')}</t>" * (stream == "a")
            lines.append(f"<{stream}><x>{rng.randrange(5)}</x><hour>{tuple_hour}</hour>{t}</{stream}>")
        lines += [f"<punct:{stream}><hour>{hour}</hour></punct:{stream}>" for stream in "ab"]
    return "\n".join([*lines, "</s>", ""])


def sinks(folder: Path, queries: Sequence[str]) -> Query:
    """The queries in one file: each except the last one in a CREATE SINK."""
    *named, last = queries
    statements = [
        f"CREATE SINK s{i} WITH (output = '{folder}/{i}.xml') AS {sql}" for i, sql in enumerate(named)
    ]
    return plan(";\n".join([DECLARED.format(folder=folder).rstrip().rstrip(";"), *statements, last]))


def single(folder: Path, sql: str) -> Query:
    return plan(DECLARED.format(folder=folder) + sql)


def run(query: Query, folder: Path, name: str, size: int, guarded: bool = False) -> RunStats:
    stats = RunStats("local")
    rejects = str(folder / f"{name}.rejects") if guarded else None
    options = RunOptions(output=str(folder / f"{name}.xml"), slice_bytes=size, rejects=rejects)
    local.run(query, options, stats)
    return stats


@pytest.mark.parametrize("seed", range(12))
def test_each_query_has_the_same_results_as_by_itself(tmp_path: Path, seed: int) -> None:
    rng, guarded = random.Random(seed), bool(seed % 3)
    (tmp_path / "feed.xml").write_text(feed(seed, late=guarded))
    queries, size = rng.sample(QUERIES, rng.randrange(2, 6)), rng.choice([100, 300, 10_000])
    together = run(sinks(tmp_path, queries), tmp_path, str(len(queries) - 1), size, guarded)
    other_rejects, late_rejects, max_bytes = set[str](), set[str](), 0
    for number, sql in enumerate(queries):
        by_itself = run(single(tmp_path, sql), tmp_path, "alone", size, guarded)
        assert (tmp_path / f"{number}.xml").read_bytes() == (tmp_path / "alone.xml").read_bytes(), sql
        name = f"s{number}" if number < len(queries) - 1 else ""
        assert together.outputs[name] == replace(by_itself.outputs[""], complete=True)
        max_bytes = max(max_bytes, *(i.bytes for i in by_itself.inputs.values()))
        if guarded:
            lines = (tmp_path / "alone.rejects").read_text().splitlines()
            late_rejects |= {line for line in lines if '"late: ' in line}
            other_rejects |= {line for line in lines if '"late: ' not in line}
    assert max(i.bytes for i in together.inputs.values()) == max_bytes, "each stream is read once"
    if guarded:
        rejects = (tmp_path / f"{len(queries) - 1}.rejects").read_text().splitlines()
        assert sorted(line for line in rejects if '"late: ' in line) == sorted(late_rejects), (
            "each late tuple is reported once"
        )
        assert bool(other_rejects) == any('"late: ' not in line for line in rejects)
        assert together.rejected == len(rejects)


def on_shards(
    query: Query, folder: Path, last: int, shards: int, guarded: bool = False, size: int = 400
) -> None:
    """Process a query as Spark would, without Spark: the last answer and the rejects go to files named ``last``."""
    options = RunOptions(output=str(folder / f"{last}.xml"), slice_bytes=size)
    query = with_guards(query) if guarded else query
    job, stats = job_of(query, folder, shards, size), RunStats("spark")
    places = [options.to(answer.destination).output for answer in query.answers]
    outlets, commit = [FileOutlet(place, 0) for place in places], Commit.begun(query)
    rejects = FileOutlet(str(folder / f"{last}.rejects"), 0) if guarded else None
    metrics = RunMetrics(query, job.inputs, stats, {})
    pairs = list(zip(make_outputs(query, options), outlets, strict=True))
    outputs = run_sink(query, pairs, rejects, stats, commit)
    sink = MicroBatchSink(job, Keeping(folder / "log"), commit, outputs, metrics)
    without_spark(job, sink)
    assert sink.done.is_set()
    assert sink.failure is None


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_on_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, shards: int) -> None:
    """As on Spark, but without it: one streaming query, whose sink commits all outputs at once."""
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    rng, guarded = random.Random(seed), bool(seed % 2)
    (tmp_path / "feed.xml").write_text(feed(seed, late=guarded))
    queries = [sql for sql in rng.sample(QUERIES, 5) if "LIMIT" not in sql]
    query = sinks(tmp_path, queries)
    run(query, tmp_path, str(len(queries) - 1), 300, guarded)
    expected = [sorted((tmp_path / f"{n}.xml").read_text().splitlines()) for n in range(len(queries))]
    rejects = tmp_path / f"{len(queries) - 1}.rejects"
    expected_rejects = sorted(rejects.read_text().splitlines()) if guarded else []

    on_shards(query, tmp_path, len(queries) - 1, shards, guarded)
    for number, lines in enumerate(expected):
        output = sorted((tmp_path / f"{number}.xml").read_text().splitlines())
        results = [[line for line in part if line.startswith("<result>")] for part in (lines, output)]
        assert results[0] == results[1], queries[number]
    if guarded:
        late = [
            [line for line in part if '"late: ' in line]
            for part in (expected_rejects, sorted(rejects.read_text().splitlines()))
        ]
        assert late[0] == late[1]


class Batches:
    """A sink that stores the rows of each micro-batch."""

    def __init__(self) -> None:
        self.rows: list[list[StageRow]] = []

    def take(self, rows: list[StageRow], batch: int) -> None:
        assert batch == len(self.rows)
        self.rows.append(rows)


class Dying(Keeping):
    """A checkpoint that fails instead of committing one micro-batch."""

    def __init__(self, log: Path, batch: int) -> None:
        super().__init__(log)
        self._batch = batch

    def commit(self, commit: Commit) -> None:
        if commit.batch == self._batch:
            raise OSError(5, "died")
        super().commit(commit)


def test_a_death_between_writing_and_committing(tmp_path: Path) -> None:
    """As on Spark, but without it: after a death, an uncommitted micro-batch is written again to all outputs."""
    (tmp_path / "feed.xml").write_text(feed(5, hours=4))
    query = sinks(tmp_path, [SHORT, QUERIES[0], QUERIES[3], QUERIES[6]])
    job, batches = job_of(query, tmp_path, 2, 200), Batches()
    without_spark(job, batches)  # type: ignore[arg-type]
    options, log = RunOptions(output=str(tmp_path / "3.xml")), tmp_path / "log"
    paths = [Path(str(options.to(answer.destination).output)) for answer in query.answers]

    def live(death: int) -> RunStats:
        """Run from the last commit; die before the commit of micro-batch ``death``."""
        commit, stats = (committed(log) if log.exists() else Commit.begun(query)), RunStats("spark")
        outlets = [
            FileOutlet(str(path), written.length) for path, written in zip(paths, commit.outputs, strict=True)
        ]
        metrics = RunMetrics(query, job.inputs, stats, commit.stats, commit.held)
        pairs = list(zip(make_outputs(query, options), outlets, strict=True))
        outputs = run_sink(query, pairs, None, stats, commit)
        sink = MicroBatchSink(job, Dying(log, death), commit, outputs, metrics)
        try:
            for number, rows in enumerate(batches.rows):
                if number >= commit.batch:
                    sink.take(rows, number)
        except OSError:
            assert death >= 0
        finally:
            for outlet in outlets:
                outlet.close()
        return stats

    stats = live(-1)
    expected = [path.read_bytes() for path in paths]
    assert all(data.endswith(b"</stream>\n") for data in expected)
    assert len(batches.rows) > 3
    for death in range(len(batches.rows)):
        log.unlink()
        for path in paths:
            path.unlink()
        live(death)
        before = [path.read_bytes() for path in paths]
        assert all(final.startswith(partial) for final, partial in zip(expected, before, strict=True))
        assert live(-1).outputs == stats.outputs
        assert [path.read_bytes() for path in paths] == expected


SHORT = "SELECT hour, x FROM a LIMIT 3"


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
def test_every_moment_to_die_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float) -> None:
    """After a death and a restart all outputs are as in an undisturbed run, also one that is complete early."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(ledger, "GROUP_SECONDS", 0.0)
    monkeypatch.setattr(ledger, "SAVE_SECONDS", save)
    monkeypatch.setattr(ledger, "SAVE_SHARE", 1e9)
    (tmp_path / "feed.xml").write_text(feed(3, hours=3))
    queries = [SHORT, QUERIES[3], QUERIES[6], QUERIES[12]]
    outputs = [tmp_path / f"{n}.xml" for n in range(len(queries))]
    options = RunOptions(output=str(outputs[-1]), slice_bytes=250)

    def live(number: int) -> RunStats:
        stats = RunStats("local")
        checkpoint = str(tmp_path / f"checkpoint{number}")
        local.run(sinks(tmp_path, queries), replace(options, checkpoint=checkpoint), stats)
        return stats

    def contents() -> list[bytes]:
        return [path.read_bytes() if path.exists() else b"" for path in outputs]

    stats, expected = live(-1).outputs, contents()
    deaths = [Death(0)]
    for number, death in enumerate(deaths):
        for path in outputs:
            path.unlink(missing_ok=True)
        with death.awaited():
            live(number)
        if not death.came:
            break
        before = contents()
        assert all(final.startswith(partial) for final, partial in zip(expected, before, strict=True)), death
        assert live(number).outputs == stats, death
        assert contents() == expected, death
        deaths.append(death.next())
    assert len(deaths) > 50


def test_a_complete_sink_stops_its_stream(tmp_path: Path) -> None:
    """A stream is no longer read when its only sink is complete."""
    for name in "ab":
        (tmp_path / f"{name}.xml").write_text(feed(1, hours=300))
    sql = f"""CREATE STREAM a (x INT, hour INT NOT NULL) WITH (source = '{tmp_path}/a.xml');
        CREATE STREAM b (x INT, hour INT NOT NULL) WITH (source = '{tmp_path}/b.xml');
        CREATE SINK few WITH (output = '{tmp_path}/few.xml') AS SELECT x, hour FROM a WHERE x > 1 LIMIT 2;
        SELECT COUNT(*) AS n FROM b"""
    stats = run(plan(sql), tmp_path, "out", 1000)
    assert stats.inputs["a"].bytes < (tmp_path / "a.xml").stat().st_size / 2
    assert stats.inputs["b"].bytes == (tmp_path / "b.xml").stat().st_size
    assert stats.outputs["few"].tuples == 2
    statistics = json.loads(json.dumps(stats.as_dict()))
    few = statistics["sinks"]["few"]
    assert (few["tuples"], few["bytes"]) == (2, (tmp_path / "few.xml").stat().st_size)
    assert (few["complete"], statistics["output"]["tuples"]) == (True, 1)

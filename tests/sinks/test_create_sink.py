"""Several queries in one file: each gives what it would give alone, and the streams are read once."""

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
    """A document with both streams, whose punctuations are kept but for a few ``late`` tuples."""
    chance = random.Random(seed)
    lines = [f'<s xmlns:punct="{PUNCT_NAMESPACE}">']
    for hour in range(hours):
        for _ in range(chance.randrange(2, 9)):
            at = hour - (late and chance.random() < 0.2)
            of = chance.choice("ab")
            t = f"<t>{chance.choice('pq')}</t>" * (of == "a")
            lines.append(f"<{of}><x>{chance.randrange(5)}</x><hour>{at}</hour>{t}</{of}>")
        lines += [f"<punct:{of}><hour>{hour}</hour></punct:{of}>" for of in "ab"]
    return "\n".join([*lines, "</s>", ""])


def sinks(folder: Path, queries: Sequence[str]) -> Query:
    """The queries in one file: all but the last one in sinks of their own."""
    *named, last = queries
    statements = [
        f"CREATE SINK s{i} WITH (output = '{folder}/{i}.xml') AS {sql}" for i, sql in enumerate(named)
    ]
    return plan(";\n".join([DECLARED.format(folder=folder).rstrip().rstrip(";"), *statements, last]))


def alone(folder: Path, sql: str) -> Query:
    return plan(DECLARED.format(folder=folder) + sql)


def run(query: Query, folder: Path, name: str, size: int, guarded: bool = False) -> RunStats:
    stats = RunStats("local")
    rejects = str(folder / f"{name}.rejects") if guarded else None
    options = RunOptions(output=str(folder / f"{name}.xml"), slice_bytes=size, rejects=rejects)
    local.run(query, options, stats)
    return stats


@pytest.mark.parametrize("seed", range(12))
def test_each_gives_what_it_gives_alone(tmp_path: Path, seed: int) -> None:
    chance, guarded = random.Random(seed), bool(seed % 3)
    (tmp_path / "feed.xml").write_text(feed(seed, late=guarded))
    queries, size = chance.sample(QUERIES, chance.randrange(2, 6)), chance.choice([100, 300, 10_000])
    together = run(sinks(tmp_path, queries), tmp_path, str(len(queries) - 1), size, guarded)
    told, late, read = set[str](), set[str](), 0
    for number, sql in enumerate(queries):
        by_itself = run(alone(tmp_path, sql), tmp_path, "alone", size, guarded)
        assert (tmp_path / f"{number}.xml").read_bytes() == (tmp_path / "alone.xml").read_bytes(), sql
        name = f"s{number}" if number < len(queries) - 1 else ""
        assert together.outputs[name] == replace(by_itself.outputs[""], complete=True)
        read = max(read, *(i.bytes for i in by_itself.inputs.values()))
        if guarded:
            lines = (tmp_path / "alone.rejects").read_text().splitlines()
            late |= {line for line in lines if '"late: ' in line}
            told |= {line for line in lines if '"late: ' not in line}
    assert max(i.bytes for i in together.inputs.values()) == read, "it is read once"
    if guarded:
        found = (tmp_path / f"{len(queries) - 1}.rejects").read_text().splitlines()
        assert sorted(line for line in found if '"late: ' in line) == sorted(late), (
            "each late tuple is told once"
        )
        assert bool(told) == any('"late: ' not in line for line in found)
        assert together.rejected == len(found)


def on_shards(
    query: Query, folder: Path, last: int, shards: int, guarded: bool = False, size: int = 400
) -> None:
    """What Spark does with a query, without Spark: the last answer goes to ``last``.xml, its rejects beside it."""
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
    """What Spark does with it, without Spark: in one streaming query, whose sink commits all outputs at once."""
    monkeypatch.setattr("xmlpunct.engine.spark.spark_source.LEAST_PIECE", 200)
    chance, guarded = random.Random(seed), bool(seed % 2)
    (tmp_path / "feed.xml").write_text(feed(seed, late=guarded))
    queries = [sql for sql in chance.sample(QUERIES, 5) if "LIMIT" not in sql]
    query = sinks(tmp_path, queries)
    run(query, tmp_path, str(len(queries) - 1), 300, guarded)
    wanted = [sorted((tmp_path / f"{n}.xml").read_text().splitlines()) for n in range(len(queries))]
    rejects = tmp_path / f"{len(queries) - 1}.rejects"
    told = sorted(rejects.read_text().splitlines()) if guarded else []

    on_shards(query, tmp_path, len(queries) - 1, shards, guarded)
    for number, lines in enumerate(wanted):
        found = sorted((tmp_path / f"{number}.xml").read_text().splitlines())
        results = [[line for line in of if line.startswith("<result>")] for of in (lines, found)]
        assert results[0] == results[1], queries[number]
    if guarded:
        late = [
            [line for line in of if '"late: ' in line]
            for of in (told, sorted(rejects.read_text().splitlines()))
        ]
        assert late[0] == late[1]


class Batches:
    """Takes the place of a sink: keeps the rows of each micro-batch."""

    def __init__(self) -> None:
        self.rows: list[list[StageRow]] = []

    def take(self, rows: list[StageRow], batch: int) -> None:
        assert batch == len(self.rows)
        self.rows.append(rows)


class Dying(Keeping):
    """Keeps commits, but for that of one micro-batch, before which the run dies."""

    def __init__(self, log: Path, batch: int) -> None:
        super().__init__(log)
        self._batch = batch

    def commit(self, commit: Commit) -> None:
        if commit.batch == self._batch:
            raise OSError(5, "died")
        super().commit(commit)


def test_a_death_between_writing_and_committing(tmp_path: Path) -> None:
    """What Spark does with it, without Spark: a micro-batch that some outputs have is written once more, to all."""
    (tmp_path / "feed.xml").write_text(feed(5, hours=4))
    query = sinks(tmp_path, [SHORT, QUERIES[0], QUERIES[3], QUERIES[6]])
    job, batches = job_of(query, tmp_path, 2, 200), Batches()
    without_spark(job, batches)  # type: ignore[arg-type]
    options, log = RunOptions(output=str(tmp_path / "3.xml")), tmp_path / "log"
    paths = [Path(str(options.to(answer.destination).output)) for answer in query.answers]

    def live(death: int) -> RunStats:
        """One life, which sees the micro-batches from the one before the last commit on."""
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
        assert all(whole.startswith(part) for whole, part in zip(expected, before, strict=True))
        assert live(-1).outputs == stats.outputs
        assert [path.read_bytes() for path in paths] == expected


SHORT = "SELECT hour, x FROM a LIMIT 3"


@pytest.mark.parametrize("save", [0.0, 1e9], ids=["saving each slice", "by the log alone"])
def test_every_moment_to_die_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: float) -> None:
    """All outputs are as if nothing had happened, also one that is complete before the others."""
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

    def seen() -> list[bytes]:
        return [path.read_bytes() if path.exists() else b"" for path in outputs]

    stats, expected = live(-1).outputs, seen()
    deaths = [Death(0)]
    for number, death in enumerate(deaths):
        for path in outputs:
            path.unlink(missing_ok=True)
        with death.awaited():
            live(number)
        if not death.came:
            break
        before = seen()
        assert all(whole.startswith(part) for whole, part in zip(expected, before, strict=True)), death
        assert live(number).outputs == stats, death
        assert seen() == expected, death
        deaths.append(death.next())
    assert len(deaths) > 50


def test_what_is_complete_stops(tmp_path: Path) -> None:
    """A stream that only a complete sink reads is not read on; what it retained is let go."""
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
    told = json.loads(json.dumps(stats.as_dict()))
    few = told["sinks"]["few"]
    assert (few["tuples"], few["bytes"]) == (2, (tmp_path / "few.xml").stat().st_size)
    assert (few["complete"], told["output"]["tuples"]) == (True, 1)

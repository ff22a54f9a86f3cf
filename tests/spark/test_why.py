"""`why`, and punctuations from the command line, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints import committed
from tests.spark.support import NAMESPACE
from tests.spark.test_ranges import job_of, micro_batches, results
from tests.spark.test_sink import Bench
from tests.spark.test_stages import Cluster
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.inputs.injected_punctuations import InjectionLog, parse_injection
from xmlpunct.engine.spark.job import Job
from xmlpunct.engine.spark.spark_source import QueryReader
from xmlpunct.engine.spark.stage_messages import StageRow
from xmlpunct.engine.sql import plan
from xmlpunct.engine.why.answer import why
from xmlpunct.engine.why.holding import Holding

UNION = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (source = '{0}/a.xml', element = 't');
           CREATE STREAM b (hour INT NOT NULL, x INT) WITH (source = '{0}/b.xml', element = 't');
           SELECT hour, MAX(x) AS top FROM (SELECT hour, x FROM a UNION SELECT hour, x FROM b) GROUP BY hour"""


def feed(path: Path, closed: int, hours: int = 9) -> None:
    """Tuples of ``hours`` hours; punctuations close the first ones; the document is truncated."""
    tuples = [f"<t><hour>{n % hours}</hour><x>{n}</x></t>" for n in range(200)]
    punctuations = [f"<p:t><hour>{hour}</hour></p:t>" for hour in range(closed)]
    path.write_text("".join([f"<s xmlns:p='{NAMESPACE}'>", *tuples, *punctuations]))


@pytest.fixture
def query(tmp_path: Path) -> Query:
    """Stream a has closed the hours up to 6, stream b up to 3."""
    feed(tmp_path / "a.xml", 7)
    feed(tmp_path / "b.xml", 4)
    return plan(UNION.format(tmp_path))


@pytest.mark.parametrize("shards", [1, 3])
def test_the_commit_has_the_waits(tmp_path: Path, query: Query, shards: int) -> None:
    job = job_of(query, tmp_path, shards, 700)
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    batches = micro_batches(job)
    assert len(batches) > 3
    for number, rows in enumerate(batches):
        bench.sink().take(cluster.push(rows), number)  # a new one each time, as after a restart
    holding = Holding({stream.name: stream.sent for stream in query.streams})
    holding.restore(committed(tmp_path / "log").held)

    def waits(hour: str) -> list[str]:
        return [str(wait).partition(", since")[0] for wait in why(query, holding, {"hour": hour})]

    assert waits("3") == []
    assert waits("5") == ["waits for b: <5, *>"]
    assert waits("[2,8]") == ["waits for a: <[7,8], *>", "waits for b: <[4,8], *>"]


def test_a_punctuation_from_the_command_line_is_read_once_and_in_a_replay(
    tmp_path: Path, query: Query
) -> None:
    plain_job = job_of(query, tmp_path)
    job = Job(query, plain_job.fragments, plain_job.inputs, 2, None, NAMESPACE, said=str(tmp_path / "said"))
    reader, log = QueryReader(job), InjectionLog(tmp_path / "said")
    start = reader.latestOffset(reader.initialOffset(), None)
    assert reader.latestOffset(start, None) == start
    number, punctuation = parse_injection(query, "b", "<[4,6], *>")
    log.add((number, [str(p) for p in punctuation.patterns]))
    end = reader.latestOffset(start, None)
    assert end != start
    for query_reader in (reader, QueryReader(Job.from_text(job.to_text()))):
        for begin, count in ((reader.initialOffset(), 3), (start, 1), (end, 0)):
            assert len(query_reader.partitions(begin, end)) == count
    assert QueryReader(job).latestOffset(end, None) == end, "it is read once"


def test_a_punctuation_from_the_command_line_releases_groups(tmp_path: Path, query: Query) -> None:
    for name in ("a.xml", "b.xml"):
        with (tmp_path / name).open("a") as file:
            file.write(f"<!-- {'before the cut ' * 200} -->")
    plain_job = job_of(query, tmp_path, slice_bytes=700)
    job = Job(query, plain_job.fragments, plain_job.inputs, 2, 700, NAMESPACE, said=str(tmp_path / "said"))
    reader, log, cluster = QueryReader(job), InjectionLog(tmp_path / "said"), Cluster(job)
    start, hours, has_added = reader.initialOffset(), set[int](), 0
    while (end := reader.latestOffset(start, None)) != start:
        rows = [StageRow(*row) for task in reader.partitions(start, end) for row in reader.read(task)]
        hours |= {t[0] for t in results(job, [cluster.push(rows)]).tuples.rows()}
        if len(hours) == 4 and not has_added:
            number, p = parse_injection(query, "b", f'<p:t xmlns:p="{NAMESPACE}"><hour>[4,6]</hour></p:t>')
            log.add((number, [str(pattern) for pattern in p.patterns]))
            has_added = 1
        start = end
    assert has_added
    assert hours == {*range(7)}

"""Punctuations that hold from the start, without Spark: emitted once, despite restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.support import Warehouse, hot, locally, read_back, split
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_sink import Bench
from tests.spark.test_stages import Cluster
from xmlpunct.engine.plan import Query
from xmlpunct.engine.sql import plan
from xmlpunct.punctuations.punctuation import match

GROUPED = """
CREATE STREAM a (sid STRING CHECK (sid IN ('S0', 'S1', 'S2', 'S3')), hour INT NOT NULL CHECK (hour BETWEEN 0 AND 23),
                 currtmp INT) WITH (source = '{a}', element = 'tempdata');
CREATE STREAM b (sid STRING, hour INT NOT NULL, currtmp INT) WITH (source = '{b}', element = 'tempdata');
SELECT hour, MAX(currtmp) AS top FROM (SELECT * FROM a WHERE hour <= 5 UNION ALL SELECT * FROM b WHERE hour > 5)
GROUP BY hour HAVING MAX(currtmp) > 10
"""


def run(query: Query, folder: Path, size: int, shards: int) -> list[object]:
    """The output; each micro-batch has a new sink, and the state of shards is serialized after each."""
    job = job_of(query, folder, shards, size)
    bench, cluster = Bench(folder, job), Cluster(job)
    for number, rows in enumerate(micro_batches(job)):
        bench.sink().take(cluster.push(rows), number)
    return read_back(bench.out, query.root.schema)


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("size", [700, 10**6])
def test_shards_emit_opening_punctuations_once(
    tmp_path: Path, warehouse: Warehouse, size: int, shards: int
) -> None:
    sources = {name: str(warehouse.folder / f"sensor{n}.xml") for name, n in (("a", 1), ("b", 2))}
    query = plan(GROUPED.format(**sources))
    tuples, punctuations = split(run(query, tmp_path, size, shards))
    locally(query, tmp_path / "local.xml")
    expected = split(read_back(tmp_path / "local.xml", query.root.schema))
    assert tuples == expected[0]
    assert len(tuples) == 12
    texts = list(map(str, punctuations))
    assert [texts.count(p) for p in ("<(,-1], *>", "<*, (,10]>")] == [1, 1]
    for hour in range(-3, 30):
        for top in (5, 20):
            t = (hour, top)
            assert any(match(t, p) for p in punctuations) == any(match(t, p) for p in expected[1]), t


def test_a_stateless_query_emits_it_in_the_first_micro_batch(tmp_path: Path, warehouse: Warehouse) -> None:
    query = hot(warehouse.folder / "sensor1.xml")
    tuples, punctuations = split(run(query, tmp_path, 700, 2))
    texts = list(map(str, punctuations))
    assert texts.count("<*, *, *, (,60]>") == 1
    assert texts.index("<*, *, *, (,60]>") < texts.index("<*, 1, *, *>"), "in the first micro-batch"
    locally(query, tmp_path / "local.xml")
    assert tuples == split(read_back(tmp_path / "local.xml", query.root.schema))[0]

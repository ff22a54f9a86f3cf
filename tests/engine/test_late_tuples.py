"""Late tuples: both engines report the same rejects for all slice sizes and shard counts."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import Keeping
from tests.spark.simulated import run_sink, without_spark
from tests.spark.support import NAMESPACE, read_back
from tests.spark.test_ranges import job_of
from xmlpunct.base.errors import StrictError, UsageError
from xmlpunct.engine.partition.fragments import cut_plan
from xmlpunct.engine.plan import Guard, Query, Scan
from xmlpunct.engine.rules.guard import with_guards
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.reject_limit import RejectLimit
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import writer_for

STREAMS = """
CREATE STREAM a (k INT NOT NULL, v INT, t STRING) WITH (source = '{folder}/a/', element = 'a');
CREATE STREAM b (k INT NOT NULL, w INT) WITH (source = '{folder}/b.xml', element = 'b');
CREATE STREAM c (k INT, v INT, t STRING) WITH (source = '{folder}/a/', element = 'a') PUNCTUATE ORDER BY k SLACK 2;
CREATE STREAM d (k INT, v INT, WATERMARK FOR k AS k - 9 AHEAD 1 AFTER 2) WITH (source = '{folder}/a/', element = 'a');
"""
QUERIES = {
    "no state": "SELECT k FROM a WHERE v > 3",
    "groups": "SELECT k, MAX(v) AS m, COUNT(*) AS n FROM a GROUP BY k",
    "derived": "SELECT k / 2 AS h, COUNT(*) AS n FROM a GROUP BY k / 2",
    "join": "SELECT a.k, v, w FROM a JOIN b ON a.k = b.k",
    "twice": "SELECT x.v AS p, y.v AS q FROM a x JOIN a y ON x.k = y.k",
    "difference": "SELECT k FROM a EXCEPT SELECT k FROM b",
    "sorted": "SELECT k, v FROM a ORDER BY k",
    "in order": "SELECT k, COUNT(*) AS n FROM c GROUP BY k",
    "jumps": "SELECT k, COUNT(*) AS n FROM d GROUP BY k",
}


def document(rng: random.Random, element: str, columns: Sequence[str], size: int) -> str:
    """Tuples roughly ordered by k, some with wrong values, and punctuations that make some of them late."""
    lines = [f'<s xmlns:p="{NAMESPACE}">']
    for n in range(size):
        k = n // 8 + rng.choice([0, 0, 0, 0, -1, 1, 3])
        values = {"k": k, "v": rng.randrange(9), "w": rng.randrange(9), "t": rng.choice("xyz")}
        if rng.random() < 0.03:
            values["k"] = "many"
        fields = "".join(f"<{c}>{values[c]}</{c}>" for c in columns)
        lines.append(
            f"<{element}>{fields}</{element}>" + " " * rng.randrange(3) + "\n" * (rng.random() < 0.2)
        )
        other = columns[1]
        if rng.random() < 0.2:
            patterns = rng.choice(
                [
                    f"<k>{n // 8 - 1}</k>",
                    f"<k>(,{n // 8 - 2}]</k>",
                    f"<k>{n // 8}</k><{other}>[2,4]</{other}>",
                ]
            )
            lines.append(f"<p:{element}>{patterns}</p:{element}>")
    return "\n".join([*lines, "</s>\n"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, root = random.Random(5), tmp_path_factory.mktemp("feeds")
    (root / "a").mkdir()
    for name in ("1.xml", "2.xml"):
        (root / "a" / name).write_text(document(rng, "a", ["k", "v", "t"], 50))
    (root / "b.xml").write_text(document(rng, "b", ["k", "w"], 40))
    return root


def planned(folder: Path, sql: str) -> Query:
    return plan(STREAMS.format(folder=folder) + sql)


RunOutput = tuple[list[dict[str, Any]], list[Any], dict[str, Any]]


def run_output(folder: Path, query: Query, stats: RunStats, *, ordered: bool = False) -> RunOutput:
    """The sorted rejects, the result tuples, and the counts of each input."""
    rejects = [json.loads(line) for line in (folder / "rejects").read_text().splitlines()]
    assert len({(r["source"], r["byte"]) for r in rejects}) == len(rejects), "a tuple is rejected twice"
    tuples = [t for t in read_back(folder / "out.xml", query.root.schema) if isinstance(t, tuple)]
    counts = {name: (i.tuples, i.punctuations, i.rejected) for name, i in stats.inputs.items()}
    return sorted(rejects, key=str), tuples if ordered else sorted(tuples, key=repr), counts


def by_local(query: Query, out: Path, size: int | None, ordered: bool) -> RunOutput:
    stats = RunStats("local")
    options = RunOptions(output=str(out / "out.xml"), rejects=str(out / "rejects"), slice_bytes=size)
    local.run(query, options, stats)
    return run_output(out, query, stats, ordered=ordered)


def by_spark(
    query: Query,
    out: Path,
    size: int | None,
    shards: int,
    ordered: bool,
    strict: bool = False,
    limit: RejectLimit | None = None,
) -> RunOutput:
    """Simulate Spark: run each stage's shards in turn, each restored from its last state."""
    guarded = with_guards(query)
    job = replace(job_of(guarded, out, shards, size), shares=limit is not None)
    stats, commit = RunStats("spark"), Commit()
    output = Output(query.root.schema, writer_for("xml", query.root.schema), query.root.ordered)
    outlet, rejects = FileOutlet(str(out / "out.xml"), 0), FileOutlet(str(out / "rejects"), 0)
    metrics = RunMetrics(guarded, job.inputs, stats, {})
    outputs = run_sink(guarded, [(output, outlet)], rejects, stats, commit, strict, limit)
    sink = MicroBatchSink(job, Keeping(out / "log"), commit, outputs, metrics)
    without_spark(job, sink)
    assert sink.done.is_set()
    if sink.failure is not None:
        raise sink.failure
    return run_output(out, query, stats, ordered=ordered)


@pytest.mark.parametrize("name", QUERIES)
def test_the_same_rejects_everywhere(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, ordered = planned(folder, QUERIES[name]), name == "sorted"
    runs = [(None, 0), (200, 0), (2500, 1), (1500, 3)]
    outputs = []
    for size, shards in runs:
        out = tmp_path / f"{size}-{shards}"
        out.mkdir()
        monkeypatch.setattr(
            "xmlpunct.engine.spark.spark_source.LEAST_PIECE", 700
        )  # several tasks in a micro-batch
        if shards:
            outputs.append(by_spark(query, out, size, shards, ordered))
        else:
            outputs.append(by_local(query, out, size, ordered))
    rejects, tuples, counts = outputs[0]
    assert sum(r["reason"].startswith("late: <") for r in rejects) > 5
    assert sum("not of type INT" in r["reason"] for r in rejects) > 0
    assert all(r["line"] is not None and r["text"] for r in rejects)
    of_punctuate = {"in order": "out of order", "jumps": "ahead: "}
    for query_name, reason in of_punctuate.items():
        assert any(reason in r["reason"] for r in rejects) == (name == query_name)
    rejected_count = sum(rejected for _, _, rejected in counts.values())
    reasons = ("late: k is", "ahead: ")
    assert rejected_count == sum(not r["reason"].startswith(reasons) for r in rejects)
    assert tuples
    for other in outputs[1:]:
        assert other == (rejects, tuples, counts)


def test_a_reject_has_the_position_of_its_tuple(folder: Path, tmp_path: Path) -> None:
    rejects, _, _ = by_local(planned(folder, QUERIES["join"]), tmp_path, 500, False)
    for reject in rejects:
        data = Path(reject["source"]).read_bytes()
        assert data[reject["byte"] :].startswith((b"<a>", b"<b>"))
        assert data[: reject["byte"]].count(b"\n") + 1 == reject["line"]


@pytest.mark.parametrize("size", [1, 200, 5000])
def test_strict_stops_at_the_first(folder: Path, tmp_path: Path, size: int) -> None:
    """Output of earlier slices is written, but none of the failing slice; a rerun gives the same."""
    query = planned(folder, QUERIES["no state"])
    all_rejects = by_local(query, tmp_path, None, False)[0]
    first = min(all_rejects, key=lambda r: (r["source"], r["byte"]))
    rejects, out = tmp_path / "first", tmp_path / "strict.xml"
    options = RunOptions(output=str(out), rejects=str(rejects), slice_bytes=size, strict=True)
    message = f"{first['source']}, line {first['line']}, byte {first['byte']}: {first['reason']}"
    for checkpoint in (None, "checkpoint", "checkpoint"):
        folder_ = None if checkpoint is None else str(tmp_path / checkpoint)
        before = out.read_bytes() if out.exists() else b""
        with pytest.raises(StrictError) as raised:
            local.run(query, replace(options, checkpoint=folder_), RunStats("local"))
        assert str(raised.value) == f"--strict: {message}"
        assert json.loads(rejects.read_text()) == first
        if checkpoint is None:
            assert (out.read_bytes().count(b"<result>") > 0) == (size < 5000)
            out.unlink()
        elif before:
            assert out.read_bytes() == before
    plain = RunOptions(output=str(out), slice_bytes=size, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(UsageError, match="another --strict, --rejects or --max-rejects"):
        local.run(query, plain, RunStats("local"))


@pytest.mark.parametrize(("size", "shards"), [(200, 1), (250, 3), (10**6, 2)])
def test_strict_stops_at_the_same_reject_on_spark(
    folder: Path, tmp_path: Path, size: int, shards: int
) -> None:
    query = planned(folder, QUERIES["groups"])
    first = min(by_local(query, tmp_path, None, False)[0], key=lambda r: (r["source"], r["byte"]))
    out = tmp_path / "strict"
    out.mkdir()
    with pytest.raises(StrictError, match=f"line {first['line']}, byte {first['byte']}: "):
        by_spark(query, out, size, shards, False, strict=True)
    assert json.loads((out / "rejects").read_text()) == first
    assert (out / "log").exists() == (size < 10**6), "earlier slices are committed"


def test_guards_stand_first_in_the_fragments_that_need_their_streams(folder: Path) -> None:
    """The operators above decide a guard's shard key; a stateless plan gets a fragment for guards."""
    keys = {}
    for name, sql in QUERIES.items():
        query = with_guards(planned(folder, sql))
        parts = cut_plan(query.root, [s.name for s in query.streams])
        assert all(isinstance(edge.root, Scan) for edge in parts.edges)
        guards = [n for f in parts.fragments for n in f.root.walk() if isinstance(n, Guard)]
        assert len(guards) == len(parts.edges)
        numbers = [n.number for f in parts.fragments for n in f.root.walk()]
        assert len({n for n in numbers if n}) == sum(map(bool, numbers))
        keys[name] = [tuple(feed.keys for feed in f.feeds) for f in parts.fragments]
    assert keys["no state"] == [(("k", "v", "t"),)]
    assert keys["groups"] == [(("k",),)]
    assert keys["join"] == [(("k",), ("k",))]
    assert keys["sorted"] == [((),)]
    assert keys["in order"][0] == ((),)
    assert [
        guard.drops_rejects
        for guard in with_guards(planned(folder, QUERIES["twice"])).root.walk()
        if isinstance(guard, Guard)
    ] == [False, True]

"""Statistics of unread elements are the same for all slices, engines and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xmlpunct
from tests.checkpoints import Keeping
from tests.engine.test_live import BEGIN, COUNT, LISTENING, Running, closing, connected, t, until
from tests.spark.simulated import run_sink, without_spark
from tests.spark.test_ranges import job_of
from xmlpunct.base.errors import SourceError, StrictError
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.checkpoint.commit import Commit
from xmlpunct.engine.run.file_outlet import FileOutlet
from xmlpunct.engine.run.local import local_run as local
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.run.stop import Stop
from xmlpunct.engine.spark.run_metrics import RunMetrics
from xmlpunct.engine.spark.spark_sink import MicroBatchSink
from xmlpunct.engine.sql import plan
from xmlpunct.firehose import writer_for

DECLARED = """
CREATE STREAM s (a INT, b INT, c INT, d INT PATH 'd/@d') WITH (source = '{folder}/s.xml', element = 't');
CREATE STREAM q (a INT) WITH (source = '{folder}/s.xml', element = 'q');
CREATE STREAM e (a INT) WITH (source = '{folder}/e', element = 'e');
SELECT a, b, d FROM s UNION ALL SELECT a, a, a FROM q UNION ALL SELECT a, a, a FROM e
"""
PART = "<t><a>{n}</a><o:b>1</o:b><t/></t>\n<t><a>{n}</a><b>2</b><o:b/><z><t/><q/></z></t><u><q><a>3</a></q></u>\n"
EXPECTED = {
    "s": {"namespace": {"b": 60}, "nested": {"t": 120}, "path": {"d/@d": 120}},
    "q": {"nested": {"q": 60}},
    "e": {"element": {"e": 1}},
}


@pytest.fixture
def query(tmp_path: Path) -> Query:
    body = "".join(PART.format(n=n) for n in range(60))
    (tmp_path / "s.xml").write_text(f"<s xmlns:o='urn:o'>{body}</s>")
    (tmp_path / "e").mkdir()
    for name in ("1", "2"):
        (tmp_path / "e" / f"{name}.xml").write_text("<s><x/></s>")
    return plan(DECLARED.format(folder=tmp_path))


def overlooked(stats: RunStats) -> dict[str, Any]:
    inputs = json.loads(json.dumps(stats.as_dict()))["inputs"]
    return {name: counts["overlooked"] for name, counts in inputs.items() if "overlooked" in counts}


def on_spark(query: Query, options: RunOptions, stats: RunStats) -> None:
    """Run the query on a simulated Spark."""
    out = Path(str(options.output)).parent
    job = job_of(query, out, 2, options.slice_bytes)
    output = Output(query.root.schema, writer_for("xml", query.root.schema), query.root.ordered)
    metrics, outlet = RunMetrics(query, job.inputs, stats, {}), FileOutlet(options.output, 0)
    sink = run_sink(query, [(output, outlet)], None, stats, Commit(), options.strict)
    without_spark(job, MicroBatchSink(job, Keeping(out / "log"), Commit(), sink, metrics))


ENGINES = pytest.mark.parametrize("engine", [local.run, on_spark], ids=["local", "spark"])
Engine = Callable[[Query, RunOptions, RunStats], None]


@ENGINES
@pytest.mark.parametrize("size", [100, 3000, None])
def test_unread_elements_are_counted_and_reported_once(
    engine: Engine, size: int | None, query: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stats = RunStats("test")
    engine(query, RunOptions(output=str(tmp_path / "out.xml"), slice_bytes=size), stats)
    assert overlooked(stats) == EXPECTED
    assert stats.finish() == []
    assert sorted(caplog.messages) == [
        "e: no element <e> was found",
        "q: <q> inside a tuple is part of that tuple, not a separate tuple",
        "s: <t> inside a tuple is part of that tuple, not a separate tuple",
        "s: elements in another namespace are not read at PATH b",
        "s: nothing was found in any tuple at PATH d/@d",
    ]


def test_counts_continue_after_a_restart(query: Query, tmp_path: Path) -> None:
    options = RunOptions(
        output=str(tmp_path / "out.xml"), slice_bytes=500, checkpoint=str(tmp_path / "checkpoint")
    )
    for slices in (3, 9):
        stats, stop = RunStats("local"), Stop()

        def show(stats: RunStats, stop: Stop = stop, last: int = slices) -> None:
            if stats.slices >= last:
                stop.ask()

        with pytest.raises(KeyboardInterrupt):
            local.run(query, options, stats, show, stop)
        assert overlooked(stats)["s"].keys() == {"namespace", "nested"}
    stats = RunStats("local")
    local.run(query, options, stats)
    assert overlooked(stats) == EXPECTED
    second_stats = RunStats("local")
    local.run(query, options, second_stats)
    assert overlooked(second_stats) == EXPECTED


STREAM = "CREATE STREAM s (a INT, b INT) WITH (source = '{source}', element = 't'); SELECT a, b FROM s"
GOOD = "<t><a>1</a><b>1</b></t>" * 20


@ENGINES
@pytest.mark.parametrize("size", [100, None])
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("<t><o:a>1</o:a></t>", "s: elements in another namespace are not read at PATH a"),
        ("<t><t/></t>", "s: <t> inside a tuple is part of that tuple, not a separate tuple"),
        (None, "s: no element <t> was found"),
    ],
)
def test_with_strict_unread_elements_are_an_error(
    engine: Engine, size: int | None, bad: str | None, reason: str, tmp_path: Path
) -> None:
    body = "<x/>" * 100 if bad is None else f"{GOOD}{bad}{GOOD}"
    source, out = tmp_path / "s.xml", tmp_path / "out.xml"
    source.write_text(f"<s xmlns:o='urn:o'>{body}</s>")
    query = plan(STREAM.format(source=source))
    options = RunOptions(output=str(out), slice_bytes=size, strict=True)
    with pytest.raises(StrictError) as caught:
        engine(query, options, RunStats("test"))
    assert str(caught.value) == f"--strict: {reason}"
    written = out.read_bytes() if out.exists() else b""
    assert (written.count(b"<result>") > 0) == (size is not None and bad is not None)
    assert b"</stream>" not in written


@ENGINES
def test_a_column_that_is_always_null_is_no_error(engine: Engine, tmp_path: Path) -> None:
    """The column may be optional, so --strict accepts it."""
    source, out = tmp_path / "s.xml", tmp_path / "out.xml"
    source.write_text("<s><t><a>1</a></t><t z='1'/></s>")
    stats = RunStats("test")
    engine(plan(STREAM.format(source=source)), RunOptions(output=str(out), strict=True), stats)
    assert overlooked(stats) == {"s": {"path": {"b": 2}}}


def test_only_columns_that_the_query_reads_are_reported(tmp_path: Path) -> None:
    source = tmp_path / "s.xml"
    source.write_text("<s><t><a>1</a></t></s>")
    stats = RunStats("local")
    query = plan(STREAM.format(source=source).replace("SELECT a, b", "SELECT a"))
    local.run(query, RunOptions(output=str(tmp_path / "out.xml")), stats)
    assert overlooked(stats) == {}


@pytest.mark.parametrize(("body", "is_reported"), [("<s><u>", True), ("<s><t/>", False), ("", False)])
def test_a_source_that_fails(
    body: str, is_reported: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "s.xml"
    source.write_text(body)
    stats = RunStats("local")
    with pytest.raises(SourceError):
        local.run(plan(STREAM.format(source=source)), RunOptions(output=str(tmp_path / "out.xml")), stats)
    assert [str(notice) for notice in stats.finish()] == ["s: no element <t> was found"] * is_reported
    assert overlooked(stats) == ({"s": {"element": {"t": 1}}} if is_reported else {})
    with pytest.raises(SourceError):
        list(xmlpunct.query(STREAM.format(source=source)))
    assert caplog.messages == []


def test_an_output_that_ends_before_its_inputs(tmp_path: Path) -> None:
    """Nothing is reported about an input that was not read to its end."""
    (tmp_path / "s.xml").write_text(f"<s>{GOOD}</s>")
    query = plan(
        STREAM.format(source=tmp_path / "s.xml").replace("b INT", "z INT").replace("a, b", "a, z")
        + " LIMIT 1"
    )
    stats = RunStats("local")
    local.run(query, RunOptions(output=str(tmp_path / "out.xml"), slice_bytes=50), stats)
    assert stats.finish() == []
    assert overlooked(stats) == {}


def test_queries_from_python(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    list(xmlpunct.query(query.sql))
    assert len(caplog.messages) == 5


@pytest.mark.parametrize("second", ["", t(1, 5)])
def test_one_of_several_senders_may_have_no_tuples(second: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "xmlpunct")
    with closing(Running(COUNT.replace("'unset'", LISTENING), {})) as run:
        peers = connected(run, caplog)
        peers[0].sendall((BEGIN + "</s>").encode())
        peers[0].close()
        until(lambda: run.stats.inputs["a"].bytes >= len(BEGIN) + 4)
        assert overlooked(run.stats) == {}
        peers[1].sendall((BEGIN + second + "</s>").encode())
        peers[1].close()
        run.end()
        assert overlooked(run.stats) == ({} if second else {"a": {"element": {"t": 1}}})


def test_old_statistics_are_read() -> None:
    """A checkpoint from before these counts existed can be resumed."""
    stats = RunStats("local")
    stats.resume({"inputs": {"s": {"tuples": 1, "punctuations": 0, "rejected": 0, "bytes": 5}}})
    assert stats.overlooked == {}

"""CREATE SINK on the command line: errors, statistics, and one checkpoint for all outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, Cli
from xmlpunct import SqlError, UsageError, query
from xmlpunct.engine.sql import plan

STREAM = "CREATE STREAM t (x INT, hour INT NOT NULL) WITH (source = 'a.xml');\n"
SINK = "CREATE SINK s WITH (output = 'out.xml') AS SELECT x FROM t"
FEED = "<r xmlns:punct='http://www.cse.ogi.edu/dot/niagara/punct'>{}</r>"


def tuples(*hours: int) -> str:
    return "".join(f"<t><x>{hour % 3}</x><hour>{hour}</hour></t>" for hour in hours)


@pytest.fixture
def folder(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.xml").write_text(FEED.format(tuples(1, 1, 2, 3)))
    return tmp_path


@pytest.mark.parametrize(
    ("sql", "message", "marked"),
    [
        ("CREATE SINK s AS SELECT x FROM t", "CREATE SINK name WITH (output = '...') AS SELECT", "AS"),
        ("CREATE SINK s WITH (format = 'csv') AS SELECT x FROM t", "a sink needs an output", "s"),
        ("CREATE SINK s WITH (output = 'o', colour = 'red') AS SELECT x FROM t", "one of output, format", "colour"),
        ("CREATE SINK s WITH (output = 'o', source = 'i') AS SELECT x FROM t", "an option of CREATE SINK", "source"),
        ("CREATE SINK s WITH (output = o) AS SELECT x FROM t", "output needs a quoted value", "o"),
        ("CREATE SINK s WITH (output = 'o', output = 'p') AS SELECT x FROM t", "output is given twice", "output = 'p'"),
        ("CREATE SINK s WITH (output = 'o', format = 'doc') AS SELECT x FROM t", "format must be one of xml", "format"),
        ("CREATE SINK s WITH (output = 'o', pretty = 'yes') AS SELECT x FROM t", "true or false", "pretty = 'yes'"),
        ("CREATE SINK s WITH (output = 'o', namespaces = 'g') AS SELECT x FROM t", "namespaces 'g': write", "namesp"),
        ("CREATE SINK s WITH (output = 'o')", "continues with AS SELECT", None),
        ("CREATE SINK s WITH (output = 'o') AS SELECT y FROM t", "y", "y"),
        (f"{SINK}; {SINK}", "two sinks have the name s", "s"),
        (f"{SINK}; SELECT x FROM t; SELECT hour FROM t", "CREATE SINK name WITH", "hour FROM t"),
        (f"{SINK}; SELECT x FROM s", "s is a sink, which no query can read", "s"),
    ],
)  # fmt: skip
def test_errors_underline_the_sql(sql: str, message: str, marked: str | None) -> None:
    with pytest.raises(SqlError) as caught:
        plan(STREAM + sql)
    error = caught.value
    assert message in str(error)
    if marked is not None:
        assert error.sql[error.start : error.end].startswith(marked)


@pytest.mark.parametrize(
    ("sql", "options", "message"),
    [
        (SINK, "-o o.xml", "-o applies to a SELECT without a sink"),
        (SINK, "--format xml", "--format applies to a SELECT"),
        (SINK, "--partition-by x", "--partition-by applies to a SELECT"),
        (SINK, "--root r", "--root applies to"),
        (SINK, "--pretty", "--pretty applies to"),
        (f"{SINK}; SELECT x FROM t", "-o out.xml", "out.xml"),
        (f"{SINK}; SELECT x FROM t", "-o ./out.xml", "sink s: out.xml"),
        (f"{SINK}; SELECT x FROM t", "--rejects out.xml", "sink s: out.xml"),
        (f"{SINK}; SELECT x FROM t", "--stats out.xml", "sink s: out.xml"),
        (SINK.replace("out.xml", "a.xml"), "", "sink s: a.xml is read as the source of stream t"),
        (SINK.replace("out.xml", "-") + "; SELECT x FROM t", "", "standard output"),
        (SINK.replace("out.xml", "sqlite:///x.db?table=r"), "--rejects sqlite:///x.db?table=r", "the same place"),
        (SINK.replace("'out.xml'", "'-', format = 'parquet'"), "", "sink s: format parquet needs a file"),
        (SINK.replace("'out.xml'", "'o', partition_by = 'x'"), "", "sink s: partition_by needs a directory"),
        (SINK.replace("'out.xml'", "'o', format = 'csv', root = 'r'"), "", "sink s: root, row, namespaces and pretty"),
        (SINK.replace("'out.xml'", "'o/'"), "", "sink s: o/ is a dataset directory"),
        (f"{SINK}; SELECT x FROM t", "--partial 10s", "run the SELECT without CREATE SINK"),
        (SINK, "--partial 10s", "run the SELECT without CREATE SINK"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(folder: Path, cli: Cli, sql: str, options: str, message: str) -> None:
    before = sorted(folder.iterdir())
    ran = cli("run", "--engine", "local", "-q", STREAM + sql, *options.split())
    assert ran.code == 2
    assert message in ran.err
    assert sorted(folder.iterdir()) == before


def test_the_function_query_refuses_sinks() -> None:
    with pytest.raises(UsageError, match="CREATE SINK s: a query in Python has the results of one SELECT"):
        query(f"{STREAM}{SINK}; SELECT x FROM t", t=b"<r/>")


def test_a_streaming_data_frame_refuses_sinks() -> None:
    pytest.importorskip("pyspark")
    from xmlpunct.engine.spark.dataframe import query_frame

    with pytest.raises(UsageError, match="CREATE SINK s: a query"):
        query_frame(None, f"{STREAM}{SINK}; SELECT x FROM t", {}, None, "PERMISSIVE", None, None, None)


def test_a_query_of_sinks_only(folder: Path, cli: Cli) -> None:
    jsonl_sink = SINK.replace("SINK s", "SINK other").replace(
        "out.xml'", "o.jsonl', format = 'jsonl', pretty = false"
    )
    jsonl_sink = jsonl_sink.replace(", pretty = false", "")
    ran = cli("run", "--engine", "local", "-q", f"{STREAM}{SINK}; {jsonl_sink}", "--stats", "stats.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    stats = json.loads((folder / "stats.json").read_text())
    assert stats["inputs"]["t"]["bytes"] == (folder / "a.xml").stat().st_size
    assert {name: o["tuples"] for name, o in stats["sinks"].items()} == {"s": 4, "other": 4}
    assert stats["output"]["tuples"] == 0
    assert [o["sinks"] for o in stats["operators"]] == [["s", "other"]] * len(stats["operators"])
    assert (folder / "o.jsonl").read_text().count('"x"') == 4


def test_secrets_stay_secret(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME_OF_BASE", "hush-hush")
    sink = SINK.replace("out.xml", "sqlite:///${NAME_OF_BASE}.db?table=t")
    ran = cli(
        "run", "--engine", "local", "-q", STREAM + sink, "--checkpoint", "state", "--stats", "stats.json"
    )
    assert ran.code == 0, ran.err
    assert (folder / "hush-hush.db").exists()
    contents = [p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".db"]
    assert not any(b"hush-hush" in data for data in contents)
    wrong = cli("run", "--engine", "local", "-q", STREAM + sink.replace("SELECT x", "SELECT x AS other"))
    assert wrong.code == 2
    assert "sink s: " in wrong.err
    assert "hush-hush" not in wrong.err


def test_a_checkpoint_covers_all_outputs(folder: Path, cli: Cli) -> None:
    sql = f"{STREAM}{SINK}; SELECT hour, COUNT(*) AS n FROM t GROUP BY hour"
    words = ["run", "--engine", "local", "--checkpoint", "state", "-o", "n.xml", "-q"]
    assert cli(*words, sql).code == 0
    before = {p: p.read_bytes() for p in folder.glob("*.xml")}
    assert cli(*words, sql).code == 0
    assert {p: p.read_bytes() for p in folder.glob("*.xml")} == before
    for changed, difference in (
        (sql.replace("SINK s", "SINK z"), "choice of sinks"),
        (sql.replace("out.xml", "other.xml"), "output"),
        (sql.replace("'out.xml'", "'out.xml', pretty = 'true'"), "form"),
        (sql.replace("SELECT x FROM", "SELECT x + 1 AS x FROM"), "query"),
    ):
        ran = cli(*words, changed)
        assert ran.code == 2
        assert f"belongs to a run with another {difference}" in ran.err
    (folder / "out.xml").write_text("")
    third_run = cli(*words, sql)
    assert third_run.code == 0
    assert "out.xml no longer has" in third_run.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_sink_that_fails_fails_the_run(folder: Path, cli: Cli) -> None:
    """After a restart with a writable sink, all outputs are complete, without duplicates."""
    sql = STREAM + SINK.replace("out.xml", "link.xml") + "; SELECT x FROM t"
    words = ["run", "--engine", "local", "--checkpoint", "state", "-o", "all.xml", "-q", sql]
    (folder / "link.xml").symlink_to("/dev/full")
    ran = cli(*words)
    assert ran.code == 1
    assert "link.xml: No space left" in ran.err
    (folder / "link.xml").unlink()
    assert cli(*words).code == 0
    assert (folder / "link.xml").read_bytes() == (folder / "all.xml").read_bytes()
    assert (folder / "all.xml").read_bytes().count(b"<result>") == 4


def test_why_names_the_sink_that_waits(folder: Path, cli: Cli) -> None:
    (folder / "a.xml").write_text(FEED.format(tuples(1, 2)).removesuffix("</r>"))
    sql = (
        "CREATE SINK most WITH (output = 'm.xml') AS SELECT hour, MAX(x) AS most FROM t GROUP BY hour; "
        "CREATE SINK few WITH (output = 'f.xml') AS SELECT x, hour FROM t LIMIT 1; "
        "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    )
    ran = cli("run", "--engine", "local", "--checkpoint", "state", "-o", "n.xml", "-q", STREAM + sql)
    assert ran.code == 1
    by_hour, of_all = cli("why", "hour=1", "--checkpoint", "state"), cli("why", "--checkpoint", "state")
    assert [line.partition(", since")[0] for line in by_hour.out.splitlines()] == ["most waits for t: <*, 1>"]
    assert [line.split(" ")[0] for line in of_all.out.splitlines()] == ["most", "waits"]
    assert json.loads(cli("why", "hour=1", "--checkpoint", "state", "--json").out)[0]["sink"] == "most"
    wrong_call = cli("why", "n=1", "hour=1", "--checkpoint", "state")
    assert wrong_call.code == 2
    assert (
        "no result has the columns n, hour: sink most has hour, most; sink few has x, hour; the result"
        in wrong_call.err
    )


def test_safe_checks_all_sinks(folder: Path, cli: Cli) -> None:
    live = STREAM.replace("a.xml", "tcp://127.0.0.1:1")
    sink = SINK.replace("SELECT x FROM t", "SELECT x, COUNT(*) AS n FROM t GROUP BY x")
    ran = cli("run", "--engine", "local", "--safe", "-q", f"{live}{sink}; SELECT x FROM t", "-o", "o.xml")
    assert ran.code == 2
    assert "group-by blocks for ever" in ran.err


def test_explain_shows_shared_operators(cli: Cli) -> None:
    ran = cli("explain", SAMPLES / "several.sql")
    assert ran.code == 0
    assert "plan of sink hours\n" in ran.out
    assert ": as above" in ran.out
    assert "-> sink hours" in ran.out
    assert "-> the result" in ran.out

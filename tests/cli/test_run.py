"""``xmlpunct run`` on the local engine: results, rejects, statistics, errors and refused calls."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

import xmlpunct
from tests.cli.harness import SAMPLES, WAREHOUSE, Cli
from xmlpunct.cli.run import undisturbed

EXPECTED = {17: 81, 18: 76, 19: 73, 20: 79, 21: 77, 22: 76}
RESULT = xmlpunct.Schema.parse("maxtemp INT, hour INT")
STREAM = "CREATE STREAM t (hour INT NOT NULL, x INT) WITH (source = 'unset');\n"
NS = "http://www.cse.ogi.edu/dot/niagara/punct"


def feed(path: Path, body: str, end: str = "</s>") -> Path:
    path.write_text(f'<s xmlns:p="{NS}">\n{body}\n{end}')
    return path


def test_the_warehouse(cli: Cli) -> None:
    ran = cli("run", WAREHOUSE, "--engine", "local")
    assert ran.code == 0
    assert ran.err == ""
    elements = list(xmlpunct.parse(ran.out.encode(), RESULT, element="result"))
    assert {hour: top for top, hour in (e for e in elements if isinstance(e, tuple))} == EXPECTED
    closed: list[xmlpunct.Punctuation] = []
    for element in elements:
        if isinstance(element, tuple):
            assert not any(xmlpunct.match(element, p) for p in closed)
        else:
            closed.append(element)


def test_the_output_is_an_input(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    assert cli("run", WAREHOUSE, "--engine", "local", "-o", out).code == 0
    parsed = cli("parse", out, "--element", "result", "--format", "jsonl")
    assert parsed.code == 0
    assert {"maxtemp": 81, "hour": 17} in [json.loads(line) for line in parsed.out.splitlines()]
    sql = f"""CREATE STREAM r (maxtemp INT, hour INT) WITH (source = '{out}', element = 'result');
              SELECT COUNT(*) AS n, MAX(maxtemp) AS top FROM r"""
    second_run = cli("run", "-q", sql, "--engine", "local", "--format", "jsonl")
    assert json.loads(second_run.out) == {"n": 6, "top": 81}


def test_csv_and_source_override(cli: Cli, tmp_path: Path) -> None:
    source = feed(tmp_path / "t.xml", "<t><hour>1</hour><x>5</x></t><t><hour>1</hour></t>")
    ran = cli(
        "run",
        "-q",
        STREAM + "SELECT hour, x FROM t",
        "-s",
        f"t={source}",
        "--engine",
        "local",
        "--format",
        "csv",
    )
    assert ran.code == 0
    assert ran.out == "hour,x\n1,\n1,5\n" or ran.out == "hour,x\n1,5\n1,\n"


def test_rejects_are_written_and_the_run_goes_on(cli: Cli, tmp_path: Path) -> None:
    body = "<t><hour>x</hour></t>\n<t><hour>2</hour><x>0</x></t>\n<t><hour>3</hour><x>4</x></t>"
    source, rejects, stats = feed(tmp_path / "t.xml", body), tmp_path / "rejects", tmp_path / "stats"
    query = STREAM + "SELECT hour, 8 / x AS q FROM t"
    options = ["-s", f"t={source}", "--engine", "local", "--format", "jsonl"]
    ran = cli("run", "-q", query, *options, "--rejects", rejects, "--stats", stats)
    assert ran.code == 0
    assert [json.loads(line) for line in ran.out.splitlines()] == [{"hour": 3, "q": 2}]
    assert "2 tuples rejected" in ran.err
    rows = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(r["line"], r["byte"]) for r in rows] == [(2, source.read_text().index("<t>")), (None, None)]
    assert rows[0]["source"] == str(source)
    assert rows[0]["text"] == "<t><hour>x</hour></t>"
    assert "division by zero" in rows[1]["reason"]
    assert json.loads(stats.read_text())["inputs"]["t"] == {
        "tuples": 2,
        "punctuations": 0,
        "rejected": 1,
        "bytes": source.stat().st_size,
    }
    strict = cli("run", "-q", query, *options, "--strict")
    assert strict.code == 1
    assert "line 2" in strict.err


def test_an_undeclared_constraint_closes_nothing(cli: Cli, tmp_path: Path) -> None:
    body = "<t><hour>1</hour><x>1</x></t><p:t><hour>1</hour><zone>7</zone></p:t><t><hour>1</hour><x>2</x></t>"
    source = feed(tmp_path / "t.xml", body)
    query = STREAM + "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour"
    ran = cli("run", "-q", query, "-s", f"t={source}", "--engine", "local", "--format", "jsonl")
    assert [json.loads(line) for line in ran.out.splitlines()] == [{"hour": 1, "n": 2}]


@pytest.mark.parametrize(
    ("body", "end", "message"),
    [
        ("<t><hour>2</hour></t><t><hour>3</hour></u>", "</s>", "line 3"),
        ("<p:t><hour>[1,2</hour></p:t>", "</s>", "hour"),
        ("<!DOCTYPE s>", "</s>", "line 3"),
        ("<t><hour>2</hour></t>", "", "cut short"),
        ("&undeclared;", "</s>", "undeclared"),
    ],
)
def test_a_broken_source_ends_the_run(cli: Cli, tmp_path: Path, body: str, end: str, message: str) -> None:
    good = "<t><hour>1</hour></t><p:t><hour>1</hour></p:t>\n"
    source, out = feed(tmp_path / "t.xml", good + body, end), tmp_path / "out.jsonl"
    query = STREAM + "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour"
    ran = cli("run", "-q", query, "-s", f"t={source}", "--engine", "local", "--format", "jsonl", "-o", out)
    assert ran.code == 1
    assert str(source) in ran.err
    assert "byte" in ran.err
    assert message in ran.err
    assert "Traceback" not in ran.err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines == [{"hour": 1, "n": 1}, {"$punct": {"hour": "1"}}]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-q", STREAM + "SELECT hour FROM t"], 1, "cannot be opened"),
        (["-q", STREAM + "SELECT hour FROM t", "-s", "u=x.xml"], 2, "u"),
        (["-q", STREAM + "SELECT hours FROM t"], 2, "^^^^^"),
        (["-q", STREAM + "SELECT hour FROM t TABLESAMPLE (10 PERCENT)"], 2, "^"),
        (["-q", STREAM + "SELECT hour, x AS hour FROM t"], 2, "hour"),
        (["-q", STREAM], 2, "query"),
        ([], 2, "query"),
        (["no-such-file.sql"], 2, "no-such-file.sql"),
        (["-q", STREAM + "SELECT hour FROM t", "--slice", "64KB"], 2, "64KB"),
        (["-q", STREAM + "SELECT hour FROM t", "-s", "t"], 2, "NAME=SOURCE"),
        (["-q", STREAM + "SELECT hour FROM t", "--no-such-option"], 2, "--no-such-option"),
        ([WAREHOUSE, "-o", "no/such/dir/out.xml"], 2, "no/such/dir"),
        ([WAREHOUSE, "-o", "dataset/"], 2, "--engine spark"),
    ],
)
def test_wrong_calls_are_refused(cli: Cli, arguments: list[object], code: int, message: str) -> None:
    ran = cli("run", "--engine", "local", *arguments)
    assert ran.code == code
    assert ran.out == ""
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_stats_have_the_agreed_form(cli: Cli, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    assert cli("run", WAREHOUSE, "--engine", "local", "--stats", stats).code == 0
    run_stats = json.loads(stats.read_text())
    assert run_stats["engine"] == "local"
    assert run_stats["seconds"] > 0
    assert run_stats["first_result_seconds"] > 0
    assert run_stats["slices"] >= 4
    assert set(run_stats["inputs"]) == {"sensor1", "sensor2"}
    assert run_stats["output"]["tuples"] == len(EXPECTED)
    union = next(o for o in run_stats["operators"] if o["operator"] == "union")
    assert union["tuples_in"] == 41
    assert union["state_rows"] == union["held_punctuations"] == 0
    assert union["state_rows_peak"] > 0


def test_standard_input(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = feed(tmp_path / "t.xml", "<t><hour>1</hour></t>")
    with source.open("rb") as file:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": file}))
        query = STREAM + "SELECT hour FROM t"
        ran = cli("run", "-q", query, "-s", "t=-", "--engine", "local", "--format", "jsonl")
    assert json.loads(ran.out) == {"hour": 1}


def test_explain(cli: Cli) -> None:
    ran = cli("explain", WAREHOUSE)
    assert ran.code == 0
    assert "union" in ran.out
    assert "group-by" in ran.out
    assert "hour" in ran.out


def test_every_command_has_a_help_text(cli: Cli) -> None:
    help_text = cli("--help").out
    for command in ("run", "parse", "explain", "generate"):
        assert command in help_text
        assert len(cli(command, "--help").out.splitlines()) > 3


def test_an_order_is_kept_and_a_limit_ends_the_run(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"<t><hour>{h}</hour><x>{x}</x></t>\n" for h, x in [(1, 5), (2, 9), (3, 5), (4, 1)])
    source = feed(tmp_path / "t.xml", rows)
    options = ["-s", f"t={source}", "--engine", "local", "--format", "csv"]
    ran = cli("run", "-q", STREAM + "SELECT hour, x FROM t ORDER BY x DESC, hour", *options)
    assert ran.out == "hour,x\n2,9\n1,5\n3,5\n4,1\n"
    endless = feed(tmp_path / "endless.xml", rows, end="")  # cut short, but the run ends before that position
    options[1] = f"t={endless}"
    ran = cli("run", "-q", STREAM + "SELECT hour FROM t LIMIT 2", *options, "--slice", "60")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "hour")
    assert len(ran.out.splitlines()) == 3


def test_late_tuples_are_rejects_of_their_source(cli: Cli, tmp_path: Path) -> None:
    punctuation = '<p:t xmlns:p="http://www.cse.ogi.edu/dot/niagara/punct"><k>[1,2]</k></p:t>'
    body = f"<t><k>1</k><v>4</v></t>\n{punctuation}\n<t><k>2</k><v>9</v></t>\n<t><k>3</k><v>5</v></t>"
    source, rejects, stats = feed(tmp_path / "t.xml", body), tmp_path / "rejects", tmp_path / "stats"
    query = f"CREATE STREAM s (k INT, v INT) WITH (source='{source}', element='t'); SELECT SUM(v) AS n FROM s"
    options = ["--engine", "local", "--format", "csv"]
    assert cli("run", "-q", query, *options).out.split() == ["n", "18"], (
        "late tuples are rejected only with --rejects or --strict"
    )
    ran = cli("run", "-q", query, *options, "--rejects", rejects, "--stats", stats)
    assert ran.out.split() == ["n", "9"]
    (late,) = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert late == {
        "source": str(source),
        "line": source.read_text()[: source.read_text().index("<t><k>2")].count("\n") + 1,
        "byte": source.read_text().index("<t><k>2"),
        "reason": "late: <2, *> was closed before it",
        "text": '{"k": 2, "v": 9}',
    }
    run_stats = json.loads(stats.read_text())
    assert (run_stats["inputs"]["s"]["tuples"], run_stats["inputs"]["s"]["rejected"]) == (2, 1)
    assert run_stats["forgotten"] == 0
    strict = cli("run", "-q", query, *options, "--strict")
    assert (strict.code, strict.out.split()) == (1, ["n"])
    assert "late: <2, *> was closed before it" in strict.err


def test_punctuations_that_the_late_filter_drops_are_counted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmlpunct.operators.time.late_filter.MOST", 10)
    closed = "".join(f"<p:t><k>{k}</k></p:t>" for k in range(0, 50, 2))
    source, stats = feed(tmp_path / "t.xml", closed + "<t><k>0</k></t><t><k>48</k></t>"), tmp_path / "stats"
    query = f"CREATE STREAM s (k INT) WITH (source='{source}', element='t'); SELECT COUNT(*) AS n FROM s"
    options = ["--engine", "local", "--format", "csv", "--slice", "100"]
    ran = cli("run", "-q", query, *options, "--rejects", tmp_path / "rejects", "--stats", stats)
    assert ran.out.split() == ["n", "1"]
    assert "15 punctuations were forgotten" in ran.err
    assert json.loads(stats.read_text())["forgotten"] == 15


def test_objects_are_unfrozen_for_the_collector_after_a_run() -> None:
    with undisturbed():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_rejects_are_reported_by_a_run_that_fails(cli: Cli, tmp_path: Path) -> None:
    """Its results lack the rejected tuples, as after a successful run."""
    source = feed(tmp_path / "t.xml", "<t><hour>1</hour></t><t><hour>one</hour></t>", end="")
    ran = cli("run", "-q", STREAM + "SELECT hour FROM t", "-s", f"t={source}", "--engine", "local")
    assert ran.code == 1
    assert "1 tuple rejected" in ran.err
    assert "cut short" in ran.err


def test_safe_refuses_a_query_that_blocks_or_grows(cli: Cli) -> None:
    """The query is refused before any source is opened: no server listens there."""
    ran = cli("run", "--safe", SAMPLES / "live-auction.sql", "--engine", "local")
    assert ran.code == 2
    assert (
        "#3 join grows for ever\n  #4 group-by blocks for ever\n  bids: PUNCTUATE ORDER BY itemid" in ran.err
    )


def test_safe_runs_a_safe_query(cli: Cli) -> None:
    ran = cli("run", "--safe", "-q", COUNT, "--engine", "local", "--format", "jsonl")
    assert (ran.code, ran.out) == (0, '{"n": 36}\n')


COUNT = f"""CREATE STREAM s (hour INT) WITH (source = '{SAMPLES / "sensor1.xml"}', element = 'tempdata');
            SELECT COUNT(*) AS n FROM s"""

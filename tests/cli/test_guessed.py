"""Inferred columns: only those that the query reads are judged, and the first tuple that does not fit is an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from xmlpunct import query
from xmlpunct.base.errors import SourceError

PLAIN, VALUE, TWICE = (
    '<r><a>1</a><t k="x"/></r>\n',
    '<r><a>n/a</a><t k="x"/></r>\n',
    '<r><a>1</a><t/><t k="y"/></r>\n',
)


@pytest.fixture(autouse=True)
def feed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.xml").write_text("<s>\n" + PLAIN * 50_000 + VALUE * 1000 + TWICE * 1000 + "<r/></s>")


def run(cli: Cli, sql: str, *options: str) -> tuple[int, list[str], str]:
    ran = cli("run", "--engine", "local", "--format", "csv", "-q", sql, *options)
    return ran.code, ran.out.splitlines()[1:], ran.err


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM 'b.xml'",
        "SELECT COUNT(*) FROM (SELECT * FROM 'b.xml')",
        "CREATE STREAM r WITH (source = 'b.xml'); SELECT COUNT(*) FROM r",
    ],
)
def test_columns_that_the_query_does_not_read_are_not_judged(cli: Cli, sql: str) -> None:
    assert run(cli, sql) == (0, ["52001"], "")


@pytest.mark.parametrize(
    ("sql", "reason", "pasted", "rows"),
    [
        ("SELECT SUM(a) FROM 'b.xml'", "line 50002, byte 1300004: attribute a: 'n/a' is not of type INT",
         "SELECT COUNT(a) FROM r", ["52000"]),
        ("SELECT k FROM read_xml('b.xml') WHERE k = 'y'", "line 51002, byte 1328004: attribute k: given more than once",
         "SELECT COUNT(*) FROM r, UNNEST(t) AS x (k)", ["53000"]),
    ],
)  # fmt: skip
def test_the_first_misfit_is_an_error_with_the_declaration_to_write(
    cli: Cli, sql: str, reason: str, pasted: str, rows: list[str]
) -> None:
    if "SUM" not in sql:  # the first misfit in a column that is read
        Path("b.xml").write_text(Path("b.xml").read_text().replace("<t/>", '<t k="x"/>'))
        reason = reason.replace("1328004", str(Path("b.xml").read_text().index('<r><a>1</a><t k="x"/><t')))
    code, _, error = run(cli, sql)
    assert (code, f"b.xml, {reason}; " in error) == (1, True)
    (statement,) = re.findall(r"CREATE STREAM .*?;", error)
    assert run(cli, f"{statement} {pasted}") == (0, rows, "")
    (table,) = re.findall(r"read_xml\(.*\)", error)
    assert run(cli, f"SELECT COUNT(*) FROM {table}") == (0, ["52001"], "")


def test_a_column_that_later_tuples_lack_is_an_error(cli: Cli) -> None:
    Path("b.xml").write_text("<s>" + PLAIN * 50_000 + "<r/></s>")
    code, _, error = run(cli, "SELECT MAX(a) FROM 'b.xml'")
    assert (code, "attribute a: missing, but NOT NULL; " in error) == (1, True)
    assert "CREATE STREAM r (a INT) WITH" in error


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT SUM(a) FROM 'n.xml'", "SUM needs numbers, not STRING"),
        ("SELECT k, a + 1 FROM 'n.xml'", "+ needs numbers, not STRING"),
        ("CREATE STREAM r WITH (source = 'n.xml'); SELECT k FROM r WHERE a > 5",
         "STRING > INT makes no sense: CAST one of them"),
    ],
)  # fmt: skip
def test_a_refused_text_column_has_the_value_and_the_line_that_made_it_text(
    cli: Cli, sql: str, reason: str
) -> None:
    Path("n.xml").write_text("<s>\n" + PLAIN * 2 + VALUE * 2 + PLAIN + "</s>")
    code, _, error = run(cli, sql)
    assert (code, f"{reason}; a is STRING because of 'n/a' in line 4 (line 1" in error) == (2, True)
    _, _, error = run(cli, "SELECT SUM(k) FROM 'n.xml'")  # all its values are texts
    assert "xmlpunct: SUM needs numbers, not STRING (line 1" in error


@pytest.mark.parametrize("sample", ["all", "8MiB"])
def test_a_larger_sample_shows_the_type(cli: Cli, sample: str) -> None:
    sql = f"SELECT a, COUNT(*) FROM read_xml('b.xml', element => 'r', sample => '{sample}') GROUP BY a"
    code, rows, error = run(cli, sql)
    assert (code, sorted(rows), error) == (0, [",1", "1,51000", "n/a,1000"], "")
    sql = f"CREATE STREAM r WITH (source = 'b.xml', sample = '{sample}'); SELECT COUNT(a) FROM r"
    assert run(cli, sql) == (0, ["52000"], "")


def test_a_sample_must_be_possible(cli: Cli) -> None:
    for sample, reason in (("65MiB", "may have 64MiB at most"), ("some", "is no size")):
        code, _, error = run(cli, f"SELECT a FROM read_xml('b.xml', sample => '{sample}')")
        assert (code, reason in error) == (2, True)
    code, _, error = run(cli, "SELECT a FROM read_xml('-', sample => 'all')")
    assert (code, "can be read only once" in error) == (2, True)
    code, _, error = run(
        cli, "CREATE STREAM r (a INT) WITH (source = 'b.xml', sample = 'all'); SELECT a FROM r"
    )
    assert (code, "sample is for columns that are inferred" in error) == (2, True)


@pytest.mark.parametrize("options", [["--rejects", "out"], ["--max-rejects", "3000"]])
def test_with_an_option_for_rejects_misfits_are_rejects(cli: Cli, options: list[str]) -> None:
    code, rows, error = run(cli, "SELECT SUM(a) FROM 'b.xml'", *options)
    assert (code, rows) == (0, ["51000"])
    lines = error.splitlines()
    assert [re.findall(r"rejected: b\.xml, line ([0-9]+)", line) for line in lines[:3]] == [
        ["50002"],
        ["50003"],
        ["50004"],
    ]
    assert lines[3:] == [
        f"xmlpunct: 1,001 tuples rejected; {'see out' if 'out' in options else lines[3][33:]}"
    ]


def test_a_run_that_loses_all_tuples_fails(cli: Cli) -> None:
    Path("c.xml").write_text("<s>" + VALUE * 5 + "</s>")
    sql = "CREATE STREAM r (a INT) WITH (source = 'c.xml'); SELECT a FROM r"
    for _ in range(2):  # the second run continues from the checkpoint of the first
        code, _, error = run(cli, sql, "--checkpoint", "state", "-o", "out.csv")
        assert (code, error.splitlines()[-1]) == (1, "xmlpunct: all 5 tuples of r were rejected")
    Path("c.xml").write_text("<s>" + VALUE * 5 + PLAIN + "</s>")
    assert run(cli, sql)[:2] == (0, ["1"])


def test_the_python_api_raises_for_a_misfit() -> None:
    with pytest.raises(SourceError, match=r"'n/a' is not of type INT; .* CREATE STREAM r"):
        list(query("SELECT a FROM 'b.xml'"))


@pytest.mark.spark
def test_on_spark(cli: Cli) -> None:
    ran = cli("run", "--format", "csv", "-q", "SELECT COUNT(*) FROM 'b.xml'")
    assert (ran.code, ran.out.splitlines()[1:]) == (0, ["52001"])
    ran = cli("run", "-q", "SELECT SUM(a) FROM 'b.xml'")
    assert (ran.code, "line 50002, byte 1300004: attribute a: 'n/a' is not of type INT; " in ran.err) == (
        1,
        True,
    )

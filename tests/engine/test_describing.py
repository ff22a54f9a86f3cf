"""DESCRIBE, SUMMARIZE and SHOW STREAMS."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from tests.cli.harness import Cli
from xmlpunct import query
from xmlpunct.base.errors import SqlError

ROWS = [(2, "b", 0.5, None), (1, None, 2.25, True), (2, "a", None, False), (7, "ä", -1.5, True)]
"""Values of the columns i, s, x and p."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    elements = (
        "".join(f"<{n}>{str(v).lower()}</{n}>" for n, v in zip("isxp", row, strict=True) if v is not None)
        for row in ROWS
    )
    Path("t.xml").write_text("<r>" + "".join(f"<t>{element}</t>" for element in elements) + "</r>")
    return "t.xml"


def rows(sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in query(sql).to_polars().rows()]


def test_describe_lists_the_columns(source: str) -> None:
    columns = [("i", "INT", "NO"), ("s", "STRING", "YES"), ("x", "DOUBLE", "YES"), ("p", "BOOLEAN", "YES")]
    for described in ("'t.xml'", "read_xml('t.xml', element => 't')", "(SELECT * FROM 't.xml')"):
        assert rows(f"DESCRIBE {described}") == rows(f"describe {described}") == columns
    assert rows("DESCRIBE SELECT s, COUNT(*) AS n FROM 't.xml' GROUP BY s") == [
        ("s", "STRING", "YES"),
        ("n", "INT", "NO"),
    ]
    declared = "CREATE STREAM d (k INT NOT NULL, v XML PATH 'v') WITH (source = 't.xml', element = 't'); "
    assert rows(declared + "DESCRIBE d") == [("k", "INT", "NO"), ("v", "XML", "YES")]
    assert rows(declared + "CREATE VIEW w AS SELECT k AS n FROM d; DESCRIBE w") == [("n", "INT", "NO")]


def test_summarize_agrees_with_duckdb(source: str) -> None:
    """Except for the exact count of distinct values, which has a name of its own."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t (i INT, s VARCHAR, x DOUBLE, p BOOLEAN)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row) for row in ROWS])
        summary = database.execute(
            "SELECT column_name, min, max, CAST(avg AS DOUBLE), CAST(std AS DOUBLE), count, "
            "CAST(null_percentage AS DOUBLE) FROM (SUMMARIZE t)"
        ).fetchall()
    ours = query("SUMMARIZE 't.xml'").to_polars()
    assert ours.columns == [
        *("column_name", "column_type", "min", "max", "distinct_count", "avg", "std", "q25", "q50", "q75"),
        *("count", "null_percentage"),
    ]
    assert ours.drop("column_type", "distinct_count", "q25", "q50", "q75").rows() == summary
    assert ours["column_type"].to_list() == ["INT", "STRING", "DOUBLE", "BOOLEAN"]
    assert ours["distinct_count"].to_list() == [3, 3, 3, 2]


def test_quantiles_of_a_summary_are_exact(source: str) -> None:
    with duckdb.connect() as database:
        for name, values in (("i", [1, 2, 2, 7]), ("x", [-1.5, 0.5, 2.25])):
            database.execute("CREATE OR REPLACE TABLE t (v DOUBLE)")
            database.executemany("INSERT INTO t VALUES (?)", [[v] for v in values])
            expected = database.execute(
                "SELECT UNNEST(QUANTILE_DISC(v, [0.25, 0.5, 0.75])) FROM t"
            ).fetchall()
            ((*_, q25, q50, q75, _, _),) = rows(f"SUMMARIZE SELECT {name} FROM 't.xml'")
            assert [(float(q),) for q in (q25, q50, q75)] == expected
    days = "SUMMARIZE SELECT DATE '2024-01-01' + i AS day FROM 't.xml'"
    assert rows(days)[0][6:10] == (None, "2024-01-02", "2024-01-03", "2024-01-03")
    assert rows("SUMMARIZE SELECT s FROM 't.xml'")[0][6:10] == (None, None, None, None)


def test_summarize_a_query_without_rows_and_an_array(source: str) -> None:
    assert rows("SUMMARIZE SELECT i FROM 't.xml' WHERE i > 9") == [
        ("i", "INT", None, None, 0, *[None] * 5, 0, None)
    ]
    Path("a.xml").write_text("<r><t><b>1</b><b>2</b></t><t><b>3</b><b>4</b></t></r>")
    ((name, type_, *summary),) = rows("SUMMARIZE read_xml('a.xml', element => 't')")
    assert (name, str(type_)[:6]) == ("b", "ARRAY(")
    assert summary == [*[None] * 8, 2, 0.0]


def test_show_streams(source: str) -> None:
    declared = (
        "CREATE STREAM s (i INT) WITH (source = 't.xml', element = 't'); "
        "CREATE STREAM q (i INT) WITH (source = 'kafka://user:secret@host/topic', element = 'u'); "
    )
    assert rows(f"{declared}SHOW STREAMS") == [("s", "t", "t.xml"), ("q", "u", "kafka://host/topic")]
    assert rows("show streams") == []


def test_statements_on_the_command_line(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    ran = Cli(capfd)("DESCRIBE 't.xml'", "--engine", "local", "--format", "csv")
    assert ran.out.splitlines()[:2] == ["column_name,column_type,null", "i,INT,NO"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SHOW TABLES", "write SHOW STREAMS"),
        ("SUMMARIZE", "something is missing here"),
        ("DESCRIBE t", "no stream t"),
        ("SUMMARIZE SELECT i, i FROM 't.xml'", "two columns have the name i: give one an alias"),
        ("DESCRIBE 't.xml'; SELECT i FROM 't.xml'", "a second query begins here"),
        ("SELECT * FROM (DESCRIBE 't.xml')", "this is not a query"),
        (
            "CREATE RELATION r (k INT, v INT) WITH (source = 't.xml', element = 't'); SUMMARIZE r",
            "not a relation",
        ),
        ("DESCRBE 't.xml'", "did you mean DESCRIBE?"),
    ],
)
def test_refused_with_a_reason(source: str, sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message.replace("?", r"\?")):
        query(sql)

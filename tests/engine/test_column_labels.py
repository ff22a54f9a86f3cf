"""Unnamed columns have DuckDB's names, except in XML; DuckDB is the judge."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.cli.harness import Cli
from xmlpunct import query

GROUPED = [
    *("COUNT(*)", "count( i )", "MAX(i)", "min(i) + max(i)", "SUM(i + 1)", "avg(x)", "COUNT(DISTINCT s)"),
    *("string_agg(s, ',')", "arg_max(s, i)", "median(i)", "COUNT(i) FILTER (WHERE i > 1)"),
]
SINGLE = [
    *(
        "i",
        "t.i",
        "i+1",
        "(i + 1)*2",
        "i*2+3",
        "i - 1 - 2",
        "t.i + 1",
        "i % 2",
        "i // 2",
        "-i",
        "-(i+1)",
        "-1",
    ),
    *(
        "1",
        "1.50",
        "'it''s'",
        "true",
        "i <> 1",
        "i = 1",
        "i >= 2",
        "s || 'x'",
        "NOT (i > 1)",
        "i IS DISTINCT FROM 2",
    ),
    *("i = 1 AND s = 'a' AND i = 2", "i = 1 OR s = 'a'", "i BETWEEN 1 AND 2", "i IN (1,2)", "s IS NULL"),
    *(
        "s IS NOT NULL",
        "s LIKE 'a%'",
        "s ILIKE 'a%'",
        "coalesce(s,'x')",
        "UPPER(s)",
        "lower(upper(s))",
        "abs(i)",
    ),
    *(
        "round(x, 2)",
        "substring(s,1,2)",
        "replace(s, 'a', 'b')",
        "trim(s)",
        "left(s, 1)",
        "nullif(i, 1)",
        "length(s)",
    ),
    *(
        "CAST(i AS VARCHAR)",
        "i::varchar",
        "greatest(i, 2)",
        "year(d)",
        "strftime(d, '%Y')",
        "starts_with(s, 'a')",
    ),
    *("CASE WHEN i > 1 THEN 2 WHEN i > 2 THEN 3 END", "CASE i WHEN 1 THEN 2 ELSE i + 1 END"),
]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("t.xml").write_text("<r><t><i>1</i><s>a</s><x>1.5</x><d>2026-01-01</d></t></r>")
    columns = "i INT, s STRING, x DOUBLE, d DATE"
    return f"CREATE STREAM t ({columns}) WITH (source = 't.xml', element = 't'); "


def duckdb_names(sql: str) -> list[str]:
    """The names of the columns in a data frame, where each name is there once."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE t (i INT, s VARCHAR, x DOUBLE, d DATE)")
        return [*database.sql(sql).df().columns]


@pytest.mark.parametrize("items", [[item] for item in (*GROUPED, *SINGLE)] + [GROUPED, SINGLE], ids=", ".join)
def test_names_are_those_of_duckdb(source: str, items: list[str]) -> None:
    select = f"SELECT {', '.join(items)} FROM t"
    assert query(source + select).to_polars().columns == duckdb_names(select)


def test_a_repeated_name_is_numbered(source: str) -> None:
    for select in (
        "SELECT i, i, i, s AS i_1 FROM t",
        "SELECT *, i, s AS x FROM t",
        "SELECT COUNT(*), COUNT(*) FROM t",
        "SELECT a.i, b.i, a.s FROM t a JOIN t b ON a.i = b.i",
    ):
        assert query(source + select).to_polars().columns == duckdb_names(select)


SELECT = "SELECT i + 1, COUNT(*), i AS n FROM t GROUP BY i ORDER BY i + 1"
NAMES = ["(i + 1)", "count_star()", "n"]


def test_every_format_but_xml_has_the_names(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    cli = Cli(capfd)

    def written(*options: str) -> str:
        ran = cli("run", "--engine", "local", "-q", source + SELECT, *options)
        assert ran.code == 0, ran.err
        return ran.out

    assert written("--format", "csv").splitlines() == [",".join(NAMES), "2,1,1"]
    assert written("--format", "table").splitlines()[0].split("  ") == NAMES
    assert json.loads(written("--format", "jsonl").splitlines()[0]) == dict(
        zip(NAMES, (2, 1, 1), strict=True)
    )
    written("-o", "out.parquet")
    assert pl.read_parquet("out.parquet").columns == NAMES
    written("-o", "duckdb:out.db")
    with duckdb.connect("out.db") as database:
        assert database.sql("SELECT * FROM result").columns == NAMES
    assert "<result><_1>2</_1><_2>1</_2><n>1</n></result>" in written("--format", "xml")
    assert "<_1>2</_1>" in written("-o", "-")


def test_each_sink_has_the_names_of_its_format(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    sinks = "".join(
        f"CREATE SINK s{number} WITH (output = '{name}') AS {SELECT.partition(' ORDER')[0]};"
        for number, name in enumerate(("out.xml", "out.csv"))
    )
    ran = Cli(capfd)("run", "--engine", "local", "-q", source + sinks)
    assert ran.code == 0, ran.err
    assert "<_1>2</_1><_2>1</_2>" in Path("out.xml").read_text()
    assert Path("out.csv").read_text().splitlines()[0] == ",".join(NAMES)


def test_inner_queries_number_their_columns(source: str) -> None:
    inner = "SELECT _1, _1 * 2 FROM (SELECT i + 1 FROM t) AS q"
    assert query(source + inner).to_polars().rows() == [(2, 4)]
    assert query(source + inner).to_polars().columns == ["_1", "(_1 * 2)"]


def test_why_names_the_columns_as_the_run_does(source: str, capfd: pytest.CaptureFixture[str]) -> None:
    cli = Cli(capfd)
    Path("t.xml").write_text("<r><t><i>1</i></t><t><i>2")
    select = source + "SELECT i + 1, COUNT(*) FROM t GROUP BY i"
    ran = cli("run", "--engine", "local", "-q", select, "-o", "o.jsonl", "--checkpoint", "c")
    assert ran.code == 1
    waits = cli("why", "(i + 1)=2", "--checkpoint", "c")
    assert (waits.code, "waits for t" in waits.out) == (0, True), waits.err
    assert cli("why", "_1=2", "--checkpoint", "c").code == 2

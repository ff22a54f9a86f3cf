"""``-o NAME``: the name decides the format, or the database and its table."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.cli.harness import Cli

QUERY = "CREATE STREAM t (a INT, b STRING) WITH (source = 'a.xml'); SELECT a, b FROM t"
ROWS = [(1, "x"), (2, "y, z"), (3, None)]


@pytest.fixture
def folder(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    elements = "".join(f"<t><a>{a}</a>{'' if b is None else f'<b>{b}</b>'}</t>" for a, b in ROWS)
    Path("a.xml").write_text(f"<r>{elements}</r>")
    Path("first-names.sql").write_text(QUERY)
    return tmp_path


def read(name: str) -> list[tuple[object, ...]]:
    """The rows of a file, by its ending."""
    if name.endswith(".parquet"):
        return sorted(pl.read_parquet(name).rows())
    if name.endswith(".arrow"):
        return sorted(pl.read_ipc(name).rows())
    if name.endswith(".csv"):
        return sorted(pl.read_csv(name).rows())
    assert name.endswith(".jsonl")
    return sorted((row["a"], row["b"]) for row in map(json.loads, Path(name).read_text().splitlines()))


def test_the_ending_of_a_file_is_its_format(folder: Path, cli: Cli) -> None:
    for name in ("out.csv", "out.parquet", "out.arrow", "out.jsonl", "OUT.PARQUET"):
        assert cli("run", "-q", QUERY, "--engine", "local", "-o", name).code == 0
        assert read(name.lower() if Path(name.lower()).exists() else name) == ROWS
    assert cli("run", "-q", QUERY, "--engine", "local", "-o", "out.xml").code == 0
    assert Path("out.xml").read_text().startswith("<stream")
    assert cli("run", "-q", QUERY, "--engine", "local", "-o", "out").code == 0
    assert Path("out").read_text().startswith("<stream")


def test_no_file_is_left_beside_the_output(folder: Path, cli: Cli) -> None:
    cli("run", "-q", QUERY, "--engine", "local", "-o", "out.parquet")
    assert sorted(path.name for path in folder.iterdir()) == ["a.xml", "first-names.sql", "out.parquet"]


def test_an_empty_result_is_a_file_without_rows(folder: Path, cli: Cli) -> None:
    assert cli("run", "-q", QUERY + " WHERE a > 9", "--engine", "local", "-o", "out.parquet").code == 0
    assert pl.read_parquet("out.parquet").schema == {"a": pl.Int64(), "b": pl.String()}
    assert pl.read_parquet("out.parquet").height == 0


@pytest.mark.parametrize(
    ("output", "query", "file", "table"),
    [
        ("duckdb:out.db", ["-q", QUERY], "out.db", "result"),
        ("sqlite:out.db", ["-q", QUERY], "out.db", "result"),
        ("out.duckdb", ["first-names.sql"], "out.duckdb", "first_names"),
        ("out.sqlite", ["first-names.sql"], "out.sqlite", "first_names"),
        ("sqlite:my out.db?table=u", ["first-names.sql"], "my out.db", "u"),
        ("out.duckdb?table=u", ["-q", QUERY], "out.duckdb", "u"),
        ("sqlite:///out.db", ["-q", QUERY], "out.db", "result"),
        ("sqlite:out.db?key=a", ["-q", QUERY], "out.db", "result"),
    ],
)
def test_a_database_has_a_table_of_the_name_of_the_query(
    folder: Path, cli: Cli, output: str, query: list[str], file: str, table: str
) -> None:
    assert cli("run", *query, "--engine", "local", "-o", output).code == 0
    database = duckdb.connect(file) if "duckdb" in output else sqlite3.connect(file)
    found = database.execute(f"SELECT a, b FROM {table} ORDER BY a").fetchall()
    database.close()
    assert found == ROWS


def test_an_absolute_path_of_a_database(folder: Path, cli: Cli) -> None:
    assert cli("run", "-q", QUERY, "--engine", "local", "-o", f"sqlite:{folder}/x.db").code == 0
    assert sqlite3.connect("x.db").execute("SELECT COUNT(*) FROM result").fetchone() == (3,)


def test_a_sink_is_named_like_an_option(folder: Path, cli: Cli) -> None:
    outputs = ["one.csv", "two.parquet", "sqlite:out.db", "three.jsonl"]
    sinks = [f"CREATE SINK s{i} WITH (output = '{o}') AS SELECT a, b FROM t;" for i, o in enumerate(outputs)]
    assert cli("run", "--engine", "local", "-q", QUERY.partition(";")[0] + "; " + "".join(sinks)).code == 0
    assert [read(name) for name in ("one.csv", "two.parquet", "three.jsonl")] == [ROWS] * 3
    assert sqlite3.connect("out.db").execute("SELECT a, b FROM s2 ORDER BY a").fetchall() == ROWS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.csv", "--format", "jsonl"], "out.csv is a name for csv, not for jsonl"),
        (["-o", "out.jsonl", "--format", "xml"], "out.jsonl is a name for jsonl, not for xml"),
        (["-o", "out.duckdb", "--format", "csv"], "is a database, which has no format"),
        (["-o", "foo:bar"], "foo: is no known kind of output; for a file of this name, write ./foo:bar"),
        (["-o", "foo://bar"], "foo:// is not an output"),
        (["-o", "out.csv.gz"], "results are not compressed: name out.csv"),
        (["-o", "out.db"], "Write sqlite:out.db or duckdb:out.db"),
        (["-o", "out.json"], "name out.jsonl"),
        (["-o", "out.parquet", "--pretty"], "leave them out"),
        (["-o", "out.csv", "--root", "r"], "leave them out"),
        (["-o", "sqlite:out.db?table=t&colour=red"], "only key=a,b may follow"),
        (["--format", "parquet"], "needs a file or a directory"),
    ],
)
def test_contradictions_and_unknown_names_are_refused(
    folder: Path, cli: Cli, options: list[str], message: str
) -> None:
    ran = cli("run", "-q", QUERY, "--engine", "local", *options)
    assert ran.code == 2
    assert message in ran.err
    assert sorted(path.name for path in folder.iterdir()) == ["a.xml", "first-names.sql"]


def test_names_that_decide_nothing(folder: Path, cli: Cli) -> None:
    for name, format_, start in [("o.txt", "csv", "a,b"), ("./o:x", "jsonl", "{"), ("o.json", "jsonl", "{")]:
        assert cli("run", "-q", QUERY, "--engine", "local", "-o", name, "--format", format_).code == 0
        assert Path(name).read_text().startswith(start)


def test_a_new_checkpoint_does_not_overwrite_a_file(folder: Path, cli: Cli) -> None:
    command = ["run", "-q", QUERY, "--engine", "local", "-o", "out.parquet", "--checkpoint", "c"]
    assert cli(*command).code == 0
    assert cli(*command).code == 0  # the run is complete
    shutil.rmtree("c")
    ran = cli(*command)
    assert ran.code == 2
    assert "out.parquet exists, and the checkpoint is new" in ran.err
    assert read("out.parquet") == ROWS
    assert cli(*command, "--replace").code == 0
    assert read("out.parquet") == ROWS
    assert sorted(path.name for path in folder.iterdir()) == ["a.xml", "c", "first-names.sql", "out.parquet"]


def test_a_source_that_fails_leaves_the_results_before_it(folder: Path, cli: Cli) -> None:
    Path("a.xml").write_text("<r><t><a>1</a></t><t><a>2</a></t><t><a>3")
    assert cli("run", "-q", QUERY, "--engine", "local", "-o", "out.arrow").code == 1
    assert read("out.arrow") == [(1, None), (2, None)]

"""The first commands of a new user: a query without `run`, and the choice of the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Cli

WAREHOUSE = "samples/warehouse.sql"


@pytest.fixture
def books(tmp_path: Path) -> str:
    path = tmp_path / "books.xml"
    path.write_text("<l><book><title>A</title><year>1999</year></book><book><title>B</title></book></l>")
    return str(path)


@pytest.mark.parametrize(
    "start",
    [
        ["run", "SELECT title FROM '{books}'"],
        ["SELECT title FROM '{books}'"],
        ["--format", "csv", "SELECT title FROM '{books}'"],
        ["-q", "SELECT title FROM '{books}'"],
        ["\n-- all titles\nSELECT title FROM '{books}'"],
    ],
    ids=str,
)
def test_a_query_is_run(cli: Cli, books: str, start: list[str]) -> None:
    ran = cli(*(word.format(books=books) for word in start), "--engine", "local", "-o", f"{books}.csv")
    assert (ran.code, ran.err) == (0, "")
    assert Path(f"{books}.csv").read_text() == "title\nA\nB\n"


def test_the_file_of_a_query_is_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = cli(WAREHOUSE, "--engine", "local", "--format", "csv")
    assert (ran.code, ran.out.splitlines()[:3]) == (0, ["maxtemp,hour", "81,17", "76,18"])
    spaced = tmp_path / "all sensors"
    spaced.write_text(Path(WAREHOUSE).read_text())
    assert cli(spaced, "--engine", "local", "--format", "csv").out == ran.out
    assert cli("explain", "SELECT a FROM t").err.startswith("xmlpunct: no stream t")
    missing = cli("my queries.sql", "--engine", "local")
    assert (missing.code, missing.err) == (
        2,
        "xmlpunct: cannot read my queries.sql: No such file or directory\n",
    )


def test_the_text_of_a_query_is_not_its_file(cli: Cli, books: str) -> None:
    """The table of a database is named after the file of the query."""
    output = f"sqlite:{books}.db"
    assert cli(f"SELECT title FROM '{books}'", "--engine", "local", "-o", output).code == 0
    again = cli(f"SELECT title FROM '{books}'", "--engine", "local", "-o", f"{output}?table=result")
    assert again.code == 0, again.err


def test_a_document_is_no_query(cli: Cli, books: str) -> None:
    ran = cli(books, "--engine", "local")
    assert ran.code == 2
    assert f"is a document, not a query: write xmlpunct \"SELECT * FROM '{books}'\"" in ran.err
    ran = cli("samples/feeds/osm.xml.gz", "--engine", "local")
    assert ran.code == 2
    assert "write xmlpunct \"SELECT * FROM 'samples/feeds/osm.xml.gz'\"" in ran.err


def test_an_unknown_command_is_not_a_query(cli: Cli) -> None:
    ran = cli("runn", WAREHOUSE)
    assert ran.code == 2
    assert "No such command 'runn'" in ran.err


def test_spark_is_the_default_where_it_is_installed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XMLPUNCT_ENGINE", raising=False)
    ran = cli(WAREHOUSE, "--threads", "2", "--format", "csv")
    assert ran.err == (
        "xmlpunct: --threads is an option of --engine local: on Spark, use --master 'local[2]'\n"
    )
    monkeypatch.setenv("XMLPUNCT_ENGINE", "local")
    assert cli(WAREHOUSE, "--threads", "2", "--format", "csv").out.startswith("maxtemp,hour\n81,17\n")
    monkeypatch.setenv("XMLPUNCT_ENGINE", "lokal")
    assert cli(WAREHOUSE).err == "xmlpunct: XMLPUNCT_ENGINE=lokal: write spark or local\n"


def test_the_local_engine_is_the_default_without_spark(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XMLPUNCT_ENGINE", raising=False)
    monkeypatch.setattr("xmlpunct.engine.spark._NEEDED", ("a_missing_module",))
    ran = cli(WAREHOUSE, "--format", "csv")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("maxtemp,hour\n81,17\n")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with_terminal = cli(WAREHOUSE, "--format", "csv", "-o", "/dev/null")
    assert "running on the local engine, because Spark is not installed" in with_terminal.err
    chosen = cli(WAREHOUSE, "--format", "csv", "-o", "/dev/null", "--engine", "local")
    assert "running on the local engine" not in chosen.err
    remote = cli(WAREHOUSE, "--master", "spark://host:7077")
    assert (remote.code, "the Spark engine is not installed" in remote.err) == (2, True)


def test_the_master_belongs_to_spark(cli: Cli) -> None:
    ran = cli(WAREHOUSE, "--engine", "local", "--master", "local[2]")
    assert ran.code == 2
    assert "--master is an option of --engine spark" in ran.err

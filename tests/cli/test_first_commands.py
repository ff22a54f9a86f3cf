"""The first commands of a new user: a query without `run`, and the choice of the engine."""

from __future__ import annotations

import re
import shlex
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import polars as pl
import pytest

from tests.cli.harness import SAMPLES, Cli
from tests.cli.screen import screen, terminal_run
from xmlpunct.cli.run import run_command
from xmlpunct.cli.run_help import GROUPS

ROOT = SAMPLES.parent
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
    assert "there is no command runn; did you mean run?" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["infr", "a.xml"], "there is no command infr; did you mean infer?"),
        (
            ["SELECT title FROM 'books.xml'", "--formt", "csv"],
            "No such option '--formt'. (Did you mean",
        ),
        (["SELECT titel FROM 'books.xml'"], "there are title, year; did you mean title?"),
        (["SELECT * EXCLUDE (yaer) FROM 'books.xml'"], "; did you mean year?"),
        (["SELECT boks.title FROM 'books.xml'"], "no table boks here; did you mean books?"),
        (["CREATE VIEW old AS SELECT * FROM 'books.xml'; SELECT * FROM odl"], "; did you mean old?"),
        (["SELECT UPER(title) FROM 'books.xml'"], "there is no function UPER; did you mean UPPER?"),
        (["SELECT SUMM(year) FROM 'books.xml'"], "there is no function SUMM; did you mean SUM?"),
        (["SELECT title FROM read_xlm('books.xml')"], "; did you mean read_xml?"),
        (["SELEC title FROM 'books.xml'"], "; did you mean SELECT?"),
        (["SELECT title FORM 'books.xml'"], "; did you mean FROM?"),
        (["SELECT title FROM 'books.xml' WHER year > 3"], "; did you mean WHERE?"),
        (["SELECT year FROM 'books.xml' GROUP YB year"], "; did you mean BY?"),
        (["CREATE STRAEM s (a INT); SELECT a FROM s"], "; did you mean STREAM?"),
        (["CREATE STREAM s (a INTT); SELECT a FROM s"], "; did you mean INT?"),
        (["CREATE STREAM s WITH (surce = 'books.xml'); SELECT a FROM s"], "; did you mean source?"),
        (["SELECT title FROM read_xml('books.xml', element => 'bok')"], "; did you mean book?"),
        (["infer", "books.xml", "--element", "bok"], "; did you mean book?"),
        (["SELECT title FROM books.xml"], "the name of a file stands in quotes: FROM 'books.xml'"),
        (["SELECT title FROM books.xml.gz b"], "the name of a file stands in quotes: FROM 'books.xml.gz'"),
        (["SELECT title FROM ./books.xml"], "the name of a file stands in quotes"),
        (["SELECT title FROM data/books.xml"], "the name of a file stands in quotes"),
        (["SELECT title FROM 'pip://books.xml'"], "the schemes are file, follow, watch, data, tcp"),
        (["SELECT title FROM 'htp://host/books.xml'"], "there is no scheme htp://; did you mean http?"),
        (["SELECT title FROM 'books.xml'", "-o", "kafak://host/x"], "; did you mean kafka?"),
        (["SELECT title FROM 'books.xml'", "--rule", "edge-dupelm=on"], "; did you mean edge-dupelim?"),
    ],
    ids=str,
)
def test_a_misspelled_name(
    cli: Cli, books: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(Path(books).parent)
    monkeypatch.setenv("XMLPUNCT_ENGINE", "local")
    ran = cli(*arguments)
    assert (ran.code, ran.out) in ((1, ""), (2, ""))
    assert message in ran.err


def test_names_in_hints_are_printable(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\x1b[2J.xml").write_text("<a/>")
    ran = cli("a\x1b[2J.xml", "--engine", "local")
    assert "FROM 'a\\u001b[2J.xml'" in ran.err
    for argument in ("ru\x1bn", "SELECT a FROM 'b' FRM\x1b[2J"):
        assert "\x1b" not in cli(argument, "--engine", "local").err


def test_every_option_of_run_is_in_one_group() -> None:
    options = [param.name for param in run_command.params if isinstance(param, click.Option)]
    assert sorted(" ".join(GROUPS.values()).split()) == sorted(map(str, options))


def test_the_examples_of_the_help(
    cli: Cli, books: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each as it stands in the help."""
    monkeypatch.chdir(Path(books).parent)
    monkeypatch.setenv("XMLPUNCT_ENGINE", "local")
    Path("more.xml").write_text(Path(books).read_text())
    declared = "CREATE STREAM books (title STRING, year INT) WITH (source = 'books.xml', element = 'book');"
    Path("query.sql").write_text(declared + "SELECT title, year FROM books")
    shown = cli("run", "--help")
    examples = [line for line in shown.out.splitlines() if line.startswith("    xmlpunct")]
    assert len(examples) == 3
    for example in examples:
        command, *words = shlex.split(example)
        ran = cli(*words)
        assert (command, ran.code, ran.err) == ("xmlpunct", 0, ""), example
    assert pl.read_parquet("results.parquet").height == 2
    assert len(Path("results.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/get-started.md"])
def test_the_first_command_of_a_page_on_a_terminal(page: str) -> None:
    """As typed, without the Spark extra."""
    (block,) = re.findall(
        r"^```text\n\$ (xmlpunct.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL
    )
    command, *shown = block.splitlines()
    assert screen(terminal_run(*shlex.split(command)[1:], XMLPUNCT_ENGINE="local")) == shown


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


@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_limit_writes_the_first_rows(
    threads: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in range(3):
        books = "".join(f"<book><title>T{file * 20_000 + i}</title></book>" for i in range(20_000))
        Path(f"part{file}.xml").write_text(f"<books>{books}</books>")
    options = ("--engine", "local", "--threads", threads, "--format", "csv")
    first = cli("SELECT title FROM 'part0.xml' LIMIT 3", *options)
    assert (first.code, first.out) == (0, "title\nT0\nT1\nT2\n")
    files = cli("SELECT DISTINCT title FROM 'part*.xml' WHERE title <> 'T5' LIMIT 50000", *options)
    assert files.out.splitlines()[1:] == [f"T{i}" for i in range(50_001) if i != 5]


@pytest.mark.parametrize("command", [("-",), ("run", "-"), ("run", "-q", "-"), ("-q", "-")])
def test_a_query_from_standard_input(
    command: tuple[str, ...], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("b.xml").write_text("<r><book><title>A</title></book><book><title>B</title></book></r>")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"SELECT title FROM 'b.xml'\n")))
    ran = cli(*command, "--engine", "local", "--format", "csv")
    assert (ran.code, ran.out) == (0, "title\nA\nB\n"), ran.err


def test_standard_input_is_one_query(cli: Cli) -> None:
    ran = cli("run", "-", "-q", "-", "--engine", "local")
    assert (ran.code, "leave out -q -" in ran.err) == (2, True)


def test_standard_input_cannot_be_the_query_and_a_source(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream would be empty without a word."""
    query = b"CREATE STREAM s (a INT) WITH (source = '-', element = 't'); SELECT a FROM s"
    for call in (["run", "-"], ["run", "-q", "-"]):
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(query)))
        ran = cli(*call, "--engine", "local")
        assert (ran.code, ran.out) == (2, "")
        assert "standard input has the query, so s needs another source: -s s=FILE" in ran.err

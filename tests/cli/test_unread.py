"""Unread elements are reported on standard error; with --strict they are an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from xmlpunct.firehose.infer.document import SAMPLE_BYTES

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
QUERY = "CREATE STREAM s (a INT, b INT) WITH (source = '{source}', element = 't'); SELECT a, b FROM s"

CASES = [
    ("<u><a>1</a><b>2</b></u>", "element", "t", "no element <t> was found"),
    ("", "element", "t", "no element <t> was found"),
    ("<t><a>1</a><o:b>2</o:b></t>", "namespace", "b", "elements in another namespace are not read at PATH b"),
    (
        "<t><a>1</a><b>2</b></t><o:t><a>*</a></o:t>",
        "stranger",
        "{urn:o}t",
        "not read because of its namespace: {urn:o}t; if it is the namespace of punctuations, write --punct-namespace "
        "URI; if it is the namespace of tuples, write element = '{URI}name'",
    ),
    (
        "<t><a>1</a><b>2</b><t/></t>",
        "nested",
        "t",
        "<t> inside a tuple is part of that tuple, not a separate tuple",
    ),
    (
        "<t><a>1</a><b>2</b><p:t><a>1</a></p:t></t>",
        "inner",
        f"{{{NS}}}t",
        f"not read, because it is inside a tuple: {{{NS}}}t",
    ),
    (
        "<t><a>1</a><b>2<x><p:t/></x></b></t>",
        "inner",
        f"{{{NS}}}t",
        f"not read, because it is inside a tuple: {{{NS}}}t",
    ),
    (
        "<t><a>1</a><b>2</b></t><p:T><a>1</a></p:T>",
        "misnamed",
        f"{{{NS}}}T",
        f"not read as a punctuation: {{{NS}}}T; its name differs from the tuples' in upper and lower case",
    ),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "s.xml"


def write(source: Path, body: str, end: str = "</s>") -> None:
    source.write_text(f"<s xmlns:p='{NS}' xmlns:o='urn:o'>{body}{end}")


@pytest.mark.parametrize(("body", "kind", "name", "line"), CASES)
def test_unread_elements_are_reported(
    body: str, kind: str, name: str, line: str, cli: Cli, source: Path
) -> None:
    write(source, body)
    run = ["run", "--engine", "local", "-q", QUERY.format(source=source), "--format", "jsonl"]
    stats = source.with_name("stats")
    ran = cli(*run, "--stats", stats)
    assert (ran.code, ran.err) == (0, f"xmlpunct: s: {line}\n")
    assert len(ran.out.splitlines()) == body.count("<t><a>")
    assert json.loads(stats.read_text())["inputs"]["s"]["overlooked"] == {kind: {name: 1}}
    strict = cli(*run, "--strict", "--stats", stats)
    assert (strict.code, strict.out, strict.err) == (1, "", f"xmlpunct: --strict: s: {line}\n")
    for command in ("parse", "check"):
        ran = cli(command, source, "--element", "t", "--schema", "a INT, b INT")
        assert (ran.code, ran.err) == (0, f"xmlpunct: {source}: {line}\n")


def test_punctuations_are_read_in_the_namespace_of_an_option(cli: Cli, source: Path) -> None:
    write(source, "<t><a>1</a><b>2</b></t><o:t><a>1</a></o:t>")
    ran = cli(
        *("run", "--engine", "local", "-q", QUERY.format(source=source), "--format", "jsonl"),
        *("--punct-namespace", "urn:o", "--strict"),
    )
    assert (ran.code, ran.err) == (0, "")
    assert '{"$punct": {"a": "1"}}' in ran.out.splitlines()


def test_a_stream_that_is_read_completely_has_no_report(cli: Cli, source: Path) -> None:
    write(source, "<t i='1'><a>1</a><b>2</b><z/>text</t><u/><p:t><a>1</a></p:t>")
    stats = source.with_name("stats")
    ran = cli("run", "--engine", "local", "--strict", "-q", QUERY.format(source=source), "--stats", stats)
    assert (ran.code, ran.err) == (0, "")
    input_stats = json.loads(stats.read_text())["inputs"]["s"]
    assert input_stats == {"tuples": 1, "punctuations": 1, "rejected": 0, "bytes": source.stat().st_size}
    for command in ("parse", "check"):
        ran = cli(command, source, "--element", "t", "--schema", "a INT, b INT")
        assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    ("format_", "last"),
    [("xml", "<t><id>2</id><n>x</n></t>"), ("jsonl", '{"id": 2, "n": "x"}'), ("csv", "2,x")],
)
def test_tuples_that_have_attributes_only(format_: str, last: str, cli: Cli, source: Path) -> None:
    write(source, "<t id='1'/><t id='2' n='x'/>")
    ran = cli("parse", source, "--element", "t", "--format", format_)
    assert (ran.code, ran.err) == (0, "")
    assert last in ran.out.splitlines()


def test_columns_that_a_guessed_schema_omits_are_reported(cli: Cli, source: Path) -> None:
    sampled = "<t><a>1</a></t>" * (SAMPLE_BYTES // 14)
    write(source, f"{sampled}<t i='1'><a u='2'>3</a><b>4</b></t>")
    for command in ("parse", "check"):
        ran = cli(command, source, "--element", "t")
        assert ran.code == 0
        assert ran.err.startswith(
            f"xmlpunct: {source}: not read: @i, a/@u, b; not among the inferred columns"
        )
        assert len(ran.err.splitlines()) == 1
    assert f"{SAMPLE_BYTES // 14 + 1:,} tuples" in ran.out
    declared = cli("parse", source, "--element", "t", "--schema", "a STRING")
    assert (declared.code, declared.err) == (0, "")


def test_punctuations_of_undeclared_attributes_are_counted(cli: Cli, source: Path) -> None:
    write(source, "<t id='1'/><p:t z='1'/><t id='2'/><p:t id='3'/>")
    ran = cli("check", source, "--element", "t")
    assert "2 tuples" in ran.out
    assert "2 punctuations, 1 of them dropped" in ran.out


def test_the_report_precedes_an_error(cli: Cli, source: Path) -> None:
    write(source, "<t><b>2</b></t><o:t/>", end="")
    ran = cli("run", "--engine", "local", "-q", QUERY.format(source=source))
    assert ran.code == 1
    notice, error = ran.err.splitlines()
    assert notice.startswith("xmlpunct: s: not read because of its namespace: {urn:o}t;")
    assert "cut short" in error


def test_punctuations_that_are_dropped(cli: Cli, source: Path) -> None:
    write(source, "<t><a>1</a><b>1</b></t><p:t><z>1</z></p:t>")
    stats = source.with_name("stats")
    ran = cli("run", "--engine", "local", "--strict", "-q", QUERY.format(source=source), "--stats", stats)
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "punctuations of <t> that constrain undeclared attributes are dropped" in ran.err
    assert json.loads(stats.read_text())["inputs"]["s"]["overlooked"] == {"dropped": {"t": 1}}


@pytest.mark.parametrize("command", ["run", "parse", "check"])
def test_the_error_of_a_broken_document_stands_alone(cli: Cli, source: Path, command: str) -> None:
    source.write_text("<s><book><a>1</a></bok></s>")
    error = "line 1, byte 17: Opening and ending tag mismatch: book and bok"
    if command == "run":
        sql = f"CREATE STREAM book (a INT) WITH (source = '{source}'); SELECT a FROM book"
        ran = cli("run", "--engine", "local", "-q", sql)
    else:
        ran = cli(command, source, "--element", "book", "--schema", "a INT")
    assert (ran.code, ran.err) == (1, f"xmlpunct: {source}, {error}\n")


def test_a_punctuation_inside_a_tuple_is_no_column(cli: Cli, source: Path) -> None:
    write(source, "<t><a>1</a><p:t><c>1</c></p:t></t><t><a>2</a></t>")
    ran = cli("run", "--engine", "local", "--format", "csv", "-q", f"SELECT * FROM '{source}'")
    assert (ran.code, ran.out.splitlines()) == (0, ["a", "1", "2"])
    assert ran.err == f"xmlpunct: {source}: not read, because it is inside a tuple: {{{NS}}}t\n"


@pytest.mark.parametrize("kind", ["ISTREAM", "DSTREAM", "RSTREAM"])
def test_a_stream_of_a_constant_relation_is_refused(cli: Cli, source: Path, kind: str) -> None:
    write(source, "<t><a>1</a></t>")
    sql = f"CREATE RELATION t (a INT) WITH (source = '{source}'); {kind}(SELECT a FROM t)"
    ran = cli("run", "--engine", "local", "-q", sql)
    assert (
        ran.code,
        f"{kind} needs instants, and this relation is constant: leave out {kind}" in ran.err,
    ) == (2, True)

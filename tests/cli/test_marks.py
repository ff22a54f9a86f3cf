"""PUNCTUATE ON on the command line: late tuples, and what `check` reports about a recorded stream."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from tests.cli.harness import Cli

QUERY = """CREATE STREAM s (k INT NOT NULL, v INT) WITH (source = 's.xml', element = 't') {};
SELECT v FROM s"""


def rows(*pairs: tuple[int, int]) -> str:
    return "".join(f"<t><k>{k}</k><v>{v}</v></t>" for k, v in pairs)


@pytest.mark.parametrize("size", ["1B", "40B", "1MiB"])
@pytest.mark.parametrize(
    ("clause", "document", "values", "late"),
    [
        ("PUNCTUATE ON 'm' CLOSES (k = '@k')",
         f"<r>{rows((1, 2))}<m k='1'/>{rows((2, 1), (1, 9), (2, 2))}</r>", "1 2 2", "<1, *>"),
        ("PUNCTUATE ON 'msg' WHERE 'head/last' = 'true' CLOSES ALL",
         f"<r><msg><head><last>true</last></head>{rows((1, 1), (1, 2))}</msg>{rows((1, 4))}</r>", "1 2", "<*, *>"),
    ],
)  # fmt: skip
def test_later_tuples_are_late(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, clause: str, document: str, values: str,
    late: str,
) -> None:  # fmt: skip
    """The mark of a message, at whose head its condition stands, takes effect behind the message."""
    monkeypatch.chdir(tmp_path)
    Path("s.xml").write_text(document)
    options = ("--engine", "local", "--format", "csv", "--slice", size, "--rejects", "rejects")
    ended = cli("run", *options, "-q", QUERY.format(clause))
    assert (ended.code, ended.out.split()[0], sorted(ended.out.split()[1:])) == (0, "v", values.split())
    (reject,) = map(json.loads, Path("rejects").read_text().splitlines())
    assert reject["reason"] == f"late: {late} was closed before it"


@pytest.mark.parametrize(
    ("tail", "code", "lines"),
    [
        ("", 0, ["s.xml: well formed, grammatical", "  2 tuples, 0 of them late; 0 more rejected"]),
        (
            rows((1, 9)),
            1,
            ["s.xml: well formed, not grammatical", "  3 tuples, 1 of them late; 0 more rejected"],
        ),
    ],
)
def test_check_says_whether_a_sender_kept_its_promise(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: str, code: int, lines: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.xml").write_text(f"<r>{rows((1, 2), (2, 3))}<m k='1'/><m/>{tail}</r>")
    for schema in ((), ("--schema", "k INT, v INT")):
        ended = cli(
            "check", "s.xml", "--element", "t", *schema, "--promise", "PUNCTUATE ON 'm' CLOSES (k = '@k')"
        )
        punctuations = "  1 punctuations, 0 of them dropped for an undeclared attribute"
        assert ended.out.splitlines()[:4] == [*lines, punctuations, "  1 close k by constant"]
        assert "PUNCTUATED BY" not in ended.out
        assert "s.xml: a mark without a value closes nothing: m/@k" in ended.err
        assert ("late: <1, *> was closed before it" in ended.err, ended.code) == (bool(tail), code)


def test_check_takes_no_other_promise(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(f"<r>{rows((1, 2))}</r>")
    for clause, message in (
        ("PUNCTUATE ORDER BY k", "only PUNCTUATE ON is possible here"),
        ("PUNCTUATED BY (k)", "only PUNCTUATE ON is possible here"),
        ("PUNCTUATE ON 'm' CLOSES (q = '@k')", "no column q in s: there are k, v"),
    ):
        ended = cli("check", str(tmp_path / "s.xml"), "--element", "t", "--promise", clause)
        assert ended.code == 2
        assert message in ended.err


def test_in_archives_compressed_files_and_directories(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark of one file closes tuples of the files behind it."""
    monkeypatch.chdir(tmp_path)
    documents = [f"<r>{rows((1, 1), (2, 2))}<m k='1'/></r>", f"<r>{rows((2, 5))}<m k='2'/>{rows((1, 7))}</r>"]
    Path("d").mkdir()
    with zipfile.ZipFile("s.zip", "w") as archive:
        for number, document in enumerate(documents):
            archive.writestr(f"{number}.xml", document)
            Path("d", f"{number}.xml.gz").write_bytes(gzip.compress(document.encode()))
    for source in ("s.zip", "d/*.xml.gz"):
        sql = QUERY.format("PUNCTUATE ON 'm' CLOSES (k = '@k')").replace("s.xml", source)
        ended = cli("run", "--engine", "local", "--format", "csv", "--rejects", "rejects", "-q", sql)
        assert (ended.code, sorted(ended.out.split())) == (0, ["1", "2", "5", "v"])
        (reject,) = map(json.loads, Path("rejects").read_text().splitlines())
        assert reject["reason"] == "late: <1, *> was closed before it"


def test_a_checkpoint_belongs_to_its_marks(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.xml").write_text(f"<r>{rows((1, 1), (2, 2))}<m k='1'/></r>")
    options = ("--engine", "local", "--checkpoint", "c", "-o", "out.csv")
    sql = QUERY.format("PUNCTUATE ON 'm' CLOSES (k = '@k')")
    assert cli("run", *options, "-q", sql).code == 0
    assert cli("run", *options, "-q", sql).code == 0
    other = cli("run", *options, "-q", sql.replace("'@k'", "'@q'"))
    assert other.code == 2
    assert "another query" in other.err


def test_explain_shows_the_marks(cli: Cli) -> None:
    marks = "PUNCTUATE ON 'm' WHERE '@last' = 'true' CLOSES (k = '@k') PUNCTUATE ON '{urn:x}all' CLOSES ALL"
    shown = cli("explain", "-q", QUERY.format(marks)).out
    assert "#1 scan s: v; closed by <m>: k; closed by <{urn:x}all>: all" in shown

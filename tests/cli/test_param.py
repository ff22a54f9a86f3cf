"""``--param``: values for a query, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Cli

SQL = "CREATE STREAM t (n INT, k STRING) WITH (source = :file); SELECT n FROM t WHERE k = :k AND n < :most"
PARAMS = ["--param", "k='7'", "--param", "most=2"]


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = tmp_path / "t.xml"
    path.write_text("<s>" + "".join(f"<t><n>{n}</n><k>7</k></t>" for n in range(4)) + "</s>")
    return path


def test_a_run_takes_values(cli: Cli, feed: Path) -> None:
    ran = cli("run", "--engine", "local", "--format", "jsonl", "-q", SQL, "--param", f"file={feed}", *PARAMS)
    assert ran.code == 0, ran.err
    assert [line for line in ran.out.splitlines() if "$punct" not in line] == ['{"n": 0}', '{"n": 1}']


def test_a_checkpoint_refuses_other_values(cli: Cli, feed: Path, tmp_path: Path) -> None:
    call = ["run", "--engine", "local", "-o", tmp_path / "o", "--checkpoint", tmp_path / "c", "-q", SQL]
    call += ["--param", f"file={feed}"]
    assert cli(*call, *PARAMS).code == 0
    assert cli(*call, *PARAMS).code == 0
    ran = cli(*call, *PARAMS[:-1], "most=3")
    assert ran.code == 2
    assert "query" in ran.err


def test_explain_takes_them_too(cli: Cli, feed: Path) -> None:
    ran = cli("explain", "-q", SQL, "--param", f"file={feed}", *PARAMS)
    assert ran.code == 0
    assert "t.k = '7'" in ran.out


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["--param", "k=1"], "the parameter :file has no value"),
        (["--param", "k"], "--param k: write NAME=VALUE, as in hour=17"),
        (["--param", "k=1", "--param", "k=2"], "--param k=2: k is given twice"),
        (
            ["--param", "k=1", "--param", "most=2", "--param", "file=x", "--param", "m=3"],
            "the query has no parameter :m: there are :file, :k, :most",
        ),
    ],
)
@pytest.mark.parametrize("command", [["run", "--engine", "local"], ["explain"]])
def test_wrong_parameters_are_usage_errors(
    cli: Cli, command: list[str], params: list[str], message: str
) -> None:
    ran = cli(*command, "-q", SQL, *params)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err

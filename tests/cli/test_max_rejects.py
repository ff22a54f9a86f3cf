"""``run --max-rejects``: output, messages and refused options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.harness import Cli

DDL = "CREATE STREAM t (n INT NOT NULL) WITH (source = '{}');\n"


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = tmp_path / "t.xml"
    path.write_text("<s>\n" + "".join(f"<t><n>{'x' * (n % 4 == 3)}{n}</n></t>\n" for n in range(40)) + "</s>")
    return path


@pytest.mark.parametrize("size", ["1", "200", "1MiB"])
def test_a_run_ends_at_the_first_reject_above_the_limit(
    cli: Cli, tmp_path: Path, feed: Path, size: str
) -> None:
    out, rejects, stats = tmp_path / "out", tmp_path / "rejects", tmp_path / "stats"
    options = ["--engine", "local", "-q", DDL.format(feed) + "SELECT n FROM t", "-o", out, "--slice", size]
    options += ["--max-rejects", 2, "--rejects", rejects, "--stats", stats, "--checkpoint", tmp_path / "c"]
    for _ in range(2):  # the second run repeats the error from the checkpoint
        ran = cli("run", *options)
        assert ran.code == 1
        assert (
            f"{feed}, line 13, byte {feed.read_text().index('<t><n>x11')}: more rejects than --max-rejects 2: "
            in ran.err
        )
        assert "x11" in ran.err
        lines = out.read_text().splitlines()
        assert "<result><n>10</n></result>" in lines
        assert "</stream>" not in lines
        assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [5, 9, 13]
        assert json.loads(stats.read_text())["inputs"]["t"]["rejected"] >= 3


def test_a_run_within_the_limit_succeeds(cli: Cli, feed: Path) -> None:
    options = ["--engine", "local", "-q", DDL.format(feed) + "SELECT n FROM t"]
    for limit in ("10", "25%"):
        ran = cli("run", *options, "--max-rejects", limit)
        assert ran.code == 0
        assert ran.out.endswith("</stream>\n")
        assert "10 tuples rejected" in ran.err
    ran = cli("run", *options, "--max-rejects", "24.9%")
    assert ran.code == 1
    assert "t: 10 of its first 40 tuples are rejects, more than --max-rejects 24.9%" in ran.err
    assert "</stream>" not in ran.out
    for wrong_options in (["--max-rejects", "many"], ["--max-rejects", "5", "--strict"]):
        ran = cli("run", *options, *wrong_options)
        assert (ran.code, ran.out) == (2, "")
        assert "--max-rejects" in ran.err


def test_a_checkpoint_refuses_another_limit(cli: Cli, tmp_path: Path, feed: Path) -> None:
    """Earlier rejects were not checked against the new limit."""
    options = [
        "--engine",
        "local",
        "-q",
        DDL.format(feed) + "SELECT n FROM t",
        "--checkpoint",
        tmp_path / "c",
    ]
    options += ["-o", tmp_path / "out", "--max-rejects"]
    assert cli("run", *options, "10").code == 0
    for changed_limit in ("11", "50%"):
        ran = cli("run", *options, changed_limit)
        assert ran.code == 2
        assert "another --max-rejects" in ran.err
    assert cli("run", *options, "10").code == 0


def test_rejects_after_the_end_of_the_output_count(cli: Cli, feed: Path) -> None:
    """As with --rejects: otherwise the exit code would depend on the slice size."""
    options = ["--engine", "local", "-q", DDL.format(feed) + "SELECT n FROM t LIMIT 1"]
    for size in ("1", "1MiB"):
        ran = cli("run", *options, "--max-rejects", "2", "--slice", size)
        assert ran.code == 1
        assert ran.out.count("<result>") == 1

"""PUNCTUATE ON on the command line: late tuples, and what `check` reports about a recorded stream."""

from __future__ import annotations

import json
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

"""Live runs: ``why``, ``say`` and ``--watch``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Cli
from tests.engine.test_live import BEGIN, UNION, Server, closed, t

XMLPUNCT = [sys.executable, "-m", "xmlpunct"]


@pytest.fixture
def senders() -> Iterator[tuple[Server, Server]]:
    with closing(Server()) as a, closing(Server()) as b:
        yield a, b


def test_a_sender_that_died(senders: tuple[Server, Server], tmp_path: Path) -> None:
    """`why` names the missing punctuation; `say` sends it; then the result is emitted."""
    a, b = senders
    out = tmp_path / "out.jsonl"
    command = ["run", "--engine", "local", "--sql", UNION, "-s", f"a={a.name}", "-s", f"b={b.name}"]
    options = ["--http", "127.0.0.1:0", "--allow-say", "-o", str(out), "--format", "jsonl"]
    running = subprocess.Popen([*XMLPUNCT, *command, *options], stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    try:
        url = running.stderr.readline().split()[-1]
        with urlopen(f"{url}healthz") as answer:
            assert json.load(answer) == {"state": "starting"}  # before any input is connected
        a.send(BEGIN + t(1, 5) + closed(1))
        b.send(BEGIN)
        why_command = [*XMLPUNCT, "why", "hour=1", "--http", url, "--json"]
        end = time.monotonic() + 30
        while (why := subprocess.run(why_command, capture_output=True, text=True)).returncode == 1:
            assert time.monotonic() < end
        assert why.returncode == 0, why.stderr
        (wait,) = json.loads(why.stdout)
        assert wait["input"] == "b"
        subprocess.run([*XMLPUNCT, "say", "b", wait["punctuation"], "--http", url], check=True)
        while '"top"' not in out.read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        assert json.loads(out.read_text().splitlines()[0]) == {"hour": 1, "top": 5}
        assert (
            subprocess.run([*XMLPUNCT, "say", "c", "hour=1", "--http", url], capture_output=True).returncode
            == 2
        )
        for sender in (a, b):
            sender.send("</s>")
            sender.close()
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.wait()
        running.stderr.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--allow-say"], "add --http HOST:PORT"),
        (["--http", "nowhere"], "write HOST:PORT"),
        (["--partial", "soon"], "is no time"),
        (["--partial", "1s", "--format", "csv"], "csv cannot"),
    ],
)
def test_wrong_options_are_refused(cli: Cli, options: list[str], reason: str) -> None:
    result = cli("run", "--engine", "local", "samples/warehouse.sql", *options)
    assert result.code == 2
    assert reason in result.err


def test_watching_a_run_that_ends(cli: Cli, tmp_path: Path) -> None:
    result = cli(
        "run", "--engine", "local", "samples/warehouse.sql", "--watch", "-o", str(tmp_path / "o.xml")
    )
    assert result.code == 0
    assert "ended on the local engine" in result.err
    assert "#4 group-by" in result.err

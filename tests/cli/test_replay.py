"""``xmlpunct replay`` feeds ``xmlpunct run``; wrong calls are refused."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.harness import SAMPLES, WAREHOUSE, Cli
from tests.cli.test_run import EXPECTED


@contextmanager
def replaying(file: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a replay process; yields its source URL and the process."""
    command = [sys.executable, "-m", "xmlpunct", "replay", str(file), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("xmlpunct: listening on 127.0.0.1:")
        try:
            yield f"tcp://{line.split()[-1]}", process
        finally:
            process.kill()


def test_the_warehouse_live(cli: Cli) -> None:
    with (
        replaying(SAMPLES / "sensor1.xml", "--rate", "200") as (source1, replay1),
        replaying(SAMPLES / "sensor2.xml") as (source2, replay2),
    ):
        sources = ["-s", f"sensor1={source1}", "-s", f"sensor2={source2}"]
        ran = cli("run", WAREHOUSE, "--engine", "local", "--format", "jsonl", *sources)
        assert [replay1.wait(5), replay2.wait(5)] == [0, 0]
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["hour"]: row["maxtemp"] for row in lines if "hour" in row} == EXPECTED


def test_a_connection_cut_inside_a_document(cli: Cli, tmp_path: Path) -> None:
    text = (SAMPLES / "sensor1.xml").read_text()
    (tmp_path / "cut.xml").write_text(text[: text.rindex("<tempdata>") + 20])
    with replaying(tmp_path / "cut.xml") as (name, _):
        options = ["--engine", "local", "--format", "jsonl", "-s", f"sensor1={name}"]
        ran = cli("run", WAREHOUSE, *options)
    assert ran.code == 1
    assert name in ran.err
    hours = [f["hour"] for line in ran.out.splitlines() if "hour" in (f := json.loads(line))]
    assert sorted(hours) == sorted(EXPECTED)[: len(hours)]  # closed hours only
    assert len(hours) < len(EXPECTED)


def test_interrupted_while_everything_waits(tmp_path: Path) -> None:
    """Ctrl-C ends the run at once; the statistics name the idle input."""
    stats = tmp_path / "stats.json"
    with replaying(SAMPLES / "sensor1.xml", "--rate", "0.01") as (name, _):
        command = [sys.executable, "-X", "dev", "-m", "xmlpunct", "run", str(WAREHOUSE), "--engine", "local"]
        command += ["-s", f"sensor1={name}", "--stats", str(stats), "-o", str(tmp_path / "out.xml")]
        with subprocess.Popen(command, cwd=SAMPLES.parent, stderr=subprocess.PIPE, text=True) as process:
            while not (tmp_path / "out.xml").exists():
                assert process.poll() is None
                time.sleep(0.01)
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 130
            assert process.stderr is not None
            errors = process.stderr.read()
    assert "Traceback" not in errors
    assert "ResourceWarning" not in errors
    (idle,) = json.loads(stats.read_text())["idle"]
    assert idle["input"] == "sensor1"
    assert idle["holds_up"] > 0


def test_a_peer_that_leaves(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f"<r>{'<t>1234567890</t>' * 200_000}</r>")
    with replaying(tmp_path / "a.xml", "--rate", "100000") as (name, process):
        socket.create_connection(("127.0.0.1", int(name.rpartition(":")[2]))).close()
        assert process.stderr is not None
        assert "the client disconnected after" in process.stderr.read()
        assert process.wait(5) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.xml", "--listen", "127.0.0.1:0"], 1, "none.xml"),
        (["samples/sensor1.xml"], 2, "--listen"),
        (["samples/sensor1.xml", "--listen", "7000"], 2, "HOST:PORT"),
        (["samples/sensor1.xml", "--listen", "127.0.0.1:0?connections=2"], 2, "HOST:PORT"),
        (["samples/sensor1.xml", "--listen", "127.0.0.1:0", "--rate", "0"], 2, "--rate"),
        (["samples/sensor1.xml", "--listen", "192.0.2.1:7000"], 1, "cannot listen"),
    ],
)
def test_wrong_calls_are_refused(cli: Cli, arguments: list[str], code: int, message: str) -> None:
    ran = cli("replay", *arguments)
    assert ran.code == code
    assert message in ran.err
    assert "Traceback" not in ran.err

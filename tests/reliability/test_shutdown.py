"""Runs that are stopped, and runs whose output cannot be written: their outputs, leftovers and messages."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.checkpoints import committed
from tests.cli.harness import WAREHOUSE, Cli
from tests.reliability.bench import Bench, feed
from tests.reliability.faults import Call, watched
from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch, processes_below, start
from xmlpunct.base.errors import SourceError, XmlPunctError
from xmlpunct.engine.run.stop import Stop
from xmlpunct.firehose import generators

STREAM = "CREATE STREAM t (x INT, hour INT NOT NULL) WITH (source = 'unset', element = 't');\n"
SCAN = STREAM + "SELECT x, hour FROM t"

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by /proc")


@pytest.fixture(autouse=True)
def own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A directory for the temporary files of these runs only."""
    with tempfile.TemporaryDirectory(prefix="stop-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield


def temporary() -> set[Path]:
    """The temporary files and directories of xmlpunct runs."""
    return set(Path(tempfile.gettempdir()).glob("xmlpunct-*"))


def wait_for(path: Path, run: subprocess.Popen[bytes], content: bytes = b"<result>") -> None:
    until = time.monotonic() + MOST_SECONDS
    while not path.exists() or content not in path.read_bytes():
        assert run.poll() is None, "it ended"
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.01)


def wait_until_full(pipe: int) -> None:
    """Wait until a pipe is full."""
    until, byte_count = time.monotonic() + MOST_SECONDS, array("i", [0])
    while byte_count[0] < 60_000:
        fcntl.ioctl(pipe, termios.FIONREAD, byte_count)
        assert time.monotonic() < until
        time.sleep(0.01)


def stderr_of(run: subprocess.Popen[bytes]) -> str:
    _, text = run.communicate(timeout=MOST_SECONDS)
    return text.decode()


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "with a checkpoint"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_it_waits(tmp_path: Path, number: signal.Signals, checkpointed: bool) -> None:
    """Received tuples are written and counted in the message; with a checkpoint, the same command continues."""
    out, data, before = tmp_path / "out.xml", feed(1), temporary()
    half = data.index("</t>", len(data) // 2) + 4
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(MOST_SECONDS)
        port = server.getsockname()[1]
        options = ["--checkpoint", str(tmp_path / "checkpoint")] if checkpointed else []
        command = ["run", "-q", SCAN, "-s", f"t=tcp://127.0.0.1:{port}", "--engine", "local", "-o", str(out)]
        run = launch(*command, *options)
        peer, _ = server.accept()
        with peer:
            peer.sendall(data[:half].encode())
            wait_for(out, run, b"<hour>1</hour>")
            run.send_signal(number)
            text = stderr_of(run)
        assert run.returncode == 130, text
        written = out.read_bytes()
        assert written.count(b"<result>") >= 6
        assert f"stopped after {written.count(b'<result>')} tuples, {len(written)} bytes" in text
        assert ("continues from" in text) == checkpointed
        assert "Traceback" not in text
        if checkpointed:
            continued = launch(*command, *options)
            peer, _ = server.accept()
            with peer:
                peer.sendall(data.encode())
            ends_well(continued)
            assert out.read_bytes().startswith(written)
            assert out.read_bytes().count(b"<result>") == data.count("<t>")
            assert not (tmp_path / "checkpoint" / "spool").exists()
    assert temporary() == before


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_datasets_have_all_rows_of_a_run_that_is_stopped(
    tmp_path: Path, engine: str, is_partitioned: bool
) -> None:
    """Without a checkpoint, the rows that no full file has yet are written at the interrupt. So are rejects.

    Partitions that are not complete are written to a folder that readers of the dataset skip.
    """
    data = feed(1)
    half = data.index("</t>", len(data) // 2) + 4
    bad = "<t><x>none</x><hour>1</hour></t>"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(MOST_SECONDS)
        port = server.getsockname()[1]
        command = ["run", "-q", SCAN, "-s", f"t=tcp://127.0.0.1:{port}", "--engine", engine]
        command += ["-o", f"{tmp_path}/out/", "--format", "parquet", "--rejects", f"{tmp_path}/rejects/"]
        command += ["--partition-by", "hour"] if is_partitioned else []
        run = launch(*command)
        peer, _ = server.accept()
        with peer:
            peer.sendall((data[:half] + bad).encode())
            assert run.stderr is not None
            assert b"rejected" in run.stderr.readline()
            run.send_signal(signal.SIGINT)
            text = stderr_of(run)
    assert run.returncode == 130, text
    names = {path.name for path in (tmp_path / "out").iterdir()}
    if is_partitioned:
        incomplete = tmp_path / "out" / "_incomplete"
        assert f"{incomplete} has the rows of 1 partition" in text
        closed = {f"hour={hour}" for hour in re.findall(r"<punct:t><hour>(\d+)", data[:half])}
        assert names == {"_incomplete"} | closed
    assert "_SUCCESS" not in names
    rows = pl.read_parquet([*map(str, (tmp_path / "out").rglob("*.parquet"))], hive_partitioning=True)
    assert rows.height == data[:half].count("<t>")
    assert {"hour", "x"} <= {*rows.columns}
    assert pl.read_parquet(tmp_path / "rejects").height == 1
    assert f"stopped after {data[:half].count('<t>')} tuples" in text


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """A full pipe keeps a run from finishing its slice; a second signal ends the run at once."""
    (tmp_path / "t.xml").write_text(f"<s>{'<t><x>1</x><hour>1</hour></t>' * 50_000}</s>")
    read, write = os.pipe()
    command = [sys.executable, "-m", "xmlpunct", "run", "-q", SCAN, "-s", f"t={tmp_path / 't.xml'}"]
    command += ["--engine", "local", "--slice", "1MiB"]
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE) as run:
        os.close(write)
        assert os.read(read, 10) == b"<stream xm"
        wait_until_full(read)
        run.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(0.5)
        run.send_signal(signal.SIGINT)
        assert run.wait(MOST_SECONDS) == 130
        assert run.stderr is not None
        assert b"Traceback" not in run.stderr.read()
    os.close(read)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=["read in place", "spooled"])
def test_stopped_at_every_moment_of_a_run_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, times: int
) -> None:
    """One stop waits for the current slice, two do not; the next run reports the failure of its source."""
    monkeypatch.setattr("xmlpunct.engine.run.local.ledger.GROUP_SECONDS", 0.0)
    bench = Bench(tmp_path, encoding=encoding)
    cut = bench.sources["a"].read_text(encoding=encoding).replace("</s>", "<t><x>")
    bench.sources["a"].write_text(cut, encoding=encoding)
    stop, calls_left, main = Stop(), -1, threading.current_thread()

    def stopping(_: str, function: Call) -> Call:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls_left
            if threading.current_thread() is main:
                calls_left -= 1
                if -times <= calls_left < 0:
                    stop.ask()
            return function(*arguments, **options)

        return call

    number, was_stopped = 0, True
    while was_stopped:
        bench.clear()
        stop, calls_left = Stop(), number
        with watched(stopping), pytest.raises((KeyboardInterrupt, SourceError)):
            bench.run(stop)
        was_stopped = stop.asked
        with pytest.raises(SourceError, match="the document ends inside <x>"):
            bench.run()
        assert not (bench.checkpoint / "spool").exists()
        number += 1 if LONG else 5
    assert number > 50


def test_the_reader_closes_its_pipe(tmp_path: Path) -> None:
    (tmp_path / "t.xml").write_text(f"<s>{'<t><x>1</x><hour>1</hour></t>' * 50_000}</s>")
    command = [sys.executable, "-m", "xmlpunct", "run", "-q", SCAN, "-s", f"t={tmp_path / 't.xml'}"]
    command += ["--engine", "local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline().startswith(b"<stream")
        run.stdout.close()
        assert run.wait(MOST_SECONDS) == 0
        assert run.stderr.read() == b""


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")


@needs_full
@pytest.mark.parametrize("options", [["-o", "/dev/full"], ["--rejects", "/dev/full"]])
def test_a_full_disk(cli: Cli, options: list[str]) -> None:
    sql = "CREATE STREAM t (sid INT, hour INT) WITH (source = 'samples/sensor1.xml', element = 'tempdata');"
    ran = cli("run", "-q", sql + "SELECT hour, sid FROM t", "--engine", "local", *options)
    *rejects, message = ran.err.splitlines()
    assert (ran.code, message) == (1, "xmlpunct: cannot write /dev/full: No space left on device")
    assert all(line.startswith("xmlpunct: rejected: ") for line in rejects)


@needs_full
def test_a_full_disk_behind_standard_output() -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "xmlpunct", "run", str(WAREHOUSE), "--engine", "local"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=WAREHOUSE.parents[1])
    message = "xmlpunct: cannot write standard output: No space left on device\n"
    assert (ran.returncode, ran.stderr.decode()) == (1, message)


@pytest.mark.parametrize("function", ["write", "fsync", "replace"])
@pytest.mark.parametrize("number", [3, 6])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"], ids=["read in place", "spooled"])
def test_a_disk_that_fills_up(tmp_path: Path, function: str, number: int, encoding: str) -> None:
    """When a call fails, on whichever file, committed output is unchanged and the run can continue."""
    bench = Bench(tmp_path, encoding=encoding)
    bench.run()
    expected = bench.seen()
    bench.clear()
    calls, real = [0], getattr(os, function)

    def full(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] >= number:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, function, full)
        patch.setattr("xmlpunct.engine.run.local.ledger.SAVE_SECONDS", 0.0)
        patch.setattr("xmlpunct.engine.run.local.ledger.GROUP_SECONDS", 0.0)
        patch.setattr("xmlpunct.engine.run.local.ledger.SAVE_SHARE", 1e9)
        with pytest.raises(XmlPunctError, match=f"cannot write {tmp_path}/.*: No space left on device"):
            bench.run()
    before = bench.seen()
    bench.run()
    for earlier, after, expected_bytes in zip(before, bench.seen(), expected, strict=True):
        assert after.startswith(earlier)
        # The slices of a spooled input depend on the arrival of its bytes.
        assert (
            after == expected_bytes
            if encoding == "utf-8"
            else sorted(after.split(b"\n")) == sorted(expected_bytes.split(b"\n"))
        )


def test_a_checkpoint_that_vanishes(tmp_path: Path) -> None:
    """The next commit notices the missing checkpoint, and fails."""
    out, checkpoint = tmp_path / "out.xml", tmp_path / "checkpoint"
    growing = tmp_path / "in.xml"
    growing.write_text(feed(1).removesuffix("</s>\n"))
    options = ["--engine", "local", "-o", str(out), "--checkpoint", str(checkpoint)]
    run = launch(
        "run", "-q", STREAM.replace("'unset'", f"'{growing}', follow = true") + "SELECT x FROM t", *options
    )
    wait_for(out, run)
    checkpoint.rename(tmp_path / "elsewhere")
    before = out.read_bytes()
    with open(growing, "a") as file:
        file.write("<t><x>77</x><hour>9</hour></t>")
    time.sleep(0.2)
    (tmp_path / "elsewhere").rename(tmp_path / "further")
    growing.unlink()
    text = stderr_of(run)
    assert run.returncode == 1, text
    assert str(checkpoint) in text
    assert out.read_bytes().startswith(before)


@pytest.mark.parametrize("option", ["-o", "--rejects", "--checkpoint"])
def test_an_output_that_cannot_be_created(cli: Cli, option: str) -> None:
    ran = cli("run", WAREHOUSE, "--engine", "local", option, "/proc/xmlpunct/there")
    assert ran.code == 2
    assert "/proc/xmlpunct" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.long
@pytest.mark.spark
def test_spark_is_stopped_and_goes_on(tmp_path: Path) -> None:
    """SIGTERM leaves no process and no temporary file; the next run completes the same bag."""
    lines = generators.warehouse(sensors=2, hours=8, readings=10, punctuations=1, seed=4)
    feeds = [word for p in generators.write(lines, str(tmp_path)) for word in ("-s", f"{p.stem}={p}")]
    out, log = tmp_path / "out.xml", tmp_path / "checkpoint" / "log"
    ends_well(start("--engine", "local", *feeds, "-o", str(tmp_path / "alone.xml")))
    before = temporary()
    options = ["--master", "local[2]", "--slice", "64KiB", "--checkpoint", str(log.parent), "-o", str(out)]
    run = start(*options, *feeds)
    until = time.monotonic() + MOST_SECONDS
    while committed(log).batch < 1:
        assert run.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    processes = processes_below(run.pid, "")
    assert processes
    run.terminate()
    text = stderr_of(run)
    assert run.returncode == 130, text
    assert "continues from" in text
    assert "Traceback" not in text
    until = time.monotonic() + 20  # workers end after the JVM
    while remaining := [p for p in processes if Path(f"/proc/{p}").exists()]:
        assert time.monotonic() < until, remaining
        time.sleep(0.05)
    assert temporary() == before
    commit = committed(log)
    assert out.stat().st_size == commit.outputs[0].length
    written = out.read_bytes()
    ends_well(start(*options, *feeds))
    assert out.read_bytes().startswith(written)
    assert bag(out) == bag(tmp_path / "alone.xml")
    assert temporary() == before
    assert sorted(path.name for path in log.parent.iterdir()) == ["lock", "log", "pacing"]

"""Runs in child processes that tests watch and kill, and a TCP peer that sends them a file."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cli.harness import WAREHOUSE
from tests.threads import TURNS

LONG = os.environ.get("XMLPUNCT_LONG") == "1"
"""Whether tests run in their long form."""
MOST_SECONDS = 240
"""Limit for every wait, also on a busy machine."""


def start(*options: str) -> subprocess.Popen[bytes]:
    """A run in a child process."""
    return launch("run", str(WAREHOUSE), *options)


def launch(*arguments: str) -> subprocess.Popen[bytes]:
    """A command in a child process; on the local engine, the number of threads varies by turns."""
    command = [sys.executable, "-m", "xmlpunct", *arguments, *TURNS.options(arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"})


def bag(output: Path) -> list[str]:
    """The tuples of an output, sorted."""
    return sorted(re.findall("<result>.*</result>", output.read_text()))


def processes_below(pid: int, naming: str) -> list[int]:
    """The processes that descend from ``pid`` and have ``naming`` in their command."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ProcessLookupError):
            continue
    descendants, parents_at_level = [], [pid]
    while parents_at_level:
        parents_at_level = [child for child, parent in parents.items() if parent in parents_at_level]
        descendants += parents_at_level
    return [p for p in descendants if naming in _command(p)]


def _command(pid: int) -> str:
    """The command line of a process; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, ProcessLookupError):
        return ""


def wait_for_results(output: Path, run: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + MOST_SECONDS
    while not output.exists() or b"<result>" not in output.read_bytes():
        assert run.poll() is None, "it ended without results"
        assert time.monotonic() < until, "no results"
        time.sleep(0.1)


def wait_for_a_batch(checkpoint: Path, run: subprocess.Popen[bytes]) -> None:
    """Wait until Spark is in the middle of a micro-batch."""
    until = time.monotonic() + MOST_SECONDS
    folders = [checkpoint / "spark" / name for name in ("offsets", "commits")]
    while not set.difference(*({path.name for path in folder.glob("[0-9]*")} for folder in folders)):
        assert run.poll() is None, "it ended too soon"
        assert time.monotonic() < until, "no micro-batch"
        time.sleep(0.01)


def ends_well(run: subprocess.Popen[bytes]) -> None:
    _, errors = run.communicate(timeout=MOST_SECONDS)
    assert run.returncode == 0, errors.decode()


@contextmanager
def sending_again(path: Path) -> Iterator[str]:
    """A server that sends a file, in small pieces, to each peer that connects."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer, suppress(OSError), open(path, "rb") as file:
                    while data := file.read(4000):
                        peer.sendall(data)
                        time.sleep(0.002)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)

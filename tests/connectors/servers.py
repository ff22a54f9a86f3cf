"""Servers of other projects, each in its own process on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(program: str, *arguments: str, port: int) -> Iterator[int]:
    """Run a server and yield its port once it is open; skip the test if the program is not installed."""
    executable = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if executable is None:
        pytest.skip(f"no {program} here: apt-get install {program}")
    with subprocess.Popen(
        [executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 20
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, f"{program} has ended"
                assert time.monotonic() < deadline, f"{program} does not listen"
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()


@contextmanager
def mosquitto(folder: Path, *lines: str) -> Iterator[int]:
    """Run an MQTT broker with its settings in ``folder``; yield its port."""
    port = free_port()
    settings = folder / "mosquitto.conf"
    default_lines = ["user root", "max_queued_messages 0", f"listener {port} 127.0.0.1"]
    settings.write_text("\n".join([*default_lines, *(lines or ["allow_anonymous true"]), ""]))
    with serving("mosquitto", "-c", str(settings), port=port):
        yield port


@contextmanager
def nats(folder: Path, *lines: str) -> Iterator[int]:
    """Run a NATS server with JetStream, with its settings and streams in ``folder``; yield its port."""
    port = free_port()
    settings = folder / "nats.conf"
    all_lines = [f'listen: "127.0.0.1:{port}"', f'jetstream {{ store_dir: "{folder}/streams" }}', *lines]
    settings.write_text("\n".join(all_lines))
    with serving("nats-server", "-c", str(settings), port=port):
        yield port

"""Servers that a system may have, each in a process of its own on loopback."""

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
    """Run a server until its port is open; the test is skipped where there is no such program."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"no {program} here: apt-get install {program}")
    with subprocess.Popen(
        [found, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until = time.monotonic() + 20
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                assert process.poll() is None, f"{program} has ended"
                assert time.monotonic() < until, f"{program} does not listen"
                time.sleep(0.02)
            yield port
        finally:
            process.terminate()


@contextmanager
def mosquitto(folder: Path, *lines: str) -> Iterator[int]:
    """A broker of MQTT, whose settings are in ``folder``; its port."""
    port = free_port()
    settings = folder / "mosquitto.conf"
    own = ["user root", "max_queued_messages 0", f"listener {port} 127.0.0.1"]
    settings.write_text("\n".join([*own, *(lines or ["allow_anonymous true"]), ""]))
    with serving("mosquitto", "-c", str(settings), port=port):
        yield port


@contextmanager
def nats(folder: Path, *lines: str) -> Iterator[int]:
    """A server of NATS with JetStream, whose settings and streams are in ``folder``; its port."""
    port = free_port()
    settings = folder / "nats.conf"
    own = [f'listen: "127.0.0.1:{port}"', f'jetstream {{ store_dir: "{folder}/streams" }}', *lines]
    settings.write_text("\n".join(own))
    with serving("nats-server", "-c", str(settings), port=port):
        yield port

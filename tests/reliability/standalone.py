"""A standalone Spark cluster on loopback: a master, and workers that can be killed and started."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
_LOOPBACK = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
_UNSHARE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
"""Runs a shell script whose mounts no other process sees."""
_START_SECONDS = 240
"""Limit for the start of each part, also on a busy machine."""


class Cluster:
    """A running cluster. Each part logs to a file of its name in ``folder``."""

    url: str
    """The value for ``--master``."""
    workers: list[subprocess.Popen[bytes]]
    """All workers ever started, of one core each."""

    def __init__(self, folder: Path, ending: ExitStack, hidden: Path | None) -> None:
        self._folder, self._ending, self._hidden, self.workers = folder, ending, hidden, []
        port = _free_port()
        self.url = f"spark://{_LOOPBACK}:{port}"
        words = (f"{_DEPLOY}.master.Master", "-h", _LOOPBACK, "-p", str(port), "--webui-port", "0")
        self._start("master", "New state: ALIVE", *words)

    def start_worker(self) -> None:
        """Start one more worker, with a host address of its own."""
        number = len(self.workers)
        name, host = f"worker{number}", f"127.0.0.{number + 2}"
        words = ("-h", host, "-c", "1", "-m", "1g", "--webui-port", "0", "-d", str(self._folder / name))
        deploy = (f"{_DEPLOY}.worker.Worker", *words, self.url)
        self.workers.append(self._start(name, "Successfully registered", *deploy, host=host))

    def _start(self, name: str, message: str, *words: str, host: str = _LOOPBACK) -> subprocess.Popen[bytes]:
        """Start a part and wait until it has logged ``message``. Workers do not see the hidden folder."""
        log = self._folder / f"{name}.log"
        environment = os.environ | {"SPARK_LOCAL_IP": host, "PYSPARK_PYTHON": sys.executable}
        command = [str(SPARK_HOME / "bin" / "spark-class"), *words]
        if self._hidden is not None and host != _LOOPBACK:
            command = [
                *_UNSHARE,
                f'mount -t tmpfs none {shlex.quote(str(self._hidden))} && exec "$@"',
                "sh",
                *command,
            ]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
        self._ending.callback(_end, process)
        until = time.monotonic() + _START_SECONDS
        while message not in log.read_text():
            assert process.poll() is None, f"{name} has ended: see {log}"
            assert time.monotonic() < until, f"{name} did not start: see {log}"
            time.sleep(0.1)
        return process


def can_hide() -> bool:
    """Whether this machine permits private mounts."""
    try:
        return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def standalone(folder: Path, workers: int, hidden: Path | None = None) -> Iterator[Cluster]:
    """A cluster for the block. No worker sees the files of the ``hidden`` folder."""
    with ExitStack() as ending:
        cluster = Cluster(folder, ending, hidden)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        return int(listener.getsockname()[1])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)

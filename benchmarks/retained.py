"""How long a result is under way while much is retained: from a live stream to the output, 20 tuples at a time.

The operator is filled over sockets with as many tuples as asked, which stay. Then come pieces of 20 tuples (for EXCEPT
a punctuation of the other input, too), each after the results of the one before, and 20 results of each. Measured is
the time from the sending of a piece to the arrival of its last result. Both ends are in this process, the engine is in
one of its own.

    python benchmarks/retained.py [--retained N ...] [--pieces N] [--only NAME ...] [--engine local|spark] [--plot FILE]

Prints JSON: medians in milliseconds, and the last as a multiple of the first. On the local engine 1,000,000 retained
take at most 1.5 times as long as 20,000. On Spark a piece is a micro-batch; the target is the same.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import common

NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"
PIECE = 20
WARM_UP_PIECES = 5
FILL = 20_000
"""Tuples sent at a time while filling."""
SPAN = 1000
"""Of so many keys are those that find a partner: at least as many have to be retained."""
TARGETS = {"largest_against_smallest": 1.5}
STREAM = "CREATE STREAM {0} (k INT NOT NULL, v INT) WITH (source = 'tcp://127.0.0.1:{1}', element = 't');"  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query over ``a`` and maybe ``b``, and what to send: what stays, and a piece that has `PIECE` results."""

    query: str
    streams: str
    fill: Callable[[int, int], dict[str, str]]
    piece: Callable[[int], dict[str, str]]
    at_once: bool = True
    """Whether each tuple that fills has a result, too."""


def tuples(begin: int, end: int, v: int = 0) -> str:
    """Tuples of the keys from ``begin`` to ``end``."""
    return "".join(f"<t><k>{k}</k><v>{k % 97 + v}</v></t>\n" for k in range(begin, end))


def closed(begin: int, end: int) -> str:
    """The punctuation of these keys."""
    return f"<punct:t><k>[{begin},{end})</k></punct:t>\n"


CASES = {
    "distinct": Case(
        "SELECT DISTINCT k, v FROM a",
        "a",
        lambda begin, end: {"a": tuples(begin, end)},
        lambda at: {"a": tuples(at, at + PIECE)},
    ),
    "join": Case(
        "SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k",
        "ab",
        lambda begin, end: {"b": tuples(begin, end)},
        lambda at: {"a": tuples(at % SPAN, at % SPAN + PIECE, 1)},
        at_once=False,
    ),
    "except": Case(
        "SELECT k, v FROM a EXCEPT SELECT k, v FROM b",
        "ab",
        lambda begin, end: {"a": tuples(begin, end)},
        lambda at: {"a": tuples(at, at + PIECE), "b": closed(at, at + PIECE)},
        at_once=False,
    ),
}


class Results:
    """The lines that have come out, counted by a thread."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output, self.count, self.bell = output, 0, threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for line in self._output:
            if not line.startswith(b'{"$punct"'):
                with self.bell:
                    self.count += 1
                    self.bell.notify_all()

    def wait(self, count: int) -> float:
        """When so many had come."""
        with self.bell:
            if not self.bell.wait_for(lambda: self.count >= count, timeout=120):
                sys.exit(f"{count - self.count} results are missing")
        return time.monotonic()

    def join(self) -> None:
        self._thread.join()


def latencies(case: Case, retained: int, pieces: int, engine: str) -> Iterator[float]:
    """Seconds from the sending of each piece to its last result."""
    servers = {name: socket.create_server(("127.0.0.1", 0)) for name in case.streams}
    declared = "".join(STREAM.format(name, server.getsockname()[1]) for name, server in servers.items())
    command = [sys.executable, "-m", "xmlpunct", "run", "--engine", engine, "--format", "jsonl"]
    command += ["-q", declared + case.query]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        results = Results(process.stdout)
        peers = {}
        for name, server in servers.items():
            server.settimeout(120)
            peers[name], _ = server.accept()
            peers[name].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peers[name].sendall(f'<stream xmlns:punct="{NAMESPACE}">\n'.encode())

        def send(parts: dict[str, str]) -> None:
            for name, text in parts.items():
                peers[name].sendall(text.encode())

        for begin in range(0, retained, FILL):
            send(case.fill(begin, min(begin + FILL, retained)))
        expected = retained if case.at_once else 0
        results.wait(expected)
        for number in range(WARM_UP_PIECES + pieces):
            began = time.monotonic()
            send(case.piece(retained + number * PIECE))
            expected += PIECE
            came = results.wait(expected)
            if number >= WARM_UP_PIECES:
                yield came - began
        for name, peer in peers.items():
            peer.sendall(b"</stream>\n")
            peer.close()
            servers[name].close()
        results.join()
        if process.wait() != 0:
            sys.exit("the engine failed")


def measure(case: Case, given: Any) -> dict[str, Any]:
    """The medians by what is retained."""
    points = []
    for n in given.retained:
        times = [1000 * t for t in latencies(case, n, given.pieces, given.engine)]
        points.append(
            {"n": n, "median_ms": round(statistics.median(times), 2), "max_ms": round(max(times), 2)}
        )
    ratio = points[-1]["median_ms"] / points[0]["median_ms"]
    return {"points": points, "largest_against_smallest": round(ratio, 2)}


def draw(axes: Any, measured: dict[str, Any]) -> None:
    for name, figures in measured.items():
        points = figures["points"]
        axes.plot([p["n"] for p in points], [p["median_ms"] for p in points], "o-", label=name)
    axes.set(xscale="log", xlabel="tuples retained", ylabel="milliseconds")
    axes.legend()


def main() -> None:
    parser = common.options(__doc__)
    parser.add_argument(
        "--retained", type=int, nargs="+", default=(20_000, 1_000_000), help="tuples that stay"
    )
    parser.add_argument("--pieces", type=int, default=50, help="pieces to measure")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), help="measure these alone")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    given = parser.parse_args()
    measured = {name: measure(CASES[name], given) for name in given.only}
    common.report({**measured, "targets": TARGETS})
    common.plot(given.plot, lambda axes: draw(axes, measured))


if __name__ == "__main__":
    main()

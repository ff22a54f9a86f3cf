"""How long a result is under way on the local engine, from a live stream to the output.

A stream of temperature reports comes over a socket at 5,000 tuples a second, with a punctuation after every 100
tuples that closes their group. Measured is the time from the sending of a punctuation to the arrival of the
group's result at the other end of the output. Both ends are in this process, the engine is in one of its own.

    python benchmarks/latency.py [--seconds S] [--rate N] [--group N] [--plot FILE]

Prints JSON: times in milliseconds. The target is that 99 of 100 take at most 10.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from typing import IO, Any

import common

NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"
QUERY = """
CREATE STREAM reports (part INT NOT NULL, sid STRING, currtmp INT)
  WITH (source = 'tcp://127.0.0.1:{port}', element = 'tempdata');
SELECT part, MAX(currtmp) AS maxtemp, COUNT(*) AS n FROM reports GROUP BY part
"""
WARM_UP_GROUPS = 20
BINS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
BAR = 50
TARGETS = {"p99_ms": 10.0}
RESULT = re.compile(rb'"part":\s*(\d+),')


def send(peer: socket.socket, groups: int, size: int, rate: float, sent: dict[int, float]) -> None:
    """Send the stream in time; ``sent`` gets when the punctuation of each group left."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(f'<stream xmlns:punct="{NAMESPACE}">\n'.encode())
    began = time.monotonic()
    for group in range(groups):
        for i in range(size):
            early = began + (group * size + i) / rate - time.monotonic()
            if early > 0:
                time.sleep(early)
            report = f"<part>{group}</part><sid>S{i % 7:02}</sid><currtmp>{(group * i) % 97}</currtmp>"
            peer.sendall(f"<tempdata>{report}</tempdata>\n".encode())
        closed = f"<punct:tempdata><part>{group}</part></punct:tempdata>\n".encode()
        sent[group] = time.monotonic()
        peer.sendall(closed)
    peer.sendall(b"</stream>\n")
    peer.close()


def receive(output: IO[bytes], arrived: dict[int, float]) -> None:
    """Take the output line by line; ``arrived`` gets when the result of each group came."""
    for line in output:
        now = time.monotonic()
        if found := RESULT.search(line):
            arrived[int(found[1])] = now


def measure(seconds: float, rate: float, size: int) -> list[float]:
    """The latencies of all groups after the first few, in milliseconds."""
    groups = int(seconds * rate / size) + WARM_UP_GROUPS
    sent: dict[int, float] = {}
    arrived: dict[int, float] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        query = QUERY.format(port=server.getsockname()[1])
        command = [
            sys.executable,
            "-m",
            "xmlpunct",
            "run",
            "--engine",
            "local",
            "--format",
            "jsonl",
            "-q",
            query,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as engine:
            assert engine.stdout is not None
            receiver = threading.Thread(target=receive, args=(engine.stdout, arrived))
            receiver.start()
            try:
                peer, _ = server.accept()
                send(peer, groups, size, rate, sent)
            finally:
                receiver.join()
            if engine.wait() != 0:
                sys.exit("the engine failed")
    late = set(sent) - set(arrived)
    if late:
        sys.exit(f"{len(late)} groups have no result")
    return [1000 * (arrived[g] - sent[g]) for g in range(WARM_UP_GROUPS, groups)]


def histogram(values: list[float]) -> list[str]:
    """A line of text per bin."""
    lines = []
    for low, high in zip((0.0, *BINS), (*BINS, float("inf")), strict=True):
        count = sum(low <= v < high for v in values)
        lines.append(f"{low:>6g} to {high:<4g} ms {count:>5} {'#' * round(BAR * count / len(values))}")
    return lines


def draw(axes: Any, values: list[float]) -> None:
    """How many of all results had come after so many milliseconds."""
    axes.step(values, [(i + 1) / len(values) for i in range(len(values))], where="post")
    axes.axvline(TARGETS["p99_ms"], linestyle=":", color="grey")
    axes.axhline(0.99, linestyle=":", color="grey")
    axes.set(xscale="log", xlabel="milliseconds", ylabel="share of results")
    low, high = axes.get_xlim()
    ticks = [ms for ms in BINS if low < ms < high]
    axes.set_xticks(ticks, [f"{ms:g}" for ms in ticks])
    axes.minorticks_off()


def main() -> None:
    parser = common.options(__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="how long to measure")
    parser.add_argument("--rate", type=float, default=5000, help="tuples a second")
    parser.add_argument("--group", type=int, default=100, help="tuples per punctuation")
    given = parser.parse_args()
    values = sorted(measure(given.seconds, given.rate, given.group))
    common.report(
        {
            "tuples_per_second": given.rate,
            "tuples_per_punctuation": given.group,
            "results": len(values),
            "median_ms": round(values[len(values) // 2], 2),
            "p99_ms": round(values[min(len(values) - 1, int(len(values) * 0.99))], 2),
            "max_ms": round(values[-1], 2),
            "histogram": histogram(values),
            "targets": TARGETS,
        }
    )
    common.plot(given.plot, lambda axes: draw(axes, values))


if __name__ == "__main__":
    main()

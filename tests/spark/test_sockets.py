"""Sockets and files that grow on Spark: copied into a spool first, and read from there."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import spooled, take_back_end
from tests.spark.support import SCHEMA, Warehouse, everything, locally, on_spark, read_back, split
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_sink import Bench
from tests.spark.test_stages import Cluster
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.run.inputs.ranges import STEP
from xmlpunct.engine.run.inputs.segments import End, end_of, finish, open_at
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import InputStats, RunStats
from xmlpunct.engine.spark import run
from xmlpunct.engine.spark.backpressure import Wish
from xmlpunct.engine.spark.spark_source import IDLE_SECONDS, QueryReader
from xmlpunct.engine.sql import plan

DOCUMENT = b"<s><tempdata><hour>1</hour></tempdata></s>\n"


@contextmanager
def sending(data: bytes, then: Callable[[], object] = bool) -> Iterator[str]:
    """A peer that sends some bytes to whoever connects to the source named, does something, and closes."""

    def serve() -> None:
        made, _ = server.accept()
        with made:
            made.sendall(data)
            then()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        thread.join(5)


def from_elsewhere(query: Query, **sources: str) -> Query:
    """The same query with other sources for some streams."""

    def moved(stream: Stream) -> Stream:
        return replace(stream, source=sources.get(stream.name, stream.source))

    def over(node: Any) -> Any:
        if hasattr(node, "stream"):
            return replace(node, stream=moved(node.stream))
        return node.over([over(child) for child in node.inputs])

    return replace(query.over([over(query.root)]), streams=tuple(map(moved, query.streams)))


def spool_bytes(path: str | Path) -> bytes:
    """What a spool holds."""
    with open_at(path, 0) as file:
        return file.read()


@pytest.mark.parametrize("known", [0, 10, len(DOCUMENT)])
def test_a_connection_made_again_has_to_repeat(tmp_path: Path, known: int) -> None:
    with sending(DOCUMENT) as name:
        query = from_elsewhere(everything(tmp_path, SCHEMA), sensor1=name)
        (given,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(given.parts[0].path)
        spooled(path, DOCUMENT[:known])
        (spool,) = unfinished([given])
        spool.run()
    assert spool_bytes(path) == DOCUMENT
    assert end_of(path) == End(None)


def test_a_connection_that_does_not_repeat_fails(tmp_path: Path) -> None:
    with sending(DOCUMENT) as name:
        query = from_elsewhere(everything(tmp_path, SCHEMA), sensor1=name)
        (given,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(given.parts[0].path)
        spooled(path, DOCUMENT.replace(b"1", b"2"))
        (spool,) = unfinished([given])
        spool.run()
    assert b"2" in spool_bytes(path)
    assert "earlier run was lost" in str(end_of(path))


def test_a_spool_that_is_stopped_has_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(DOCUMENT)
    query = from_elsewhere(everything(path, SCHEMA), sensor1=f"follow:{path}")
    (given,), (spool,) = find_inputs(query, tmp_path / "spool")
    spool.start()
    while spool_bytes(given.parts[0].path) != DOCUMENT:
        time.sleep(0.001)
    spool.stop()
    spool.join(5)
    assert not spool.is_alive()
    assert end_of(given.parts[0].path) is None


PEERS = """CREATE STREAM a (hour INT NOT NULL, x INT)
             WITH (source = 'tcp-listen://127.0.0.1:0', connections = 2, element = 't') PUNCTUATE ORDER BY hour;
           SELECT hour, COUNT(*) AS n FROM a GROUP BY hour"""


def hours(*given: int) -> bytes:
    return b"".join([b"<s>", *(b"<t><hour>%d</hour></t>" % hour for hour in given), b"</s>"])


@contextmanager
def connecting(
    caplog: pytest.LogCaptureFixture, *sent: bytes, pause: Callable[[], object] = bool
) -> Iterator[None]:
    """Peers that connect, one after the other, to the port that is listened on by then, and send this.

    Each makes a ``pause`` before the last four bytes.
    """

    def serve() -> None:
        end = time.monotonic() + 300
        while not (said := [m for m in caplog.messages if "listening on port" in m]):
            assert time.monotonic() < end
            time.sleep(0.01)
        for data in sent:
            with socket.create_connection(("127.0.0.1", int(said[0].split()[-1]))) as made:
                made.sendall(data[:-4])
                pause()
                made.sendall(data[-4:])

    caplog.clear()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(5)


def copied(spools: list[Spool]) -> None:
    """Let spools copy all that there is, one after the other, so that it is known who gets which peer."""
    for spool in spools:
        spool.run()


def test_each_sender_has_a_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, two = hours(1, 2), hours(7, 8, 9)
    inputs, spools = find_inputs(plan(PEERS), tmp_path / "spool")
    with connecting(caplog, one, two):
        copied(spools)
    assert [(i.streams, i.sender) for i in inputs] == [((0,), 1), ((1,), 2)]
    paths = [Path(i.parts[0].path) for i in inputs]
    assert [spool_bytes(path) for path in paths] == [one, two]

    assert unfinished(inputs) == []
    for path in paths:
        take_back_end(path)
        spooled(path, spool_bytes(path)[:9])
    with connecting(caplog, one, two):
        copied(unfinished(inputs))
    assert [spool_bytes(path) for path in paths] == [one, two]
    assert all(end_of(path) == End(None) for path in paths)


def test_whom_others_wait_for_is_named(tmp_path: Path, warehouse: Warehouse) -> None:
    """By time alone: nothing is read any more."""
    query = warehouse.hottest()
    paths = [tmp_path / "0.xml", tmp_path / "1.xml"]
    for path, text in zip(
        paths, ("<s><tempdata>", Path(str(query.streams[1].source)).read_text()), strict=True
    ):
        spooled(path, text.encode())
    job = job_of(query, tmp_path, slice_bytes=10**6)
    inputs = [
        replace(given, parts=(replace(given.parts[0], path=str(path), size=None, spooled=True),))
        for given, path in zip(job.inputs, paths, strict=True)
    ]
    job = replace(job, inputs=tuple(inputs))
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    sink = bench.sink()
    (rows,) = micro_batches(job)
    sink.take(cluster.push(rows), 0)

    def named() -> list[str]:
        sink.look_for_idle()
        return [idle.input for idle in bench.stats.idle]

    assert named() == []  # only just now
    for path in paths:
        os.utime(path, (0, time.time() - 9))
    assert named() == ["sensor1"]
    (idle,) = bench.stats.idle
    assert 9 <= idle.seconds < 60
    assert 0 < idle.holds_up <= bench.stats.state_rows
    spooled(paths[0], b" " * 2 * STEP)
    os.utime(paths[0], (0, time.time() - 9))
    assert named() == []  # it is for us to read that
    finish(paths[0], None)
    assert named() == []


def test_who_lags_behind_another_is_not_late(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with connecting(caplog, hours(5, 6, 4), hours(1, 2, 5)):
        job = job_of(plan(PEERS), tmp_path, 2, 30)
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    sink = bench.sink()
    for number, rows in enumerate(micro_batches(job)):
        sink.take(cluster.push(rows), number)
    found, _ = split(read_back(bench.out, job.query.root.schema))
    assert found == [(1, 1), (2, 1), (5, 2), (6, 1)]
    assert sink.done.is_set()
    assert bench.stats.inputs == {"a": InputStats(6, 0, 0, len(hours(5, 6, 4, 1, 2, 5)) + len(hours()))}
    assert bench.stats.rejected == 1


def test_who_is_silent_is_not_waited_for_and_nobody_spins(tmp_path: Path, warehouse: Warehouse) -> None:
    silent = tmp_path / "silent.xml"
    silent.touch()
    query = warehouse.hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    part = replace(job.inputs[0].parts[0], path=str(silent), size=None, spooled=True)
    job = replace(job, inputs=(replace(job.inputs[0], parts=(part,)), job.inputs[1]))
    Wish(0).write(Path(job.pacing))  # all others wait for the one that says nothing
    reader = QueryReader(job)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert end["0"] == start["0"]
    assert end["1"]["eos"]

    began = time.monotonic()
    assert reader.latestOffset(end, None) == end
    assert time.monotonic() - began >= IDLE_SECONDS
    timer = threading.Timer(0.02, lambda: spooled(silent, DOCUMENT))
    timer.start()
    began = time.monotonic()
    assert reader.latestOffset(end, None) == end  # it has come, so look again
    assert time.monotonic() - began < IDLE_SECONDS
    timer.join()
    assert reader.latestOffset(end, None) != end


@pytest.mark.spark
def test_a_socket_and_a_file_that_grows(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    query = warehouse.hottest()
    locally(query, tmp_path / "expected.xml")
    one, two = (Path(str(s.source)).read_bytes() for s in query.streams)
    growing = tmp_path / "growing.xml"
    growing.write_bytes(two[:1000])

    def grow() -> None:
        time.sleep(0.3)  # by then the other spool reads too
        with open(growing, "ab") as file:
            file.write(two[1000:])
        growing.unlink()

    with sending(one, grow) as name:
        live = from_elsewhere(query, sensor1=name, sensor2=f"follow:{growing}")
        stats = on_spark(spark, live, tmp_path / "out.xml")
    found, expected = (
        split(read_back(tmp_path / name, query.root.schema)) for name in ("out.xml", "expected.xml")
    )
    assert found[0] == expected[0]
    assert stats.inputs["sensor1"].bytes == len(one)


@pytest.mark.spark
def test_several_senders(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    query, stats, seen = plan(PEERS), RunStats("spark"), []

    def wait() -> None:
        """As the first peer, until the second is named: it is not even there."""
        end = time.monotonic() + 300
        while not seen:
            assert time.monotonic() < end
            time.sleep(0.1)

    with connecting(caplog, hours(1, 2, 2, 3), hours(2, 9), pause=wait):
        options = RunOptions(output=str(tmp_path / "out.xml"))
        run(query, options, stats, lambda s: seen.extend(i.input for i in s.idle), spark)
    found, _ = split(read_back(tmp_path / "out.xml", query.root.schema))
    assert found == [(1, 1), (2, 3), (3, 1), (9, 1)]
    assert {name: i.tuples for name, i in stats.inputs.items()} == {"a": 6}
    assert set(seen) in ({"a#1"}, {"a#2"})  # whichever was let in second
    assert stats.idle == []

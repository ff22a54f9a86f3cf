"""Sockets and growing files on Spark: the run copies them into a spool, and reads the spool."""

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
from tests.spark.support import SCHEMA, Warehouse, locally, on_spark, read_back, select_all, split
from tests.spark.test_ranges import job_of, micro_batches
from tests.spark.test_sink import Bench
from tests.spark.test_stages import Cluster
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.run.inputs.segments import End, end_of, finish, open_at
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.run.stats import InputStats, RunStats
from xmlpunct.engine.spark import run
from xmlpunct.engine.spark.backpressure import Wish
from xmlpunct.engine.spark.spark_source import IDLE_SECONDS, QueryReader
from xmlpunct.engine.sql import plan
from xmlpunct.firehose.slice_reader import STEP

DOCUMENT = b"<s><tempdata><hour>1</hour></tempdata></s>\n"


@contextmanager
def sending(data: bytes, action: Callable[[], object] = bool) -> Iterator[str]:
    """The source name of a peer that sends ``data`` to its first client, calls ``action``, and closes."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(data)
            action()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        thread.join(5)


def with_sources(query: Query, **sources: str) -> Query:
    """The same query with other sources for some streams."""

    def with_source(stream: Stream) -> Stream:
        return replace(stream, source=sources.get(stream.name, stream.source))

    def with_scans(node: Any) -> Any:
        if hasattr(node, "stream"):
            return replace(node, stream=with_source(node.stream))
        return node.over([with_scans(child) for child in node.inputs])

    return replace(query.over([with_scans(query.root)]), streams=tuple(map(with_source, query.streams)))


def spool_bytes(path: str | Path) -> bytes:
    """The bytes of a spool."""
    with open_at(path, 0) as file:
        return file.read()


@pytest.mark.parametrize("spooled_length", [0, 10, len(DOCUMENT)])
def test_a_new_connection_repeats_the_spooled_bytes(tmp_path: Path, spooled_length: int) -> None:
    with sending(DOCUMENT) as name:
        query = with_sources(select_all(tmp_path, SCHEMA), sensor1=name)
        (input_,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(input_.parts[0].path)
        spooled(path, DOCUMENT[:spooled_length])
        (spool,) = unfinished([input_], query)
        spool.run()
    assert spool_bytes(path) == DOCUMENT
    assert end_of(path) == End(None)


def test_a_connection_that_does_not_repeat_fails(tmp_path: Path) -> None:
    with sending(DOCUMENT) as name:
        query = with_sources(select_all(tmp_path, SCHEMA), sensor1=name)
        (input_,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(input_.parts[0].path)
        spooled(path, DOCUMENT.replace(b"1", b"2"))
        (spool,) = unfinished([input_], query)
        spool.run()
    assert b"2" in spool_bytes(path)
    assert "earlier run was lost" in str(end_of(path))


def test_a_spool_that_is_stopped_has_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(DOCUMENT)
    query = with_sources(select_all(path, SCHEMA), sensor1=f"follow:{path}")
    (input_,), (spool,) = find_inputs(query, tmp_path / "spool")
    spool.start()
    while spool_bytes(input_.parts[0].path) != DOCUMENT:
        time.sleep(0.001)
    spool.stop()
    spool.join(5)
    assert not spool.is_alive()
    assert end_of(input_.parts[0].path) is None


PEERS = """CREATE STREAM a (hour INT NOT NULL, x INT)
             WITH (source = 'tcp-listen://127.0.0.1:0', connections = 2, element = 't') PUNCTUATE ORDER BY hour;
           SELECT hour, COUNT(*) AS n FROM a GROUP BY hour"""


def document_of_hours(*numbers: int) -> bytes:
    return b"".join([b"<s>", *(b"<t><hour>%d</hour></t>" % hour for hour in numbers), b"</s>"])


@contextmanager
def connecting(
    caplog: pytest.LogCaptureFixture, *documents: bytes, pause: Callable[[], object] = bool
) -> Iterator[None]:
    """Peers that connect one after the other to the listening port, and send one document each.

    Each calls ``pause`` before its last four bytes.
    """

    def serve() -> None:
        end = time.monotonic() + 300
        while not (messages := [m for m in caplog.messages if "listening on port" in m]):
            assert time.monotonic() < end
            time.sleep(0.01)
        for data in documents:
            with socket.create_connection(("127.0.0.1", int(messages[0].split()[-1]))) as connection:
                connection.sendall(data[:-4])
                pause()
                connection.sendall(data[-4:])

    caplog.clear()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join(5)


def run_in_turn(spools: list[Spool]) -> None:
    """Run the spools one after the other, so that the order of peers is certain."""
    for spool in spools:
        spool.run()


def test_each_sender_has_a_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first_document, second_document = document_of_hours(1, 2), document_of_hours(7, 8, 9)
    inputs, spools = find_inputs(plan(PEERS), tmp_path / "spool")
    with connecting(caplog, first_document, second_document):
        run_in_turn(spools)
    assert [(i.streams, i.sender) for i in inputs] == [((0,), 1), ((1,), 2)]
    paths = [Path(i.parts[0].path) for i in inputs]
    assert [spool_bytes(path) for path in paths] == [first_document, second_document]

    assert unfinished(inputs, plan(PEERS)) == []
    for path in paths:
        take_back_end(path)
        spooled(path, spool_bytes(path)[:9])
    with connecting(caplog, first_document, second_document):
        run_in_turn(unfinished(inputs, plan(PEERS)))
    assert [spool_bytes(path) for path in paths] == [first_document, second_document]
    assert all(end_of(path) == End(None) for path in paths)


def test_an_idle_input_is_named(tmp_path: Path, warehouse: Warehouse) -> None:
    """An input becomes idle with time, without a further micro-batch."""
    query = warehouse.hottest()
    paths = [tmp_path / "0.xml", tmp_path / "1.xml"]
    for path, text in zip(
        paths, ("<s><tempdata>", Path(str(query.streams[1].source)).read_text()), strict=True
    ):
        spooled(path, text.encode())
    job = job_of(query, tmp_path, slice_bytes=10**6)
    inputs = [
        replace(input_, parts=(replace(input_.parts[0], path=str(path), size=None, spooled=True),))
        for input_, path in zip(job.inputs, paths, strict=True)
    ]
    job = replace(job, inputs=tuple(inputs))
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    sink = bench.sink()
    (rows,) = micro_batches(job)
    sink.take(cluster.push(rows), 0)

    def idle_inputs() -> list[str]:
        sink.look_for_idle()
        return [idle.input for idle in bench.stats.idle]

    assert idle_inputs() == []  # the files are new
    for path in paths:
        os.utime(path, (0, time.time() - 9))
    assert idle_inputs() == ["sensor1"]
    (idle,) = bench.stats.idle
    assert 9 <= idle.seconds < 60
    assert 0 < idle.holds_up <= bench.stats.state_rows
    spooled(paths[0], b" " * 2 * STEP)
    os.utime(paths[0], (0, time.time() - 9))
    assert idle_inputs() == []  # unread bytes: the input is not idle
    finish(paths[0], None)
    assert idle_inputs() == []


def test_a_sender_behind_another_one_is_not_late(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with connecting(caplog, document_of_hours(5, 6, 4), document_of_hours(1, 2, 5)):
        job = job_of(plan(PEERS), tmp_path, 2, 30)
    bench, cluster = Bench(tmp_path, job), Cluster(job)
    sink = bench.sink()
    for number, rows in enumerate(micro_batches(job)):
        sink.take(cluster.push(rows), number)
    tuples, _ = split(read_back(bench.out, job.query.root.schema))
    assert tuples == [(1, 1), (2, 1), (5, 2), (6, 1)]
    assert sink.done.is_set()
    assert bench.stats.inputs == {
        "a": InputStats(6, 0, 0, len(document_of_hours(5, 6, 4, 1, 2, 5)) + len(document_of_hours()))
    }
    assert bench.stats.rejected == 1


def test_the_reader_sleeps_while_the_requested_input_has_no_bytes(
    tmp_path: Path, warehouse: Warehouse
) -> None:
    silent = tmp_path / "silent.xml"
    silent.touch()
    query = warehouse.hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    part = replace(job.inputs[0].parts[0], path=str(silent), size=None, spooled=True)
    job = replace(job, inputs=(replace(job.inputs[0], parts=(part,)), job.inputs[1]))
    Wish(0).write(Path(job.pacing))  # requests an input that has no bytes yet
    reader = QueryReader(job)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert end["0"] == start["0"]
    assert end["1"]["eos"]

    start_time = time.monotonic()
    assert reader.latestOffset(end, None) == end
    assert time.monotonic() - start_time >= IDLE_SECONDS
    timer = threading.Timer(0.02, lambda: spooled(silent, DOCUMENT))
    timer.start()
    start_time = time.monotonic()
    assert reader.latestOffset(end, None) == end  # the bytes arrived during the call; the next one finds them
    assert time.monotonic() - start_time < IDLE_SECONDS
    timer.join()
    assert reader.latestOffset(end, None) != end


@pytest.mark.spark
def test_a_socket_and_a_file_that_grows(spark: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    query = warehouse.hottest()
    locally(query, tmp_path / "expected.xml")
    first_document, second_document = (Path(str(s.source)).read_bytes() for s in query.streams)
    growing = tmp_path / "growing.xml"
    growing.write_bytes(second_document[:1000])

    def grow() -> None:
        time.sleep(0.3)  # by then the other spool reads too
        with open(growing, "ab") as file:
            file.write(second_document[1000:])
        growing.unlink()

    with sending(first_document, grow) as name:
        live_query = with_sources(query, sensor1=name, sensor2=f"follow:{growing}")
        stats = on_spark(spark, live_query, tmp_path / "out.xml")
    output, expected = (
        split(read_back(tmp_path / name, query.root.schema)) for name in ("out.xml", "expected.xml")
    )
    assert output[0] == expected[0]
    assert stats.inputs["sensor1"].bytes == len(first_document)


@pytest.mark.spark
def test_several_senders(spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    query, stats, idle_inputs = plan(PEERS), RunStats("spark"), []

    def wait() -> None:
        """The first peer waits until the second one is reported as idle, before that one connects."""
        end = time.monotonic() + 300
        while not idle_inputs:
            assert time.monotonic() < end
            time.sleep(0.1)

    with connecting(caplog, document_of_hours(1, 2, 2, 3), document_of_hours(2, 9), pause=wait):
        options = RunOptions(output=str(tmp_path / "out.xml"))
        run(query, options, stats, lambda s: idle_inputs.extend(i.input for i in s.idle), spark)
    tuples, _ = split(read_back(tmp_path / "out.xml", query.root.schema))
    assert tuples == [(1, 1), (2, 3), (3, 1), (9, 1)]
    assert {name: i.tuples for name, i in stats.inputs.items()} == {"a": 6}
    assert set(idle_inputs) in ({"a#1"}, {"a#2"})  # the accepted order is arbitrary
    assert stats.idle == []

"""Sockets and files that grow on Spark: copied into a spool first, and read from there."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.spark.support import SCHEMA, Warehouse, everything, locally, on_spark, read_back, split
from tests.spark.test_ranges import job_of
from xmlpunct.engine.durable.inputs import find_inputs, unfinished
from xmlpunct.engine.durable.ranges import end_marker
from xmlpunct.engine.plan import Query, Stream
from xmlpunct.engine.spark.source import IDLE_SECONDS, QueryReader
from xmlpunct.errors import UsageError

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

    return replace(query, root=over(query.root), streams=tuple(map(moved, query.streams)))


@pytest.mark.parametrize("known", [0, 10, len(DOCUMENT)])
def test_a_connection_made_again_has_to_repeat(tmp_path: Path, known: int) -> None:
    with sending(DOCUMENT) as name:
        query = from_elsewhere(everything(tmp_path, SCHEMA), sensor1=name)
        (given,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(given.parts[0].path)
        path.write_bytes(DOCUMENT[:known])
        (spool,) = unfinished([given])
        spool.run()
    assert path.read_bytes() == DOCUMENT
    assert json.loads(end_marker(path).read_text()) == {"failure": None}


def test_a_connection_that_does_not_repeat_fails(tmp_path: Path) -> None:
    with sending(DOCUMENT) as name:
        query = from_elsewhere(everything(tmp_path, SCHEMA), sensor1=name)
        (given,), _ = find_inputs(query, tmp_path / "spool")
        path = Path(given.parts[0].path)
        path.write_bytes(DOCUMENT.replace(b"1", b"2"))
        (spool,) = unfinished([given])
        spool.run()
    assert b"2" in path.read_bytes()
    assert "earlier run was lost" in json.loads(end_marker(path).read_text())["failure"]


def test_a_spool_that_is_stopped_has_not_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(DOCUMENT)
    query = from_elsewhere(everything(path, SCHEMA), sensor1=f"follow:{path}")
    (given,), (spool,) = find_inputs(query, tmp_path / "spool")
    spool.start()
    while Path(given.parts[0].path).read_bytes() != DOCUMENT:
        time.sleep(0.001)
    spool.stop()
    spool.join(5)
    assert not spool.is_alive()
    assert not end_marker(given.parts[0].path).exists()


def test_several_senders_are_refused(tmp_path: Path) -> None:
    query = everything(tmp_path, SCHEMA)
    query = from_elsewhere(query, sensor1="tcp-listen://127.0.0.1:0?connections=2")
    with pytest.raises(UsageError, match="--engine local"):
        find_inputs(query, tmp_path)


def test_who_is_silent_is_not_waited_for_and_nobody_spins(tmp_path: Path, warehouse: Warehouse) -> None:
    silent = tmp_path / "silent.xml"
    silent.touch()
    query = warehouse.hottest()
    job = replace(job_of(query, tmp_path, slice_bytes=10**6), pacing=str(tmp_path / "pacing"))
    part = replace(job.inputs[0].parts[0], path=str(silent), size=None, spooled=True)
    job = replace(job, inputs=(replace(job.inputs[0], parts=(part,)), job.inputs[1]))
    Path(job.pacing).write_text("0")  # all others wait for the one that says nothing
    reader = QueryReader(job)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert end["0"] == start["0"]
    assert end["1"]["eos"]

    began = time.monotonic()
    assert reader.latestOffset(end, None) == end
    assert time.monotonic() - began >= IDLE_SECONDS
    timer = threading.Timer(0.02, lambda: silent.write_bytes(DOCUMENT))
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

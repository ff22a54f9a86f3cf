"""Results of a query, by each way to read them."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmlpunct
from tests.strategies import POOLS
from tests.test_threads import together
from xmlpunct import Punctuation, QueryResults, SourceError, UsageError
from xmlpunct.firehose.writer import XmlWriter
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
DDL = "CREATE STREAM t (a INT, b STRING);"
ROWS = [(n, f"b{n}") for n in range(1000)]
FEED = b"<s>" + b"".join(b"<t><a>%d</a><b>b%d</b></t>" % (n, n) for n in range(1000)) + b"</s>"
SQL = DDL + "SELECT a, b FROM t"

WAYS: dict[str, Callable[[QueryResults], list[Any]]] = {
    "for": lambda results: [r for r in results if isinstance(r, tuple)],
    "batches": lambda results: [row for batch in results.batches() for row in batch.rows()],
    "to_polars": lambda results: results.to_polars().rows(),
    "pyarrow": lambda results: [tuple(row.values()) for row in pa.table(results).to_pylist()],
    "polars": lambda results: pl.DataFrame(results).rows(),
    "duckdb": lambda results: duckdb.connect().from_arrow(results).fetchall(),
    "duckdb by name": lambda results: duckdb.connect().sql("SELECT * FROM results").fetchall(),
    "pandas": lambda results: list(pa.table(results).to_pandas().itertuples(index=False, name=None)),
    "async for": lambda results: asyncio.run(gathered(results)),
}


async def gathered(results: QueryResults) -> list[Any]:
    return [r async for r in results if isinstance(r, tuple)]


def threads_running() -> list[threading.Thread]:
    """Python's threads, without foreign threads, which Python lists as Dummy."""
    return [t for t in threading.enumerate() if not t.name.startswith("Dummy")]


def files_open() -> set[str]:
    """Open files, pipes and sockets of this process, without the event descriptors of polars and asyncio."""
    names = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            names.add(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return {name for name in names if not name.startswith("anon_inode:")}


@pytest.fixture(autouse=True)
def _runs_are_closed() -> Iterator[None]:
    """Abandoned runs end their threads and close their files."""
    pl.LazyFrame({"a": [1]}).collect()  # polars opens a pair of sockets, and keeps it open
    duckdb.sql("SELECT 1").fetchall()
    threads, files = threads_running(), files_open()
    yield
    gc.collect()
    deadline = time.monotonic() + 20
    while len(threads_running()) > len(threads) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(threads_running()) <= len(threads), threads_running()
    assert files_open() <= files


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_the_tuples_each_time(way: str) -> None:
    results = xmlpunct.query(SQL, t=FEED)
    for _ in range(2):
        assert sorted(WAYS[way](results)) == ROWS


@pytest.mark.parametrize("way", WAYS)
def test_each_way_gives_no_rows_of_an_empty_stream(way: str) -> None:
    assert WAYS[way](xmlpunct.query(SQL, t=b"<s/>")) == []


def test_punctuations_are_no_columns() -> None:
    feed = f'<s xmlns:p="{NS}"><t><a>1</a></t><p:t><a>1</a></p:t></s>'.encode()
    results = xmlpunct.query(SQL, t=feed)
    assert [str(r) for r in results] == ["(1, None)", "<1, *>"]
    assert results.to_polars().rows() == [(1, None)]
    assert results.schema.names == ("a", "b")


def test_a_loop_goes_on_where_next_stood() -> None:
    results = xmlpunct.query(SQL, t=FEED)
    assert [next(results), next(results)] == ROWS[:2]
    assert list(results) == ROWS[2:]
    assert list(results) == ROWS
    assert next(results) == ROWS[0]


def test_next_begins_anew_after_an_error() -> None:
    results = xmlpunct.query(SQL, t=FEED[:-30])
    for _ in range(2):
        assert next(results) == ROWS[0]
        with pytest.raises(SourceError, match="cut short"):
            list(results)


def test_duckdb_takes_three_streams_and_reads_one() -> None:
    opened = []

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() == 0 and size != 0:
                opened.append(size)
            return super().read(size)

    results = xmlpunct.query(SQL, t=Counting(FEED))
    opened.clear()
    for _ in range(3):
        assert pa.RecordBatchReader.from_stream(results).schema.names == ["a", "b"]
    assert not opened
    assert duckdb.from_arrow(results).aggregate("COUNT(*), SUM(a)").fetchall() == [(1000, 499500)]
    assert len(opened) == 1


def test_a_stream_can_be_asked_for_other_types() -> None:
    results = xmlpunct.query(SQL, t=FEED)
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    reader = pa.RecordBatchReader.from_stream(results, schema=schema)
    assert reader.schema == schema
    assert reader.read_all().num_rows == 1000


def pipe(data: bytes) -> Any:
    """Read end of a pipe that contains the data."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return os.fdopen(reading, "rb")


@pytest.mark.parametrize("way", ["for", "to_polars", "async for"])
def test_a_second_read_of_a_pipe_is_refused(way: str) -> None:
    with pipe(FEED) as file:
        results = xmlpunct.query(SQL, t=file)
        assert sorted(WAYS[way](results)) == ROWS
        for _ in range(2):
            with pytest.raises(UsageError, match="can be read only once, and was"):
                WAYS[way](results)


def test_duckdb_reads_a_pipe_once() -> None:
    with pipe(FEED) as file:
        results = xmlpunct.query(SQL, t=file)
        assert duckdb.from_arrow(results).fetchall() == ROWS
        with pytest.raises(duckdb.Error, match="can be read only once"):
            duckdb.from_arrow(results).fetchall()


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = pipe(FEED)

    monkeypatch.setattr(sys, "stdin", Input)
    with Input.buffer:
        results = xmlpunct.query(
            "CREATE STREAM t WITH (source = '-'); SELECT * FROM t"
        )  # with a sample of it
        assert list(results) == ROWS
        with pytest.raises(UsageError, match="- can be read only once"):
            list(results)


def test_a_socket_is_read_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            with server.accept()[0] as peer:
                peer.sendall(FEED)

        thread = threading.Thread(target=send)
        thread.start()
        results = xmlpunct.query(SQL, t=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        assert list(results) == ROWS
        with pytest.raises(UsageError, match="read only once"):
            results.to_polars()
        thread.join()


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(FEED,))
    thread.start()
    results = xmlpunct.query(SQL, t=path)
    assert list(results) == ROWS
    with pytest.raises(UsageError, match="read only once"):
        list(results)
    thread.join()


def test_a_file_object_is_read_from_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_bytes(b"not this" + FEED)
    with path.open("rb") as file:
        file.seek(len(b"not this"))
        for sql in (SQL, "CREATE STREAM t WITH (element = 't'); SELECT * FROM t"):
            results = xmlpunct.query(sql, t=file)
            first_run, second_run = iter(results), iter(results)
            assert list(zip(first_run, second_run, strict=True)) == [(row, row) for row in ROWS]
            file.seek(len(b"not this"))


def test_a_file_that_changes_is_read_as_it_is_then(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_bytes(FEED)
    results = xmlpunct.query("SELECT * FROM t", t=pl.DataFrame({"a": [1]}).lazy())
    assert list(results) == list(results) == [(1,)]
    results = xmlpunct.query(SQL, t=path)
    assert list(results) == ROWS
    path.write_bytes(b"<s><t><a>7</a></t></s>")
    assert list(results) == [(7, None)]


def test_results_are_read_in_several_threads_at_once() -> None:
    results = xmlpunct.query(SQL, t=io.BytesIO(FEED))

    def read(way: str) -> None:
        assert sorted(WAYS[way](results)) == ROWS

    together([lambda way=way: read(way) for way in WAYS])  # type: ignore[misc]


# Abandoned runs


class Endless:
    """A server that sends tuples without end. `close` asserts that its peer has disconnected."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.closing = False
        self.address = f"tcp://127.0.0.1:{self.server.getsockname()[1]}"
        self.left = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        peer = self.server.accept()[0]
        if self.closing:  # the connection of `close`
            self.left.set()
        with peer:
            try:
                peer.sendall(b"<s>")
                while True:
                    peer.sendall(b"<t><a>1</a></t>")
                    time.sleep(0.001)
            except OSError:
                self.left.set()

    def close(self) -> None:
        self.closing = True
        with socket.create_connection(self.server.getsockname()):  # ignored if a peer has connected before
            assert self.left.wait(20), "the connection was not closed"
        self.thread.join()
        self.server.close()


LEFT: dict[str, Callable[[QueryResults], Any]] = {
    "for": lambda results: next(iter(results)),
    "next": lambda results: next(results),
    "batches": lambda results: next(results.batches()),
    "pyarrow": lambda results: pa.RecordBatchReader.from_stream(results).read_next_batch(),
    "async for": lambda results: asyncio.run(first(results)),
}


async def first(results: QueryResults) -> Any:
    async for result in results:
        return result
    return None


@pytest.mark.parametrize("way", LEFT)
def test_an_abandoned_run_is_closed(way: str) -> None:
    with closing(Endless()) as sender:
        results = xmlpunct.query(SQL, t=sender.address)
        LEFT[way](results)
        del results


@pytest.mark.parametrize("way", LEFT)
def test_an_abandoned_run_of_two_inputs_is_closed(way: str) -> None:
    ddl = "CREATE STREAM t (a INT); CREATE STREAM u (a INT) WITH (element = 't');"
    sql = f"{ddl} SELECT * FROM t UNION ALL SELECT * FROM u"
    with closing(Endless()) as sender1, closing(Endless()) as sender2:
        results = xmlpunct.query(sql, t=sender1.address, u=sender2.address)
        LEFT[way](results)
        del results


def test_unread_results_open_no_source(tmp_path: Path) -> None:
    results = xmlpunct.query(SQL, t=str(tmp_path / "none.xml"))
    pa.RecordBatchReader.from_stream(results).close()
    iter(results)
    results.batches()
    with pytest.raises(SourceError, match=r"none\.xml"):
        results.to_polars()


# asyncio


def test_the_event_loop_never_waits() -> None:
    async def run() -> tuple[list[Any], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb", buffering=0) as sender:
            asyncio.get_running_loop().call_later(0.5, sender.write, b"<s><t><a>1</a></t>")
            rows = []
            async for result in xmlpunct.query(SQL, t=file):
                rows.append(result)
                break
            sender.write(b"</s>")
        ticking.cancel()
        return rows, ticks

    rows, ticks = asyncio.run(run())
    assert rows == [(1, None)]
    assert ticks > 10


def test_a_task_that_is_cancelled_ends_its_run() -> None:
    async def run(address: str) -> None:
        async def read() -> None:
            async for _ in xmlpunct.query(DDL + "SELECT COUNT(*) FROM t", t=address):
                pytest.fail("nothing comes")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 0.3)

    with closing(Endless()) as sender:
        asyncio.run(run(sender.address))


def test_two_queries_in_one_loop() -> None:
    async def run() -> list[list[Any]]:
        results = xmlpunct.query(SQL, t=FEED)
        return list(await asyncio.gather(gathered(results), gathered(results)))

    assert asyncio.run(run()) == [ROWS, ROWS]


def test_errors_are_raised_where_results_are_awaited() -> None:
    rows: list[Any] = []

    async def run() -> None:
        async for result in xmlpunct.query(SQL, t=FEED[:-30]):
            rows.append(result)

    with pytest.raises(SourceError, match="cut short"):
        asyncio.run(run())
    assert rows == ROWS[:-1]


# Types


SCHEMA = Schema.of(Attribute(f"c{i}", pool.type) for i, pool in enumerate(POOLS))


@given(st.lists(st.tuples(*(st.sampled_from([None, *pool.domain]) for pool in POOLS)), max_size=5))
def test_values_go_to_arrow_and_come_back(tuples: list[tuple[Any, ...]]) -> None:
    frame = SCHEMA.frame(tuples)
    results = xmlpunct.query("SELECT * FROM t", t=frame)
    table = pa.table(results)
    assert results.schema.dtypes == SCHEMA.dtypes
    assert pl.DataFrame(table).equals(frame)
    reread = xmlpunct.query("SELECT * FROM t", t=table)
    assert reread.schema.dtypes == SCHEMA.dtypes
    assert reread.to_polars().equals(frame)
    writer = XmlWriter(SCHEMA, element="t")
    xml = writer.start() + writer.body(Slice(frame)) + writer.end()
    columns = ", ".join(f"{a.name} {a.type}" for a in SCHEMA)
    xml_results = xmlpunct.query(f"CREATE STREAM t ({columns}); SELECT * FROM t", t=xml)
    assert pl.DataFrame(xml_results).sort(pl.all()).equals(frame.sort(pl.all()))


def test_arrays_and_xml() -> None:
    feed = (
        b"<s><t><l><x>1</x><d>2.50</d></l><l/><raw><i p='1'>a&amp;b</i></raw></t><t><raw>z</raw></t><t/></s>"
    )
    results = xmlpunct.query(
        "CREATE STREAM t (l ARRAY(x INT, d DECIMAL(5,2)), raw XML); SELECT * FROM t", t=feed
    )
    item = pa.struct([("x", pa.int64()), ("d", pa.decimal128(5, 2))])
    table = pa.table(results)
    assert table.schema.types == [pa.large_list(item), pa.large_string()]
    assert table.to_pylist() == [
        dict(zip(("l", "raw"), row, strict=True)) for row in results.to_polars().rows()
    ]
    reread = xmlpunct.query(
        "CREATE STREAM t (l ARRAY(x INT, d DECIMAL(5,2)), raw XML); SELECT * FROM t", t=table
    )
    assert reread.to_polars().equals(results.to_polars())
    assert not [r for r in reread if isinstance(r, Punctuation)]


def test_importing_does_not_import_optional_libraries() -> None:
    names = ("pandas", "duckdb", "asyncio", "sqlglot", "pyspark")
    code = f"import sys, xmlpunct; print([name for name in {names} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"

"""`scan_xml`: which columns, and how much of a source, polars reads."""

from __future__ import annotations

import gc
import io
import logging
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_threads import together
from xmlpunct import Reject, Schema, SourceError, UsageError, scan_xml
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.python import polars_scan

NS = "http://www.cse.ogi.edu/dot/niagara/punct"
ROWS = [(n, n % 7, f"b{n}") for n in range(3000)]
BODY = b"".join(b"<t><a>%d</a><b>%d</b><c>%s</c></t>" % (a, b, c.encode()) for a, b, c in ROWS)
FEED = f'<s xmlns:p="{NS}"><p:t><a>(,0)</a></p:t>'.encode() + BODY + b"</s>"
SCHEMA = Schema.parse("a INT, b INT, c STRING")


@pytest.fixture
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_scan, "_STEP", 1000)


@pytest.fixture
def requested_columns(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str] | None]:
    """The columns that polars requests from each reader."""
    requests: list[frozenset[str] | None] = []
    real = polars_scan.SliceReader

    class Reader(real):  # type: ignore[misc,valid-type]
        def __init__(self, source: Any, specs: list[StreamSpec], *arguments: Any) -> None:
            requests.append(specs[0].columns)
            super().__init__(source, specs, *arguments)

    monkeypatch.setattr(polars_scan, "SliceReader", Reader)
    return requests


def test_tuples_and_their_columns() -> None:
    frame = scan_xml(FEED)
    assert frame.collect_schema() == SCHEMA.dtypes
    assert frame.collect().rows() == frame.collect().rows() == ROWS
    assert scan_xml(FEED, SCHEMA, element="t").collect().equals(frame.collect())
    assert scan_xml(FEED, Schema.parse("c STRING")).collect().rows() == [(c,) for _, _, c in ROWS]


def test_only_the_columns_that_are_asked_for_are_read(requested_columns: list[frozenset[str] | None]) -> None:
    frame = scan_xml(FEED, SCHEMA, element="t")
    assert frame.select("a").collect().height == len(ROWS)
    assert frame.filter(pl.col("b") == 3).select("a").collect().rows() == [(a,) for a, b, _ in ROWS if b == 3]
    assert frame.select(pl.len()).collect().item() == len(ROWS)
    assert [*map(sorted, requested_columns[1:3])] == [["a"], ["a", "b"]]  # type: ignore[arg-type]
    assert len(requested_columns[3] or "abc") <= 1


STEPS = {
    "filter": lambda f: f.filter(pl.col("b") > 2),
    "filter on a text": lambda f: f.filter(pl.col("c").str.ends_with("1") | pl.col("b").is_in([0, 5])),
    "head": lambda f: f.head(40),
    "tail": lambda f: f.tail(7),
    "slice": lambda f: f.slice(20, 30),
    "select": lambda f: f.select("c", "a", "b"),
    "with a column": lambda f: f.with_columns(b=pl.col("a") * 2),
    "count": lambda f: f.group_by("b").agg(pl.len().cast(pl.Int64).alias("a"), pl.first("c")).sort("a", "b"),
    "none": lambda f: f.filter(pl.lit(False)),
}


@given(st.lists(st.sampled_from([*STEPS]), max_size=4), st.sampled_from(["in-memory", "streaming"]))
def test_lazy_operations_equal_those_of_a_frame(names: list[str], engine: str) -> None:
    of_xml: Any = scan_xml(FEED, SCHEMA, element="t")
    plain: Any = pl.DataFrame(ROWS, schema=SCHEMA.dtypes, orient="row").lazy()
    for name in names:
        of_xml, plain = STEPS[name](of_xml), STEPS[name](plain)
    assert of_xml.collect(engine=engine).equals(plain.collect())


@pytest.mark.usefixtures("_small_slices")
def test_a_head_reads_no_further() -> None:
    frame = scan_xml(FEED[:5000] + b"<wrong", SCHEMA, element="t")
    assert frame.head(3).collect().rows() == ROWS[:3]
    with pytest.raises(SourceError, match="<bytes>, line 1, byte"):
        frame.collect()


def test_the_head_of_an_endless_source() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        disconnected = threading.Event()

        def send() -> None:
            with server.accept()[0] as peer:
                with suppress(OSError):  # unread data resets the connection
                    peer.sendall(FEED[:-4])
                    peer.recv(1)
                disconnected.set()

        thread = threading.Thread(target=send)
        thread.start()
        frame = scan_xml(f"tcp://127.0.0.1:{server.getsockname()[1]}", SCHEMA, element="t")
        assert frame.head(3).collect().rows() == ROWS[:3]
        gc.collect()
        assert disconnected.wait(20)
        thread.join()


def test_a_file_is_closed_after_its_queries(tmp_path: Path) -> None:
    path = tmp_path / "t.xml"
    path.write_bytes(FEED)
    frame = scan_xml(path)
    assert frame.filter(pl.col("b") == 2).head(1).collect().rows() == [(2, 2, "b2")]
    assert frame.collect().height == len(ROWS)
    gc.collect()
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    assert str(path) not in [os.readlink(link) for link in links if os.path.islink(link)]


def test_a_pipe_can_be_read_only_once() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as sender:
        sender.write(b"<s><t><a>1</a></t><t><a>2</a></t></s>")
    with os.fdopen(reading, "rb") as file:
        frame = scan_xml(file)  # without a schema, from a sample
        assert frame.collect().rows() == [(1,), (2,)]
        with pytest.raises(UsageError, match="can be read only once"):
            frame.collect()


def test_a_file_object_is_read_by_several_at_once() -> None:
    frame = scan_xml(io.BytesIO(FEED))
    assert frame.join(frame, on="a").select("c", "c_right").collect().height == len(ROWS)

    def read() -> None:
        assert frame.collect().rows() == ROWS

    together([read] * 4)


def test_rejects(caplog: pytest.LogCaptureFixture) -> None:
    feed = b"<s><t><a>x</a></t><t><a>1</a></t></s>"
    schema, rejects = Schema.parse("a INT"), list[Reject]()
    frame = scan_xml(feed, schema, element="t", on_reject=rejects.append)
    assert frame.collect().rows() == [(1,)]
    assert [r.byte for r in rejects] == [3]
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert scan_xml(feed, schema, element="t").select(pl.len()).collect().item() == 1
    assert "'x' is not of type INT" in caplog.text


def test_a_document_in_a_str() -> None:
    document = "<?xml version='1.0' encoding='ISO-8859-1'?><s><t><a>\u00e9</a></t><t><a>x</a></t></s>"
    frame = scan_xml(text=document)
    for _ in range(2):
        assert frame.collect().rows() == [("\u00e9",), ("x",)]
    with pytest.raises(UsageError, match="write text="):
        scan_xml(document)
    for arguments in ({}, {"source": document.encode(), "text": document}):
        with pytest.raises(UsageError, match="write one source"):
            scan_xml(**arguments)  # type: ignore[arg-type]


def test_tuples_that_do_not_fit_inferred_columns_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Only in the columns that the plan needs."""
    many = b"<t><a>1</a><b>2</b></t>" * 100_000
    frame = scan_xml(b"<s>" + many + b"<t><a>none</a><b>3</b></t></s>")
    with caplog.at_level(logging.WARNING, "xmlpunct"):
        assert frame.select("b").collect().height == 100_001
        assert "'none'" not in caplog.text
        assert frame.select("a").collect().height == 100_000
    assert "attribute a: 'none' is not of type INT" in caplog.text


def test_duckdb_reads_it() -> None:
    frame = scan_xml(FEED)
    connection = duckdb.connect()
    assert connection.sql("SELECT COUNT(*) FROM frame WHERE b = 3").fetchall() == [(429,)]
    assert frame.collect().to_pandas().shape == (3000, 3)


def test_wrong_calls_are_refused_before_reading(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.xml"):
        scan_xml(tmp_path / "none.xml", SCHEMA, element="t")
    with pytest.raises(SourceError, match="u"):
        scan_xml(FEED, element="u")
    with pytest.raises(UsageError, match="not int"):
        scan_xml(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="several senders"):
        scan_xml("tcp-listen://:0?connections=2", SCHEMA, element="t")
    with pytest.raises(UsageError):
        scan_xml(FEED, SCHEMA, element="no name")

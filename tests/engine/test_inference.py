"""CREATE STREAM without columns: they are inferred when the query is planned."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.cli.harness import Cli
from tests.firehose.test_inferred_stream import Once
from xmlpunct import query
from xmlpunct.base.errors import SourceError, SqlError, UsageError
from xmlpunct.engine.inference import Inference
from xmlpunct.engine.sql import plan

XML = b"<s><t n='1'><a>x</a></t><t n='2'><a>y</a></t></s>"
SUM = "CREATE STREAM s WITH (source = '{}'{}); SELECT SUM(n) AS n FROM s"


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capfd)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "s.xml"
    path.write_bytes(XML)
    return path


@pytest.mark.parametrize("element", ["", ", element = 't'"])
def test_columns_are_inferred_with_their_types(source: Path, element: str) -> None:
    assert [tuple(row) for row in query(SUM.format(source, element))] == [(3,)]
    (stream,) = plan(SUM.format(source, element)).streams
    assert (stream.element, stream.schema.names, stream.guessed) == ("t", ("n", "a"), True)


ORDERS = (
    b"<o:s xmlns:o='urn:o'><o:order id='1'><o:line sku='a'><o:qty>2</o:qty></o:line><o:line sku='b'/></o:order>"
    b"<o:order id='2'/><o:order id='3'>"
    b"<o:line sku='c'><o:tag>x</o:tag><o:tag>y</o:tag></o:line></o:order></o:s>"
)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "SELECT id, l.sku, qty FROM {} CROSS JOIN UNNEST(line) AS l",
            [(1, "a", 2), (1, "b", None), (3, "c", None)],
        ),
        (
            "SELECT id, sku FROM {} LEFT JOIN UNNEST(line) AS l ON TRUE",
            [(1, "a"), (1, "b"), (2, None), (3, "c")],
        ),
        (
            "SELECT t.value FROM {} CROSS JOIN UNNEST(line) AS l CROSS JOIN UNNEST(l.tag) AS t",
            [("x",), ("y",)],
        ),
        (
            "SELECT * FROM {}",
            [
                (1, [{"sku": "a", "qty": 2, "tag": []}, {"sku": "b", "qty": None, "tag": []}]),
                (2, []),
                (3, [{"sku": "c", "qty": None, "tag": [{"value": "x"}, {"value": "y"}]}]),
            ],
        ),
    ],
)
def test_repeated_elements_are_an_array(
    tmp_path: Path, sql: str, rows: list[tuple[object, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "orders.xml.gz"
    path.write_bytes(gzip.compress(ORDERS))
    assert list(query(sql.format(f"'{path}'"))) == rows
    declared = f"CREATE STREAM s WITH (source = '{path}'); {sql.format('s')}"
    inference = Inference()
    before = plan(declared, inference=inference)
    recorded = json.loads(json.dumps(inference.records))
    assert plan(declared, inference=Inference(recorded=recorded)).streams == before.streams
    assert list(query(declared)) == rows
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("element = 'g:t'", ("k", "a", "b")),
        ("element = 'o/g:t'", ("k", "a")),
        ("element = 'g:t', where = '@k = ''2'''", ("k", "b")),
        ("element = 'g:t', nested = true", ("k", "b", "a")),
    ],
)
def test_the_sample_follows_the_options_of_the_stream(
    tmp_path: Path, options: str, names: tuple[str, ...]
) -> None:
    path = tmp_path / "s.xml"
    path.write_text(
        "<s xmlns:x='urn:x'><o><x:t k='1' a='1'><x:t k='2' b='1'/></x:t></o><x:t k='2' b='1'/></s>"
    )
    sql = (
        f"CREATE STREAM s (XMLNAMESPACES('urn:x' AS g)) WITH (source = '{path}', {options}); SELECT k FROM s"
    )
    (stream,) = plan(sql).streams
    assert stream.schema.names == names
    assert (1 in [row[0] for row in query(sql)]) == ("where" not in options)


@pytest.mark.parametrize("source", [XML, io.BytesIO(XML), Once(XML)])
def test_inference_loses_no_input_of_a_python_source(source: object) -> None:
    assert list(query(SUM.format("no.xml", ""), s=source)) == [(3,)]  # type: ignore[arg-type]


def test_a_pipe_that_two_streams_share_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sender = threading.Thread(target=pipe.write_bytes, args=(XML,))
    sender.start()
    sql = f"""CREATE STREAM s WITH (source = '{pipe}', element = 't');
        CREATE STREAM t (a STRING) WITH (source = '{pipe}');
        SELECT s.n, t.a FROM s JOIN t ON s.a = t.a"""
    assert sorted(query(sql)) == [(1, "x"), (2, "y")]
    sender.join()


def test_a_live_stream_is_inferred_from_its_first_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(XML[:-4])
                while not done.wait(0.2):
                    peer.sendall(b"<t n='10'/>")
                peer.sendall(b"</s>")

        done = threading.Event()
        sender = threading.Thread(target=send)
        sender.start()
        results = query(
            f"CREATE STREAM s WITH (source = 'tcp://127.0.0.1:{server.getsockname()[1]}'); SELECT n FROM s"
        )
        assert next(results) == (1,)
        done.set()
        assert set(results) == {(2,), (10,)}
        sender.join()


def test_a_later_value_that_does_not_fit_is_an_error(source: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = b"".join(b"<t n='1'/>" for _ in range(2**20 // 10))
    source.write_bytes(b"<s>" + rows + b"<t n='5' m='6'/><t n='x'/></s>")
    with (
        caplog.at_level(logging.WARNING, "xmlpunct"),
        pytest.raises(SourceError, match="'x' is not of type INT"),
    ):
        list(query(SUM.format(source, "")))
    assert "not read: @m" in " ".join(caplog.messages)


def test_a_stream_needs_columns_or_a_source() -> None:
    with pytest.raises(SqlError, match="no columns, and no source to infer them from"):
        plan("CREATE STREAM s WITH (element = 't'); SELECT n FROM s")
    with pytest.raises(SqlError, match="column list is missing"):
        plan("CREATE STREAM s; SELECT n FROM s")


def test_the_columns_of_several_senders_are_not_inferred() -> None:
    with pytest.raises(UsageError, match="has several senders: declare the columns"):
        plan(SUM.format("tcp-listen://127.0.0.1:0?connections=2", ""))


def test_a_source_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be opened"):
        plan(SUM.format(tmp_path / "no.xml", ""))


def test_recorded_columns_are_reused(source: Path) -> None:
    inference = Inference()
    before = plan(SUM.format(source, ""), inference=inference)
    source.write_bytes(b"<s><t n='x'/><t n='y'/></s>")
    after = plan(SUM.format(source, ""), inference=Inference(recorded=inference.records))
    assert before.streams == after.streams
    with pytest.raises(SqlError):
        plan(SUM.format(source, ""))


def test_a_checkpoint_records_inferred_columns(cli: Cli, tmp_path: Path) -> None:
    """A resumed run uses the recorded columns: its source may have changed."""
    folder, out = tmp_path / "checkpoint", tmp_path / "out.jsonl"
    source = tmp_path / "s.xml"
    source.write_bytes(XML[:-4])  # truncated
    arguments = ("run", "--engine", "local", "--format", "jsonl", "--checkpoint", folder, "-o", out)
    sql = SUM.format(source, "").replace("SUM(n) AS n", "n")
    first_run = cli(*arguments, "-q", sql)
    assert first_run.code == 1
    written = out.read_text()
    assert written.startswith('{"n": 1}')
    source.unlink()
    second_run = cli(*arguments, "-q", sql)
    assert (second_run.code, second_run.err) == (1, first_run.err)
    assert out.read_text() == written


def test_standard_input_is_spooled_from_its_beginning(
    cli: Cli, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    with source.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        ran = cli(
            "run", "--engine", "local", "--format", "jsonl", "--checkpoint", tmp_path / "c", "-o", out,
            "-q", SUM.format("-", ""),
        )  # fmt: skip
    assert (ran.code, out.read_text().splitlines()[0]) == (0, '{"n": 3}')

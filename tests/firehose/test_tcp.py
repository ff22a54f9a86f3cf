"""Sockets as sources, over the loopback."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.firehose.harness import ROOT, spec
from xmlpunct.errors import SourceError, UsageError
from xmlpunct.firehose import FirehoseReader, open_source, parse
from xmlpunct.firehose.tcp import Address
from xmlpunct.schema import Schema

A = Schema.parse("a INT")


@contextmanager
def sending(*pieces: bytes, reset: bool = False) -> Iterator[str]:
    """A peer that sends some pieces to whoever connects to the source named."""

    def serve() -> None:
        made, _ = server.accept()
        with made:
            for piece in pieces:
                made.sendall(piece)
                time.sleep(0.001)
            if reset:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join()


def read(source: str) -> tuple[list[object], SourceError | None]:
    """All that is read from a source, and how it failed if it did."""
    found: list[object] = []
    with closing(FirehoseReader(open_source(source), [spec("a INT")])) as reader:
        while (parsed := reader.read(1 << 16)) is not None:
            found += [a for (a,) in parsed.slices[0].tuples.rows()]
        assert reader.ended == (reader.error is None)
        return found, reader.error


def tuples(*values: int) -> bytes:
    return "".join(f"<t><a>{a}</a></t>" for a in values).encode()


def test_elements_cut_in_two_and_several_documents() -> None:
    document = ROOT.encode() + tuples(1, 2) + b"</r>\n"
    whole = document + b"<r>" + tuples(3) + b"</r>"
    with sending(whole[:30], whole[30 : len(document) - 10], whole[len(document) - 10 :]) as source:
        assert read(source) == ([1, 2, 3], None)


def test_byte_by_byte() -> None:
    document = ROOT.encode() + tuples(1, 2) + b"</r>"
    with sending(*(bytes([b]) for b in document)) as source:
        assert read(source) == ([1, 2], None)


def test_closed_inside_a_document() -> None:
    with sending(b"<r>", tuples(1), b"<t><a>") as source:
        found, error = read(source)
    assert found == [1]
    assert error is not None
    assert "cut short" in str(error)


def test_closed_before_any_document() -> None:
    with sending() as source:
        found, error = read(source)
    assert found == []
    assert error is not None


@pytest.mark.parametrize("end", [b"", b"</r>"])
def test_reset_is_a_failure(end: bytes) -> None:
    with sending(b"<r>", tuples(1), end, reset=True) as source:
        time.sleep(0.05)
        _, error = read(source)
    assert error is not None
    assert "reset" in str(error) or "cut short" in str(error)


def test_garbage() -> None:
    with sending(b"GET / HTTP/1.0\r\n\r\n") as source:
        found, error = read(source)
    assert found == []
    assert error is not None


def test_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    _, error = read(name)
    assert str(error) == f"{name}: cannot connect: Connection refused"


def test_a_peer_that_connects(caplog: pytest.LogCaptureFixture) -> None:
    found: list[object] = []
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(
            target=lambda: found.extend(parse("tcp-listen://127.0.0.1:0", A, element="t"))
        )
        thread.start()
        while not caplog.messages:
            time.sleep(0.001)
    (said,) = caplog.messages
    with socket.create_connection(("127.0.0.1", int(said.split()[-1]))) as peer:
        peer.sendall(b"<r>" + tuples(1) + b"</r>")
    thread.join(5)
    assert found == [(1,)]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"tcp-listen://127.0.0.1:{server.getsockname()[1]}"
        _, error = read(name)
    assert "cannot listen" in str(error)


def test_several_senders_are_no_single_reader() -> None:
    with pytest.raises(UsageError, match="several senders"):
        list(parse("tcp-listen://127.0.0.1:0?connections=2", A, element="t"))


def test_addresses() -> None:
    assert Address.parse("tcp-listen://:7") == Address("127.0.0.1", 7, True, 1)
    assert Address.parse("tcp-listen://0.0.0.0:7?connections=3") == Address("0.0.0.0", 7, True, 3)
    assert Address.parse("tcp://[::1]:7") == Address("::1", 7)
    assert str(Address("::1", 7)) == "[::1]:7"


@pytest.mark.parametrize(
    "wrong",
    [
        "tcp://h",
        "tcp://:5",
        "tcp://h:0",
        "tcp://h:70000",
        "tcp://h:x",
        "tcp://h:1/path",
        "tcp://h:1?connections=2",
        "tcp-listen://h:1?connections=0",
        "tcp-listen://h:1?connections=two",
        "tcp-listen://h:1?other=2",
    ],
)
def test_no_addresses(wrong: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        open_source(wrong)

"""TCP, TLS and Unix sockets as sources, on the loopback interface."""

from __future__ import annotations

import gzip
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.firehose.harness import ROOT, spec
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.firehose import SliceReader
from xmlpunct.schema import Schema

A = Schema.parse("a INT")
CERTIFICATES = Path(__file__).parents[1] / "fixtures" / "tls"


@contextmanager
def sending(*pieces: bytes, reset: bool = False) -> Iterator[str]:
    """A server that sends pieces to its first client; the value is the name of the source."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.001)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            thread.join()


def read(source: str) -> tuple[list[object], SourceError | None]:
    """The values that are read from a source, and the error, if any."""
    values: list[object] = []
    with closing(SliceReader(open_source(source), [spec("a INT")])) as reader:
        try:
            while (parsed := reader.read(1 << 16)) is not None:
                values += [a for (a,) in parsed.slices[0].tuples.rows()]
        except TransientError as error:
            return values, error
        assert reader.ended == (reader.error is None)
        return values, reader.error


def tuples(*values: int) -> bytes:
    return "".join(f"<t><a>{a}</a></t>" for a in values).encode()


def test_elements_cut_in_two_and_several_documents() -> None:
    document = ROOT.encode() + tuples(1, 2) + b"</r>\n"
    stream = document + b"<r>" + tuples(3) + b"</r>"
    with sending(stream[:30], stream[30 : len(document) - 10], stream[len(document) - 10 :]) as source:
        assert read(source) == ([1, 2, 3], None)


def test_byte_by_byte() -> None:
    document = ROOT.encode() + tuples(1, 2) + b"</r>"
    with sending(*(bytes([b]) for b in document)) as source:
        assert read(source) == ([1, 2], None)


def test_closed_inside_a_document() -> None:
    with sending(b"<r>", tuples(1), b"<t><a>") as source:
        values, error = read(source)
    assert values == [1]
    assert error is not None
    assert "cut short" in str(error)


def test_closed_before_any_document() -> None:
    with sending() as source:
        values, error = read(source)
    assert values == []
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
        values, error = read(source)
    assert values == []
    assert error is not None


def test_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    _, error = read(name)
    assert str(error) == f"{name}: cannot connect: Connection refused"


def test_a_peer_that_connects(caplog: pytest.LogCaptureFixture) -> None:
    tuples_read: list[object] = []
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(
            target=lambda: tuples_read.extend(parse("tcp-listen://127.0.0.1:0", A, element="t"))
        )
        thread.start()
        while not caplog.messages:
            time.sleep(0.001)
    (message,) = caplog.messages
    with socket.create_connection(("127.0.0.1", int(message.split()[-1]))) as peer:
        peer.sendall(b"<r>" + tuples(1) + b"</r>")
    thread.join(5)
    assert tuples_read == [(1,)]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"tcp-listen://127.0.0.1:{server.getsockname()[1]}"
        _, error = read(name)
    assert "cannot listen" in str(error)


def test_several_senders_are_no_single_reader() -> None:
    with pytest.raises(UsageError, match="several senders"):
        list(parse("tcp-listen://127.0.0.1:0?connections=2", A, element="t"))


def test_addresses() -> None:
    assert SocketAddress.parse("tcp-listen://:7") == SocketAddress("127.0.0.1", 7, True, 1)
    assert SocketAddress.parse("tcp-listen://0.0.0.0:7?connections=3") == SocketAddress("0.0.0.0", 7, True, 3)
    assert SocketAddress.parse("tcp://[::1]:7") == SocketAddress("::1", 7)
    assert str(SocketAddress("::1", 7)) == "[::1]:7"


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
def test_invalid_addresses(wrong: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        open_source(wrong)


@contextmanager
def serving_tls(*pieces: bytes, farewell: bool) -> Iterator[str]:
    """A peer with a certificate for localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "localhost.pem")

    def serve() -> None:
        connection, _ = server.accept()
        with suppress(OSError), context.wrap_socket(connection, server_side=True) as safe:
            for piece in pieces:
                safe.sendall(piece)
                time.sleep(0.001)
            if farewell:
                safe.unwrap()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tls://localhost:{server.getsockname()[1]}"
        finally:
            thread.join()


@pytest.mark.parametrize("farewell", [False, True])
def test_tls(farewell: bool) -> None:
    """A TLS connection may end with or without a close_notify message."""
    pieces = [b"<r>", tuples(1), tuples(2), b"</r>"]
    with serving_tls(*pieces, farewell=farewell) as name:
        assert read(f"{name}?ca={CERTIFICATES / 'authority.pem'}") == ([1, 2], None)
    with serving_tls(*pieces[:-1], farewell=farewell) as name:
        values, error = read(f"{name}?ca={CERTIFICATES / 'authority.pem'}")
        assert values == [1, 2]
        assert "the document ends inside <r>" in str(error)


def test_a_certificate_that_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_tls(b"<r/>", farewell=False) as name:
        values, error = read(name)
        assert not values
        assert str(error).startswith(f"{name}: its certificate is not valid: ")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    with serving_tls(b"<r/>", farewell=False) as name:
        assert read(name) == ([], None)
    with serving_tls(b"<r/>", farewell=False) as name:
        assert "is not valid for '127.0.0.1'" in str(read(name.replace("localhost", "127.0.0.1"))[1])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("tls://localhost", "is no address: write tls://host:port, with"),
        ("tls://:99", "is no address"),
        ("tls://localhost:99?ca=", "is no address"),
        ("tls://localhost:99?connections=2", "is no address"),
        ("tcp://localhost:99?ca=x", "is no address"),
    ],
)
def test_invalid_tls_addresses(spec: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        open_source(spec)


def test_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    for file in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(UsageError, match="cannot read certificates from"):
            open_source(f"tls://localhost:9?ca={file}")
        (tmp_path / "empty").touch()


def test_a_tls_read_that_waits_is_stopped() -> None:
    """A stopped TLS read returns no data."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "localhost.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[ssl.SSLSocket] = []
        thread = threading.Thread(
            target=lambda: connections.append(context.wrap_socket(server.accept()[0], server_side=True))
        )
        thread.start()
        ca = CERTIFICATES / "authority.pem"
        with open_source(f"tls://localhost:{server.getsockname()[1]}?ca={ca}").reader() as reader:
            timer = threading.Timer(0.1, reader.stop)
            timer.start()
            reader.begin()
            assert reader.read(100) == b""
            timer.join()
        thread.join()
        connections[0].close()


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "peer"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(gzip.compress(b"<r>" + tuples(1, 2) + b"</r>"))

        thread = threading.Thread(target=serve)
        thread.start()
        assert read(f"unix:{path}") == ([1, 2], None)
        thread.join()
    values, error = read(f"unix:{tmp_path / 'nobody'}")
    assert (values, str(error)) == (
        [],
        f"unix:{tmp_path / 'nobody'}: cannot connect: No such file or directory",
    )

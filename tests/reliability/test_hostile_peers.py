"""Hostile peers on loopback: silent, slow, half closed, reset, too many, too fast. No counted input is lost, no other
input is blocked, and buffers are bounded.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.checkpoints import take_back_end
from tests.firehose.harness import spec
from xmlpunct.base.errors import SourceError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.read_ahead import AHEAD_BYTES
from xmlpunct.connectors.tcp import SocketAddress, listen
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import advance, release
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.firehose import SliceReader
from xmlpunct.firehose.position import Cursor

TUPLE = b"<t><a>1</a></t>"
DOCUMENT = b"<r>" + TUPLE + b"</r>"
BUFFERS = 16 * 2**20
"""More than the kernel buffers of a connection, at both of its ends."""


class Read:
    """A source read in a thread: the values of its tuples, and the error that ended it, if any."""

    def __init__(self, name: str) -> None:
        self.values: list[object] = []
        self.error: SourceError | None = None
        self._reader = SliceReader(open_source(name), [spec("a INT")])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with closing(self._reader) as reader:
            while (parsed := reader.read(2**16)) is not None:
                self.values += parsed.slices[0].tuples["a"].to_list()
            self.error = reader.error

    def wait(self) -> tuple[list[object], str | None]:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.values, str(self.error) if self.error else None


@pytest.fixture
def port(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """Wait for the next listening socket, and return its port."""
    caplog.set_level(logging.WARNING)

    def listening_port() -> int:
        until(lambda: bool(caplog.messages))
        return int(caplog.messages[-1].split()[-1])

    return listening_port


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def connected(port: int) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port), 10)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def send_all(peer: socket.socket, data: bytes) -> None:
    with peer:
        peer.sendall(data)


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


# Connections


def test_the_default_address_is_loopback() -> None:
    with closing(listen(SocketAddress.parse("tcp-listen://:0"), "s")) as waiting:
        assert waiting.getsockname()[0] == "127.0.0.1"
    with closing(listen(SocketAddress.parse("tcp-listen://0.0.0.0:0"), "s")) as waiting:
        assert waiting.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize("host", ["*", "0", "0x0", "[::0]"])
def test_every_address_has_to_be_spelled_out(host: str) -> None:
    with pytest.raises(SourceError):
        listen(SocketAddress.parse(f"tcp-listen://{host}:0"), "s").close()


def test_a_hundred_connections_at_once(port: Callable[[], int]) -> None:
    """The first connection is read undisturbed; all later ones are refused."""
    reading = Read("tcp-listen://127.0.0.1:0")
    number = port()
    with ExitStack() as peers:
        first = peers.enter_context(connected(number))
        first.sendall(b"<r>" + TUPLE)
        until(lambda: reading.values == [1])
        turned_away = 0
        for _ in range(99):
            try:
                peers.enter_context(connected(number)).sendall(DOCUMENT)
            except OSError:
                turned_away += 1
        first.sendall(TUPLE + b"</r>")
        first.close()
        assert reading.wait() == ([1, 1], None)
        assert turned_away >= 98


def test_a_hundred_senders(port: Callable[[], int]) -> None:
    source = open_source("tcp-listen://127.0.0.1:0?connections=100")
    bell = threading.Condition()
    readers = [SliceReader(sender, [spec("a INT")], bell=bell) for sender in source.senders]
    with ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.close)
            with bell:
                reader.is_ready()
        number = port()
        peers = [stack.enter_context(connected(number)) for _ in readers]
        for peer in peers:
            peer.sendall(DOCUMENT)
            peer.close()
        tuple_count = 0
        for reader in readers:
            while (parsed := reader.read(2**16)) is not None:
                tuple_count += parsed.slices[0].tuples.height
        assert (tuple_count, all(reader.ended for reader in readers)) == (100, True)


# Slow and broken senders


def test_a_silent_peer_does_not_block_another(port: Callable[[], int]) -> None:
    source = open_source("tcp-listen://127.0.0.1:0?connections=2")
    bell = threading.Condition()
    first, second = (SliceReader(sender, [spec("a INT")], bell=bell) for sender in source.senders)
    with closing(first), closing(second):
        with bell:
            assert [first.is_ready(), second.is_ready()] == [False, False]
        with connected(port()), connected(port()) as talker:
            talker.sendall(DOCUMENT)
            with bell:
                assert bell.wait_for(lambda: first.is_ready() or second.is_ready(), 20)
                talking, silent = (first, second) if first.is_ready() else (second, first)
                assert not silent.is_ready()
            until(lambda: silent.cutter.silent > 0.02)
            parsed = talking.read(2**16)
            assert parsed is not None
            assert parsed.slices[0].tuples.height == 1


def test_byte_by_byte(port: Callable[[], int]) -> None:
    reading = Read("tcp-listen://127.0.0.1:0")
    with connected(port()) as peer:
        for byte in DOCUMENT:
            peer.sendall(bytes([byte]))
            time.sleep(0.002)
    assert reading.wait() == ([1], None)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [(DOCUMENT, None), (b"<r>" + TUPLE, "the document ends inside <r>"), (b"", "there is no root element")],
)
def test_half_closed(port: Callable[[], int], sent: bytes, reason: str | None) -> None:
    """A peer that ends its sending but keeps the connection has ended its input."""
    reading = Read("tcp-listen://127.0.0.1:0")
    with connected(port()) as peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        values, error = reading.wait()
    assert values == [1] * sent.count(TUPLE)
    assert (error is None) == (reason is None)
    assert (reason or "") in (error or "")


@pytest.mark.parametrize("tail", [b"", b"<t><a>", b"</r>"])
def test_reset(port: Callable[[], int], tail: bytes) -> None:
    """Tuples read before a reset count; the reset is an error, wherever it comes."""
    reading = Read("tcp-listen://127.0.0.1:0")
    peer = connected(port())
    peer.sendall(b"<r>" + TUPLE)
    until(lambda: reading.values == [1])
    peer.sendall(tail)
    reset(peer)
    values, error = reading.wait()
    assert values == [1]
    assert error is not None
    assert "reset" in error or "cut short" in error


# Bounded buffers


def flooding(peer: socket.socket, limit: int) -> int:
    """Send tuples until the peer takes none for a while. Returns the number of bytes sent."""
    sent, block = 0, TUPLE * 4096
    peer.settimeout(0.5)
    with suppress(TimeoutError):
        peer.sendall(b"<r>")
        while sent < limit:
            sent += peer.send(block[sent % len(TUPLE) :])
    return sent


def test_a_peer_that_is_not_read_has_to_wait(port: Callable[[], int]) -> None:
    source, bell = open_source("tcp-listen://127.0.0.1:0"), threading.Condition()
    with closing(SliceReader(source, [spec("a INT")], bell=bell)) as reader:
        with bell:
            reader.is_ready()
        with connected(port()) as peer:
            sent = flooding(peer, 64 * 2**20)
            assert sent < AHEAD_BYTES + BUFFERS
            tail = TUPLE[sent % len(TUPLE) :] if sent % len(TUPLE) else b""
            peer.settimeout(20)
            thread = threading.Thread(target=send_all, args=(peer, tail + b"</r>"))
            thread.start()
            tuple_count = 0
            while (parsed := reader.read(2**20)) is not None:
                tuple_count += parsed.slices[0].tuples.height
            thread.join()
        assert (reader.ended, tuple_count) == (True, -(-sent // len(TUPLE)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spools of 4 segments of 64 KiB each, read in steps of 64 KiB."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 2**16)
    monkeypatch.setattr(segments, "MOST_BYTES", 4 * 2**16)
    monkeypatch.setattr(segments, "READ_AT_ONCE", 2**16)


@contextmanager
def spooling(name: str, path: Path) -> Iterator[Input]:
    """Spool a source during the block."""
    spool = Spool(open_source(name), 0, path)
    spool.start()
    yield Input(name, (0,), (Part(name, str(path), None, True),))
    spool.stop()
    spool.join(20)
    assert not spool.is_alive()


def read_on(input_: Input, cursor: Cursor, size: int = 2**30) -> tuple[bytes, Cursor]:
    ranges, cursor = advance(input_, frozenset({"t"}), cursor, size, size)
    return b"".join(r.data or b"" for r in ranges), cursor


def test_a_spool_is_bounded_and_loses_nothing(small: None, port: Callable[[], int], tmp_path: Path) -> None:
    """The peer waits until read segments are released. Each byte is read once, in order, to the end."""
    text = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(60_000)) + b"</r>"
    path = tmp_path / "0-0.xml"
    with spooling("tcp-listen://127.0.0.1:0", path) as input_, connected(port()) as peer:
        sending = threading.Thread(target=send_all, args=(peer, text))
        sending.start()
        until(lambda: len(segments.segments(path)) == 4)
        time.sleep(0.1)
        received, cursor = bytearray(), Cursor()
        while not cursor.done:
            before = cursor
            data, cursor = read_on(input_, cursor)
            assert len(data) <= 2 * 2**16
            received += data
            segment_numbers = segments.segments(path)
            assert len(segment_numbers) <= 4
            assert segment_numbers[0] * 2**16 <= before.position.byte, "the last step must be repeatable"
            release(input_, before)
            if cursor == before:
                time.sleep(0.001)
        sending.join()
    assert received == text
    assert segments.segments(path)[0] > 0


def test_a_spool_goes_on_after_a_crash(small: None, port: Callable[[], int], tmp_path: Path) -> None:
    """The peer repeats its bytes; released ones are compared by checksum."""
    text = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(12_000)) + b"</r>"
    path = tmp_path / "0-0.xml"
    cut = 150_000
    with spooling("tcp-listen://127.0.0.1:0", path) as input_, connected(port()) as peer:
        peer.sendall(text[:cut])
        until(lambda: segments.extent(path)[0] == cut)
        cursor = Cursor()
        for _ in range(2):
            _, cursor = read_on(input_, cursor)
        release(input_, cursor)
    assert segments.segments(path)[0] > 0
    for changed in (True, False):
        sent = text.replace(b">7<", b">8<", 1) if changed else text
        name = f"tcp-listen://127.0.0.1:{free_port()}"
        with spooling(name, path), connecting(int(name.rsplit(":", 1)[1])) as peer:
            with suppress(OSError):  # a refused peer is reset
                peer.sendall(sent)
                peer.shutdown(socket.SHUT_WR)
            until(lambda: segments.end_of(path) is not None)
        assert ("earlier run was lost" in str(segments.end_of(path))) == changed
        take_back_end(path)
    assert segments.extent(path)[0] == len(text)
    data = bytearray()
    with segments.open_at(path, cursor.position.byte) as file:
        data += file.read()
    assert bytes(data) == text[cursor.position.byte :]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def connecting(port: int) -> Iterator[socket.socket]:
    """A connection to a port that will be listened on soon."""
    end = time.monotonic() + 20
    while True:
        try:
            peer = connected(port)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)
    with peer:
        yield peer

"""Hostile peers, on the loopback: silent, slow, half closed, reset, too many, too fast. Nothing of what counts is
lost, nothing waits that need not, and what is held for whoever reads is bounded.
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
from xmlpunct.connectors.open_source import open_source
from xmlpunct.connectors.tcp import SocketAddress, listen
from xmlpunct.engine.run.inputs import segments
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.ranges import Cursor, advance, release
from xmlpunct.engine.run.inputs.spool import Spool
from xmlpunct.firehose import FirehoseReader
from xmlpunct.firehose.reader import AHEAD_BYTES

TUPLE = b"<t><a>1</a></t>"
DOCUMENT = b"<r>" + TUPLE + b"</r>"
BUFFERS = 16 * 2**20
"""More than the kernel keeps of a connection, at both of its ends."""


class Read:
    """A source read in a thread. ``found`` is what its tuples hold, ``error`` how it failed if it did."""

    def __init__(self, name: str) -> None:
        self.found: list[object] = []
        self.error: SourceError | None = None
        self._reader = FirehoseReader(open_source(name), [spec("a INT")])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with closing(self._reader) as reader:
            while (parsed := reader.read(2**16)) is not None:
                self.found += parsed.slices[0].tuples["a"].to_list()
            self.error = reader.error

    def wait(self) -> tuple[list[object], str | None]:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.found, str(self.error) if self.error else None


@pytest.fixture
def port(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """The port that is listened on next, once it is."""
    caplog.set_level(logging.WARNING)

    def found() -> int:
        until(lambda: bool(caplog.messages))
        return int(caplog.messages[-1].split()[-1])

    return found


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), 10)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def send_all(peer: socket.socket, data: bytes) -> None:
    with peer:
        peer.sendall(data)


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


# Who may connect


def test_only_this_machine_can_connect_unless_told_otherwise() -> None:
    with closing(listen(SocketAddress.parse("tcp-listen://:0"), "s")) as waiting:
        assert waiting.getsockname()[0] == "127.0.0.1"
    with closing(listen(SocketAddress.parse("tcp-listen://0.0.0.0:0"), "s")) as waiting:
        assert waiting.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize("host", ["*", "0", "0x0", "[::0]"])
def test_every_address_has_to_be_spelled_out(host: str) -> None:
    with pytest.raises(SourceError):
        listen(SocketAddress.parse(f"tcp-listen://{host}:0"), "s").close()


def test_a_hundred_connections_at_once(port: Callable[[], int]) -> None:
    """One is read; whoever comes behind is turned away, and takes nothing from it."""
    reading = Read("tcp-listen://127.0.0.1:0")
    number = port()
    with ExitStack() as peers:
        first = peers.enter_context(connected(number))
        first.sendall(b"<r>" + TUPLE)
        until(lambda: reading.found == [1])
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
    readers = [FirehoseReader(sender, [spec("a INT")], bell=bell) for sender in source.senders]
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
        found = 0
        for reader in readers:
            while (parsed := reader.read(2**16)) is not None:
                found += parsed.slices[0].tuples.height
        assert (found, all(reader.ended for reader in readers)) == (100, True)


# How they send


def test_silence_keeps_nobody_else(port: Callable[[], int]) -> None:
    source = open_source("tcp-listen://127.0.0.1:0?connections=2")
    bell = threading.Condition()
    first, second = (FirehoseReader(sender, [spec("a INT")], bell=bell) for sender in source.senders)
    with closing(first), closing(second):
        with bell:
            assert [first.is_ready(), second.is_ready()] == [False, False]
        with connected(port()), connected(port()) as talker:
            talker.sendall(DOCUMENT)
            with bell:
                assert bell.wait_for(lambda: first.is_ready() or second.is_ready(), 20)
                talking, silent = (first, second) if first.is_ready() else (second, first)
                assert not silent.is_ready()
            until(lambda: silent.silent > 0.02)
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
    """The peer will send no more, but stays. That is an end like any other."""
    reading = Read("tcp-listen://127.0.0.1:0")
    with connected(port()) as peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        found, error = reading.wait()
    assert found == [1] * sent.count(TUPLE)
    assert (error is None) == (reason is None)
    assert (reason or "") in (error or "")


@pytest.mark.parametrize("rest", [b"", b"<t><a>", b"</r>"])
def test_reset(port: Callable[[], int], rest: bytes) -> None:
    """What was read before counts; the end does not, wherever it is."""
    reading = Read("tcp-listen://127.0.0.1:0")
    peer = connected(port())
    peer.sendall(b"<r>" + TUPLE)
    until(lambda: reading.found == [1])
    peer.sendall(rest)
    reset(peer)
    found, error = reading.wait()
    assert found == [1]
    assert error is not None
    assert "reset" in error or "cut short" in error


# How much is held


def flooding(peer: socket.socket, most: int) -> int:
    """Send tuples until nobody takes more, for a while; how many bytes were taken."""
    sent, block = 0, TUPLE * 4096
    peer.settimeout(0.5)
    with suppress(TimeoutError):
        peer.sendall(b"<r>")
        while sent < most:
            sent += peer.send(block[sent % len(TUPLE) :])
    return sent


def test_a_peer_that_is_not_read_has_to_wait(port: Callable[[], int]) -> None:
    source, bell = open_source("tcp-listen://127.0.0.1:0"), threading.Condition()
    with closing(FirehoseReader(source, [spec("a INT")], bell=bell)) as reader:
        with bell:
            reader.is_ready()
        with connected(port()) as peer:
            sent = flooding(peer, 64 * 2**20)
            assert sent < AHEAD_BYTES + BUFFERS
            rest = TUPLE[sent % len(TUPLE) :] if sent % len(TUPLE) else b""
            peer.settimeout(20)
            thread = threading.Thread(target=send_all, args=(peer, rest + b"</r>"))
            thread.start()
            found = 0
            while (parsed := reader.read(2**20)) is not None:
                found += parsed.slices[0].tuples.height
            thread.join()
        assert (reader.ended, found) == (True, -(-sent // len(TUPLE)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spools of 4 segments of 64 KiB, of which 64 KiB are read at once."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 2**16)
    monkeypatch.setattr(segments, "MOST_BYTES", 4 * 2**16)
    monkeypatch.setattr(segments, "READ_AT_ONCE", 2**16)


@contextmanager
def spooling(name: str, path: Path) -> Iterator[Input]:
    """A source on its way into a spool."""
    spool = Spool(open_source(name), 0, path)
    spool.start()
    yield Input(name, (0,), (Part(name, str(path), None, True),))
    spool.stop()
    spool.join(20)
    assert not spool.is_alive()


def read_on(given: Input, cursor: Cursor, size: int = 2**30) -> tuple[bytes, Cursor]:
    ranges, cursor = advance(given, frozenset({"t"}), cursor, size, size)
    return b"".join(r.data or b"" for r in ranges), cursor


def test_a_spool_is_bounded_and_loses_nothing(small: None, port: Callable[[], int], tmp_path: Path) -> None:
    """Its peer waits until what was read is released. All is read once, in order, the end included."""
    text = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(60_000)) + b"</r>"
    path = tmp_path / "0-0.xml"
    with spooling("tcp-listen://127.0.0.1:0", path) as given, connected(port()) as peer:
        sending = threading.Thread(target=send_all, args=(peer, text))
        sending.start()
        until(lambda: len(segments.segments(path)) == 4)
        time.sleep(0.1)
        found, cursor = bytearray(), Cursor()
        while not cursor.done:
            before = cursor
            data, cursor = read_on(given, cursor)
            assert len(data) <= 2 * 2**16
            found += data
            held = segments.segments(path)
            assert len(held) <= 4
            assert held[0] * 2**16 <= before.position.byte, "the last step can be made again"
            release(given, before)
            if cursor == before:
                time.sleep(0.001)
        sending.join()
    assert found == text
    assert segments.segments(path)[0] > 0


def test_a_spool_goes_on_after_a_crash(small: None, port: Callable[[], int], tmp_path: Path) -> None:
    """The peer repeats what it sent; of what was released, the checksum is compared."""
    text = b"<r>" + b"".join(b"<t><a>%d</a></t>" % n for n in range(12_000)) + b"</r>"
    path = tmp_path / "0-0.xml"
    cut = 150_000
    with spooling("tcp-listen://127.0.0.1:0", path) as given, connected(port()) as peer:
        peer.sendall(text[:cut])
        until(lambda: segments.extent(path)[0] == cut)
        cursor = Cursor()
        for _ in range(2):
            _, cursor = read_on(given, cursor)
        release(given, cursor)
    assert segments.segments(path)[0] > 0
    for changed in (True, False):
        sent = text.replace(b">7<", b">8<", 1) if changed else text
        name = f"tcp-listen://127.0.0.1:{free_port()}"
        with spooling(name, path), connecting(int(name.rsplit(":", 1)[1])) as peer:
            with suppress(OSError):  # what is refused is reset
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
            made = connected(port)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)
    with made:
        yield made

"""Replaying a file as a live firehose: its pieces, its rate, and peers that disconnect."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.firehose.harness import ROOT
from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.tcp import SocketAddress
from xmlpunct.firehose.replay_server import Replay, tuples

LOOPBACK = SocketAddress("127.0.0.1", 0, True)
SAMPLE = Path(__file__).parents[2] / "samples" / "sensor1.xml"


def pieces(document: str) -> list[str]:
    with Source.of(document.encode()).open() as reader:
        chunks = list(tuples(reader))
    assert b"".join(chunks).decode() == document
    return [piece.decode() for piece in chunks]


def test_pieces_begin_with_tuples() -> None:
    head = f"<?xml version='1.0'?>{ROOT}<!-- <t> -->"
    first, second = "<t><t>1</t></t>\n<p:t><a>1</a></p:t>", "<u/>"
    assert pieces(f"{head}{first}{second}</r>") == [head + first, second + "</r>"]
    assert pieces("<r/>") == ["<r/>"]
    assert pieces("<r><t/></r><r><t/></r>") == ["<r><t/></r><r>", "<t/></r>"]
    assert pieces("<r><t>1</t><t a=<>2</t><t/></r>") == ["<r><t>1</t><t a=<>2</t><t/></r>"]


def test_pieces_of_a_larger_file() -> None:
    lines = "".join(f"<t><a>{a}</a></t>\n" for a in range(10_000))
    chunks = pieces(f"<r>{lines}</r>")
    assert len(chunks) == 10_000
    assert chunks[5000] == "<t><a>5000</a></t>\n"


def received(replay: Replay, max_bytes: int = 1 << 30) -> bytes:
    """The data of a peer that disconnects after about ``max_bytes`` bytes."""
    data = b""
    with socket.create_connection((replay.address.host, replay.address.port)) as peer:
        while len(data) < max_bytes and (chunk := peer.recv(1 << 16)):
            data += chunk
    return data


@pytest.mark.parametrize("rate", [None, 1e6])
def test_the_complete_document(rate: float | None) -> None:
    with Replay(open_source(SAMPLE), LOOPBACK, rate) as replay:
        thread = threading.Thread(target=replay.run)
        thread.start()
        assert received(replay) == SAMPLE.read_bytes()
        thread.join()
    assert replay.tuples == (0 if rate is None else SAMPLE.read_text().count("<tempdata>"))


def test_a_rate() -> None:
    document = f"<r>{'<t/>' * 50}</r>".encode()
    with Replay(Source.of(document), LOOPBACK, 200) as replay:
        thread = threading.Thread(target=replay.run)
        thread.start()
        began = time.monotonic()
        assert received(replay) == document
        thread.join()
    assert 0.2 < time.monotonic() - began < 2


def test_a_peer_that_leaves() -> None:
    document = f"<r>{'<t>1234567890</t>' * 500_000}</r>".encode()
    done: list[bool] = []
    with Replay(Source.of(document), LOOPBACK) as replay:
        thread = threading.Thread(target=lambda: done.append(replay.run()))
        thread.start()
        received(replay, 1000)
        thread.join()
    assert done == [False]


def test_tuples_sent_before_the_peer_leaves_are_counted() -> None:
    """Each tuple that was sent as a whole counts, also if the peer leaves before the rest of the same piece is sent."""
    received = bytearray()

    def send(data: memoryview) -> int:
        if len(received) >= 22:
            raise ConnectionResetError
        received.extend(data[:11])
        return len(data[:11])

    peer = SimpleNamespace(setsockopt=lambda *_: None, send=send)
    with Replay(Source.of(b"<s><t>1</t><t>2</t><t>3</t></s>"), LOOPBACK, 1e9) as replay:
        with pytest.raises(ConnectionResetError):
            replay._send(peer)  # type: ignore[arg-type]
        assert received == b"<s><t>1</t><t>2</t><t>"
        assert replay.tuples == 2


def test_only_utf_8() -> None:
    with Replay(Source.of("<r/>".encode("utf-16")), LOOPBACK) as replay:
        peer = socket.create_connection((replay.address.host, replay.address.port))
        with peer, pytest.raises(UsageError, match="UTF-8"):
            replay.run()


def test_a_rate_that_takes_for_ever_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long wait is split into sleeps of at most an hour, because `time.sleep` has a maximum."""
    waited: list[float] = []

    class Enough(Exception):
        pass

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise Enough

    monkeypatch.setattr("xmlpunct.firehose.replay_server.time.sleep", sleep)
    peer = SimpleNamespace(setsockopt=lambda *_: None, send=len)
    with Replay(Source.of(b"<s><t>1</t><t>2</t></s>"), LOOPBACK, 1e-320) as replay, pytest.raises(Enough):
        replay._send(peer)  # type: ignore[arg-type]
    assert all(0 < seconds <= 3600 for seconds in waited)

"""Retries without progress are reported: source or target, error, duration and number of tries."""

from __future__ import annotations

import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.connectors import servers
from tests.connectors.test_mqtt import inlet as mqtt_inlet
from tests.connectors.test_nats import Peer
from xmlpunct.base.errors import SourceError, XmlPunctError
from xmlpunct.connectors import Form, Results, jetstream, retries
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.retries import Retries
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

RESULT = Schema.parse("a INT")
REPORT = re.compile(r"(\S+): still trying, without progress for [0-9]+ s \([0-9]+ tr(?:y|ies)\): .+")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "REPORT_SECONDS", 0.0)


def reported(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The names in the reports."""
    return [report[1] for report in map(REPORT.fullmatch, caplog.messages) if report]


def test_reports_become_rarer(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    retries_ = Retries("nats://host/s", pauses=(0.1,) * 3000)
    for _ in range(3000):
        retries_.failed(OSError(111, "Connection refused"))
        clock += 0.1
    assert (
        caplog.messages[0]
        == "nats://host/s: still trying, without progress for 2 s (21 tries): Connection refused"
    )
    assert 6 < len(caplog.messages) < 12
    retries_.progressed()
    assert caplog.messages[-1] == "nats://host/s: continues after 300 s (3000 tries)"
    count = len(caplog.messages)
    retries_.failed("lost")
    retries_.progressed()
    clock += 3600
    retries_.failed("lost")
    assert len(caplog.messages) == count, "a retry that works at once is not reported"


@contextmanager
def relay(port: int, partly: bool) -> Iterator[int]:
    """A relay that delays each acknowledgement; ``partly``: it drops the end marker of a request."""
    stopped = threading.Event()

    def upstream(peer: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := peer.recv(2**16):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def downstream(server: socket.socket, peer: socket.socket) -> None:
        with peer, server, suppress(OSError), server.makefile("rb") as lines:
            while line := lines.readline():
                words, data = line.split(), b""
                if words[:1] in ([b"MSG"], [b"HMSG"]):
                    data = lines.read(int(words[-1]) + 2)
                if partly and data.startswith((b"NATS/1.0 408", b"NATS/1.0 404")):
                    continue
                if b"$JS.ACK" in line and stopped.wait(0.03):
                    return
                peer.sendall(line + data)

    def serve() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for forward in (upstream, downstream):
                    ends = (peer, server) if forward is upstream else (server, peer)
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)


def consumers(peer: Peer) -> int:
    return len(peer.do(lambda s: s.consumers_info(peer.stream)))


@pytest.mark.parametrize("partly", [False, True])
def test_a_slow_server_of_nats_is_read_to_its_end(
    tmp_path: Path, partly: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request's partial answer counts as progress, and no consumer remains."""
    pytest.importorskip("nats")
    monkeypatch.setattr(jetstream, "AT_ONCE", 32)
    with servers.nats(tmp_path) as port, relay(port, partly) as slow:
        peer = Peer(port, "slow")
        peer.send([b"<t>%d</t>" % n for n in range(100)])
        reader = connector_of(peer.url).inlet(f"nats://127.0.0.1:{slow}/slow?until=end", "")
        data, start_time = b"", time.monotonic()
        with closing(reader):
            reader.open(None)
            while (piece := reader.read()) is not None:
                data += piece[0]
            assert consumers(peer) == 1
        assert data.count(b"<t>") == 100
        assert time.monotonic() - start_time < 15
        assert reported(caplog) == []
        deadline = time.monotonic() + 5
        while consumers(peer):
            assert time.monotonic() < deadline, "a consumer remains"
            time.sleep(0.05)


def test_a_stopped_nats_server(
    tmp_path: Path, soon: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nats")
    monkeypatch.setattr(retries.Retries.__init__, "__defaults__", ((0.0, 0.1, 0.1),))
    with servers.nats(tmp_path) as port:
        peer = Peer(port, "gone")
        peer.send([b"<t/>"])
        reader = connector_of(peer.url).inlet(peer.url, "")
        reader.open(None)
        assert reader.read()
        url = f"{peer.url}?subject=gone.out"
        outlet = connector_of(url).outlet(url, url)
        outlet.open(form(), None)
    with closing(reader), pytest.raises(OSError, match="Connect call failed"):
        all(iter(reader.read, None))
    with closing(outlet), pytest.raises(XmlPunctError, match="cannot write"):
        outlet.write(results())
    assert {*reported(caplog)} == {peer.url}


def test_a_stopped_mqtt_broker(
    tmp_path: Path, soon: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("paho.mqtt.client")
    monkeypatch.setattr(retries.Retries.__init__, "__defaults__", ((0.0, 0.1, 0.1),))
    with servers.mosquitto(tmp_path) as port:
        url = f"mqtt://127.0.0.1:{port}/t"
        reader = mqtt_inlet(url)
    with closing(reader), pytest.raises(OSError, match="refused"):
        reader.read()
    assert {*reported(caplog)} == {f"{url}#t"}


def test_librdkafka_errors_are_reported_the_same_way(soon: None, caplog: pytest.LogCaptureFixture) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    from xmlpunct.connectors.kafka import _error_callback, _log

    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    consumer = kafka.Consumer(settings | _error_callback(Retries("kafka://127.0.0.1:1/t")), logger=_log)
    deadline = time.monotonic() + 20
    while not reported(caplog):
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    consumer.close()
    assert reported(caplog)[0] == "kafka://127.0.0.1:1/t"


def form() -> Form:
    return Form("r", RESULT, writer_for("xml", RESULT))


def results() -> Results:
    return Results(0, (Slice(RESULT.frame([(1,)])),), b"<t/>")


def test_web_servers(soon: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("http", "http_post"):
        monkeypatch.setattr(f"xmlpunct.connectors.{module}.PAUSES", (0.01, 0.01))
    url = "http://127.0.0.1:1/s"
    with pytest.raises(SourceError, match="refused"):
        connector_of(url).source(url, url)
    outlet = connector_of(url).outlet(url, url)
    outlet.open(form(), None)
    with pytest.raises(XmlPunctError, match="refused"):
        outlet.write(results())
    assert {*reported(caplog)} == {url}


def test_a_database_that_another_process_has_locked(
    tmp_path: Path, soon: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmlpunct.connectors.database_dialects._GLANCE_SECONDS", 0.02)
    path = tmp_path / "x.db"
    url = f"sqlite:///{path}?table=t"
    outlet = connector_of(url).outlet(url, url)
    outlet.open(form(), None)
    with closing(outlet), closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        for statement in ("BEGIN IMMEDIATE", "BEGIN; SELECT * FROM t"):
            for part in statement.split(";"):
                connection.execute(part).fetchone()
            timer = threading.Timer(0.3, connection.rollback)
            timer.start()
            outlet.write(Results(len(caplog.messages), (Slice(RESULT.frame([(1,)])),), b""))
            timer.join()
            assert caplog.messages[-1].startswith(f"{url}: continues after 0 s")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
    assert {*reported(caplog)} == {url}

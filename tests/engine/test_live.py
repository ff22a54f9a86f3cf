"""The local engine on live sources: sockets, growing files and pipes."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from xmlpunct.base.errors import SourceError, SqlError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.cli.progress import _idle_text
from xmlpunct.engine.run.local.local_run import open_sources
from xmlpunct.engine.run.local.running import LocalRun
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.sql import plan
from xmlpunct.engine.sql.planner.catalog import declared
from xmlpunct.engine.sql.syntax.dialect import parse_statements

BEGIN = f'<s xmlns:p="{PUNCT_NAMESPACE}">'
UNION = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (element = 't');
           CREATE STREAM b (hour INT NOT NULL, x INT) WITH (element = 't');
           SELECT hour, MAX(x) AS top FROM (SELECT hour, x FROM a UNION SELECT hour, x FROM b) GROUP BY hour"""
JOIN = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (element = 't');
          CREATE STREAM b (hour INT NOT NULL, x INT) WITH (element = 't');
          SELECT a.hour, a.x, b.x AS y FROM a JOIN b ON a.hour = b.hour"""
COUNT = """CREATE STREAM a (hour INT NOT NULL, x INT) WITH (source = 'unset', element = 't');
           SELECT hour, COUNT(*) AS n FROM a GROUP BY hour"""


def t(hour: int, x: int) -> str:
    return f"<t><hour>{hour}</hour><x>{x}</x></t>"


def closed(hour: int) -> str:
    return f"<p:t><hour>{hour}</hour></p:t>"


class Server:
    """A peer to connect to."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connection: socket.socket | None = None
        self.name = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def send(self, text: str) -> None:
        if self._connection is None:
            self._connection, _ = self._server.accept()
        self._connection.sendall(text.encode())

    def close(self) -> None:
        for used in (self._connection, self._server):
            if used is not None:
                used.close()


class Running:
    """A query that runs in a thread; ``results`` collects its tuples."""

    def __init__(self, sql: str, sources: dict[str, str]) -> None:
        self.stats = RunStats("local")
        self.query = plan(sql, sources)
        self.results: list[tuple[object, ...]] = []
        self.error: SourceError | None = None
        self._stop = threading.Event()
        self._run = LocalRun(self.query, open_sources(self.query), None, self.stats, PUNCT_NAMESPACE)
        self.rejects = self._run.rejects
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        with closing(self._run) as run:
            try:
                while not self._stop.is_set() and (result := run.advance()) is not None:
                    self.results += result.tuples.rows()
            except SourceError as error:
                self.error = error

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def end(self) -> list[tuple[object, ...]]:
        """All results, after the query has ended."""
        self._thread.join(5)
        assert not self._thread.is_alive()
        return sorted(self.results)


def until(is_so: Callable[[], bool], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def two() -> Iterator[tuple[Server, Server]]:
    with closing(Server()) as a, closing(Server()) as b:
        yield a, b


def test_a_silent_input_does_not_stop_the_other() -> None:
    with two() as (a, b), closing(Running(UNION, {"a": a.name, "b": b.name})) as run:
        a.send(BEGIN + t(1, 5) + closed(1))
        until(lambda: run.stats.inputs["a"].punctuations == 1)
        a.send(t(2, 6))
        until(lambda: run.stats.inputs["a"].tuples == 2)
        b.send(BEGIN + t(1, 7) + closed(1))  # the silent input is read at once
        until(lambda: run.results == [(1, 7)])
        a.send("</s>")
        a.close()
        b.send("</s>")
        b.close()
        assert run.end() == [(1, 7), (2, 6)]
        assert run.error is None
        assert run.stats.idle == []


def test_an_input_that_holds_up_tuples_is_named() -> None:
    with two() as (a, b), closing(Running(UNION, {"a": a.name, "b": b.name})) as run:
        a.send(BEGIN + "".join(t(1, x) for x in range(5)) + closed(1))
        b.send(BEGIN)
        until(lambda: bool(run.stats.idle))
        (idle,) = run.stats.idle
        assert (idle.input, idle.holds_up) == ("b", 5)
        assert idle.seconds >= 1
        assert re.fullmatch(r"  waiting for b since [12] s: 5 tuples", _idle_text(run.stats))
        (record,) = run.stats.as_dict()["idle"]
        assert set(record) == {"input", "seconds", "holds_up"}


def test_a_file_is_read_while_a_socket_is_silent(tmp_path: Path) -> None:
    (tmp_path / "b.xml").write_text(BEGIN + t(1, 3) + "</s>")
    with closing(Server()) as a:
        with closing(Running(JOIN, {"a": a.name, "b": str(tmp_path / "b.xml")})) as run:
            until(lambda: run.stats.inputs["b"].tuples == 1)
            a.send(BEGIN + t(1, 4))
            until(lambda: run.results == [(1, 4, 3)])
        assert run.error is None


def test_a_cut_connection_fails_and_releases_nothing() -> None:
    with two() as (a, b), closing(Running(UNION, {"a": a.name, "b": b.name})) as run:
        b.send(BEGIN + closed(1))
        a.send(BEGIN + t(1, 5) + closed(1) + t(2, 1))
        until(lambda: run.results == [(1, 5)])
        a.close()
        assert run.end() == [(1, 5)]
        assert run.error is not None
        assert run.error.source == a.name


def connected(run: Running, caplog: pytest.LogCaptureFixture) -> list[socket.socket]:
    """Two connections to the port on which the query listens."""
    until(lambda: bool(caplog.messages))
    port = int(caplog.messages[0].split()[-1])
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]


LISTENING = "'tcp-listen://127.0.0.1:0', connections = 2"


def test_several_senders_are_merged(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Running(COUNT.replace("'unset'", LISTENING), {})) as run:
        peers = connected(run, caplog)
        peers[0].sendall((BEGIN + t(1, 1) + t(2, 1) + closed(1)).encode())
        until(lambda: run.stats.inputs["a"].punctuations == 1)
        assert run.results == []  # hour 1 is open for the second sender
        peers[1].sendall((BEGIN + t(1, 2) + closed(1)).encode())
        until(lambda: run.results == [(1, 2)])
        for peer in peers:
            peer.sendall(b"</s>")
            peer.close()
        assert run.end() == [(1, 2), (2, 1)]
        assert run.stats.inputs["a"].tuples == 3
        assert run.stats.inputs["a"].bytes == len(BEGIN) * 2 + len(t(1, 1)) * 3 + len(closed(1)) * 2 + 8
        assert "merge" in [o.operator for o in run.stats.operators]
        assert run.error is None


def test_each_sender_has_an_order_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """A slower sender delays results and is named; a tuple is late only within its own sender."""
    sql = COUNT.replace("'unset'", LISTENING).replace("'t');", "'t') PUNCTUATE ORDER BY hour;")
    with closing(Running(sql, {})) as run:
        peers = connected(run, caplog)
        peers[0].sendall((BEGIN + t(1, 1) + t(5, 1) + t(4, 1) + t(6, 1) + "</s>").encode())
        peers[0].close()
        until(lambda: run.stats.inputs["a"].tuples == 4)
        peers[1].sendall((BEGIN + t(1, 2) + t(2, 2)).encode())
        until(lambda: run.results == [(1, 2)])
        until(lambda: bool(run.stats.idle))
        assert run.stats.idle[0].input in ("a#1", "a#2")  # the order of acceptance is not fixed
        assert run.stats.idle[0].holds_up
        peers[1].sendall(b"</s>")
        peers[1].close()
        assert run.end() == [(1, 2), (2, 1), (5, 1), (6, 1)]
        assert len(run.rejects) == 1


def test_every_sender_carries_all_streams(caplog: pytest.LogCaptureFixture) -> None:
    sql = JOIN.replace("element = 't'", f"source = {LISTENING}, element = 't'", 1).replace(
        "(element = 't')", f"(source = {LISTENING}, element = 'u')"
    )
    with closing(Running(sql, {})) as run:
        peers = connected(run, caplog)
        for x, peer in enumerate(peers):
            peer.sendall((BEGIN + t(x, x) + t(1 - x, 5).replace("t>", "u>") + "</s>").encode())
            peer.close()
        assert run.end() == [(0, 0, 5), (1, 1, 5)]
        assert (run.stats.inputs["a"].tuples, run.stats.inputs["b"].tuples) == (2, 2)


def test_a_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(BEGIN)
    sql = COUNT.replace("'unset'", f"'{path}', follow = true")
    with closing(Running(sql, {})) as run, open(path, "a", buffering=1) as file:
        print(t(1, 1) + closed(1), file=file)
        until(lambda: run.results == [(1, 1)])
        print(t(2, 1) + "</s>", file=file)
        path.unlink()
        assert run.end() == [(1, 1), (2, 1)]


def test_results_have_low_latency() -> None:
    """Median latency from input to result; the limit allows for a busy machine."""
    with two() as (a, b), closing(Running(UNION, {"a": a.name, "b": b.name})) as run:
        a.send(BEGIN + closed(0))
        b.send(BEGIN + closed(0))
        took = []
        for hour in range(1, 30):
            a.send(t(hour, hour) + closed(hour))
            sent = time.monotonic()
            b.send(closed(hour))
            until(lambda: len(run.results) == hour)  # noqa: B023
            took.append(time.monotonic() - sent)
        print(sorted(took))
        assert sorted(took)[len(took) // 2] < 0.05


def test_a_fast_sender_is_slowed_by_backpressure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The read-ahead buffer is bounded, and a full buffer drains again."""
    monkeypatch.setattr("xmlpunct.connectors.read_ahead.AHEAD_BYTES", 1000)
    with two() as (a, b), closing(Running(UNION, {"a": a.name, "b": b.name})) as run:
        text = BEGIN + "".join(t(1, x) for x in range(20_000)) + "</s>"
        b.send(BEGIN + t(1, 99_999) + "</s>")
        b.close()
        a.send(text)
        a.close()
        assert run.end() == [(1, 99_999)]
        assert run.stats.inputs["a"].tuples == 20_000


def test_busy_inputs_take_turns() -> None:
    """Independent inputs alternate: neither is read twice before the other is read once."""
    sql = UNION.split("SELECT", 1)[0] + "SELECT hour, x FROM a UNION ALL SELECT hour, x FROM b"
    with two() as (a, b):
        query = plan(sql, {"a": a.name, "b": b.name})
        stats = RunStats("local")
        with closing(LocalRun(query, open_sources(query), 40, stats, PUNCT_NAMESPACE)) as run:
            run.advance()  # connects; no input yet
            for server in (a, b):
                server.send(BEGIN + "".join(t(1, x) for x in range(20)))
            time.sleep(0.05)
            byte_counts = []
            for _ in range(20):
                run.advance()
                byte_counts.append((stats.inputs["a"].bytes, stats.inputs["b"].bytes))
        assert all(abs(x - y) <= 80 for x, y in byte_counts)


def test_pipes_are_read_concurrently(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        os.mkfifo(path)
    with closing(Running(UNION, {"a": str(paths[0]), "b": str(paths[1])})) as run:
        with open(paths[1], "w") as b:
            b.write(BEGIN + t(1, 1))
            b.flush()
            until(lambda: run.stats.inputs["b"].tuples == 1)
            with open(paths[0], "w") as a:
                a.write(BEGIN + t(1, 2) + "</s>")
            b.write("</s>")
        assert run.end() == [(1, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("source = 'a.xml', connections = 2", "tcp-listen"),
        ("source = 'tcp-listen://:7', connections = 0", "no address"),
        ("source = 'tcp://h:7', follow = true", "path of a file"),
        ("source = 'a.xml', follow = 1", "true or false"),
    ],
)
def test_conflicting_options_are_refused(options: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan(f"CREATE STREAM a (x INT) WITH ({options}); SELECT x FROM a")


def test_options_and_overridden_sources() -> None:
    def source(options: str, override: str | None = None) -> str | None:
        created = parse_statements(f"CREATE STREAM a (x INT) WITH ({options})")
        return declared(created, {"a": override} if override else {})["a"].source

    assert source("source = 'x', follow = true") == "follow:x"
    assert source("source = 'x', follow = true", "y") == "y"  # the override replaces source and options
    assert source("follow = 'true'", "y") == "follow:y"
    assert source("source = 'tcp-listen://:7', connections = 3") == "tcp-listen://:7?connections=3"

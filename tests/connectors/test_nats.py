"""NATS JetStream, against nats-server: positions, results written once, lost messages, and runs killed at random."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.servers import nats
from tests.connectors.test_messages import HOURS, QUERY, elements, shown_arguments
from tests.firehose.test_tcp import CERTIFICATES
from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Results, jetstream
from xmlpunct.connectors.contract import connector_of, is_endless, open_source, senders_of
from xmlpunct.connectors.inlet import InletFile
from xmlpunct.connectors.nats import SubjectWriter
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

client = pytest.importorskip("nats", reason="pip install 'xmlpunct[nats]' for NATS's tests")

RESULT = Schema.parse("hour INT, n INT, top INT")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with nats(tmp_path_factory.mktemp("nats")) as server_port:
        yield server_port


class Peer:
    """Another client of a stream."""

    def __init__(self, port: int, stream: str, **settings: Any) -> None:
        self.port, self.stream = port, stream
        self.url = f"nats://127.0.0.1:{port}/{stream}"
        self.do(lambda s: s.add_stream(name=stream, subjects=[f"{stream}.>"], **settings))

    def do(self, call: Any) -> Any:
        """The result of ``call`` with the server's JetStream context."""

        async def run() -> Any:
            connection = await client.connect(f"nats://127.0.0.1:{self.port}")
            try:
                result: Coroutine[Any, Any, Any] = call(connection.jetstream(timeout=MOST_SECONDS))
                return await result
            finally:
                await connection.close()

        return asyncio.run(run())

    def send(self, messages: Sequence[bytes], subject: str = "in") -> None:
        async def publish(streams: Any) -> None:
            for message in messages:
                await streams.publish(f"{self.stream}.{subject}", message)

        self.do(publish)

    def read(self, subject: str = "out") -> list[Any]:
        """All messages of a subject, in order."""

        async def read_messages(streams: Any) -> list[Any]:
            messages = list[Any]()
            config = client.js.api.ConsumerConfig(ack_policy=client.js.api.AckPolicy.NONE)
            reader = await streams.pull_subscribe(
                f"{self.stream}.{subject}", stream=self.stream, config=config
            )
            pending = (await reader.consumer_info()).num_pending
            while len(messages) < pending:
                messages += await reader.fetch(pending - len(messages))
            return messages

        return list(self.do(read_messages))

    def purge(self, subject: str) -> None:
        self.do(lambda s: s.purge_stream(self.stream, subject=f"{self.stream}.{subject}"))


@pytest.fixture
def peer(port: int, request: pytest.FixtureRequest) -> Peer:
    """A stream that no other test has."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return Peer(port, name)


def source_bytes(url: str) -> bytes:
    with open_source(url).open() as reader:
        return b"".join(iter(lambda: reader.read(100), b""))


def read_from(url: str, position: Any = None, sender: str = "") -> tuple[bytes, Any]:
    """The bytes after a position, and the last position."""
    with closing(InletFile(connector_of(url).inlet(url, sender))) as file:
        file.resume(position)
        data = b"".join(iter(lambda: file.read(10_000), b""))
        return data, json.loads(json.dumps(file.position))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nats://host", "is no address"),
        ("nats:///S", "is no address"),
        ("nats://host:0/S", "is no address"),
        ("nats://host/a.b", "is no address"),
        ("nats://host/S?until=then", "write until=never or end"),
        ("nats://host/S?documents=yes", "write documents=0 or 1"),
        ("nats://host/S?deliver=last", "write deliver=all or new"),
        ("nats://host/S?subject=a,a", "each once"),
        ("nats://host/S?subject=a..b", "write subjects"),
        ("nats://host/S?ca=/nowhere", "cannot read certificates from /nowhere"),
        ("nats://host/S?durable=x", "there is no option durable"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        source_bytes(url)


def test_properties_without_a_connection() -> None:
    url = "nats://me:pw@nowhere/S?subject=a.1,a.*"
    assert senders_of(url) == 2
    assert is_endless(url)
    assert not is_endless(f"{url}&until=end")
    assert [s.name for s in open_source(url).senders] == ["nats://nowhere/S#a.1", "nats://nowhere/S#a.*"]
    for query in ("", "?subject=a,b", "?subject=a.*"):
        with pytest.raises(UsageError, match="results go to one subject"):
            connector_of(url).outlet(f"nats://nowhere/S{query}", f"nats://nowhere/S{query}")
    with pytest.raises(UsageError, match="there is no option until"):
        connector_of(url).outlet("nats://nowhere/S?subject=a&until=end", "x")


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"nats://127.0.0.1:1/S.*Connect call failed"):
        source_bytes("nats://127.0.0.1:1/S")
    url = "nats://127.0.0.1:1/S?subject=a"
    with (
        closing(connector_of(url).outlet(url, url)) as outlet,
        pytest.raises(XmlPunctError, match=r"cannot write nats://127.0.0.1:1/S: .*Connect call failed"),
    ):
        outlet.open(form(), None)


def test_a_stream_is_elements_or_documents(peer: Peer) -> None:
    peer.send([b"<t><a>1</a></t>"], "x")
    peer.send([b"", b"<t><a>2</a></t>"], "y")
    for query in ("", f"&subject={peer.stream}.>"):
        url = f"{peer.url}?until=end{query}"
        assert source_bytes(url) == b"<stream>\n<t><a>1</a></t>\n\n<t><a>2</a></t>\n</stream>\n"
        assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]
    assert (
        source_bytes(f"{peer.url}?until=end&subject={peer.stream}.x")
        == b"<stream>\n<t><a>1</a></t>\n</stream>\n"
    )
    assert source_bytes(f"{peer.url}?until=end&deliver=new") == b"<stream>\n</stream>\n"
    documents = f"{peer.url}?until=end&documents=1&subject={peer.stream}.x"
    assert source_bytes(documents) == b"<t><a>1</a></t>\n"
    peer.purge("x")
    assert source_bytes(documents) == b""


def test_a_stream_is_read_from_a_position(peer: Peer) -> None:
    messages = [b"<t>%d</t>" % i for i in range(1000)]
    peer.send(messages)
    peer.send([b"<t>other</t>"], "other")
    url = f"{peer.url}?until=end"
    data, end = read_from(url, sender=f"{peer.stream}.in")
    assert data.split() == [b"<stream>", *messages, b"</stream>"]
    assert end == {"offset": 1002, "end": 1002, "closed": True}
    assert read_from(url, end) == (b"", end)
    data, _ = read_from(url, {"offset": 998, "end": 1001, "closed": False})
    assert data.split() == [*messages[997:], b"</stream>"]
    with pytest.raises(SourceError, match="message 1009 no longer exists: is it another stream"):
        read_from(url, {"offset": 1010, "end": None, "closed": False})


def test_messages_that_the_stream_has_dropped_are_an_error(port: int) -> None:
    peer = Peer(port, "short", max_msgs=10)
    peer.send([b"<t>1</t>"])
    data, _ = read_from(f"{peer.url}?until=end")
    assert b"<t>1</t>" in data
    peer.send([b"<t>2</t>"] * 15)
    with pytest.raises(SourceError, match="message 2 no longer exists: start again"):
        read_from(peer.url, {"offset": 2, "end": None, "closed": False})
    assert read_from(peer.url + "?until=end", {"offset": 7, "end": 8, "closed": False})[0].count(b"<t>2") == 1


def test_streams_that_cannot_be_read_twice_are_an_error(port: int) -> None:
    queue = Peer(port, "queue", retention=client.js.api.RetentionPolicy.WORK_QUEUE)
    with pytest.raises(SourceError, match="its retention is workqueue"):
        source_bytes(queue.url)
    with pytest.raises(SourceError, match="stream not found"):
        source_bytes(f"nats://127.0.0.1:{port}/nowhere")


@pytest.mark.parametrize("documents", ["0", "1"])
def test_a_stream_has_no_end(peer: Peer, documents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a stream the reader waits for more messages; it replaces a lost connection."""
    monkeypatch.setattr("xmlpunct.connectors.nats.LOOK_SECONDS", 0.3)
    reader = connector_of(peer.url).inlet(f"{peer.url}?documents={documents}", f"{peer.stream}.in")
    with closing(InletFile(reader)) as file:
        data = b""
        for number in range(5):
            timer = threading.Timer(1.0 if number == 4 else 0.0, peer.send, ([b"<t>%d</t>" % number],))
            timer.start()
            while data.count(b"</t>") <= number:
                new_bytes = file.read(1000)
                assert new_bytes, "the reader has ended"
                data += new_bytes
            timer.join()
            connection = reader._connection  # type: ignore[attr-defined]
            if number == 1:
                connection.do(connection.client._process_op_err(OSError("cut")))
            if number == 3:
                abort = connection.client._transport._io_writer.transport.abort
                threading.Timer(0.3, connection._loop.call_soon_threadsafe, (abort,)).start()
            if number == 2:
                consumer = reader._tail._consumer  # type: ignore[attr-defined]
                peer.do(lambda s, consumer=consumer: s.delete_consumer(peer.stream, consumer))
            if number == 4:
                peer.send([b"<t>other</t>"] * 3, "other")
        deadline = time.monotonic() + 20
        while reader._position["offset"] < 9:  # type: ignore[attr-defined]
            assert time.monotonic() < deadline, "messages of other subjects do not advance the position"
            reader.read()
        timer = threading.Timer(0.5, file.stop)
        timer.start()
        assert not file.read(1000)
        timer.join()
    start = [] if documents == "1" else [b"<stream>"]
    assert data.split() == [*start, *(b"<t>%d</t>" % n for n in range(5))]


def results(number: int, rows: list[tuple[int, int, int]], *patterns: str) -> Results:
    punctuations = [Punctuation.parse(RESULT, text) for text in patterns]
    return Results(number, (Slice(RESULT.frame(rows), punctuations),), b"")


def form(format_: str = "xml", run: str = "r1") -> Form:
    return Form(run, RESULT, writer_for(format_, RESULT), format_)


def writer(peer: Peer) -> Any:
    url = f"{peer.url}?subject={peer.stream}.out"
    return connector_of(url).outlet(url, url)


def numbers(messages: Sequence[Any], run: str = "r1") -> list[int]:
    return [int(m.headers["xmlpunct.sequence"]) for m in messages if m.headers["xmlpunct.run"] == run]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_restarted_run_sends_each_message_once(port: int, remembers: bool) -> None:
    """The server has the sequence numbers in its window, or the run reads the messages."""
    settings = {} if remembers else {"duplicate_window": 0.1}
    peer = Peer(port, f"once-{remembers}", **settings)
    groups = [results(n, [(n, 1, 2), (n, 3, 4)], f"<{n}, *, *>") for n in range(4)]
    with closing(writer(peer)) as first:
        first.open(form("jsonl"), None)
        first.write(groups[0])
        position = json.loads(json.dumps(first.commit()))
        assert position["sequence"] == 3
        first.write(groups[1])
        first._send([(7, b"one of the next group")])
    with closing(writer(peer)) as other_run:
        other_run.open(form("jsonl", "r2"), None)
        other_run.write(results(0, [(99, 0, 0)]))
    time.sleep(0.2)
    with closing(writer(peer)) as changed_run:
        changed_run.open(form("jsonl"), position)
        changed_run.write(groups[1], again=True)
        with pytest.raises(XmlPunctError, match="message 7 of this run exists already with another result"):
            changed_run.write(groups[2])
    with closing(writer(peer)) as second:
        second.open(form("jsonl"), position)
        second.write(groups[1], again=True)
        assert second.commit()["sequence"] == 6
        with pytest.raises(XmlPunctError, match="results that are not in this checkpoint"):
            second.check_last(1)  # message 7 is of a group that is not in the log of the checkpoint
    messages = peer.read()
    assert numbers(messages) == [0, 1, 2, 3, 4, 5, 7]
    assert numbers(messages, "r2") == [0]
    assert [json.loads(m.data)["hour"] for m in messages[:2]] == [0, 0]
    assert b"$punct" in messages[2].data


def test_a_connection_that_is_lost_while_results_are_written(peer: Peer) -> None:
    with closing(writer(peer)) as outlet:
        outlet.open(form(), None)
        for n in range(4):
            connection = outlet._connection
            if n % 2:
                connection.do(connection.client._process_op_err(OSError("cut")))
            outlet.write(results(n, [(n, i, 0) for i in range(300)], f"<{n}, *, *>"))
    assert numbers(peer.read()) == [*range(4 * 301)]


def test_a_punctuation_is_sent_when_the_tuples_before_it_are_there(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[list[int]]()
    original = SubjectWriter._publish

    def publish(self: SubjectWriter, messages: Sequence[tuple[int, bytes]]) -> None:
        original(self, messages)
        sent.append([number for number, _ in messages])

    monkeypatch.setattr(SubjectWriter, "_publish", publish)
    monkeypatch.setattr("xmlpunct.connectors.nats.AT_ONCE", 2)
    with closing(writer(peer)) as outlet:
        outlet.open(form(), None)
        outlet.write(results(0, [(1, 1, 1)] * 3, "<1, *, *>"))
    assert sent == [[0, 1], [2], [3]]


def test_errors_of_writing(peer: Peer) -> None:
    with closing(writer(peer)) as outlet, pytest.raises(UsageError, match="write xml or jsonl"):
        outlet.open(form("csv"), None)
    url = f"{peer.url}?subject=elsewhere.out"
    with (
        closing(connector_of(url).outlet(url, url)) as outlet,
        pytest.raises(
            XmlPunctError, match=f"elsewhere.out is a subject of no stream, and not of {peer.stream}"
        ),
    ):
        outlet.open(form(), None)
    full = Peer(peer.port, "full", max_msgs=2, discard=client.js.api.DiscardPolicy.NEW)
    with closing(writer(full)) as outlet:
        outlet.open(form(), None)
        with pytest.raises(XmlPunctError, match=r"cannot write .*: maximum messages exceeded"):
            outlet.write(results(0, [(1, 1, 1)] * 3))


def test_a_missing_or_wrong_password_is_an_error(tmp_path: Path) -> None:
    with nats(tmp_path, 'authorization { user: me, password: "p/w" }') as port:
        for user in ("", "me:other@"):
            with pytest.raises(SourceError, match=r"(?i)authorization"):
                source_bytes(f"nats://{user}127.0.0.1:{port}/S")
        with pytest.raises(SourceError, match="stream not found"):
            source_bytes(f"nats://me:p%2Fw@127.0.0.1:{port}/S")
        with pytest.raises(SourceError, match="it does not speak TLS"):
            source_bytes(f"nats://me:p%2Fw@127.0.0.1:{port}/S?tls=1")


def test_tls(tmp_path: Path) -> None:
    certificate, ca = CERTIFICATES / "localhost.pem", CERTIFICATES / "authority.pem"
    with nats(
        tmp_path,
        f'tls {{ cert_file: "{certificate}", key_file: "{certificate}" }}',
        'authorization { token: "t/k" }',
    ) as port:
        address = f"nats://t%2Fk@localhost:{port}/S"
        with pytest.raises(SourceError, match="stream not found"):
            source_bytes(f"{address}?ca={ca}")
        for url in (address, f"{address}?tls=1", f"{address.replace('localhost', '127.0.0.1')}?ca={ca}"):
            with pytest.raises(SourceError, match="certificate verify failed"):
                source_bytes(url)


def run(*options: str) -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, *options)


def test_the_lines_to_copy(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    orders, totals = Peer(port, "ORDERS"), Peer(port, "TOTALS")
    order = b"<order><id>1</id><hour>17</hour><amount>12.50</amount></order>"
    punct = (
        b'<punct:order xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"><hour>17</hour></punct:order>'
    )
    for subject in ("eu", "us"):
        orders.send([order, punct], subject)
    process = launch(*shown_arguments("NATS", **{"localhost:4222": f"127.0.0.1:{port}"}))
    deadline = time.monotonic() + MOST_SECONDS
    while not (messages := totals.read("hours")):
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=MOST_SECONDS)
    assert messages[0].data == b"<result><hour>17</hour><total>25.00</total></result>"


def kill_at_random(peer: Peer, folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """From NATS to NATS: the run is killed and restarted; each result is there once."""
    folder.mkdir()
    source, out = (Peer(peer.port, f"{peer.stream}-{folder.name}-{name}") for name in ("in", "out"))
    sent = elements(kills)
    file, undisturbed = folder / "whole.xml", folder / "alone.xml"
    file.write_bytes(b"<stream>" + b"".join(sent) + b"</stream>")
    ends_well(run("--engine", "local", "-s", f"sensor1={file}", "-o", str(undisturbed)))
    source.send(sent)
    addresses = ["-s", f"sensor1={source.url}?until=end", "-o", f"{out.url}?subject={out.stream}.out"]
    options = [*engine, *addresses, "--checkpoint", str(folder / "checkpoint")]
    for _ in range(kills):
        process, before = run(*options), len(out.read())
        deadline, previous_count = time.monotonic() + MOST_SECONDS, before + chance.randrange(0, 30)
        while process.poll() is None and len(out.read()) <= previous_count:
            assert time.monotonic() < deadline, "too few results in time"
        process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    ends_well(run(*options))
    messages = out.read()
    assert numbers(messages, messages[0].headers["xmlpunct.run"]) == [*range(len(messages))]
    assert sorted(m.data.decode() for m in messages if b"<result>" in m.data) == bag(undisturbed)
    assert len(bag(undisturbed)) == HOURS


def test_nats_to_nats_killed_at_random(peer: Peer, tmp_path: Path) -> None:
    chance = random.Random(5)
    for n in range(10 if LONG else 1):
        kill_at_random(peer, tmp_path / str(n), chance, 4, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_nats_to_nats_killed_on_spark(peer: Peer, tmp_path: Path) -> None:
    kill_at_random(peer, tmp_path / "spark", random.Random(6), 1, "--master", "local[2]", "--slice", "96KiB")


def test_a_restarted_run_reads_its_messages_and_ignores_the_window(peer: Peer) -> None:
    """A reader requests ``AT_ONCE`` messages, so the check takes several requests."""
    with closing(writer(peer)) as first:
        first.open(form(), None)
        position = first.commit()
        first.write(results(0, [(n, 0, 0) for n in range(3 * jetstream.AT_ONCE)]))
    with closing(writer(peer)) as second:
        second.open(form(), position)
        assert len(second._sent_before) == 3 * jetstream.AT_ONCE

"""NATS JetStream, against nats-server: positions, what is written once, what is lost, and killed at random."""

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
from tests.connectors.test_messages import HOURS, QUERY, copied, elements
from tests.firehose.test_tcp import CERTIFICATES
from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Results, jetstream
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.inlet import InletFile
from xmlpunct.connectors.nats import SubjectWriter
from xmlpunct.connectors.open_source import is_endless, open_source, senders_of
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

client = pytest.importorskip("nats", reason="pip install 'xmlpunct[nats]' for NATS's tests")

RESULT = Schema.parse("hour INT, n INT, top INT")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with nats(tmp_path_factory.mktemp("nats")) as found:
        yield found


class Peer:
    """Somebody else who uses a stream."""

    def __init__(self, port: int, stream: str, **settings: Any) -> None:
        self.port, self.stream = port, stream
        self.url = f"nats://127.0.0.1:{port}/{stream}"
        self.do(lambda s: s.add_stream(name=stream, subjects=[f"{stream}.>"], **settings))

    def do(self, work: Any) -> Any:
        """What comes of a piece of work on the streams of the server."""

        async def run() -> Any:
            connection = await client.connect(f"nats://127.0.0.1:{self.port}")
            try:
                done: Coroutine[Any, Any, Any] = work(connection.jetstream(timeout=MOST_SECONDS))
                return await done
            finally:
                await connection.close()

        return asyncio.run(run())

    def send(self, messages: Sequence[bytes], subject: str = "in") -> None:
        async def sending(streams: Any) -> None:
            for message in messages:
                await streams.publish(f"{self.stream}.{subject}", message)

        self.do(sending)

    def read(self, subject: str = "out") -> list[Any]:
        """All messages of a subject, in order."""

        async def reading(streams: Any) -> list[Any]:
            found = list[Any]()
            wanted = client.js.api.ConsumerConfig(ack_policy=client.js.api.AckPolicy.NONE)
            reader = await streams.pull_subscribe(
                f"{self.stream}.{subject}", stream=self.stream, config=wanted
            )
            left = (await reader.consumer_info()).num_pending
            while len(found) < left:
                found += await reader.fetch(left - len(found))
            return found

        return list(self.do(reading))

    def purge(self, subject: str) -> None:
        self.do(lambda s: s.purge_stream(self.stream, subject=f"{self.stream}.{subject}"))


@pytest.fixture
def peer(port: int, request: pytest.FixtureRequest) -> Peer:
    """A stream that no other test has."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return Peer(port, name)


def whole(url: str) -> bytes:
    with open_source(url).open() as reader:
        return b"".join(iter(lambda: reader.read(100), b""))


def rest(url: str, position: Any = None, sender: str = "") -> tuple[bytes, Any]:
    """What comes behind a position, and the position at the end."""
    with closing(InletFile(connector_of(url).inlet(url, sender))) as file:
        file.resume(position)
        data = b"".join(iter(lambda: file.read(10_000), b""))
        return data, json.loads(json.dumps(file.position))


@pytest.mark.parametrize(
    ("url", "said"),
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
def test_what_is_no_stream(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        whole(url)


def test_what_can_be_known_beforehand() -> None:
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
        whole("nats://127.0.0.1:1/S")
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
        assert whole(url) == b"<stream>\n<t><a>1</a></t>\n\n<t><a>2</a></t>\n</stream>\n"
        assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]
    assert whole(f"{peer.url}?until=end&subject={peer.stream}.x") == b"<stream>\n<t><a>1</a></t>\n</stream>\n"
    assert whole(f"{peer.url}?until=end&deliver=new") == b"<stream>\n</stream>\n"
    documents = f"{peer.url}?until=end&documents=1&subject={peer.stream}.x"
    assert whole(documents) == b"<t><a>1</a></t>\n"
    peer.purge("x")
    assert whole(documents) == b""


def test_a_stream_is_read_on_from_a_position(peer: Peer) -> None:
    messages = [b"<t>%d</t>" % i for i in range(1000)]
    peer.send(messages)
    peer.send([b"<t>other</t>"], "other")
    url = f"{peer.url}?until=end"
    data, end = rest(url, sender=f"{peer.stream}.in")
    assert data.split() == [b"<stream>", *messages, b"</stream>"]
    assert end == {"offset": 1002, "end": 1002, "closed": True}
    assert rest(url, end) == (b"", end)
    data, _ = rest(url, {"offset": 998, "end": 1001, "closed": False})
    assert data.split() == [*messages[997:], b"</stream>"]
    with pytest.raises(SourceError, match="message 1009 no longer exists: is it another stream"):
        rest(url, {"offset": 1010, "end": None, "closed": False})


def test_what_the_stream_has_dropped_is_missed(port: int) -> None:
    peer = Peer(port, "short", max_msgs=10)
    peer.send([b"<t>1</t>"])
    data, _ = rest(f"{peer.url}?until=end")
    assert b"<t>1</t>" in data
    peer.send([b"<t>2</t>"] * 15)
    with pytest.raises(SourceError, match="message 2 no longer exists: start again"):
        rest(peer.url, {"offset": 2, "end": None, "closed": False})
    assert rest(peer.url + "?until=end", {"offset": 7, "end": 8, "closed": False})[0].count(b"<t>2") == 1


def test_what_cannot_be_read_again_is_refused(port: int) -> None:
    queue = Peer(port, "queue", retention=client.js.api.RetentionPolicy.WORK_QUEUE)
    with pytest.raises(SourceError, match="its retention is workqueue"):
        whole(queue.url)
    with pytest.raises(SourceError, match="stream not found"):
        whole(f"nats://127.0.0.1:{port}/nowhere")


@pytest.mark.parametrize("documents", ["0", "1"])
def test_a_stream_has_no_end(peer: Peer, documents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing more for a while, more is waited for; a lost connection is made anew."""
    monkeypatch.setattr("xmlpunct.connectors.nats.LOOK_SECONDS", 0.3)
    reader = connector_of(peer.url).inlet(f"{peer.url}?documents={documents}", f"{peer.stream}.in")
    with closing(InletFile(reader)) as file:
        data = b""
        for number in range(5):
            later = threading.Timer(1.0 if number == 4 else 0.0, peer.send, ([b"<t>%d</t>" % number],))
            later.start()
            while data.count(b"</t>") <= number:
                more = file.read(1000)
                assert more, "it has ended"
                data += more
            later.join()
            connection = reader._connection  # type: ignore[attr-defined]
            if number == 1:
                connection.do(connection.client._process_op_err(OSError("cut")))
            if number == 3:
                cut = connection.client._transport._io_writer.transport.abort
                threading.Timer(0.3, connection._loop.call_soon_threadsafe, (cut,)).start()
            if number == 2:
                consumer = reader._tail._consumer  # type: ignore[attr-defined]
                peer.do(lambda s, consumer=consumer: s.delete_consumer(peer.stream, consumer))
            if number == 4:
                peer.send([b"<t>other</t>"] * 3, "other")
        until = time.monotonic() + 20
        while reader._position["offset"] < 9:  # type: ignore[attr-defined]
            assert time.monotonic() < until, "what is of other subjects is not passed over"
            reader.read()
        later = threading.Timer(0.5, file.stop)
        later.start()
        assert not file.read(1000)
        later.join()
    begun = [] if documents == "1" else [b"<stream>"]
    assert data.split() == [*begun, *(b"<t>%d</t>" % n for n in range(5))]


def results(number: int, rows: list[tuple[int, int, int]], *said: str) -> Results:
    punctuations = [Punctuation.parse(RESULT, text) for text in said]
    return Results(number, (Slice(RESULT.frame(rows), punctuations),), b"")


def form(format_: str = "xml", run: str = "r1") -> Form:
    return Form(run, RESULT, writer_for(format_, RESULT), format_)


def writer(peer: Peer) -> Any:
    url = f"{peer.url}?subject={peer.stream}.out"
    return connector_of(url).outlet(url, url)


def numbers(messages: Sequence[Any], run: str = "r1") -> list[int]:
    return [int(m.headers["xmlpunct.sequence"]) for m in messages if m.headers["xmlpunct.run"] == run]


@pytest.mark.parametrize("remembers", [True, False])
def test_each_message_is_sent_once_whatever_a_run_that_died_has_sent(port: int, remembers: bool) -> None:
    """Whether the server still knows their numbers, or they have to be read."""
    window = {} if remembers else {"duplicate_window": 0.1}
    peer = Peer(port, f"once-{remembers}", **window)
    groups = [results(n, [(n, 1, 2), (n, 3, 4)], f"<{n}, *, *>") for n in range(4)]
    with closing(writer(peer)) as first:
        first.open(form("jsonl"), None)
        first.write(groups[0])
        position = json.loads(json.dumps(first.commit()))
        assert position["sequence"] == 3
        first.write(groups[1])
        first._send([(7, b"one of the next group")])
    with closing(writer(peer)) as other:
        other.open(form("jsonl", "r2"), None)
        other.write(results(0, [(99, 0, 0)]))
    time.sleep(0.2)
    with closing(writer(peer)) as changed:
        changed.open(form("jsonl"), position)
        changed.write(groups[1], again=True)
        with pytest.raises(XmlPunctError, match="message 7 of this run exists already with another result"):
            changed.write(groups[2])
    with closing(writer(peer)) as second:
        second.open(form("jsonl"), position)
        second.write(groups[1], again=True)
        assert second.commit()["sequence"] == 6
        with pytest.raises(XmlPunctError, match="results that are not in this checkpoint"):
            second.check_last(1)  # message 7 is of a group that its log does not hold
    found = peer.read()
    assert numbers(found) == [0, 1, 2, 3, 4, 5, 7]
    assert numbers(found, "r2") == [0]
    assert [json.loads(m.data)["hour"] for m in found[:2]] == [0, 0]
    assert b"$punct" in found[2].data


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
    real = SubjectWriter._publish

    def publish(self: SubjectWriter, messages: Sequence[tuple[int, bytes]]) -> None:
        real(self, messages)
        sent.append([number for number, _ in messages])

    monkeypatch.setattr(SubjectWriter, "_publish", publish)
    monkeypatch.setattr("xmlpunct.connectors.nats.AT_ONCE", 2)
    with closing(writer(peer)) as outlet:
        outlet.open(form(), None)
        outlet.write(results(0, [(1, 1, 1)] * 3, "<1, *, *>"))
    assert sent == [[0, 1], [2], [3]]


def test_what_cannot_be_written(peer: Peer) -> None:
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


def test_who_has_no_password_is_refused(tmp_path: Path) -> None:
    with nats(tmp_path, 'authorization { user: me, password: "p/w" }') as port:
        for who in ("", "me:other@"):
            with pytest.raises(SourceError, match=r"(?i)authorization"):
                whole(f"nats://{who}127.0.0.1:{port}/S")
        with pytest.raises(SourceError, match="stream not found"):
            whole(f"nats://me:p%2Fw@127.0.0.1:{port}/S")
        with pytest.raises(SourceError, match="it does not speak TLS"):
            whole(f"nats://me:p%2Fw@127.0.0.1:{port}/S?tls=1")


def test_tls(tmp_path: Path) -> None:
    own, ca = CERTIFICATES / "localhost.pem", CERTIFICATES / "authority.pem"
    with nats(
        tmp_path, f'tls {{ cert_file: "{own}", key_file: "{own}" }}', 'authorization { token: "t/k" }'
    ) as port:
        place = f"nats://t%2Fk@localhost:{port}/S"
        with pytest.raises(SourceError, match="stream not found"):
            whole(f"{place}?ca={ca}")
        for url in (place, f"{place}?tls=1", f"{place.replace('localhost', '127.0.0.1')}?ca={ca}"):
            with pytest.raises(SourceError, match="certificate verify failed"):
                whole(url)


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
    process = launch(*copied("NATS", **{"localhost:4222": f"127.0.0.1:{port}"}))
    until = time.monotonic() + MOST_SECONDS
    while not (found := totals.read("hours")):
        assert process.poll() is None
        assert time.monotonic() < until
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=MOST_SECONDS)
    assert found[0].data == b"<result><hour>17</hour><total>25.00</total></result>"


def kill_at_random(peer: Peer, folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """From NATS to NATS: each result is there once, whenever the run is killed and started again."""
    folder.mkdir()
    given, out = (Peer(peer.port, f"{peer.stream}-{folder.name}-{name}") for name in ("in", "out"))
    sent = elements(kills)
    file, alone = folder / "whole.xml", folder / "alone.xml"
    file.write_bytes(b"<stream>" + b"".join(sent) + b"</stream>")
    ends_well(run("--engine", "local", "-s", f"sensor1={file}", "-o", str(alone)))
    given.send(sent)
    places = ["-s", f"sensor1={given.url}?until=end", "-o", f"{out.url}?subject={out.stream}.out"]
    going = [*engine, *places, "--checkpoint", str(folder / "checkpoint")]
    for _ in range(kills):
        process, before = run(*going), len(out.read())
        until, wanted = time.monotonic() + MOST_SECONDS, before + chance.randrange(0, 30)
        while process.poll() is None and len(out.read()) <= wanted:
            assert time.monotonic() < until, "it does not get so far"
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), said.decode()
    ends_well(run(*going))
    found = out.read()
    assert numbers(found, found[0].headers["xmlpunct.run"]) == [*range(len(found))]
    assert sorted(m.data.decode() for m in found if b"<result>" in m.data) == bag(alone)
    assert len(bag(alone)) == HOURS


def test_nats_to_nats_killed_at_random(peer: Peer, tmp_path: Path) -> None:
    chance = random.Random(5)
    for n in range(10 if LONG else 1):
        kill_at_random(peer, tmp_path / str(n), chance, 4, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_nats_to_nats_killed_on_spark(peer: Peer, tmp_path: Path) -> None:
    kill_at_random(peer, tmp_path / "spark", random.Random(6), 1, "--master", "local[2]", "--slice", "96KiB")


def test_the_window_of_the_server_is_not_what_a_run_that_goes_on_trusts(peer: Peer) -> None:
    """Its readers ask for so many messages that a look takes several answers."""
    with closing(writer(peer)) as first:
        first.open(form(), None)
        position = first.commit()
        first.write(results(0, [(n, 0, 0) for n in range(3 * jetstream.AT_ONCE)]))
    with closing(writer(peer)) as second:
        second.open(form(), position)
        assert len(second._sent_before) == 3 * jetstream.AT_ONCE

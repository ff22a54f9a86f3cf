"""Kafka, against librdkafka's own mock of a cluster, which does not honour transactions: all that was sent is read."""

from __future__ import annotations

import json
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import Cli
from tests.connectors.test_messages import HOURS, QUERY, block, elements
from tests.reliability.support import LONG, MOST_SECONDS, ends_well, launch
from xmlpunct import parse
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Results
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.inlet import InletFile
from xmlpunct.connectors.open_source import is_endless, open_source, senders_of
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

pytest.importorskip("confluent_kafka", reason="pip install 'xmlpunct[kafka]' for Kafka's tests")

from tests.connectors import broker

RESULT = Schema.parse("hour INT, n INT, top INT")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with broker.brokers() as found:
        yield found


@pytest.fixture
def topic(address: str, request: pytest.FixtureRequest) -> str:
    """The URL of a topic that no other test has."""
    return f"kafka://{address}/{request.node.originalname}-{abs(hash(request.node.name))}"


def send(url: str, messages: list[bytes], partition: int = 0) -> None:
    address, name = url.removeprefix("kafka://").split("/")
    broker.send(address, name, messages, partition)


def read(url: str) -> list[Any]:
    address, name = url.removeprefix("kafka://").split("/")
    return broker.read(address, name)


def count(url: str) -> int:
    address, name = url.removeprefix("kafka://").split("/")
    return broker.count(address, name)


def whole(url: str) -> bytes:
    """What the one sender of a source gives."""
    with open_source(url).open() as reader:
        return b"".join(iter(lambda: reader.read(100), b""))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("kafka://host", "is no address"),
        ("kafka:///topic", "is no address"),
        ("kafka://me:pw@host/topic", "sasl.username"),
        ("kafka://host/topic?until", "is no address"),
        ("kafka://host/topic?until=then", "write until=never or end"),
        ("kafka://host/topic?documents=yes", "write documents=0 or 1"),
        ("kafka://host/topic?partitions=0,x", "partitions=0,x: write numbers"),
        ("kafka://host/topic?key=a", "key is for OUT"),
        ("kafka://host/topic?enable.auto.commit=1", "enable.auto.commit is not to be set here"),
        ("kafka://host/topic?partitions=0&no.such=1", 'No such configuration property: "no.such"'),
    ],
)
def test_what_is_no_topic(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_source(url).reader().begin()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("sasl_ssl&sasl.mechanism=PLAIN", "sasl.username and sasl.password must be set"),
        ("sasl_plaintext&sasl.mechanism=TELEPATHY&sasl.username=me&sasl.password=p%2Fw", "TELEPATHY"),
        ("ssl&ssl.ca.location=/nowhere", "ssl.ca.location"),
    ],
)
def test_librdkafka_gets_what_is_said_of_security(settings: str, said: str) -> None:
    """It alone knows what makes sense; so it says what does not, of a source and of OUT."""
    secure = f"kafka://127.0.0.1:1/t?security.protocol={settings}"
    with pytest.raises((SourceError, UsageError), match=said):
        whole(f"{secure}&partitions=0")
    with (
        closing(connector_of(secure).outlet(secure, secure)) as outlet,
        pytest.raises((XmlPunctError, UsageError), match=said),
    ):
        outlet.open(form(), None)


def test_what_can_be_known_beforehand() -> None:
    assert senders_of("kafka://nowhere:1/t?partitions=3,1,0") == 3
    assert is_endless("kafka://nowhere:1/t")
    assert not is_endless("kafka://nowhere:1/t?until=end")
    source = open_source("kafka://nowhere:1/t?partitions=3,1&client.id=x")
    assert [s.name for s in source.senders] == ["kafka://nowhere:1/t#3", "kafka://nowhere:1/t#1"]


def test_a_partition_is_a_stream_of_elements(topic: str) -> None:
    send(topic, [b"<t><a>1</a></t>", b"<t><a>2</a></t>"], 1)
    url = f"{topic}?partitions=1&until=end"
    assert whole(url) == b"<stream>\n<t><a>1</a></t>\n<t><a>2</a></t>\n</stream>\n"
    assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]
    assert whole(url.replace("end", "end&auto.offset.reset=latest")) == b"<stream>\n</stream>\n"
    assert senders_of(topic) == 4
    with pytest.raises(SourceError, match="the partition does not exist"):
        whole(f"{topic}?partitions=9&until=end")


def test_a_message_is_a_document(topic: str) -> None:
    documents = [b"<?xml version='1.0'?><r><t><a>1</a></t></r>", b"<r><t><a>2</a></t></r>"]
    send(topic, documents)
    url = f"{topic}?partitions=0&until=end&documents=1"
    assert whole(url) == b"".join(d + b"\n" for d in documents)
    assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]


def test_a_partition_is_read_on_from_a_position(topic: str) -> None:
    send(topic, [b"<t>%d</t>" % i for i in range(5)], 2)
    connector = connector_of(topic)

    def rest(position: Any) -> tuple[bytes, Any]:
        with closing(InletFile(connector.inlet(f"{topic}?until=end&group.id=mine", "2"))) as file:
            file.resume(position)
            data = b"".join(iter(lambda: file.read(10_000), b""))
            if position is not None:
                file.acknowledge(file.position)
            return data, file.position

    data, end = rest(None)
    assert data == b"<stream>\n" + b"".join(b"<t>%d</t>\n" % i for i in range(5)) + b"</stream>\n"
    assert end == {"offset": 5, "end": 5, "closed": True}
    assert json.loads(json.dumps(end)) == end
    assert rest(end) == (b"", end)
    assert rest({"offset": 3, "end": 5, "closed": False})[0] == b"<t>3</t>\n<t>4</t>\n</stream>\n"
    with pytest.raises(SourceError, match="offset 77 no longer exists"):
        rest({"offset": 77, "end": None, "closed": False})


@pytest.mark.parametrize("documents", ["0", "1"])
def test_a_topic_has_no_end(topic: str, documents: str) -> None:
    """Where there is nothing more for a while, more is waited for."""
    inlet = connector_of(topic).inlet(f"{topic}?documents={documents}", "0")
    with closing(InletFile(inlet)) as file:
        send(topic, [b"<t>0</t>"])
        data = b""
        for wanted in (1, 2, 3):
            while data.count(b"</t>") < wanted:
                more = file.read(1000)
                assert more, "it has ended"
                data += more
            later = threading.Timer(1.0, send, (topic, [b"", b"<t>%d</t>" % wanted]))
            later.start()
        later.join()
        assert data.split() == ([] if documents == "1" else [b"<stream>"]) + [
            b"<t>%d</t>" % n for n in range(3)
        ]
        later = threading.Timer(1.0, file.stop)
        later.start()
        while file.read(1000):
            pass
        later.join()


def results(number: int, rows: list[tuple[int, int, int]], *said: str) -> Results:
    punctuations = [Punctuation.parse(RESULT, text) for text in said]
    return Results(number, (Slice(RESULT.frame(rows), punctuations),), b"")


def form(format_: str = "xml", run: str = "r1") -> Form:
    return Form(run, RESULT, writer_for(format_, RESULT), format_)


def test_a_tuple_goes_where_its_key_says_and_a_punctuation_to_all(topic: str) -> None:
    outlet = connector_of(topic).outlet(f"{topic}?key=hour", topic)
    with closing(outlet):
        outlet.open(form("jsonl"), None)
        rows = [(hour, 1, 2) for hour in range(20)]
        outlet.write(results(0, rows, "<5, *, *>"))
        assert outlet.commit()["sequence"] == 24
    found = read(topic)
    tuples = [m for m in found if b"$punct" not in m.value()]
    assert all(m.key() == str(json.loads(m.value())["hour"]).encode() for m in tuples)
    assert {m.partition() for m in tuples} <= {0, 1, 2, 3}
    assert len({m.partition() for m in tuples}) > 1
    said = [m for m in found if b"$punct" in m.value()]
    assert sorted(m.partition() for m in said) == [0, 1, 2, 3]
    assert all(m.offset() > 0 for m in said if any(t.partition() == m.partition() for t in tuples))
    headers = [dict(m.headers()) for m in found]
    assert sorted(int(h["xmlpunct.sequence"]) for h in headers) == [*range(24)]
    assert {h["xmlpunct.run"] for h in headers} == {b"r1"}


def test_each_message_is_sent_once_whatever_a_run_that_died_has_sent(topic: str) -> None:
    groups = [results(n, [(n, 1, 2), (n, 3, 4)], f"<{n}, *, *>") for n in range(4)]
    connector = connector_of(topic)
    first = connector.outlet(topic, topic)
    first.open(form(), None)
    first.write(groups[0])
    position = json.loads(json.dumps(first.commit()))
    first.write(groups[1])
    # Half of a group was sent, and its transaction not committed.
    first._producer.begin_transaction()  # type: ignore[attr-defined]
    for n, message in enumerate([*first._messages(groups[2])][:2]):  # type: ignore[attr-defined]
        first._produce(12 + n, *message)  # type: ignore[attr-defined]
    first._producer.flush(30)  # type: ignore[attr-defined]
    with closing(connector.outlet(topic, topic)) as other:
        other.open(form(run="r2"), None)
        other.write(results(0, [(99, 0, 0)]))
    with closing(connector.outlet(topic, topic)) as second:
        second.open(form(), position)
        for group in groups[1:]:
            second.write(group, again=True)
        assert second.commit()["sequence"] == 24
    with closing(connector.outlet(topic, topic)) as third:
        third.open(form(), position)
        with pytest.raises(XmlPunctError, match="message 6 of this run exists already with another result"):
            third.write(results(1, [(7, 7, 7)]))
    ours = [m for m in read(topic) if dict(m.headers())["xmlpunct.run"] == b"r1"]
    assert sorted(int(dict(m.headers())["xmlpunct.sequence"]) for m in ours) == [*range(24)]


@pytest.mark.parametrize(
    ("query", "format_", "said"),
    [
        ("?key=none", "xml", "the result has no such column: there are hour, n, top"),
        ("", "csv", "write xml or jsonl"),
    ],
)
def test_what_cannot_be_written(topic: str, query: str, format_: str, said: str) -> None:
    with (
        closing(connector_of(topic).outlet(f"{topic}{query}", topic)) as outlet,
        pytest.raises(UsageError, match=said),
    ):
        outlet.open(form(format_), None)
    with pytest.raises(UsageError, match="until is for a source"):
        connector_of(topic).outlet(f"{topic}?until=end", topic)


def test_a_broker_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.kafka.ANSWER_SECONDS", 0.5)
    ended = cli("run", "--engine", "local", "-q", QUERY, "-s", "sensor1=kafka://127.0.0.1:1/t")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert "kafka://127.0.0.1:1/t: Failed to get metadata" in ended.err
    ended = cli(
        "run",
        "--engine",
        "local",
        "-q",
        QUERY,
        "-s",
        "sensor1=kafka://h/t?partitions=0",
        "-o",
        "kafka://h/t?key=n",
    )
    assert (ended.code, "is read as" in ended.err) == (2, True)


def run(*options: str, size: str = "4KiB") -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, "--slice", size, *options)


def tuples(url: str) -> Counter[str]:
    """The results in a topic; that no message is there twice, too."""
    found = read(url)
    numbers = [dict(m.headers())["xmlpunct.sequence"] for m in found]
    assert len(set(numbers)) == len(numbers)
    assert len({dict(m.headers())["xmlpunct.run"] for m in found}) == 1
    return Counter(m.value().decode() for m in found)


def judge(topic: str, alone: str) -> None:
    assert tuples(topic) == tuples(alone)
    assert sum("<result>" in text for text in tuples(topic)) == HOURS


def spread(url: str, messages: list[bytes]) -> None:
    """Send tuples to two partitions by turns, and punctuations to both."""
    for partition in (0, 1):
        own = [m for n, m in enumerate(messages) if m.startswith(b"<punct") or n % 2 == partition]
        send(url, own, partition)


def test_the_lines_to_copy(address: str, tmp_path: Path) -> None:
    """The first lines of docs/connectors.md, on another broker."""
    punct = (
        b'<punct:order xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"><hour>17</hour></punct:order>'
    )
    for partition in range(4):
        order = b"<order><id>%d</id><hour>17</hour><amount>12.50</amount></order>" % partition
        broker.send(address, "orders", [order, punct], partition)
    lines = block("sh").replace("localhost:9092", address).replace("\\\n", " ")
    command, *arguments = shlex.split(lines)
    assert command == "xmlpunct"
    process = subprocess.Popen(
        [sys.executable, "-m", command, *arguments], cwd=tmp_path, stderr=subprocess.PIPE
    )
    until = time.monotonic() + MOST_SECONDS
    while broker.count(address, "totals") < 5:
        assert process.poll() is None
        assert time.monotonic() < until
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=MOST_SECONDS)
    assert (process.returncode, b"the same command goes on" in said) == (130, True), said.decode()
    values = Counter(m.value() for m in broker.read(address, "totals"))
    assert sorted(values.values()) == [1, 4]
    assert values[b"<result><hour>17</hour><total>50.00</total></result>"] == 1


def kill(process: subprocess.Popen[bytes], out: str, messages: int) -> bool:
    """Kill a run once so many messages are in its OUT; whether it had not ended by itself."""
    until = time.monotonic() + MOST_SECONDS
    while process.poll() is None and count(out) < messages:
        assert time.monotonic() < until, "it does not get so far"
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), said.decode()
    return process.returncode != 0


def test_kafka_to_kafka_killed_at_random(topic: str, tmp_path: Path) -> None:
    chance, kills, seed = random.Random(3), 0, 0
    while kills < (50 if LONG else 3):
        given, out, alone = (f"{topic}-{seed}-{name}" for name in ("in", "out", "alone"))
        spread(given, elements(seed))
        places = ["--engine", "local", "-s", f"sensor1={given}?partitions=0,1&until=end"]
        ends_well(run(*places, "-o", f"{alone}?key=hour"))
        going = [*places, "-o", f"{out}?key=hour", "--checkpoint", str(tmp_path / str(seed))]
        for _ in range(8 if LONG else 4):
            kills += kill(run(*going), out, count(out) + chance.randrange(1, 40))
        ends_well(run(*going))
        judge(out, alone)
        seed += 1


@pytest.mark.spark
def test_kafka_to_kafka_killed_on_spark(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark, too; and nothing that Spark keeps tells the secret."""
    monkeypatch.setenv("KAFKA_CLIENT", "hush-hush-client")
    given, out, alone = (f"{topic}-{name}" for name in ("in", "out", "alone"))
    spread(given, elements())
    places = ["-s", f"sensor1={given}?partitions=0,1&until=end&client.id=${{KAFKA_CLIENT}}"]
    ends_well(run("--engine", "local", *places, "-o", alone))
    going = ["--master", "local[2]", *places, "-o", out, "--checkpoint", str(tmp_path / "checkpoint")]
    assert kill(run(*going, size="96KiB"), out, 1)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"${KAFKA_CLIENT}" in data for data in kept)
    assert not any(b"hush-hush" in data for data in kept)
    ends_well(run(*going, size="96KiB"))
    judge(out, alone)


def test_several_topics_of_one_run(topic: str, tmp_path: Path, cli: Cli) -> None:
    """Each has transactions of its own: one run's sinks and rejects do not keep each other out."""
    feed = tmp_path / "feed.xml"
    feed.write_text("<s>" + "".join(f"<t><x>{x}</x></t>" for x in ("1", "2", "two", "3")) + "</s>")
    sql = f"""CREATE STREAM t (x INT) WITH (source = '{feed}');
        CREATE SINK odd WITH (output = '{topic}-odd', format = 'jsonl') AS SELECT x FROM t WHERE x % 2 = 1;
        CREATE SINK all WITH (output = '{topic}-all', format = 'jsonl') AS SELECT x FROM t;"""
    for _ in range(2):  # the second time nothing is left to do
        ran = cli(
            "run", "--engine", "local", "-q", sql, "--rejects", f"{topic}-bad", "--checkpoint", tmp_path / "c"
        )
        assert ran.code == 0, ran.err
    told = {name: [json.loads(m.value()) for m in read(f"{topic}-{name}")] for name in ("odd", "all", "bad")}
    assert sorted(v["x"] for v in told["odd"] if "x" in v) == [1, 3]
    assert sorted(v["x"] for v in told["all"] if "x" in v) == [1, 2, 3]
    assert [v["line"] for v in told["bad"]] == [1]

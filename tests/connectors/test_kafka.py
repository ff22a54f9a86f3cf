"""Kafka, against librdkafka's own mock of a cluster. It ignores transactions, so a reader receives all messages."""

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
from xmlpunct.connectors.contract import connector_of, is_endless, open_source, senders_of
from xmlpunct.connectors.inlet import InletFile
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

pytest.importorskip("confluent_kafka", reason="pip install 'xmlpunct[kafka]' for Kafka's tests")

from tests.connectors import broker

RESULT = Schema.parse("hour INT, n INT, top INT")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with broker.brokers() as addresses:
        yield addresses


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


def source_bytes(url: str) -> bytes:
    """The bytes of a source with one sender."""
    with open_source(url).open() as reader:
        return b"".join(iter(lambda: reader.read(100), b""))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("kafka://host", "is no address"),
        ("kafka:///topic", "is no address"),
        ("kafka://me:pw@host/topic", "sasl.username"),
        ("kafka://host/topic?until", "is no address"),
        ("kafka://host/topic?until=then", "write until=never or end"),
        ("kafka://host/topic?documents=yes", "write documents=0 or 1"),
        ("kafka://host/a/b", "is no address"),
        ("kafka://host/topic#1", "is no address"),
        ("kafka://host/topic?until=end&until=end", "an option occurs twice"),
        ("kafka://host/topic?partitions=0,x", "partitions=0,x: write numbers"),
        ("kafka://host/topic?partitions=1,1", "partitions=1,1: write numbers"),
        ("kafka://host/topic?key=a", "key is for OUT"),
        ("kafka://host/topic?enable.auto.commit=1", "enable.auto.commit cannot be set here"),
        ("kafka://host/topic?partitions=0&no.such=1", 'No such configuration property: "no.such"'),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_source(url).reader().begin()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("sasl_ssl&sasl.mechanism=PLAIN", "sasl.username and sasl.password must be set"),
        ("sasl_plaintext&sasl.mechanism=TELEPATHY&sasl.username=me&sasl.password=p%2Fw", "TELEPATHY"),
        ("ssl&ssl.ca.location=/nowhere", "ssl.ca.location"),
    ],
)
def test_librdkafka_receives_the_settings_of_security(settings: str, message: str) -> None:
    """librdkafka reports wrong settings, both of a source and of OUT."""
    secure = f"kafka://127.0.0.1:1/t?security.protocol={settings}"
    with pytest.raises((SourceError, UsageError), match=message):
        source_bytes(f"{secure}&partitions=0")
    with (
        closing(connector_of(secure).outlet(secure, secure)) as outlet,
        pytest.raises((XmlPunctError, UsageError), match=message),
    ):
        outlet.open(form(), None)


def test_properties_without_a_connection() -> None:
    assert senders_of("kafka://nowhere:1/t?partitions=3,1,0") == 3
    assert senders_of("kafka://a:1,b:2/t?partitions=3,1&documents=${UNSET}") == 2
    assert is_endless("kafka://nowhere:1/t")
    assert not is_endless("kafka://nowhere:1/t?until=end")
    source = open_source("kafka://nowhere:1/t?partitions=3,1&client.id=x")
    assert [s.name for s in source.senders] == ["kafka://nowhere:1/t#3", "kafka://nowhere:1/t#1"]


def test_a_partition_is_a_stream_of_elements(topic: str) -> None:
    send(topic, [b"<t><a>1</a></t>", b"<t><a>2</a></t>"], 1)
    url = f"{topic}?partitions=1&until=end"
    assert source_bytes(url) == b"<stream>\n<t><a>1</a></t>\n<t><a>2</a></t>\n</stream>\n"
    assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]
    assert source_bytes(url.replace("end", "end&auto.offset.reset=latest")) == b"<stream>\n</stream>\n"
    assert senders_of(topic) == 4
    with pytest.raises(SourceError, match="the partition does not exist"):
        source_bytes(f"{topic}?partitions=9&until=end")


def test_a_message_is_a_document(topic: str) -> None:
    documents = [b"<?xml version='1.0'?><r><t><a>1</a></t></r>", b"<r><t><a>2</a></t></r>"]
    send(topic, documents)
    url = f"{topic}?partitions=0&until=end&documents=1"
    assert source_bytes(url) == b"".join(d + b"\n" for d in documents)
    assert [*parse(url, Schema.parse("a INT"), element="t")] == [(1,), (2,)]


def test_a_partition_is_read_from_a_position(topic: str) -> None:
    send(topic, [b"<t>%d</t>" % i for i in range(5)], 2)
    connector = connector_of(topic)

    def read_from(position: Any) -> tuple[bytes, Any]:
        with closing(InletFile(connector.inlet(f"{topic}?until=end&group.id=mine", "2"))) as file:
            file.resume(position)
            data = b"".join(iter(lambda: file.read(10_000), b""))
            if position is not None:
                file.acknowledge(file.position)
            return data, file.position

    data, end = read_from(None)
    assert data == b"<stream>\n" + b"".join(b"<t>%d</t>\n" % i for i in range(5)) + b"</stream>\n"
    assert end == {"offset": 5, "end": 5, "closed": True}
    assert json.loads(json.dumps(end)) == end
    assert read_from(end) == (b"", end)
    assert read_from({"offset": 3, "end": 5, "closed": False})[0] == b"<t>3</t>\n<t>4</t>\n</stream>\n"
    with pytest.raises(SourceError, match="offset 77 no longer exists"):
        read_from({"offset": 77, "end": None, "closed": False})


@pytest.mark.parametrize("documents", ["0", "1"])
def test_a_topic_has_no_end(topic: str, documents: str) -> None:
    """At the end of a topic the reader waits for more messages."""
    inlet = connector_of(topic).inlet(f"{topic}?documents={documents}", "0")
    with closing(InletFile(inlet)) as file:
        send(topic, [b"<t>0</t>"])
        data = b""
        for expected_count in (1, 2, 3):
            while data.count(b"</t>") < expected_count:
                new_bytes = file.read(1000)
                assert new_bytes, "the reader has ended"
                data += new_bytes
            timer = threading.Timer(1.0, send, (topic, [b"", b"<t>%d</t>" % expected_count]))
            timer.start()
        timer.join()
        assert data.split() == ([] if documents == "1" else [b"<stream>"]) + [
            b"<t>%d</t>" % n for n in range(3)
        ]
        timer = threading.Timer(1.0, file.stop)
        timer.start()
        while file.read(1000):
            pass
        timer.join()


def results(number: int, rows: list[tuple[int, int, int]], *patterns: str) -> Results:
    punctuations = [Punctuation.parse(RESULT, text) for text in patterns]
    return Results(number, (Slice(RESULT.frame(rows), punctuations),), b"")


def form(format_: str = "xml", run: str = "r1") -> Form:
    return Form(run, RESULT, writer_for(format_, RESULT), format_)


def test_a_key_decides_the_partition_of_a_tuple_and_punctuations_go_to_all(topic: str) -> None:
    outlet = connector_of(topic).outlet(f"{topic}?key=hour", topic)
    with closing(outlet):
        outlet.open(form("jsonl"), None)
        rows = [(hour, 1, 2) for hour in range(20)]
        outlet.write(results(0, rows, "<5, *, *>"))
        assert outlet.commit()["sequence"] == 24
    messages = read(topic)
    tuples = [m for m in messages if b"$punct" not in m.value()]
    assert all(m.key() == str(json.loads(m.value())["hour"]).encode() for m in tuples)
    assert {m.partition() for m in tuples} <= {0, 1, 2, 3}
    assert len({m.partition() for m in tuples}) > 1
    punctuations = [m for m in messages if b"$punct" in m.value()]
    assert sorted(m.partition() for m in punctuations) == [0, 1, 2, 3]
    assert all(m.offset() > 0 for m in punctuations if any(t.partition() == m.partition() for t in tuples))
    headers = [dict(m.headers()) for m in messages]
    assert sorted(int(h["xmlpunct.sequence"]) for h in headers) == [*range(24)]
    assert {h["xmlpunct.run"] for h in headers} == {b"r1"}


def test_a_restarted_run_sends_each_message_once(topic: str) -> None:
    groups = [results(n, [(n, 1, 2), (n, 3, 4)], f"<{n}, *, *>") for n in range(4)]
    connector = connector_of(topic)
    first = connector.outlet(topic, topic)
    first.open(form(), None)
    first.write(groups[0])
    position = json.loads(json.dumps(first.commit()))
    first.write(groups[1])
    # Half of a group was sent, but its transaction was not committed.
    first._producer.begin_transaction()  # type: ignore[attr-defined]
    for n, message in enumerate([*first._messages(groups[2])][:2]):  # type: ignore[attr-defined]
        first._produce(12 + n, *message)  # type: ignore[attr-defined]
    first._producer.flush(30)  # type: ignore[attr-defined]
    with closing(connector.outlet(topic, topic)) as other_run:
        other_run.open(form(run="r2"), None)
        other_run.write(results(0, [(99, 0, 0)]))
    with closing(connector.outlet(topic, topic)) as second:
        second.open(form(), position)
        for group in groups[1:]:
            second.write(group, again=True)
        assert second.commit()["sequence"] == 24
    with closing(connector.outlet(topic, topic)) as third:
        third.open(form(), position)
        with pytest.raises(XmlPunctError, match="message 6 of this run exists already with another result"):
            third.write(results(1, [(7, 7, 7)]))
    run_messages = [m for m in read(topic) if dict(m.headers())["xmlpunct.run"] == b"r1"]
    assert sorted(int(dict(m.headers())["xmlpunct.sequence"]) for m in run_messages) == [*range(24)]


@pytest.mark.parametrize(
    ("query", "format_", "message"),
    [
        ("?key=none", "xml", "the result has no such column: there are hour, n, top"),
        ("", "csv", "write xml or jsonl"),
    ],
)
def test_errors_of_writing(topic: str, query: str, format_: str, message: str) -> None:
    with (
        closing(connector_of(topic).outlet(f"{topic}{query}", topic)) as outlet,
        pytest.raises(UsageError, match=message),
    ):
        outlet.open(form(format_), None)
    with pytest.raises(UsageError, match="until is for a source"):
        connector_of(topic).outlet(f"{topic}?until=end", topic)


def test_a_broker_that_is_not_there(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmlpunct.connectors.kafka.ANSWER_SECONDS", 0.5)
    result = cli("run", "--engine", "local", "-q", QUERY, "-s", "sensor1=kafka://127.0.0.1:1/t")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert "kafka://127.0.0.1:1/t: Failed to get metadata" in result.err
    result = cli(
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
    assert (result.code, "is read as" in result.err) == (2, True)


def run(*options: str, size: str = "4KiB") -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, "--slice", size, *options)


def tuples(url: str) -> Counter[str]:
    """The results in a topic; each message is there once."""
    messages = read(url)
    numbers = [dict(m.headers())["xmlpunct.sequence"] for m in messages]
    assert len(set(numbers)) == len(numbers)
    assert len({dict(m.headers())["xmlpunct.run"] for m in messages}) == 1
    return Counter(m.value().decode() for m in messages)


def judge(topic: str, undisturbed: str) -> None:
    assert tuples(topic) == tuples(undisturbed)
    assert sum("<result>" in text for text in tuples(topic)) == HOURS


def spread(url: str, messages: list[bytes]) -> None:
    """Send tuples to two partitions by turns, and punctuations to both."""
    for partition in (0, 1):
        partition_messages = [
            m for n, m in enumerate(messages) if m.startswith(b"<punct") or n % 2 == partition
        ]
        send(url, partition_messages, partition)


def test_the_lines_to_copy(address: str, tmp_path: Path) -> None:
    """The first lines of docs/connectors.md, with the mock's address."""
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
    deadline = time.monotonic() + MOST_SECONDS
    while broker.count(address, "totals") < 5:
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=MOST_SECONDS)
    assert (process.returncode, b"the same command continues" in stderr) == (130, True), stderr.decode()
    values = Counter(m.value() for m in broker.read(address, "totals"))
    assert sorted(values.values()) == [1, 4]
    assert values[b"<result><hour>17</hour><total>50.00</total></result>"] == 1


def kill(process: subprocess.Popen[bytes], out: str, messages: int) -> bool:
    """Kill a run once its OUT has ``messages`` messages; true if the run had not ended yet."""
    deadline = time.monotonic() + MOST_SECONDS
    while process.poll() is None and count(out) < messages:
        assert time.monotonic() < deadline, "too few results in time"
    process.send_signal(signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    return process.returncode != 0


def test_kafka_to_kafka_killed_at_random(topic: str, tmp_path: Path) -> None:
    chance, kills, seed = random.Random(3), 0, 0
    while kills < (50 if LONG else 3):
        source, out, undisturbed = (f"{topic}-{seed}-{name}" for name in ("in", "out", "alone"))
        spread(source, elements(seed))
        source_options = ["--engine", "local", "-s", f"sensor1={source}?partitions=0,1&until=end"]
        ends_well(run(*source_options, "-o", f"{undisturbed}?key=hour"))
        options = [*source_options, "-o", f"{out}?key=hour", "--checkpoint", str(tmp_path / str(seed))]
        for _ in range(8 if LONG else 4):
            kills += kill(run(*options), out, count(out) + chance.randrange(1, 40))
        ends_well(run(*options))
        judge(out, undisturbed)
        seed += 1


@pytest.mark.spark
def test_kafka_to_kafka_killed_on_spark(topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark, where the checkpoint contains no secret."""
    monkeypatch.setenv("KAFKA_CLIENT", "hush-hush-client")
    source, out, undisturbed = (f"{topic}-{name}" for name in ("in", "out", "alone"))
    spread(source, elements())
    source_options = ["-s", f"sensor1={source}?partitions=0,1&until=end&client.id=${{KAFKA_CLIENT}}"]
    ends_well(run("--engine", "local", *source_options, "-o", undisturbed))
    options = [
        "--master",
        "local[2]",
        *source_options,
        "-o",
        out,
        "--checkpoint",
        str(tmp_path / "checkpoint"),
    ]
    assert kill(run(*options, size="96KiB"), out, 1)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"${KAFKA_CLIENT}" in data for data in files)
    assert not any(b"hush-hush" in data for data in files)
    ends_well(run(*options, size="96KiB"))
    judge(out, undisturbed)


def test_several_topics_of_one_run(topic: str, tmp_path: Path, cli: Cli) -> None:
    """Each topic has its own transactions, so the sinks and rejects of one run do not conflict."""
    feed = tmp_path / "feed.xml"
    feed.write_text("<s>" + "".join(f"<t><x>{x}</x></t>" for x in ("1", "2", "two", "3")) + "</s>")
    sql = f"""CREATE STREAM t (x INT) WITH (source = '{feed}');
        CREATE SINK odd WITH (output = '{topic}-odd', format = 'jsonl') AS SELECT x FROM t WHERE x % 2 = 1;
        CREATE SINK all WITH (output = '{topic}-all', format = 'jsonl') AS SELECT x FROM t;"""
    for _ in range(2):  # the second run has nothing to do
        result = cli(
            "run", "--engine", "local", "-q", sql, "--rejects", f"{topic}-bad", "--checkpoint", tmp_path / "c"
        )
        assert result.code == 0, result.err
    values_by_topic = {
        name: [json.loads(m.value()) for m in read(f"{topic}-{name}")] for name in ("odd", "all", "bad")
    }
    assert sorted(v["x"] for v in values_by_topic["odd"] if "x" in v) == [1, 3]
    assert sorted(v["x"] for v in values_by_topic["all"] if "x" in v) == [1, 2, 3]
    assert [v["line"] for v in values_by_topic["bad"]] == [1]

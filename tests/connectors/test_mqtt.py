"""MQTT, against mosquitto: sessions, repeated and lost messages, and runs killed at random."""

from __future__ import annotations

import gc
import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.servers import mosquitto
from tests.connectors.test_messages import HOURS, QUERY, elements, shown_arguments
from tests.firehose.test_tcp import CERTIFICATES
from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Inlet, Results
from xmlpunct.connectors.contract import connector_of, is_endless, open_source, senders_of
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

pytest.importorskip("paho.mqtt", reason="pip install 'xmlpunct[mqtt]' for MQTT's tests")

RESULT = Schema.parse("hour INT, n INT, top INT")
NO_SUBSCRIBER = 0x10


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker_port:
        yield broker_port


@pytest.fixture
def topic(port: int, request: pytest.FixtureRequest) -> str:
    """The URL of a topic that no other test has."""
    return f"mqtt://127.0.0.1:{port}/{request.node.originalname}"


@contextmanager
def connected(url: str, session: str = "", begins: bool = True) -> Iterator[Any]:
    """An MQTT 5 client with its acknowledgements in ``reasons`` and its messages in ``messages``."""
    from paho.mqtt import client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    client: Any = paho.Client(paho.CallbackAPIVersion.VERSION2, session, protocol=paho.MQTTv5)
    client.reasons, client.messages, client.subscribed_event = [], [], threading.Event()
    client.on_publish = lambda *arguments: client.reasons.append(arguments[3].value)
    client.on_message = lambda *arguments: client.messages.append(arguments[2])
    client.on_subscribe = lambda *arguments: client.subscribed_event.set()
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 0 if begins else 600
    client.on_connect = lambda *arguments: client.connected_event.set()
    client.connected_event = threading.Event()
    port = int(url.split(":")[2].split("/")[0])
    client.connect("127.0.0.1", port, clean_start=begins, properties=properties)
    client.loop_start()
    assert client.connected_event.wait(10)
    try:
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def send(url: str, messages: Sequence[bytes], **properties: Any) -> list[int]:
    """Publish with QoS 1; return the broker's reason codes."""
    with connected(url) as client:
        for message in messages:
            client.publish(url.partition("://")[2].partition("/")[2], message, 1, **properties)
        deadline = time.monotonic() + MOST_SECONDS
        while len(client.reasons) < len(messages):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return list(client.reasons)


def inlet(url: str, position: Any = None, topic: str = "") -> Inlet:
    """A reader of a topic with a new session, or with that of ``position``."""
    reader = connector_of(url).inlet(url, topic or url.partition("://")[2].partition("/")[2])
    reader.open(position)
    if position is None:
        assert reader.read()[0] + reader.read()[0] == b"<stream>\n"  # type: ignore[index]
    return reader


def receive(reader: Inlet, count: int) -> tuple[list[bytes], Any]:
    """Read and acknowledge ``count`` messages; the messages and the last position."""
    elements_read, position = list[bytes](), None
    while len(elements_read) < count:
        piece = reader.read()
        assert piece is not None
        elements_read += piece[0].splitlines()
        position = json.loads(json.dumps(piece[1]))
        reader.acknowledge(position)
    return elements_read, position


def read_all(url: str) -> None:
    connector = connector_of(url)
    reader = connector.inlet(url, connector.senders(url)[0])
    reader.open(None)
    while reader.read():
        pass


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mqtt://host", "is no address"),
        ("mqtt:///topic", "is no address"),
        ("mqtt://host:0/topic", "is no address"),
        ("mqtt://host/a/+", "name the topics"),
        ("mqtt://host/#", "name the topics"),
        ("mqtt://host/a/+?senders=a/1,b/1", "b/1 is no topic that a/[+] matches"),
        ("mqtt://host/a/+?senders=a/1,a/1", "each once"),
        ("mqtt://host/a?ca=x", "ca is for mqtts"),
        ("mqtts://host/a?ca=/nowhere", "cannot read certificates from /nowhere"),
        ("mqtt://host/a?session.expiry=long", "write a number"),
        ("mqtt://host/a?qos=0", "there is no option qos"),
    ],
)
def test_wrong_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_all(url)


def test_properties_and_an_unavailable_address() -> None:
    url = "mqtt://me:pw@nowhere/a/+?senders=a/1,a/2"
    assert senders_of(url) == 2
    assert is_endless(url)
    assert [s.name for s in open_source(url).senders] == ["mqtt://nowhere/a/+#a/1", "mqtt://nowhere/a/+#a/2"]
    with pytest.raises(UsageError, match="results go to one topic"):
        connector_of(url).outlet("mqtt://nowhere/a/+", "mqtt://nowhere/a/+")
    with open_source("mqtt://127.0.0.1:1/a").open() as reader:
        assert reader.read(100) == b"<stream>"
        with pytest.raises(SourceError, match="cannot connect"):
            reader.read(100)


def test_a_restarted_reader_receives_later_messages_only(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>%d</t>" % i for i in range(250)])
        elements_read, position = receive(first, 250)
    assert elements_read == [b"<t>%d</t>" % i for i in range(250)]
    send(topic, [b"<t>250</t>"])
    with closing(inlet(topic, position)) as second:
        assert receive(second, 1)[0] == [b"<t>250</t>"]


def test_a_spooled_message_without_acknowledgement_is_read_once(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>a</t>"])
        piece = first.read()
        assert piece is not None
        assert piece[0] == b"<t>a</t>\n"
    send(topic, [b"<t>a</t>"])
    with closing(inlet(topic, json.loads(json.dumps(piece[1])))) as second:
        assert receive(second, 1)[0] == [b"<t>a</t>"]
        send(topic, [b"<t>b</t>"])
        assert receive(second, 1)[0] == [b"<t>b</t>"]


def test_a_message_that_was_not_spooled_is_sent_again(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>1</t>"])
        _, position = receive(first, 1)
        send(topic, [b"<t>2</t>"])
        assert first.read() is not None
    with closing(inlet(topic, position)) as second:
        assert receive(second, 1)[0] == [b"<t>2</t>"]


def test_sequence_numbers_are_read_once_and_without_gaps(topic: str) -> None:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    def send_number(number: int) -> None:
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("xmlpunct.run", "r"), ("xmlpunct.sequence", str(number))]
        send(topic, [b"<t>%d</t>" % number], properties=properties)

    with closing(inlet(topic)) as reader:
        for number in (7, 8, 7, 8, 9):
            send_number(number)
        assert receive(reader, 3)[0] == [b"<t>7</t>", b"<t>8</t>", b"<t>9</t>"]
        send_number(12)
        with pytest.raises(SourceError, match="messages 10 to 11 of run r are missing"):
            reader.read()


def test_a_writer_with_an_older_checkpoint_is_an_error(topic: str) -> None:
    """The writer's next message does not follow the last one, or differs from the earlier one of its number."""

    def group(number: int, rows: int, link: str) -> Results:
        slices = (Slice(RESULT.frame([(number, n, 3) for n in range(rows)]), []),)
        return Results(number, slices, b"", digest=f"{link}.{number}", link=link)

    with closing(inlet(topic)) as reader, closing(connector_of(topic).outlet(topic, topic)) as outlet:
        outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
        outlet.write(group(0, 2, ""))
        outlet.write(group(1, 1, ".0"))
        _, position = receive(reader, 3)
        outlet.write(group(2, 1, ".0.1"))
        _, position = receive(reader, 1)
        with closing(connector_of(topic).outlet(topic, topic)) as older:
            older.open(Form("r1", RESULT, writer_for("xml", RESULT)), {"sequence": 4})
            older.write(group(3, 1, ".other"))
        with pytest.raises(SourceError, match="message 3 of run r1 had other content"):
            reader.read()
    assert position["digests"] == {"r1": ".0.1.2"}


def test_a_message_that_no_broker_keeps_is_refused(topic: str) -> None:
    with closing(inlet(topic)) as reader, connected(topic) as client:
        client.publish(topic.partition("://")[2].partition("/")[2], b"<t>1</t>", 0)
        with pytest.raises(SourceError, match="publish with QoS 1"):
            reader.read()


def test_a_lost_connection_and_a_lost_session(topic: str) -> None:
    with closing(inlet(topic)) as reader:
        send(topic, [b"<t>1</t>"])
        elements_read, position = receive(reader, 1)
        assert elements_read == [b"<t>1</t>"]
        with connected(topic, position["session"], begins=False):
            pass  # a session has one connection only, so the reader has lost its own
        send(topic, [b"<t>2</t>"])
        assert receive(reader, 1)[0] == [b"<t>2</t>"]
        with connected(topic, position["session"], begins=True):
            pass
        with pytest.raises(SourceError, match="has dropped the session"):
            reader.read()
    with (
        closing(connector_of(topic).inlet(topic, "t")) as restarted,
        pytest.raises(SourceError, match="has dropped the session"),
    ):
        restarted.open(position)


def test_written_messages_have_sequence_numbers(topic: str) -> None:
    connector = connector_of(topic)
    group = Results(0, (Slice(RESULT.frame([(1, 2, 3), (4, 5, 6)]), []),), b"")
    with connected(topic) as client:
        client.subscribe(topic.rpartition("/")[2], 1)
        assert client.subscribed_event.wait(10)
        for _ in range(2):
            with closing(connector.outlet(topic, topic)) as outlet:
                outlet.open(Form("r1", RESULT, writer_for("jsonl", RESULT), "jsonl"), None)
                outlet.write(group)
                assert outlet.commit() == {"sequence": 2}
        deadline = time.monotonic() + 10
        while len(client.messages) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        numbered_hours = [
            (dict(m.properties.UserProperty), json.loads(m.payload)["hour"]) for m in client.messages
        ]
    assert numbered_hours == [
        ({"xmlpunct.run": "r1", "xmlpunct.sequence": str(n)}, hour) for n, hour in [(0, 1), (1, 4)] * 2
    ]
    with (
        closing(connector.outlet(topic, topic)) as outlet,
        pytest.raises(UsageError, match="write xml or jsonl"),
    ):
        outlet.open(Form("r1", RESULT, writer_for("csv", RESULT), "csv"), None)
    nowhere = "mqtt://127.0.0.1:1/t"
    with (
        closing(connector.outlet(nowhere, nowhere)) as outlet,
        pytest.raises(XmlPunctError, match="cannot connect"),
    ):
        outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tls_and_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS and passwords work for reading and writing; a wrong authority or password is an error.

    (If the certificate is not valid, paho leaves the socket to the garbage collector.)
    """
    monkeypatch.setattr("xmlpunct.connectors.mqtt.ANSWER_SECONDS", 3.0)
    password_file = tmp_path / "passwords"
    program = shutil.which("mosquitto_passwd")
    if program is None:
        pytest.skip("no mosquitto_passwd here: apt-get install mosquitto")
    subprocess.run([program, "-c", "-b", password_file, "me", "p/w"], check=True, stderr=subprocess.DEVNULL)
    certificate = CERTIFICATES / "localhost.pem"
    lines = [
        "allow_anonymous false",
        f"password_file {password_file}",
        f"certfile {certificate}",
        f"keyfile {certificate}",
    ]
    with mosquitto(tmp_path, *lines) as port:
        address, ca = f"localhost:{port}/t", f"?ca={CERTIFICATES / 'authority.pem'}"
        url = f"mqtts://me:p%2Fw@{address}{ca}"
        with closing(inlet(url, topic="t")) as reader, closing(connector_of(url).outlet(url, url)) as outlet:
            outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
            outlet.write(Results(0, (Slice(RESULT.frame([(1, 2, 3)]), []),), b""))
            assert b"<hour>1</hour>" in receive(reader, 1)[0][0]
        for wrong_url, message in (
            (f"mqtts://me:p%2Fw@{address}", "certificate verify failed"),
            (
                f"mqtts://me:p%2Fw@{address.replace('localhost', '127.0.0.1')}{ca}",
                "certificate is not valid|mismatch",
            ),
            (f"mqtts://me:other@{address}{ca}", "Not authorized"),
            (f"mqtts://{address}{ca}", "Not authorized"),
            (f"mqtt://me:p%2Fw@{address}", "the broker does not answer"),
        ):
            with closing(connector_of(wrong_url).inlet(wrong_url, "t")) as reader:
                reader.open(None)
                reader.read()
                with pytest.raises((SourceError, ConnectionError), match=message):
                    reader.read()
            with (
                closing(connector_of(wrong_url).outlet(wrong_url, wrong_url)) as outlet,
                pytest.raises(XmlPunctError),
            ):
                outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
    gc.collect()


def run(*options: str) -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, *options)


def wait_for_reader(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while NO_SUBSCRIBER in send(url, [b""]):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_killed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Kill a run after ``seconds``, in which it must not end."""
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == -signal.SIGKILL, stderr.decode()
    return True


def test_the_lines_to_copy(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = f"mqtt://127.0.0.1:{port}/"
    with connected(base) as judge:
        judge.subscribe("maxima", 1)
        assert judge.subscribed_event.wait(10)
        process = launch(*shown_arguments("MQTT", **{"localhost:1883": f"127.0.0.1:{port}"}))
        punctuation = '<punct:reading xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"><hour>17</hour></punct:reading>'
        for temp, topic in enumerate(("sensors/S1", "sensors/S2"), 20):
            wait_for_reader(base + topic, process)
            reading = f"<reading><sid>{topic[-2:]}</sid><hour>17</hour><temp>{temp}</temp></reading>"
            send(base + topic, [reading.encode(), punctuation.encode()])
        deadline = time.monotonic() + MOST_SECONDS
        while len(judge.messages) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=MOST_SECONDS)
        assert judge.messages[0].payload == b"<result><hour>17</hour><top>21</top></result>"


def results_of(messages: Sequence[Any]) -> dict[int, bytes]:
    """Each message by its number; messages with the same number must be equal."""
    message_by_number: dict[int, bytes] = {}
    for message in messages:
        number = int(dict(message.properties.UserProperty)["xmlpunct.sequence"])
        assert message_by_number.setdefault(number, message.payload) == message.payload
    return message_by_number


def kill_at_random(topic: str, folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """From MQTT to MQTT: the run is killed and restarted; each element is sent once."""
    source, out = f"{topic}/{folder.name}/in", f"{topic}/{folder.name}/out"
    folder.mkdir()
    sent = elements(kills)
    document, undisturbed = folder / "whole.xml", folder / "alone.xml"
    document.write_bytes(b"<stream>" + b"".join(sent) + b"</stream>")
    ends_well(run("--engine", "local", "-s", f"sensor1={document}", "-o", str(undisturbed)))
    options = [*engine, "-s", f"sensor1={source}", "-o", out, "--checkpoint", str(folder / "checkpoint")]
    with connected(topic) as judge:
        judge.subscribe(out.partition("://")[2].partition("/")[2], 1)
        assert judge.subscribed_event.wait(10)
        process = run(*options)
        wait_for_reader(source, process)
        for n in range(kills):
            part_size = len(sent) // (kills + 1)
            sender = threading.Thread(target=send, args=(source, sent[n * part_size : (n + 1) * part_size]))
            sender.start()
            assert is_killed(process, chance.uniform(0.1, 1.5))
            sender.join()
            process = run(*options)
        send(source, sent[kills * part_size :])
        deadline = time.monotonic() + MOST_SECONDS
        while sum(b"<result>" in text for text in results_of(judge.messages).values()) < HOURS:
            assert process.poll() is None, process.communicate()[1].decode()
            assert time.monotonic() < deadline, "results are missing"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=MOST_SECONDS)
        assert process.returncode == 130, stderr.decode()
        results = results_of(judge.messages)
    assert [*results] == [*range(len(results))]
    assert sorted(text.decode() for text in results.values() if b"<result>" in text) == bag(undisturbed)


def test_mqtt_to_mqtt_killed_at_random(topic: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    for n in range(10 if LONG else 1):
        kill_at_random(topic, tmp_path / str(n), chance, 4, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_mqtt_to_mqtt_killed_on_spark(topic: str, tmp_path: Path) -> None:
    kill_at_random(topic, tmp_path / "spark", random.Random(6), 1, "--master", "local[2]", "--slice", "96KiB")

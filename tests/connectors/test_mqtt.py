"""MQTT, against mosquitto: what is sent while nobody listens, sent twice, lost, and killed at random."""

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
from tests.connectors.test_messages import HOURS, QUERY, copied, elements
from tests.firehose.test_tcp import CERTIFICATES
from tests.reliability.support import LONG, MOST_SECONDS, bag, ends_well, launch
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors import Form, Inlet, Results
from xmlpunct.connectors.contract import connector_of
from xmlpunct.connectors.open_source import is_endless, open_source, senders_of
from xmlpunct.firehose import writer_for
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

pytest.importorskip("paho.mqtt", reason="pip install 'xmlpunct[mqtt]' for MQTT's tests")

RESULT = Schema.parse("hour INT, n INT, top INT")
NO_SUBSCRIBER = 0x10


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with mosquitto(tmp_path_factory.mktemp("mosquitto")) as found:
        yield found


@pytest.fixture
def topic(port: int, request: pytest.FixtureRequest) -> str:
    """The URL of a topic that no other test has."""
    return f"mqtt://127.0.0.1:{port}/{request.node.originalname}"


@contextmanager
def connected(url: str, session: str = "", begins: bool = True) -> Iterator[Any]:
    """A client of MQTT 5 whose acknowledgements are in ``reasons``, and messages in ``messages``."""
    from paho.mqtt import client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    made: Any = paho.Client(paho.CallbackAPIVersion.VERSION2, session, protocol=paho.MQTTv5)
    made.reasons, made.messages, made.joined = [], [], threading.Event()
    made.on_publish = lambda *said: made.reasons.append(said[3].value)
    made.on_message = lambda *said: made.messages.append(said[2])
    made.on_subscribe = lambda *said: made.joined.set()
    kept = Properties(PacketTypes.CONNECT)
    kept.SessionExpiryInterval = 0 if begins else 600
    made.on_connect = lambda *said: made.met.set()
    made.met = threading.Event()
    port = int(url.split(":")[2].split("/")[0])
    made.connect("127.0.0.1", port, clean_start=begins, properties=kept)
    made.loop_start()
    assert made.met.wait(10)
    try:
        yield made
    finally:
        made.disconnect()
        made.loop_stop()


def send(url: str, messages: Sequence[bytes], **properties: Any) -> list[int]:
    """Publish with QoS 1; what the broker says to each."""
    with connected(url) as client:
        for message in messages:
            client.publish(url.partition("://")[2].partition("/")[2], message, 1, **properties)
        until = time.monotonic() + MOST_SECONDS
        while len(client.reasons) < len(messages):
            assert time.monotonic() < until
            time.sleep(0.005)
        return list(client.reasons)


def inlet(url: str, position: Any = None, topic: str = "") -> Inlet:
    """A reader of a topic, whose session has begun."""
    made = connector_of(url).inlet(url, topic or url.partition("://")[2].partition("/")[2])
    made.open(position)
    if position is None:
        assert made.read()[0] + made.read()[0] == b"<stream>\n"  # type: ignore[index]
    return made


def taken(made: Inlet, count: int) -> tuple[list[bytes], Any]:
    """So many messages, which are acknowledged, and the position."""
    found, position = list[bytes](), None
    while len(found) < count:
        piece = made.read()
        assert piece is not None
        found += piece[0].splitlines()
        position = json.loads(json.dumps(piece[1]))
        made.acknowledge(position)
    return found, position


def read_on(url: str) -> None:
    made = connector_of(url)
    reader = made.inlet(url, made.senders(url)[0])
    reader.open(None)
    while reader.read():
        pass


@pytest.mark.parametrize(
    ("url", "said"),
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
def test_what_is_no_topic(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_on(url)


def test_what_can_be_known_beforehand() -> None:
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


def test_what_is_sent_meanwhile_is_read_and_what_was_acknowledged_is_not(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>%d</t>" % i for i in range(250)])
        found, position = taken(first, 250)
    assert found == [b"<t>%d</t>" % i for i in range(250)]
    send(topic, [b"<t>250</t>"])
    with closing(inlet(topic, position)) as second:
        assert taken(second, 1)[0] == [b"<t>250</t>"]


def test_what_was_kept_and_not_acknowledged_is_taken_once(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>a</t>"])
        piece = first.read()
        assert piece is not None
        assert piece[0] == b"<t>a</t>\n"
    send(topic, [b"<t>a</t>"])
    with closing(inlet(topic, json.loads(json.dumps(piece[1])))) as second:
        assert taken(second, 1)[0] == [b"<t>a</t>"]
        send(topic, [b"<t>b</t>"])
        assert taken(second, 1)[0] == [b"<t>b</t>"]


def test_what_was_not_kept_is_given_again(topic: str) -> None:
    with closing(inlet(topic)) as first:
        send(topic, [b"<t>1</t>"])
        _, position = taken(first, 1)
        send(topic, [b"<t>2</t>"])
        assert first.read() is not None
    with closing(inlet(topic, position)) as second:
        assert taken(second, 1)[0] == [b"<t>2</t>"]


def test_numbers_are_taken_once_and_none_may_be_missing(topic: str) -> None:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    def numbered(number: int) -> None:
        said = Properties(PacketTypes.PUBLISH)
        said.UserProperty = [("xmlpunct.run", "r"), ("xmlpunct.sequence", str(number))]
        send(topic, [b"<t>%d</t>" % number], properties=said)

    with closing(inlet(topic)) as reader:
        for number in (7, 8, 7, 8, 9):
            numbered(number)
        assert taken(reader, 3)[0] == [b"<t>7</t>", b"<t>8</t>", b"<t>9</t>"]
        numbered(12)
        with pytest.raises(SourceError, match="messages 10 to 11 of run r are missing"):
            reader.read()


def test_a_run_that_went_back_is_found_out(topic: str) -> None:
    """Its next message does not follow the last one; or it is not the one that had its number."""

    def group(number: int, rows: int, link: str) -> Results:
        slices = (Slice(RESULT.frame([(number, n, 3) for n in range(rows)]), []),)
        return Results(number, slices, b"", digest=f"{link}.{number}", link=link)

    with closing(inlet(topic)) as reader, closing(connector_of(topic).outlet(topic, topic)) as outlet:
        outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
        outlet.write(group(0, 2, ""))
        outlet.write(group(1, 1, ".0"))
        _, position = taken(reader, 3)
        outlet.write(group(2, 1, ".0.1"))
        _, position = taken(reader, 1)
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


def test_a_connection_that_is_lost_and_a_session_that_is_forgotten(topic: str) -> None:
    with closing(inlet(topic)) as reader:
        send(topic, [b"<t>1</t>"])
        found, position = taken(reader, 1)
        assert found == [b"<t>1</t>"]
        with connected(topic, position["session"], begins=False):
            pass  # two cannot have one session, so the reader has lost it
        send(topic, [b"<t>2</t>"])
        assert taken(reader, 1)[0] == [b"<t>2</t>"]
        with connected(topic, position["session"], begins=True):
            pass
        with pytest.raises(SourceError, match="has dropped the session"):
            reader.read()
    with (
        closing(connector_of(topic).inlet(topic, "t")) as later,
        pytest.raises(SourceError, match="has dropped the session"),
    ):
        later.open(position)


def test_what_is_written_carries_its_number(topic: str) -> None:
    connector = connector_of(topic)
    group = Results(0, (Slice(RESULT.frame([(1, 2, 3), (4, 5, 6)]), []),), b"")
    with connected(topic) as client:
        client.subscribe(topic.rpartition("/")[2], 1)
        assert client.joined.wait(10)
        for _ in range(2):
            with closing(connector.outlet(topic, topic)) as outlet:
                outlet.open(Form("r1", RESULT, writer_for("jsonl", RESULT), "jsonl"), None)
                outlet.write(group)
                assert outlet.commit() == {"sequence": 2}
        until = time.monotonic() + 10
        while len(client.messages) < 4 and time.monotonic() < until:
            time.sleep(0.01)
        found = [(dict(m.properties.UserProperty), json.loads(m.payload)["hour"]) for m in client.messages]
    assert found == [
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
    """What is written with them is read with them; who has not the authority, or not the password, is refused.

    (Where the certificate is not valid, paho leaves the socket to the collector.)
    """
    monkeypatch.setattr("xmlpunct.connectors.mqtt.ANSWER_SECONDS", 3.0)
    known = tmp_path / "passwords"
    maker = shutil.which("mosquitto_passwd")
    if maker is None:
        pytest.skip("no mosquitto_passwd here: apt-get install mosquitto")
    subprocess.run([maker, "-c", "-b", known, "me", "p/w"], check=True, stderr=subprocess.DEVNULL)
    own = CERTIFICATES / "localhost.pem"
    lines = ["allow_anonymous false", f"password_file {known}", f"certfile {own}", f"keyfile {own}"]
    with mosquitto(tmp_path, *lines) as port:
        place, ca = f"localhost:{port}/t", f"?ca={CERTIFICATES / 'authority.pem'}"
        url = f"mqtts://me:p%2Fw@{place}{ca}"
        with closing(inlet(url, topic="t")) as reader, closing(connector_of(url).outlet(url, url)) as outlet:
            outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
            outlet.write(Results(0, (Slice(RESULT.frame([(1, 2, 3)]), []),), b""))
            assert b"<hour>1</hour>" in taken(reader, 1)[0][0]
        for wrong, said in (
            (f"mqtts://me:p%2Fw@{place}", "certificate verify failed"),
            (
                f"mqtts://me:p%2Fw@{place.replace('localhost', '127.0.0.1')}{ca}",
                "certificate is not valid|mismatch",
            ),
            (f"mqtts://me:other@{place}{ca}", "Not authorized"),
            (f"mqtts://{place}{ca}", "Not authorized"),
            (f"mqtt://me:p%2Fw@{place}", "the broker does not answer"),
        ):
            with closing(connector_of(wrong).inlet(wrong, "t")) as reader:
                reader.open(None)
                reader.read()
                with pytest.raises((SourceError, ConnectionError), match=said):
                    reader.read()
            with closing(connector_of(wrong).outlet(wrong, wrong)) as outlet, pytest.raises(XmlPunctError):
                outlet.open(Form("r1", RESULT, writer_for("xml", RESULT)), None)
    gc.collect()


def run(*options: str) -> subprocess.Popen[bytes]:
    return launch("run", "-q", QUERY, *options)


def wait_for_reader(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + MOST_SECONDS
    while NO_SUBSCRIBER in send(url, [b""]):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def is_killed(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Kill a run that does not end, after a while."""
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()
    return True


def test_the_lines_to_copy(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = f"mqtt://127.0.0.1:{port}/"
    with connected(base) as judge:
        judge.subscribe("maxima", 1)
        assert judge.joined.wait(10)
        process = launch(*copied("MQTT", **{"localhost:1883": f"127.0.0.1:{port}"}))
        said = '<punct:reading xmlns:punct="http://www.cse.ogi.edu/dot/niagara/punct"><hour>17</hour></punct:reading>'
        for temp, topic in enumerate(("sensors/S1", "sensors/S2"), 20):
            wait_for_reader(base + topic, process)
            reading = f"<reading><sid>{topic[-2:]}</sid><hour>17</hour><temp>{temp}</temp></reading>"
            send(base + topic, [reading.encode(), said.encode()])
        until = time.monotonic() + MOST_SECONDS
        while len(judge.messages) < 2:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=MOST_SECONDS)
        assert judge.messages[0].payload == b"<result><hour>17</hour><top>21</top></result>"


def results_of(messages: Sequence[Any]) -> dict[int, bytes]:
    """By its number each message; what is there twice is the same."""
    found: dict[int, bytes] = {}
    for message in messages:
        number = int(dict(message.properties.UserProperty)["xmlpunct.sequence"])
        assert found.setdefault(number, message.payload) == message.payload
    return found


def kill_at_random(topic: str, folder: Path, chance: random.Random, kills: int, *engine: str) -> None:
    """From MQTT to MQTT: each element is sent once, while the run is killed and started again."""
    given, out = f"{topic}/{folder.name}/in", f"{topic}/{folder.name}/out"
    folder.mkdir()
    sent = elements(kills)
    whole, alone = folder / "whole.xml", folder / "alone.xml"
    whole.write_bytes(b"<stream>" + b"".join(sent) + b"</stream>")
    ends_well(run("--engine", "local", "-s", f"sensor1={whole}", "-o", str(alone)))
    going = [*engine, "-s", f"sensor1={given}", "-o", out, "--checkpoint", str(folder / "checkpoint")]
    with connected(topic) as judge:
        judge.subscribe(out.partition("://")[2].partition("/")[2], 1)
        assert judge.joined.wait(10)
        process = run(*going)
        wait_for_reader(given, process)
        for n in range(kills):
            part = len(sent) // (kills + 1)
            sender = threading.Thread(target=send, args=(given, sent[n * part : (n + 1) * part]))
            sender.start()
            assert is_killed(process, chance.uniform(0.1, 1.5))
            sender.join()
            process = run(*going)
        send(given, sent[kills * part :])
        until = time.monotonic() + MOST_SECONDS
        while sum(b"<result>" in text for text in results_of(judge.messages).values()) < HOURS:
            assert process.poll() is None, process.communicate()[1].decode()
            assert time.monotonic() < until, "results are missing"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=MOST_SECONDS)
        assert process.returncode == 130, said.decode()
        found = results_of(judge.messages)
    assert [*found] == [*range(len(found))]
    assert sorted(text.decode() for text in found.values() if b"<result>" in text) == bag(alone)


def test_mqtt_to_mqtt_killed_at_random(topic: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    for n in range(10 if LONG else 1):
        kill_at_random(topic, tmp_path / str(n), chance, 4, "--engine", "local", "--slice", "4KiB")


@pytest.mark.spark
@pytest.mark.long
def test_mqtt_to_mqtt_killed_on_spark(topic: str, tmp_path: Path) -> None:
    kill_at_random(topic, tmp_path / "spark", random.Random(6), 1, "--master", "local[2]", "--slice", "96KiB")

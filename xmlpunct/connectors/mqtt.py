"""MQTT: ``mqtt://HOST:PORT/FILTER``, for input and output. The extra ``mqtt`` installs paho-mqtt.

Input: a topic is a sender, and its messages are the elements of one stream. A broker has no positions. It retains the
messages of a named session until they are acknowledged, so a message is acknowledged once it is durable. The position
holds the session's name, and the messages whose acknowledgement the broker may have lost. After a kill, the broker
sends these again, marked as duplicates (DUP) with the same packet numbers, and they are not read twice.

Output: each tuple and each punctuation is a message of QoS 1 with the run and a sequence number. A continued run
sends messages again with the same numbers. An xmlpunct reader takes each number once, and fails if one is missing.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from hashlib import blake2b
from types import ModuleType
from typing import Any

from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.base.lazy_imports import import_extra
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.inlet import Inlet
from xmlpunct.connectors.messages import ANSWER_SECONDS, GLANCE_SECONDS, PIECE_BYTES, Broker, NumberedWriter
from xmlpunct.connectors.outlet import DIGEST, LINK, RUN, SEQUENCE, Form, Outlet, Results
from xmlpunct.connectors.retries import Retries
from xmlpunct.connectors.tls import client_context
from xmlpunct.connectors.url import Address, short

MOST_UNACKNOWLEDGED = 100
"""Maximum number of unacknowledged messages. The position identifies them, in case the broker sends them again."""
SESSION_SECONDS = 86400
"""How long a broker keeps a session without a connection."""
_MOST_RUNS = 100
"""Maximum number of runs, writing to the same topic, whose last numbers are stored."""
_QOS = 1
_FORM = "mqtt://HOST:PORT/TOPIC, or mqtts://"


class Mqtt(Broker):
    """``mqtt://``, and ``mqtts://`` with TLS."""

    def input_address(self, spec: str) -> Address:
        return _address(spec, ("senders", "session.expiry", "ca"))

    def inlet(self, spec: str, sender: str) -> Inlet:
        return Subscription(self.input_address(spec), sender)

    def outlet(self, spec: str, name: str) -> Outlet:
        address = _address(spec, ("ca",))
        if _is_pattern(address.path):
            raise UsageError(f"{short(name)}: results go to one topic: write no + and #")
        return Publisher(address, short(name))

    def senders(self, spec: str) -> Sequence[str]:
        address = self.input_address(spec)
        named = address.senders
        if not named and _is_pattern(address.path):
            raise UsageError(
                f"{address.name}: name the topics, each of which is a sender: write ?senders=TOPIC,TOPIC"
            )
        for topic in named:
            if _is_pattern(topic) or not _matches(address.path, topic):
                raise UsageError(f"{address.name}: {topic} is no topic that {address.path} matches")
        return named or (address.path,)


def _address(spec: str, options: Sequence[str]) -> Address:
    address = Address.parse(spec, _FORM, options)
    address.number("session.expiry", SESSION_SECONDS)
    if "ca" in address.options and not _is_safe(address):
        raise UsageError(f"{address.name}: ca is for mqtts://")
    return address


def _is_safe(address: Address) -> bool:
    return address.name.lower().startswith("mqtts:")


def _is_pattern(topic: str) -> bool:
    return "+" in topic or "#" in topic


def _matches(pattern: str, topic: str) -> bool:
    """True if a topic matches a filter.

    >>> [_matches("a/+/#", topic) for topic in ("a/b", "a/b/c/d", "a")]
    [True, True, False]
    """
    levels, parts = pattern.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels.pop()
        if len(parts) < len(levels):
            return False
        parts = parts[: len(levels)]
    return len(levels) == len(parts) and all(w in ("+", f) for w, f in zip(levels, parts, strict=True))


class Subscription(Inlet):
    """Reads a topic, from the time of the first read. A position holds the name of the session, and whether it has
    begun; by packet number the digest of its last message; and by run the last number, and its digest."""

    can_seek = wants_acknowledgement = True

    def __init__(self, address: Address, topic: str) -> None:
        self._address, self._topic, self._name = address, topic, f"{address.name}#{topic}"
        self._client: Any = None
        self._arrived = list[Any]()
        self._lost: str | None = None
        self._due = set[int]()  # packets that were returned, and are not acknowledged yet
        self._retries = Retries(self._name)
        self._stopped = threading.Event()

    def open(self, position: Any) -> None:
        self._is_new = position is None
        state = position or {
            "session": f"xmlpunct-{uuid.uuid4().hex}",
            "begun": False,
            "given": [],
            "last": {},
            "digests": {},
        }
        self._session, self._begun = state["session"], state["begun"]
        self._returned = {int(packet): digest for packet, digest in state["given"]}
        self._last: dict[str, int] = dict(state["last"])
        self._digests: dict[str, str] = dict(state.get("digests", {}))
        if self._begun:
            self._join()
        else:
            _library()

    @property
    def _position(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "begun": self._begun,
            "given": [*self._returned.items()],
            "last": dict(self._last),
            "digests": dict(self._digests),
        }

    def read(self) -> tuple[bytes, Any] | None:
        if self._is_new:  # the position with the session's name is stored before the session begins
            self._is_new = False
            return b"<stream>", self._position
        if not self._begun:
            self._join()
            return (b"\n", self._position) if self._begun else None
        texts, size = list[bytes](), 0
        while not self._stopped.is_set():
            if not self._arrived and self._lost is None:
                self._step(0 if texts else GLANCE_SECONDS)
            if self._lost is not None or not self._arrived:
                if texts:
                    break
                if self._lost is not None:
                    self._retries.persevere(self._join, self._stopped, ConnectionError(self._lost))
                continue
            self._retries.progressed()
            for message in self._arrived:
                text = self._accepted(message)
                texts += [text] if text else []
                size += len(text or b"")
            self._arrived.clear()
            if size >= PIECE_BYTES or len(texts) >= MOST_UNACKNOWLEDGED:
                break
        return (b"".join(text + b"\n" for text in texts), self._position) if texts else None

    def _accepted(self, message: Any) -> bytes | None:
        """The text of a message; None if it was returned before, or is empty."""
        packet, text = message.mid, bytes(message.payload)
        if message.qos != _QOS:
            raise SourceError(
                self._name, "a message has QoS 0, and brokers do not store these: publish with QoS 1"
            )
        digest = blake2b(text, digest_size=8).hexdigest()
        is_known = message.dup and self._returned.get(packet) == digest
        if not is_known:
            self._returned.pop(packet, None)
            self._returned[packet] = digest
            while len(self._returned) > MOST_UNACKNOWLEDGED:
                del self._returned[next(iter(self._returned))]
        if is_known or not text or not self._is_next(message):
            if packet not in self._due:
                self._client.ack(packet, _QOS)
            return None
        self._due.add(packet)
        return text

    def _is_next(self, message: Any) -> bool:
        """True if a message has no number, or a number after the last; false if it was returned before."""
        user_properties = dict(getattr(message.properties, "UserProperty", None) or ())
        run, number = user_properties.get(RUN), user_properties.get(SEQUENCE, "")
        if run is None or not (number.isascii() and number.isdecimal()):
            return True
        last = self._last.pop(run, None)
        self._last[run] = int(number) if last is None else max(last, int(number))
        while len(self._last) > _MOST_RUNS:
            self._digests.pop(forgotten := next(iter(self._last)), None)
            del self._last[forgotten]
        if last is not None and int(number) > last + 1:
            raise SourceError(
                self._name,
                f"messages {last + 1} to {int(number) - 1} of run {run} are missing: the broker has dropped them",
            )
        is_next = last is None or int(number) > last
        expected = user_properties.get(LINK if is_next else DIGEST)  # the sender's digest of the last message
        digest = self._digests.get(run)
        is_comparable = None not in (expected, digest, last) and int(number) in (last, self._last[run])
        if is_comparable and expected != digest:
            raise SourceError(
                self._name,
                f"message {last} of run {run} had other content: the run has returned to an older checkpoint",
            )
        if is_next and DIGEST in user_properties:
            self._digests[run] = user_properties[DIGEST]
        return is_next

    def acknowledge(self, position: Any) -> None:
        if self._lost is None and self._client is not None:
            for packet, _ in position["given"]:
                if packet in self._due:
                    self._client.ack(packet, _QOS)
        self._due.clear()  # a message whose acknowledgement is lost is sent again, and recognized

    def _join(self) -> None:
        """Connect to the session, and begin it if necessary. Raises OSError; `SourceError` if a retry is useless."""
        self._lost, answers = None, list[tuple[bool, Any]]()
        self._arrived.clear()
        granted = list[Any]()

        def lost(*event: Any) -> None:
            self._lost = str(event[3])

        client = _client(self._address, self._session, manual_ack=True)
        client.on_connect = lambda *event: answers.append((event[2].session_present, event[3]))
        client.on_subscribe = lambda *event: granted.extend(event[3])
        client.on_message = lambda *event: self._arrived.append(event[2])
        client.on_disconnect = lost
        self._client = client
        expiry = self._address.number("session.expiry", SESSION_SECONDS)
        connect_properties = {"SessionExpiryInterval": expiry, "ReceiveMaximum": MOST_UNACKNOWLEDGED}
        _connect(client, self._address, not self._begun, connect_properties)
        if not self._waits_for(answers):
            return
        is_there, reason = answers[0]
        if reason.is_failure:
            raise SourceError(self._name, f"the broker answered: {hide(str(reason))}")
        if self._begun:
            if not is_there:
                # The request made a new session, which later tries must not take for the old one.
                client.disconnect(properties=_properties("DISCONNECT", SessionExpiryInterval=0))
                raise SourceError(
                    self._name,
                    "the broker has dropped the session, so messages are lost: start again from the beginning",
                )
            return
        options = _library("subscribeoptions").SubscribeOptions
        client.subscribe(self._topic, options=options(qos=_QOS, retainHandling=2))
        if not self._waits_for(granted):
            return
        if granted[0].value != _QOS:
            raise SourceError(self._name, f"the broker refused to subscribe: {granted[0]}")
        self._begun = True

    def _waits_for(self, answers: Sequence[Any]) -> bool:
        """Wait for an answer; False after `stop`. Raises OSError if none comes."""
        until = time.monotonic() + ANSWER_SECONDS
        while not answers:
            if self._stopped.is_set():
                return False
            if self._lost is not None or time.monotonic() > until:
                raise ConnectionError(f"the broker does not answer: {self._lost or 'it is silent'}")
            self._step(GLANCE_SECONDS)
        return True

    def _step(self, seconds: float) -> None:
        """Process network events, and detect a lost connection."""
        state = self._client.loop(seconds)
        if state and self._lost is None:
            self._lost = str(_library().error_string(state))

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()


class Publisher(NumberedWriter):
    """Writes to a topic. A position is the next sequence number."""

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(name)
        self._address = address
        self._client: Any = None
        self._changed = threading.Condition()
        self._answer: Any = None
        self._sent, self._accepted = 0, 0
        self._fault: str | None = None

    def open(self, form: Form, position: Any) -> None:
        super().open(form, position)
        self._client = client = _client(self._address, f"xmlpunct-{uuid.uuid4().hex}")
        client.on_connect, client.on_publish = self._connected, self._published
        client.on_disconnect = self._disconnected
        try:
            _connect(client, self._address, True, {})
        except OSError as error:
            raise XmlPunctError(f"cannot write {self._name}: {error.strerror or error}") from None
        client.loop_start()
        self._wait(lambda: self._answer is not None)
        if self._answer.is_failure:
            raise XmlPunctError(f"cannot write {self._name}: the broker answered: {hide(str(self._answer))}")

    def _connected(self, *event: Any) -> None:
        with self._changed:
            self._answer = event[3]
            self._changed.notify_all()

    def _disconnected(self, *event: Any) -> None:
        """Report the lost connection; the client reconnects by itself."""
        if self._client is not None:
            self._retries.waited(hide(str(event[3])))

    def _published(self, *event: Any) -> None:
        self._retries.progressed()
        with self._changed:
            self._accepted += 1
            if event[3].is_failure:
                self._fault = str(event[3])
            self._changed.notify_all()

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Wait until ``is_done``, as long as the broker makes progress. Raises `XmlPunctError`."""
        with self._changed:
            while not is_done():
                before = self._accepted
                if not self._changed.wait(ANSWER_SECONDS) and self._accepted == before:
                    raise XmlPunctError(f"cannot write {self._name}: the broker does not answer")
                if self._fault is not None:
                    raise XmlPunctError(f"cannot write {self._name}: the broker answered: {self._fault}")

    def write(self, results: Results, *, again: bool = False) -> None:
        encoded = [self._form.encoder.messages(slice_) for slice_ in results.slices]
        texts = [text for kinds in encoded for kind in kinds for text in kind]
        for text, digest, link in results.linked(texts):
            properties = [(RUN, self._form.run), (SEQUENCE, str(self._sequence))]
            properties += [(DIGEST, digest), (LINK, link)] if results.digest else []
            message_properties = _properties("PUBLISH", UserProperty=properties)
            self._client.publish(self._address.path, text, _QOS, properties=message_properties)
            self._sequence += 1
            self._sent += 1
        self._wait(lambda: self._accepted == self._sent)

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.disconnect()
            client.loop_stop()


def _library(module: str = "client") -> ModuleType:
    return import_extra(f"paho.mqtt.{module}", "mqtt:// needs paho-mqtt", "mqtt")


def _client(address: Address, session: str, manual_ack: bool = False) -> Any:
    """A client of MQTT 5, not connected."""
    paho = _library()
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, session, protocol=paho.MQTTv5, manual_ack=manual_ack
    )
    if address.user is not None:
        client.username_pw_set(address.user, address.password)
    if _is_safe(address):
        client.tls_set_context(client_context(address.options.get("ca")))
    return client


def _properties(packet: str, **values: Any) -> Any:
    """The properties of a packet."""
    kinds = _library("packettypes").PacketTypes
    properties = _library("properties").Properties(getattr(kinds, packet))
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


def _connect(client: Any, address: Address, begins: bool, properties: dict[str, int]) -> None:
    """Connect, without waiting for the broker's answer. Raises OSError."""
    port = address.port or (8883 if _is_safe(address) else 1883)
    try:
        client.connect(
            address.host, port, clean_start=begins, properties=_properties("CONNECT", **properties)
        )
    except OSError as error:
        raise ConnectionError(f"cannot connect: {error.strerror or error}") from None

"""NATS JetStream: ``nats://HOST:PORT/STREAM``, for input and output. The extra ``nats`` installs nats-py.

Input: the positions are the stream's sequence numbers. The whole stream is one stream of elements, in its order, or
each subject in ``?subject=a,b`` is a sender.

Output: each tuple and each punctuation is a message with the run and a number. A continued run first finds its
messages in the stream; the server discards later duplicates by their ``Nats-Msg-Id``. A punctuation is sent after the
tuples before it are stored.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError
from xmlpunct.connectors.inlet import Inlet
from xmlpunct.connectors.jetstream import AT_ONCE, Connection, Refused, Tail, check_extent
from xmlpunct.connectors.messages import CHOICES, GLANCE_SECONDS, Broker, LogReader, NumberedWriter
from xmlpunct.connectors.outlet import RUN, SEQUENCE, Form, Outlet, Results
from xmlpunct.connectors.url import Address, has_topic, short

LOOK_SECONDS = 5.0
"""How often an idle reader checks that its consumer still exists, and where the stream ends."""
_FORM = "nats://HOST:PORT/STREAM"
_SECURE = ("tls", "ca")
_CHOICES = CHOICES | {"deliver": ("all", "new"), "tls": ("0", "1")}


class Nats(Broker):
    """``nats://``."""

    def input_address(self, spec: str) -> Address:
        return _address(spec, ("subject", *CHOICES, "deliver", *_SECURE))

    def inlet(self, spec: str, sender: str) -> Inlet:
        return SubjectReader(self.input_address(spec), sender)

    def outlet(self, spec: str, name: str) -> Outlet:
        address = _address(spec, ("subject", *_SECURE))
        subjects = _subjects(address)
        if len(subjects) != 1 or _is_pattern(subjects[0]):
            raise UsageError(
                f"{short(name)}: results go to one subject: write ?subject=SUBJECT, without * and >"
            )
        return SubjectWriter(address, subjects[0], short(name))

    def senders(self, spec: str) -> Sequence[str]:
        return _subjects(self.input_address(spec)) or ("",)


def _address(spec: str, options: Sequence[str]) -> Address:
    address = Address.parse(spec, _FORM, options, _has_stream)
    address.check_choices(_CHOICES)
    return address


def _has_stream(address: Address) -> bool:
    return has_topic(address) and not set(address.path) & set("./*> ")


def _subjects(address: Address) -> list[str]:
    """The subjects in the URL. Raises `UsageError`."""
    return address.names("subject", "subjects, each once, as in ?subject=orders.eu,orders.us", _is_subject)


def _is_subject(text: str) -> bool:
    return all(text.split(".")) and text.split() == [text]


def _is_pattern(subject: str) -> bool:
    return not {"*", ">"}.isdisjoint(subject.split("."))


class SubjectReader(LogReader):
    """Reads a subject of a stream, or with ``""`` the whole stream, from its first message."""

    def __init__(self, address: Address, subject: str) -> None:
        name = f"{address.name}#{subject}" if subject else address.name
        super().__init__(name, address.options, latest=address.options.get("deliver") == "new")
        self._address, self._subject = address, subject
        self._connection: Connection | None = None
        self._tail: Tail | None = None
        self._arrived = deque[Any]()
        self._looked = 0.0

    def _connect(self) -> tuple[int, int]:
        with self._errors():
            self.close()
            self._connection = Connection(self._address)
            self._extent = self._connection.extent()
            return self._extent

    def _begin(self, offset: int) -> None:
        assert self._connection is not None
        with self._errors():
            check_extent(offset, *self._extent)
            earlier = self._tail
            self._tail = Tail(self._connection, self._address.path, self._subject, offset)
            if earlier is not None:
                self._tail.replace(earlier)

    def _join(self) -> None:
        assert self._tail is not None
        self._connect()
        self._begin(self._tail.offset)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            raise SourceError(self._name, f"the server answered: {error}") from None

    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        if not (self._arrived or self._stopped.is_set()) and seconds:
            assert self._tail is not None
            try:
                with self._errors():
                    self._arrived.extend(self._tail.next_messages(seconds))
                    if self._arrived:
                        self._retries.progressed()
                    elif self._is_time_to_look():
                        self._tail.look()
                        self._retries.progressed()
                        return self._tail.offset, None
            except OSError as error:
                self._retries.persevere(self._join, self._stopped, error)
        if not self._arrived:
            return None
        message = self._arrived.popleft()
        return message.metadata.sequence.stream + 1, message.data

    def _is_time_to_look(self) -> bool:
        is_time = self._ends or time.monotonic() - self._looked >= LOOK_SECONDS
        if is_time:
            self._looked = time.monotonic()
        return is_time

    def close(self) -> None:
        if self._connection is not None:
            if self._tail is not None:
                self._tail.close()
            self._connection.close()


class SubjectWriter(NumberedWriter):
    """Writes to a subject of a stream. A position holds the number of the next message, and a sequence number of the
    stream from which on it holds none of the run's messages sent before."""

    def __init__(self, address: Address, subject: str, name: str) -> None:
        super().__init__(name)
        self._address, self._subject = address, subject
        self._stopped = threading.Event()
        self._connection: Connection | None = None
        self._looked = 0.0

    def open(self, form: Form, position: Any) -> None:
        super().open(form, position)
        with self._errors():
            self._join()
            assert self._connection is not None
            extent = self._connection.extent()
            self._connection.check_subject(self._subject)
            self._offset = position["offset"] if position else extent[1]
            check_extent(self._offset, *extent)
            if self._offset < extent[1]:
                self._find_sent(extent[1])

    def _join(self) -> None:
        self.close()
        self._connection = Connection(self._address)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (Refused, OSError) as error:
            raise XmlPunctError(f"cannot write {self._name}: {error}") from None

    def _find_sent(self, end: int) -> None:
        """Find the messages of this run after the position."""
        assert self._connection is not None
        tail = Tail(self._connection, self._address.path, self._subject, self._offset)
        while tail.offset < end:
            messages = tail.next_messages(GLANCE_SECONDS)
            for message in messages:
                headers = message.headers or {}
                self._note(headers.get(RUN), headers.get(SEQUENCE, ""), message.data)
            if not messages:
                tail.look()
        tail.close()

    def write(self, results: Results, *, again: bool = False) -> None:
        for slice_ in results.slices:
            for texts in self._form.encoder.messages(slice_):
                numbered = [*enumerate(texts, self._sequence)]
                self._sequence += len(texts)
                missing = [(number, text) for number, text in numbered if not self._is_sent(number, text)]
                for at in range(0, len(missing), AT_ONCE):
                    self._send(missing[at : at + AT_ONCE])

    def _send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        """Send messages and wait until all are stored; the server skips duplicates."""
        with self._errors():
            try:
                self._publish(messages)
            except OSError as error:
                self._retries.persevere(lambda: self._publish_again(messages), self._stopped, error)
            self._retries.progressed()

    def _publish_again(self, messages: Sequence[tuple[int, bytes]]) -> None:
        self._join()
        self._publish(messages)

    def _publish(self, messages: Sequence[tuple[int, bytes]]) -> None:
        assert self._connection is not None
        answers = self._connection.do(self._send_all(self._connection.streams, messages))
        self._offset = max(self._offset, *(answer.seq + 1 for answer in answers))

    async def _send_all(self, streams: Any, messages: Sequence[tuple[int, bytes]]) -> list[Any]:
        run, stream = self._form.run, self._address.path
        sent = []
        for number, text in messages:
            headers = {RUN: run, SEQUENCE: str(number), "Nats-Msg-Id": f"{run}-{number}"}
            sent.append(streams.publish(self._subject, text, stream=stream, headers=headers))
        return list(await asyncio.gather(*sent))

    def commit(self) -> dict[str, Any]:
        # Other writers may have made the stream drop old messages.
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            assert self._connection is not None
            with self._errors(), suppress(OSError):
                self._offset = max(self._offset, self._connection.extent()[1])
            self._looked = time.monotonic()
        return super().commit() | {"offset": self._offset}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

"""NATS JetStream: ``nats://HOST:PORT/STREAM``, to be read and written. The extra ``nats`` brings nats-py.

Read, the sequence numbers of the stream are the positions. All of it is one stream of elements, in its order, or each
subject that ``?subject=a,b`` names is a sender.

Written, each tuple and each punctuation is a message, which carries the run and a number. A run that goes on first
looks which of its messages are there; what was on its way meanwhile the server knows by its ``Nats-Msg-Id``. A
punctuation is sent when the tuples before it are there.
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
from xmlpunct.connectors.contract import RUN, SEQUENCE, Connector, Form, Inlet, Outlet, Results
from xmlpunct.connectors.jetstream import AT_ONCE, Connection, Refused, Tail, check_extent
from xmlpunct.connectors.messages import (
    CHOICES,
    GLANCE_SECONDS,
    LogReader,
    NumberedWriter,
    choose,
)
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.url import Address, short

LOOK_SECONDS = 5.0
"""How often a reader to whom nothing comes looks whether the server knows it, and how far the stream is."""
_WANTED = "nats://HOST:PORT/STREAM"
_SECURE = ("tls", "ca")
_READING = ("subject", *CHOICES, "deliver", *_SECURE)
_SAID = CHOICES | {"deliver": ("all", "new"), "tls": ("0", "1")}


class Nats(Connector):
    """``nats://``."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        return SubjectReader(_address(spec, _READING), sender)

    def outlet(self, spec: str, name: str) -> Outlet:
        address = _address(spec, ("subject", *_SECURE))
        subjects = _subjects(address)
        if len(subjects) != 1 or _is_pattern(subjects[0]):
            raise UsageError(
                f"{short(name)}: results go to one subject: write ?subject=SUBJECT, without * and >"
            )
        return SubjectWriter(address, subjects[0], short(name))

    def senders(self, spec: str) -> Sequence[str]:
        return _subjects(_address(spec, _READING)) or ("",)

    def is_endless(self, spec: str) -> bool:
        return _address(spec, _READING).options.get("until") != "end"

    def place(self, spec: str) -> str:
        """The stream: what is written to one of its subjects is read with the others."""
        return short(spec).lower()

    def source(self, spec: str, name: str) -> Source:
        return super().source(spec, short(name))


def _address(spec: str, options: Sequence[str]) -> Address:
    found = Address.parse(spec, _WANTED, options)
    if not (found.host and found.path) or found.port == 0 or set(found.path) & set("./*> "):
        raise UsageError(f"{found.name} is no address: write {_WANTED}")
    for name, choices in _SAID.items():
        choose(found.options, name, choices)
    return found


def _subjects(address: Address) -> list[str]:
    """The subjects that are named. Raises `UsageError`."""
    text = address.options.get("subject")
    names = [] if text is None else text.split(",")
    if len({*names}) < len(names) or any(
        not all(name.split(".")) or name.split() != [name] for name in names
    ):
        raise UsageError(f"subject={text}: write subjects, each once, as in ?subject=orders.eu,orders.us")
    return names


def _is_pattern(subject: str) -> bool:
    return not {"*", ">"}.isdisjoint(subject.split("."))


class SubjectReader(LogReader):
    """A subject of a stream, or with ``""`` all of it, from its first message on."""

    def __init__(self, address: Address, subject: str) -> None:
        name = f"{address.name}#{subject}" if subject else address.name
        super().__init__(name, address.options, latest=address.options.get("deliver") == "new")
        self._address, self._subject = address, subject
        self._connection: Connection | None = None
        self._tail: Tail | None = None
        self._arrived = deque[Any]()
        self._looked = 0.0

    def _connect(self) -> tuple[int, int]:
        with self._telling():
            self.close()
            self._connection = Connection(self._address)
            self._extent = self._connection.extent()
            return self._extent

    def _begin(self, offset: int) -> None:
        assert self._connection is not None
        with self._telling():
            check_extent(offset, *self._extent)
            before = self._tail
            self._tail = Tail(self._connection, self._address.path, self._subject, offset)
            if before is not None:
                self._tail.replace(before)

    def _join(self) -> None:
        assert self._tail is not None
        self._connect()
        self._begin(self._tail.offset)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            raise SourceError(self._name, f"the server says: {error}") from None

    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        if not (self._arrived or self._stopped.is_set()) and seconds:
            assert self._tail is not None
            try:
                with self._telling():
                    self._arrived.extend(self._tail.more(seconds))
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
        now = time.monotonic()
        if self._ends or now - self._looked >= LOOK_SECONDS:
            self._looked = now
            return True
        return False

    def close(self) -> None:
        if self._connection is not None:
            if self._tail is not None:
                self._tail.close()
            self._connection.close()


class SubjectWriter(NumberedWriter):
    """A subject of a stream. A position is the number of the next message, and a sequence number of the stream
    behind which no message of the run is that was sent before."""

    def __init__(self, address: Address, subject: str, name: str) -> None:
        super().__init__(name)
        self._address, self._subject = address, subject
        self._stopped = threading.Event()
        self._connection: Connection | None = None
        self._looked = 0.0

    def open(self, form: Form, position: Any) -> None:
        super().open(form, position)
        with self._telling():
            self._join()
            assert self._connection is not None
            extent = self._connection.extent()
            self._connection.check_subject(self._subject)
            self._offset = position["offset"] if position else extent[1]
            check_extent(self._offset, *extent)
            if self._offset < extent[1]:
                self._look(extent[1])

    def _join(self) -> None:
        self.close()
        self._connection = Connection(self._address)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (Refused, OSError) as error:
            raise XmlPunctError(f"cannot write {self._name}: {error}") from None

    def _look(self, end: int) -> None:
        """Find which messages of this run are behind the position."""
        assert self._connection is not None
        tail = Tail(self._connection, self._address.path, self._subject, self._offset)
        while tail.offset < end:
            found = tail.more(GLANCE_SECONDS)
            for message in found:
                headers = message.headers or {}
                self._find(headers.get(RUN), headers.get(SEQUENCE, ""), message.data)
            if not found:
                tail.look()
        tail.close()

    def write(self, results: Results, *, again: bool = False) -> None:
        for slice_ in results.slices:
            for texts in self._form.encoder.messages(slice_):
                numbered = [*enumerate(texts, self._sequence)]
                self._sequence += len(texts)
                missing = [(number, text) for number, text in numbered if not self._is_there(number, text)]
                for at in range(0, len(missing), AT_ONCE):
                    self._send(missing[at : at + AT_ONCE])

    def _send(self, messages: Sequence[tuple[int, bytes]]) -> None:
        """Come back when all messages are there; what the server has already, it passes over."""
        with self._telling():
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
        said = self._connection.do(self._publishing(self._connection.streams, messages))
        self._offset = max(self._offset, *(answer.seq + 1 for answer in said))

    async def _publishing(self, streams: Any, messages: Sequence[tuple[int, bytes]]) -> list[Any]:
        run, stream = self._form.run, self._address.path
        sent = []
        for number, text in messages:
            headers = {RUN: run, SEQUENCE: str(number), "Nats-Msg-Id": f"{run}-{number}"}
            sent.append(streams.publish(self._subject, text, stream=stream, headers=headers))
        return list(await asyncio.gather(*sent))

    def commit(self) -> Any:
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:  # others write to the stream, too, which forgets the old
            assert self._connection is not None
            with self._telling(), suppress(OSError):
                self._offset = max(self._offset, self._connection.extent()[1])
            self._looked = now
        return {"sequence": self._sequence, "offset": self._offset}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

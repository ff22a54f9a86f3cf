"""Base classes for message brokers: their URLs, a reader of logs with offsets, and a writer of numbered messages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.connectors.contract import Connector
from xmlpunct.connectors.inlet import Inlet
from xmlpunct.connectors.last_group import older_checkpoint
from xmlpunct.connectors.outlet import Form, Outlet
from xmlpunct.connectors.retries import Retries
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.url import Address, short
from xmlpunct.slice import Slice

ANSWER_SECONDS = 20.0
"""How long a broker may take to answer."""
GLANCE_SECONDS = 0.1
"""How long to wait before each check whether to stop."""
PIECE_BYTES = 2**20
"""How many available bytes are read at once."""
CHOICES = {"documents": ("0", "1"), "until": ("never", "end")}
"""The values of the options of every log; the first is the default."""


class Broker(Connector, ABC):
    """The URLs of a message broker name a server, and a topic or a stream."""

    @abstractmethod
    def input_address(self, spec: str) -> Address:
        """The URL of an input. Raises `UsageError`."""

    def is_endless(self, spec: str) -> bool:
        return self.input_address(spec).options.get("until") != "end"

    def place(self, spec: str) -> str:
        """The topic or the stream, because a reader of a stream reads all its subjects."""
        return short(spec).lower()

    def source(self, spec: str, name: str) -> Source:
        return super().source(spec, short(name))


class LogReader(Inlet):
    """A log of messages with offsets: the elements of one stream, or with ``documents=1`` one document each.

    A position holds the next offset, the end offset if any, and whether it was reached. With ``latest``, reading
    begins with messages that arrive from now on.
    """

    can_seek = True

    def __init__(self, name: str, options: Mapping[str, str], *, latest: bool) -> None:
        self._name = name
        self._documents, self._ends = options.get("documents") == "1", options.get("until") == "end"
        self._latest = latest
        self._stopped = threading.Event()
        self._retries = Retries(name)

    def open(self, position: Any) -> None:
        low, high = self._connect()
        end = high if self._ends else None
        self._is_new = position is None
        self._position = position or {"offset": high if self._latest else low, "end": end, "closed": False}
        self._begin(self._position["offset"])

    @abstractmethod
    def _connect(self) -> tuple[int, int]:
        """Connect; returns the offset of the log's first message, and the offset after its last."""

    @abstractmethod
    def _begin(self, offset: int) -> None:
        """Start reading at an offset."""

    @abstractmethod
    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        """Wait for a message: the offset after it, and its text. None after the time limit.

        The text is None if there is no further message before the offset.
        """

    def read(self) -> tuple[bytes, Any] | None:
        while not (self._stopped.is_set() or self._position["closed"]):
            texts, position = self._available()
            if texts or position != self._position:
                self._is_new, self._position = False, position
                return b"".join(text + b"\n" for text in texts), dict(position)
        return None

    def _available(self) -> tuple[list[bytes], dict[str, Any]]:
        """Available messages, or the first that arrives in a moment, and the position after them."""
        texts = [b"<stream>"] if self._is_new and not self._documents else []
        position, size = dict(self._position), 0
        end = position["end"]
        while size < PIECE_BYTES:
            if end is not None and position["offset"] >= end:
                position["closed"] = True
                texts += [] if self._documents else [b"</stream>"]
                break
            arrival = self._next(0 if texts else GLANCE_SECONDS)
            if arrival is None:
                break
            next_offset, text = arrival
            position["offset"] = max(position["offset"], next_offset)
            if text is not None and (end is None or next_offset <= end):
                texts.append(text)
                size += len(text) + 1
        return texts, position

    def stop(self) -> None:
        self._stopped.set()


class NumberedWriter(Outlet):
    """Writes messages with the run and a number, by which a continued run recognizes messages that it sent before.

    A position holds at least the ``sequence`` of the next message.
    """

    def __init__(self, name: str) -> None:
        self._name, self._sequence = name, 0
        self._retries = Retries(name)
        self._sent_before: dict[int, int] = {}  # numbers and checksums of messages after the position

    def open(self, form: Form, position: Any) -> None:
        self._form = form
        form.encoder.messages(Slice(form.schema.empty()))  # raises if the format has no messages
        self._sequence = position["sequence"] if position else 0

    def commit(self) -> dict[str, Any]:
        return {"sequence": self._sequence}

    def check_last(self, last: int) -> None:
        if self._sent_before:
            raise older_checkpoint(self._name)

    def _note(self, run: str | None, number: str | bytes, text: bytes) -> None:
        """Note a message in the log: the run and number in its headers, and its text."""
        if run == self._form.run:
            self._sent_before[int(number)] = crc32(text)

    def _is_sent(self, number: int, text: bytes) -> bool:
        """True if a message was sent before. Raises `XmlPunctError` if that one had another text."""
        checksum = self._sent_before.pop(number, None)
        if checksum not in (None, crc32(text)):
            raise XmlPunctError(
                f"{self._name}: message {number} of this run exists already with another result: "
                "an input or the program has changed"
            )
        return checksum is not None

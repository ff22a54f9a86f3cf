"""Messages of brokers: logs that are read from any offset on, and writers whose messages have numbers."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.contract import Form, Inlet, Outlet
from xmlpunct.connectors.last_group import OLDER
from xmlpunct.connectors.retries import Retries
from xmlpunct.slice import Slice

ANSWER_SECONDS = 20.0
"""How long a broker may take to answer."""
GLANCE_SECONDS = 0.1
"""How long to wait for something before looking whether to stop."""
PIECE_BYTES = 2**20
"""How much of what is there is taken at once."""
CHOICES = {"documents": ("0", "1"), "until": ("never", "end")}
"""What the options of any log may be; the first is usual."""


class LogReader(Inlet):
    """A log, in which each message has an offset: the elements of one stream, or with ``documents=1`` documents.

    A position is the offset that is next, where the end is, if any, and whether it was reached. With ``latest`` the
    log begins with what comes from now on.
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
        """The offset of the first message that is there, and the offset behind the last."""

    @abstractmethod
    def _begin(self, offset: int) -> None:
        """Read from an offset on."""

    @abstractmethod
    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        """Wait so long for a message: the offset behind it, and its text.

        The text is None where nothing, or nothing more, is there before the offset. None if nothing has come.
        """

    def read(self) -> tuple[bytes, Any] | None:
        while not (self._stopped.is_set() or self._position["closed"]):
            texts, place = self._some()
            if texts or place != self._position:
                self._is_new, self._position = False, place
                return b"".join(text + b"\n" for text in texts), dict(place)
        return None

    def _some(self) -> tuple[list[bytes], dict[str, Any]]:
        """What is there by now, or comes in a moment, and the position behind it."""
        texts = [b"<stream>"] if self._is_new and not self._documents else []
        place, size = dict(self._position), 0
        end = place["end"]
        while size < PIECE_BYTES:
            if end is not None and place["offset"] >= end:
                place["closed"] = True
                texts += [] if self._documents else [b"</stream>"]
                break
            found = self._next(0 if texts else GLANCE_SECONDS)
            if found is None:
                break
            behind, text = found
            place["offset"] = max(place["offset"], behind)
            if text is not None and (end is None or behind <= end):
                texts.append(text)
                size += len(text) + 1
        return texts, place

    def stop(self) -> None:
        self._stopped.set()


class NumberedWriter(Outlet):
    """Messages that carry the run and a number, which is told from what is there whether it was sent before.

    A position has at least the ``sequence`` of the next.
    """

    def __init__(self, name: str) -> None:
        self._name, self._sequence = name, 0
        self._retries = Retries(name)
        self._there: dict[int, int] = {}  # the messages behind the position: their numbers and checksums

    def open(self, form: Form, position: Any) -> None:
        self._form = form
        form.encoder.messages(Slice(form.schema.empty()))  # if there are any in this format
        self._sequence = position["sequence"] if position else 0

    def check_last(self, last: int) -> None:
        if self._there:
            raise XmlPunctError(f"{self._name} holds results that this checkpoint does not know: {OLDER}")

    def _find(self, run: str | None, number: str | bytes, text: bytes) -> None:
        """A message is there, with what it says of itself."""
        if run == self._form.run:
            self._there[int(number)] = crc32(text)

    def _is_there(self, number: int, text: bytes) -> bool:
        """Whether a message was sent before. Raises `XmlPunctError` if it was another."""
        known = self._there.pop(number, None)
        if known not in (None, crc32(text)):
            raise XmlPunctError(
                f"{self._name}: message {number} of this run is there, and holds another result: "
                "an input has changed, or the program has"
            )
        return known is not None


def choose(options: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    """An option with few values, of which the first is usual. Raises `UsageError`.

    >>> choose({}, "until", ["never", "end"])
    'never'
    """
    value = options.get(name, choices[0])
    if value not in choices:
        raise UsageError(f"{name}={value}: write {name}={' or '.join(choices)}")
    return value

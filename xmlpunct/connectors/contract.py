"""The interfaces of connectors, which read from and write to the URLs of a scheme.

A connector is one small class, selected by the scheme of a URL: this package's own are in `OWN`, others are entry
points of the group ``xmlpunct.connectors`` whose name is the scheme. docs/connectors.md shows how to write one.

- Input: `Connector.inlet` makes an `Inlet` for each of its `senders`. An inlet returns pieces of bytes, each with the
  position after it. With a checkpoint the bytes are spooled. After a restart, an inlet that ``can_seek`` continues
  from the last stored position; any other inlet has to return the same bytes again.
- Output: `Connector.outlet` makes an `Outlet`, which receives numbered groups of results. An outlet that can determine
  the last number it has written writes each group exactly once.
"""

from __future__ import annotations

import importlib
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.base.secrets import expanded, note_passwords
from xmlpunct.connectors.source import (
    Source,
    UnopenedPart,
    assembled,
    binary,
    merged_source,
    without_password,
)
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

FOLLOW = "follow:"
"""Prefix of the path of a file that is followed while it grows."""
DATA = "data:"
"""Prefix of a document in the URL itself."""
GROUP = "xmlpunct.connectors"
"""The group of entry points. Their names are schemes."""
RUN, SEQUENCE = "xmlpunct.run", "xmlpunct.sequence"
"""Headers of a message, if the broker supports headers: the run that wrote it, and its number in the run."""
DIGEST, LINK = "xmlpunct.digest", "xmlpunct.link"
"""Headers if the messages of a run cannot be read back: its digest, and the previous message's. See `chained`."""
OWN = {
    "": "local_files:Files",
    "file": "local_files:Files",
    "-": "local_files:StandardInput",
    "follow": "local_files:GrowingFiles",
    "data": "local_files:DataUrls",
    "tcp": "tcp:Sockets",
    "tcp-listen": "tcp:Sockets",
    "tls": "tcp:Sockets",
    "unix": "tcp:UnixSockets",
    "http": "http_post:Servers",
    "https": "http_post:Servers",
    "http-listen": "http_listen:Listeners",
    "kafka": "kafka:Kafka",
    "mqtt": "mqtt:Mqtt",
    "mqtts": "mqtt:Mqtt",
    "nats": "nats:Nats",
    "sqlite": "databases:Databases",
    "duckdb": "databases:Databases",
    "postgresql": "databases:Databases",
}
"""The connectors of this package, by scheme; a path has none. fsspec opens all other schemes (`object_stores`)."""
_REMOTE = "object_stores:Stores"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Inlet(ABC):
    """The data of one sender of a source, piece by piece.

    All methods but `stop` are called from one thread, in the order of their definition. They raise OSError, or
    `SourceError` with the name of the source.
    """

    can_seek = False
    """True if `open` can continue from a position; else the inlet must return the same bytes again."""
    wants_acknowledgement = False
    """True if the sender waits for `acknowledge`: then each piece is made durable by itself."""

    @abstractmethod
    def open(self, position: Any) -> None:
        """Connect, to continue from a ``position`` that `read` returned; None: from the beginning."""

    @abstractmethod
    def read(self) -> tuple[bytes, Any] | None:
        """Wait for the next piece: its bytes, and the position after them (a JSON value).

        The position is None if reading cannot continue there. The piece is None at the end, and after `stop`.
        """

    def acknowledge(self, position: Any) -> None:  # noqa: B027 - few need it
        """The data up to a position are durable, and will not be requested again."""

    def stop(self) -> None:  # noqa: B027
        """Let a `read` that waits in another thread return None."""

    def close(self) -> None:  # noqa: B027
        """Release all resources."""


class Encoder(Protocol):
    """Encodes a run's results in a format: see `xmlpunct.firehose.writer`."""

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        """The tuples and the punctuations of a slice, each as a self-contained message."""


class Existing(Enum):
    """How a new run handles the results of another run in its output."""

    ACCEPT = "accept"
    """Without ``--checkpoint``: overwrite a file, append to a table, refuse a directory."""
    REFUSE = "refuse"
    """With ``--checkpoint``: refuse the output, because the checkpoint of the other run may be lost."""
    REPLACE = "replace"
    """With ``--replace``: remove them."""


@dataclass(frozen=True)
class Form:
    """The properties of a run for an outlet: ``run`` identifies it, and is stored in its checkpoint.

    schema: of the results. encoder: writes them in the run's ``format``.
    existing: how a new run handles the results of another.
    """

    run: str
    schema: Schema
    encoder: Encoder
    format: str = "xml"
    existing: Existing = Existing.ACCEPT


@dataclass(frozen=True)
class Results:
    """A group of results, which is written at once. Numbers of groups ascend; each number has one group.

    data: the ``slices`` in the run's format, with the header before the first group and the footer after the last.
    offset: the number of bytes before it. last: the results are complete, no group follows.
    digest: identifies the group and all groups before it. link: the digest of the previous group.
    """

    number: int
    slices: tuple[Slice, ...]
    data: bytes
    offset: int = 0
    last: bool = False
    digest: str = ""
    link: str = ""


def chained(link: str, data: bytes) -> str:
    """The digest of bytes that follow the bytes with digest ``link``; empty bytes do not change it.

    >>> chained("", b""), chained(chained("", b"a"), b"b") == chained("", b"b")
    ('', False)
    """
    if not data:
        return link
    hashed = blake2b(link.encode(), digest_size=16)
    hashed.update(data)
    return hashed.hexdigest()


class Outlet(ABC):
    """The output for a run's results. Methods raise `XmlPunctError`."""

    takes_columns: ClassVar[bool] = False
    """True if it writes the columns of slices, and ignores the run's format."""
    can_replace: ClassVar[bool] = False
    """True if it can remove the results of another run: see `Existing`."""

    def check(self, schema: Schema) -> None:  # noqa: B027
        """Raise `UsageError` if results of this schema cannot be written. It does not connect."""

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple the reason why it is a reject, null if it can be written; None if all can be written."""
        return None

    @abstractmethod
    def open(self, form: Form, position: Any) -> None:
        """Continue from a ``position`` that `commit` returned; None: begin a new run.

        A killed run may have written groups after the position; they will be written again. Raises `UsageError` if
        the results cannot be written there.
        """

    @abstractmethod
    def write(self, results: Results, *, again: bool = False) -> None:
        """Make a group visible, unless it already is; atomically if the output supports that.

        ``again``: a killed run has certainly written the group, and perhaps groups after it.
        """

    def check_last(self, last: int) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it holds groups of this run after number ``last``, the last in the run's log.

        Then the checkpoint is older than the output. It is called after all groups in the log were written again.
        """

    def check_complete(self, form: Form, position: Any) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it can detect that results of a complete run are missing."""

    def commit(self) -> Any:  # noqa: B027
        """Return when all written groups are durable: the position after them, as a JSON value."""

    def break_off(self) -> None:  # noqa: B027
        """No group follows although the results are incomplete: an input failed. The run may be repeated."""

    def finish(self) -> None:  # noqa: B027
        """No group follows from this process."""

    def close(self) -> None:  # noqa: B027
        """Release all resources."""


class Connector:
    """Reads from and writes to the URLs of a scheme: override `inlet` for input, `outlet` for output.

    ``spec`` is the whole URL; if it is to be opened, its ``${NAME}`` are already expanded. ``name`` is the URL for
    messages, without expansion. All methods raise `UsageError` for an invalid URL.
    """

    quotes = True
    """True if its URLs are percent-encoded."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        """The inlet of a sender. It does not connect before it is opened."""
        raise UsageError(f"nothing is read from {url_scheme(spec)}://")

    def outlet(self, spec: str, name: str) -> Outlet:
        """The outlet for results. It does not connect before it is opened."""
        raise UsageError(f"nothing is written to {url_scheme(spec)}://: name a file, and copy it there")

    def senders(self, spec: str) -> Sequence[str]:
        """The names of the senders, each with an order of its own; the same in each run.

        It is called when a query is planned. A connector that connects to find them must `expand` the URL.
        """
        return ("",)

    def is_endless(self, spec: str) -> bool:
        """True if it may never end."""
        return True

    def place(self, spec: str) -> str:
        """A canonical form of the URL, to detect an output that is also an input."""
        return without_password(spec)

    def source(self, spec: str, name: str) -> Source:
        """The source: the merge of its senders."""

        def sender_source(sender: str) -> Source:
            sender_name = f"{name}#{sender}" if sender else name
            once = not self.inlet(spec, sender).can_seek
            part = UnopenedPart(
                sender_name, None, lambda: binary(InletFile(self.inlet(spec, sender))), once=once
            )
            return assembled(sender_name, [part])

        return merged_source(name, [sender_source(sender) for sender in self.senders(spec)])

    def paths(self, spec: str) -> list[str]:
        """The files and directories that it reads."""
        return []

    def written(self, spec: str) -> list[str]:
        """The local files to which it writes results."""
        return []

    def columns(self, spec: str) -> tuple[str, ...]:
        """The columns whose values are in the names of its files."""
        return ()


class InletFile(io.RawIOBase):
    """An inlet as a file of bytes, with positions instead of offsets.

    The position is that after the last piece, if that was read to its end; None if reading cannot continue there.

    >>> class Two(Inlet):
    ...     def open(self, position): self.left = [(b"<a/>", 1), (b"<b/>", 2)][position or 0:]
    ...     def read(self): return self.left.pop(0) if self.left else None
    >>> file = InletFile(Two())
    >>> file.resume(1)
    >>> file.read(3), file.position, file.read(3), file.position, file.read(3)
    (b'<b/', None, b'>', 2, b'')
    """

    def __init__(self, inlet: Inlet) -> None:
        self._inlet, self._left = inlet, memoryview(b"")
        self._is_open = self._caller_acknowledges = self._stopped = False
        self._next_position: Any = None  # the position after the piece

    @property
    def can_seek(self) -> bool:
        """True if it can continue from a position."""
        return self._inlet.can_seek

    @property
    def wants_acknowledgement(self) -> bool:
        """True if the sender waits for `acknowledge`."""
        return self._inlet.wants_acknowledgement

    @property
    def position(self) -> Any:
        """The position after the last piece; None if that piece is only partly read."""
        return None if self._left else self._next_position

    def resume(self, position: Any) -> None:
        """Continue from a position; called before the first read."""
        self._is_open = True
        self._next_position = position
        self._inlet.open(position)

    def keep(self) -> None:
        """Leave acknowledgements to the caller; by default the next read acknowledges the previous piece."""
        self._caller_acknowledges = True

    def acknowledge(self, position: Any) -> None:
        """The data up to a position are durable."""
        self._inlet.acknowledge(position)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Wait for bytes; empty at the end, and after `stop`."""
        if not self._is_open:
            self.resume(None)
        while not self._left:
            if not self._caller_acknowledges and self._next_position is not None:
                self._inlet.acknowledge(self._next_position)
            piece = None if self._stopped else self._inlet.read()
            if piece is None:
                return b""
            self._left, self._next_position = memoryview(piece[0]), piece[1]
        count = len(self._left) if size < 0 else size
        data, self._left = bytes(self._left[:count]), self._left[count:]
        return data

    def stop(self) -> None:
        """Let a read that waits in another thread return no bytes."""
        self._stopped = True
        self._inlet.stop()

    def close(self) -> None:
        if not self.closed:
            self._inlet.close()
        super().close()


def url_scheme(spec: str) -> str:
    """The scheme of a source or output: ``-`` for standard input, empty for a path.

    >>> [url_scheme(spec) for spec in ("tcp://host:1", "follow:a.xml", "unix:a", "-", "C:/a.xml")]
    ['tcp', 'follow', 'unix', '-', '']
    """
    if spec == "-":
        return "-"
    if spec.startswith((FOLLOW, DATA, "unix:")):
        return spec.partition(":")[0]
    match = _URL.match(spec)
    return match[1].lower() if match else ""


@cache
def _connector(scheme: str) -> Connector | None:
    """The connector of a scheme; None if only fsspec may support it."""
    if scheme in OWN:
        return _own_connector(OWN[scheme])
    entries = [*entry_points(group=GROUP, name=scheme)]
    if not entries:
        return None
    try:
        connector = entries[0].load()()
    except ImportError as error:
        raise UsageError(f"the connector of {scheme}:// is not all there: {error}") from None
    if not isinstance(connector, Connector):
        raise UsageError(f"{entries[0].value}, the connector of {scheme}://, is no {Connector.__qualname__}")
    return connector


@cache
def _own_connector(target: str) -> Connector:
    module, _, name = target.partition(":")
    connector = getattr(importlib.import_module(f"xmlpunct.connectors.{module}"), name)()
    assert isinstance(connector, Connector)
    return connector


def expand(spec: str) -> str:
    """A URL with each ``${NAME}`` expanded from the environment; paths are unchanged. Raises `UsageError` if unset.

    >>> expand("feeds/${DAY}.xml")
    'feeds/${DAY}.xml'
    """
    if _URL.match(spec) is None or url_scheme(spec) == "file":
        return spec
    try:
        return expanded(spec, connector_of(spec).quotes)
    except KeyError as error:
        raise UsageError(f"{spec}: {error.args[0]} is not set in the environment") from None
    except ValueError as error:
        raise UsageError(
            f"{spec}: the value of {error} has a character that divides URLs, and fsspec takes none that is quoted: "
            "fsspec reads what it needs from its own files and variables, too"
        ) from None


def connector_of(spec: str | os.PathLike[str]) -> Connector:
    """The connector for a source or output. Raises `UsageError` if it cannot be loaded.

    >>> type(connector_of("feeds/")).__name__, type(connector_of("tls://host:1")).__name__
    ('Files', 'Sockets')
    """
    scheme = ""
    if isinstance(spec, str):
        scheme = url_scheme(spec)
        note_passwords(spec)
    return _connector(scheme) or _own_connector(_REMOTE)

"""Connectors: what the schemes of URLs stand for, to be read and to be written.

A connector is one small class, found by the scheme of a URL: those of this package in `OWN`, any other as an entry
point of the group ``xmlpunct.connectors`` whose name is the scheme. docs/connectors.md shows how to write one.

- Read: `Connector.inlet` makes an `Inlet` for each of its `senders`. What an inlet gives is bytes, each piece with the
  position behind it. With a checkpoint the bytes are spooled; an inlet that ``can_seek`` goes on from the last
  position that was kept, any other has to give the same bytes once more.
- Written: `Connector.outlet` makes an `Outlet`, which is given groups of results, each with its number. An outlet that
  knows which number it has written last writes each group exactly once.
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
from xmlpunct.connectors.source import Piece, Source, assembled, bare, binary, merged
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

FOLLOW = "follow:"
"""Before the path of a file that is to be followed while it grows."""
DATA = "data:"
"""Before a document that stands in the URL itself."""
GROUP = "xmlpunct.connectors"
"""The group of entry points. Their names are schemes."""
RUN, SEQUENCE = "xmlpunct.run", "xmlpunct.sequence"
"""What a message says of itself, wherever messages can: the run that wrote it, and its number in that."""
DIGEST, LINK = "xmlpunct.digest", "xmlpunct.link"
"""Of a message whose receiver cannot be asked: its digest, and that of the message before. See `chained`."""
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
    """What one sender of a source gives, piece by piece.

    Its methods are called from one thread, in the order in which they stand here, but for `stop`. What goes wrong is
    an OSError, or a `SourceError` with the name of the source.
    """

    can_seek = False
    """Whether `open` can go on from a position. What cannot has to give the same bytes again."""
    wants_acknowledgement = False
    """Whether `acknowledge` is waited for: then each piece is made durable by itself."""

    @abstractmethod
    def open(self, position: Any) -> None:
        """Connect, to go on from a ``position`` that `read` gave; None: from the beginning."""

    @abstractmethod
    def read(self) -> tuple[bytes, Any] | None:
        """Wait for the next piece: its bytes, and the position behind them (plain values, as JSON holds them).

        The position is None where nobody could go on. The piece is None at the end, and after `stop`.
        """

    def acknowledge(self, position: Any) -> None:  # noqa: B027 - few have to
        """What was read up to a position is durable: nobody will ask for it again."""

    def stop(self) -> None:  # noqa: B027
        """Let a `read` that waits, in another thread, come back with None."""

    def close(self) -> None:  # noqa: B027
        """Let go of everything."""


class Encoder(Protocol):
    """The form that a run's results are written in: see `xmlpunct.firehose.writer`."""

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        """The tuples and the punctuations of a slice, each to be understood by itself."""


class Existing(Enum):
    """What a new run does with the results of another run that its output holds."""

    ACCEPT = "accept"
    """A file is overwritten, a table is added to, and a directory is refused: without ``--checkpoint``."""
    REFUSE = "refuse"
    """It is refused: the checkpoint of that run may be lost. With ``--checkpoint``."""
    REPLACE = "replace"
    """They are removed: with ``--replace``."""


@dataclass(frozen=True)
class Form:
    """What an outlet has to know of a run: ``run`` tells it from others, and stays with its checkpoint.

    ``schema`` is that of the results, and ``encoder`` writes them in the run's ``format``. ``existing``: what a new
    run does with the results of another.
    """

    run: str
    schema: Schema
    encoder: Encoder
    format: str = "xml"
    existing: Existing = Existing.ACCEPT


@dataclass(frozen=True)
class Results:
    """A group of results, to be written at once. Numbers of groups rise; none is given to two different ones.

    ``data`` is what the ``slices`` are in the run's format, with what comes before and behind all of them, and
    ``offset`` the bytes before it. ``last``: no group follows, the results are complete. ``digest`` tells it, and all
    groups before it, from others; ``link`` is the digest of the group before.
    """

    number: int
    slices: tuple[Slice, ...]
    data: bytes
    offset: int = 0
    last: bool = False
    digest: str = ""
    link: str = ""


def chained(link: str, data: bytes) -> str:
    """The digest of some bytes behind those whose digest is ``link``; nothing adds nothing.

    >>> chained("", b""), chained(chained("", b"a"), b"b") == chained("", b"b")
    ('', False)
    """
    if not data:
        return link
    hashed = blake2b(link.encode(), digest_size=16)
    hashed.update(data)
    return hashed.hexdigest()


class Outlet(ABC):
    """Where a run's results go. What goes wrong is an `XmlPunctError`."""

    takes_columns: ClassVar[bool] = False
    """Whether it takes the columns of slices. Then the run's format and the form of its XML say nothing to it."""
    can_replace: ClassVar[bool] = False
    """Whether it can remove the results of another run: see `Existing`."""

    def check(self, schema: Schema) -> None:  # noqa: B027
        """Raise `UsageError` if results of this schema cannot be written. Nothing is connected to yet."""

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """For each tuple why it cannot be written there, null if it can; None if all can. The others are rejects."""
        return None

    @abstractmethod
    def open(self, form: Form, position: Any) -> None:
        """Begin behind a ``position`` that `commit` gave; None: a new run begins.

        A run that was killed may have written groups behind it, and is going to give them once more. Raises
        `UsageError` for what cannot be written there.
        """

    @abstractmethod
    def write(self, results: Results, *, again: bool = False) -> None:
        """Make a group visible, unless it is: all of it, or, as far as that is possible, nothing.

        ``again``: a run that was killed has written it, for certain, and perhaps groups after it.
        """

    def check_last(self, last: int) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it holds groups of this run behind number ``last``, the last one of the run's log.

        Then the checkpoint is older than the output. It is called when all groups of the log have been written again.
        """

    def check_complete(self, form: Form, position: Any) -> None:  # noqa: B027
        """Raise `XmlPunctError` if it is known not to hold the results of a complete run any more."""

    def commit(self) -> Any:  # noqa: B027
        """Come back when all that was written is durable; the position behind it, as plain values."""

    def break_off(self) -> None:  # noqa: B027
        """No group follows, though the results are not complete: an input failed. It may be done over."""

    def finish(self) -> None:  # noqa: B027
        """Nothing follows, however long this process lives."""

    def close(self) -> None:  # noqa: B027
        """Let go of everything."""


class Connector:
    """What a scheme stands for: override `inlet` to be read, `outlet` to be written.

    A ``spec`` is the whole URL. Where something is opened its ``${NAME}`` are expanded before it comes here, and what
    it is called by people, ``name``, is not. All methods raise `UsageError` for a URL that makes no sense.
    """

    quotes = True
    """Whether its URLs are quoted, as ``%20``."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        """What a sender gives. Nothing is connected to before it is opened."""
        raise UsageError(f"nothing is read from {scheme_of(spec)}://")

    def outlet(self, spec: str, name: str) -> Outlet:
        """Where results go. Nothing is connected to before it is opened."""
        raise UsageError(f"nothing is written to {scheme_of(spec)}://: name a file, and copy it there")

    def senders(self, spec: str) -> Sequence[str]:
        """The names of the senders, each with an order of its own; stable from run to run.

        This is asked when a query is planned. Who has to connect for that has to `expand` the URL.
        """
        return ("",)

    def is_endless(self, spec: str) -> bool:
        """Whether it may never end."""
        return True

    def place(self, spec: str) -> str:
        """What two URLs have in common that name the same place, so that nothing is written to what is read."""
        return bare(spec)

    def source(self, spec: str, name: str) -> Source:
        """The source: the merge of what its senders give."""

        def one(sender: str) -> Source:
            called = f"{name}#{sender}" if sender else name
            once = not self.inlet(spec, sender).can_seek
            part = Piece(called, None, lambda: binary(InletFile(self.inlet(spec, sender))), once=once)
            return assembled(called, [part])

        return merged(name, [one(sender) for sender in self.senders(spec)])

    def paths(self, spec: str) -> list[str]:
        """The files and directories that are read."""
        return []

    def written(self, spec: str) -> list[str]:
        """The files on this machine that results are written to."""
        return []

    def columns(self, spec: str) -> tuple[str, ...]:
        """The columns whose values the names of its files carry."""
        return ()


class InletFile(io.RawIOBase):
    """An inlet as a file of bytes, with positions instead of offsets.

    The position is that behind the last piece that was read to its end; None if nobody could go on there.

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
        self._is_open = self._is_kept = self._stopped = False
        self._behind: Any = None  # the position behind the piece

    @property
    def can_seek(self) -> bool:
        """Whether it can go on from a position."""
        return self._inlet.can_seek

    @property
    def wants_acknowledgement(self) -> bool:
        """Whether `acknowledge` is waited for."""
        return self._inlet.wants_acknowledgement

    @property
    def position(self) -> Any:
        """Up to where all has been read, if no part of a piece has been read that is behind it."""
        return None if self._left else self._behind

    def resume(self, position: Any) -> None:
        """Go on from a position, before anything is read."""
        self._is_open = True
        self._behind = position
        self._inlet.open(position)

    def keep(self) -> None:
        """Leave acknowledging to the caller. Else what was read is, when more is asked for."""
        self._is_kept = True

    def acknowledge(self, position: Any) -> None:
        """What was read up to a position is durable."""
        self._inlet.acknowledge(position)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Some bytes, as soon as there are any; none at the end, and after `stop`."""
        if not self._is_open:
            self.resume(None)
        while not self._left:
            if not self._is_kept and self._behind is not None:
                self._inlet.acknowledge(self._behind)
            piece = None if self._stopped else self._inlet.read()
            if piece is None:
                return b""
            self._left, self._behind = memoryview(piece[0]), piece[1]
        count = len(self._left) if size < 0 else size
        data, self._left = bytes(self._left[:count]), self._left[count:]
        return data

    def stop(self) -> None:
        """Let a read that waits in another thread come back, with nothing."""
        self._stopped = True
        self._inlet.stop()

    def close(self) -> None:
        if not self.closed:
            self._inlet.close()
        super().close()


def scheme_of(spec: str) -> str:
    """The scheme of what a text names: of a URL its own, ``-`` of standard input, none of a path.

    >>> [scheme_of(spec) for spec in ("tcp://host:1", "follow:a.xml", "unix:a", "-", "C:/a.xml")]
    ['tcp', 'follow', 'unix', '-', '']
    """
    if spec == "-":
        return "-"
    if spec.startswith((FOLLOW, DATA, "unix:")):
        return spec.partition(":")[0]
    found = _URL.match(spec)
    return found[1].lower() if found else ""


@cache
def _connector(scheme: str) -> Connector | None:
    """The connector of a scheme, if there is one but fsspec."""
    if scheme in OWN:
        return _own(OWN[scheme])
    found = [*entry_points(group=GROUP, name=scheme)]
    if not found:
        return None
    try:
        made = found[0].load()()
    except ImportError as error:
        raise UsageError(f"the connector of {scheme}:// is not all there: {error}") from None
    if not isinstance(made, Connector):
        raise UsageError(f"{found[0].value}, the connector of {scheme}://, is no {Connector.__qualname__}")
    return made


@cache
def _own(place: str) -> Connector:
    module, _, name = place.partition(":")
    made = getattr(importlib.import_module(f"xmlpunct.connectors.{module}"), name)()
    assert isinstance(made, Connector)
    return made


def expand(spec: str) -> str:
    """A URL whose ``${NAME}`` are taken from the environment; a path stays as it is. Raises `UsageError` for one unset.

    >>> expand("feeds/${DAY}.xml")
    'feeds/${DAY}.xml'
    """
    if _URL.match(spec) is None or scheme_of(spec) == "file":
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
    """The connector of what a text names. Raises `UsageError` for one that cannot be loaded.

    >>> type(connector_of("feeds/")).__name__, type(connector_of("tls://host:1")).__name__
    ('Files', 'Sockets')
    """
    scheme = ""
    if isinstance(spec, str):
        scheme = scheme_of(spec)
        note_passwords(spec)
    return _connector(scheme) or _own(_REMOTE)

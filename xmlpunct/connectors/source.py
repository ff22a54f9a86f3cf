"""A source, its parts, and the senders that it may merge.

See `utf8_stream` for the bytes of one part, `archives` for parts that are members of one file, and `contract` for the
connectors that make a source from its name.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from xmlpunct.base.errors import TransientError, UsageError, undoing
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.secrets import USER, hide
from xmlpunct.connectors.archives import Reopen, members, unpacked_document
from xmlpunct.connectors.chunk_sources import ChunkInlet
from xmlpunct.connectors.inlet import InletFile
from xmlpunct.connectors.utf8_stream import Utf8Stream

Texts = tuple[tuple[str, str], ...]
"""The columns in the name of a part, each with its text."""

Opener = Callable[[int], tuple[BinaryIO, bool]]
"""Opens a part: its file, and whether the reader must close it."""


class ChangedError(TransientError):
    """A source differs from the data read before. The run can continue once the source is restored."""

    @classmethod
    def of(cls, source: str, change: str) -> ChangedError:
        """The error for a source, with a message about the change."""
        return cls(source, f"an input has changed: {change}")


class FileGate:
    """The check that a file of a watched folder has to pass: `run` reads a file to its end, and is set by the run.

    `run` raises `SourceError` for a file that the run could not read. Without it, each file passes.
    """

    def __init__(self) -> None:
        self.run: Callable[[Source], None] | None = None


@dataclass(frozen=True)
class Source:
    """A source: ``parts`` are the names and sizes (None: unknown) of its files, in order.

    Each part holds whole documents. A source with ``senders`` is their merge: it has no bytes of its own, and each
    sender has an order of its own.
    first_live: behind an archive, the first part that is connected when the run begins.
    gate: where a run sets the check of each file of a watched folder.
    files: the paths of the parts, None for a part that is no file. texts: the columns in the names of the parts, if
    there are any: see `labels`. once: it can be read only once; to open a part again raises an error.
    """

    name: str
    parts: tuple[tuple[str, int | None], ...]
    opener: Opener
    senders: tuple[Source, ...] = ()
    files: tuple[str | None, ...] = ()
    texts: tuple[Texts, ...] = ()
    once: bool = False
    gate: FileGate | None = None
    first_live: int | None = None

    resumes = False
    """See `read_ahead.PartOpener`: a source opens its parts itself."""

    @classmethod
    def of(cls, content: Any, name: str | None = None) -> Source:
        """A source of bytes, of the chunks of an iterable, or of a binary file object from its current position.

        The file object is not closed. Raises `UsageError` for other objects.
        """
        if isinstance(content, bytes | bytearray | memoryview):
            data = bytes(content)
            name = name or "<bytes>"
            plain = UnopenedPart(name, len(data), lambda: io.BytesIO(data))
            return assembled(name, member_pieces(plain, plain.open))
        is_text = isinstance(content, io.TextIOBase | str)
        if hasattr(content, "read") and not is_text:
            name = name or str(getattr(content, "name", "<file>"))
            return of_file(name, name, content)
        if isinstance(content, Iterable) and not is_text:
            inlet, once = ChunkInlet(content, name or "<chunks>"), isinstance(content, Iterator)
            chunks = UnopenedPart(inlet.name, None, lambda: binary(InletFile(inlet)), once=once)
            return assembled(inlet.name, [chunks])
        raise UsageError(
            f"a source is a path, bytes, a binary file or an iterable of bytes, not {type(content).__name__}"
        )

    @property
    def size(self) -> int | None:
        """The bytes of all parts as they are stored; None if unknown."""
        sizes = [size for _, size in self.parts if size is not None]
        return sum(sizes) if len(sizes) == len(self.parts) else None

    @property
    def labelled(self) -> tuple[tuple[str, Texts], ...]:
        """The names of the parts with the columns in them; empty if there are no columns."""
        return tuple((name, texts) for (name, _), texts in zip(self.parts, self.texts, strict=False))

    def sender(self, number: int) -> Source:
        """The sender with a number from 1; 0 is the whole source."""
        return self.senders[number - 1] if number else self

    @property
    def source(self) -> Source:
        """The source whose parts it opens."""
        return self

    def is_live(self, part: int) -> bool:
        """False: to read it may have to wait, but nothing asks before."""
        return False

    def open(self, part: int = 0, byte: int = 0, trace: str | None = None) -> Utf8Stream:
        """Read a part from a UTF-8 byte offset. Raises `SourceError` if it cannot be read."""
        reader = self.reader(part)
        with undoing(reader.close):
            reader.begin(byte)
        return reader

    def trace(self, part: int, byte: int) -> str | None:
        """None: a later run does not go on in it."""
        return None

    def close(self) -> None:
        """Nothing to do: streams share no file."""

    def reader(self, part: int = 0) -> Utf8Stream:
        """The reader of a part, which has not begun. Raises `SourceError` if the part cannot be opened."""
        name = self.parts[part][0]
        with guarded(name, "cannot be opened"):
            return Utf8Stream(name, *self.opener(part), unpacked_document)

    def hidden(self) -> Source:
        """The same source, with secrets hidden in all names."""
        parts = tuple((hide(name), size) for name, size in self.parts)
        senders = tuple(sender.hidden() for sender in self.senders)
        return replace(self, name=hide(self.name), parts=parts, senders=senders)


@dataclass(frozen=True)
class UnopenedPart:
    """A part that is not opened yet: its name, its stored size (None: unknown), and the function that opens it.

    path: its path, if it is a file. texts: the columns in its name. once: it can be read only once.
    owned: the reader must close the file that `open` returns.
    """

    name: str
    size: int | None
    open: Callable[[], BinaryIO]
    path: str | None = None
    texts: Texts = ()
    once: bool = False
    owned: bool = True


def assembled(name: str, parts: Sequence[UnopenedPart], gate: FileGate | None = None) -> Source:
    """The source with these parts."""
    files = tuple(part.path for part in parts)
    texts = tuple(part.texts for part in parts) if any(part.texts for part in parts) else ()
    sizes = tuple((part.name, part.size) for part in parts)
    once, opened = any(part.once for part in parts), set[int]()

    def open_part(number: int) -> tuple[BinaryIO, bool]:
        part = parts[number]
        if part.once and number in opened:
            raise UsageError(
                f"{hide(part.name)} can be read only once, and was read already: keep its results"
            )
        opened.add(number)
        return part.open(), part.owned

    return Source(name, sizes, open_part, files=files, texts=texts, once=once, gate=gate)


def merged_source(
    name: str, senders: Sequence[str], open_sender: Callable[[str], io.RawIOBase], *, once: bool
) -> Source:
    """The merge of several senders, or the source of a single one. ``once``: a sender can be read only once."""

    def sender_source(sender: str) -> Source:
        sender_name = f"{name}#{sender}" if sender else name
        part = UnopenedPart(sender_name, None, lambda: binary(open_sender(sender)), once=once)
        return assembled(sender_name, [part])

    sources = tuple(map(sender_source, senders))
    if len(sources) == 1:
        return sources[0]

    def refuse(_: int) -> tuple[BinaryIO, bool]:
        raise UsageError(f"{name} has several senders, which only a query can merge")

    return Source(name, ((name, None),), refuse, sources, once=once)


def member_pieces(plain: UnopenedPart, reopen: Reopen) -> list[UnopenedPart]:
    """The members of an archive as parts; a file that is no archive is one part. A live part has no size."""
    with guarded(plain.name, "cannot be opened"):
        entries = members(plain.name, reopen)
    if entries is None:
        return [plain]
    sizes = (None if plain.size is None else member.size for member in entries)
    return [
        UnopenedPart(member.name, size, member.open, texts=plain.texts)
        for member, size in zip(entries, sizes, strict=True)
    ]


def of_file(name: str, part: str, file: BinaryIO, owned: bool = False) -> Source:
    """The source of a binary file from its current position; the members of an archive are its parts."""
    try:
        begin = file.tell() if file.seekable() else None
    except (OSError, AttributeError, ValueError):
        begin = None
    if begin is None:
        return assembled(name, [UnopenedPart(part, None, lambda: file, once=True, owned=owned)])
    turn = threading.Lock()
    plain = UnopenedPart(part, None, lambda: binary(FileWindow(file, begin, turn)))
    with guarded(part):
        entries = members(part, plain.open)
        file.seek(begin)
    return assembled(
        name, [plain] if entries is None else [UnopenedPart(m.name, m.size, m.open) for m in entries]
    )


class FileWindow(io.RawIOBase):
    """A file from an offset, with a position of its own. Closing it leaves the file open.

    Several windows share the file, so each read holds the lock ``turn``.
    """

    def __init__(self, file: BinaryIO, begin: int, turn: threading.Lock | None = None) -> None:
        self._file, self._begin, self._at = file, begin, 0
        self._turn = turn or threading.Lock()

    def read(self, size: int = -1) -> bytes:
        with self._turn:
            self._file.seek(self._begin + self._at)
            data = self._file.read(size) or b""
        self._at += len(data)
        return data

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        length = self._file.seek(0, io.SEEK_END) - self._begin if whence == io.SEEK_END else 0
        self._at = max({io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: length}[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at


def without_password(url: str) -> str:
    """A URL without user and password, for messages."""
    return USER.sub("", url)


def binary(file: io.RawIOBase) -> BinaryIO:
    """Types a raw file as BinaryIO: a read makes one call."""
    return file  # type: ignore[return-value]

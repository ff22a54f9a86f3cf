"""An append-only file of records, each of which is written atomically.

A checkpoint stores all its records in these files: the job, the commit, the slices since then, and the extent of each
spool. `xmlpunct.base.codec.pack` packs a record of named pieces of bytes. A header of 60 bytes, big-endian, precedes
each record:

==========  ========  ====================================================================================
``magic``   4 bytes   ``ff 58 50 32``: a record of this form begins here
``behind``  4 bytes   the number of records after this one that were written in one step with it
``number``  8 bytes   the number of the record: one more than that of the record before
``length``  8 bytes   the length of its body
``link``    16 bytes  the checksum of the record before
``head``    4 bytes   the CRC-32 of the header up to here
``check``   16 bytes  the checksum (BLAKE2b) of the header up to here and of the body
==========  ========  ====================================================================================

Numbers and links continue when all records are replaced: they chain each record of a run to the first.

A crash can tear the last record, if it was appended: some of its bytes are missing, or were never written (`is_torn`).
It is cut off. Any other broken record is damage: a record with a changed byte, a broken record before an intact one, a
record out of order, or a missing record that ``behind`` of an earlier record counts. Damage is an error; no record is
dropped silently.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from errno import ESTALE
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import polars as pl

from xmlpunct.base.codec import pack, pieces
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.durable_files import is_there, open_durably, open_saved, write_all, writing

_MAGIC, _OLD_MAGIC = b"\xffXP2", b"\xffXP1"
"""``_OLD_MAGIC``: of version 12 of checkpoints, whose headers had no checksum of their own."""
_CHECK_BYTES = 16
_FIELDS, _HEAD = struct.Struct(f">4sIQQ{_CHECK_BYTES}s"), struct.Struct(">I")
_FIELD_BYTES = _FIELDS.size + _HEAD.size
_HEAD_BYTES = _FIELD_BYTES + _CHECK_BYTES
_OLD_HEAD = struct.Struct(">II")
"""The header up to version 11 of checkpoints: the length of a record and its CRC-32."""
_SECTOR_BYTES = 512
"""The number of bytes that a disk writes as a whole; file systems write a multiple of it."""

Record = Mapping[str, pl.DataFrame | bytes]
"""A record to write: pieces by name."""


class DamagedError(XmlPunctError):
    """A log holds a broken record that no crash explains."""

    def __init__(self, path: Path, byte: int) -> None:
        super().__init__(
            f"{path} is damaged: start again with another --checkpoint, or restore it and its output from a backup "
            f"(byte {byte:,} does not match its checksum)"
        )


class _Entry(NamedTuple):
    """An intact record, with the fields of its header."""

    number: int
    link: bytes
    check: bytes
    body: bytes
    followers: int


class _Prefix(NamedTuple):
    """The intact prefix of a log: its size in bytes, and the number and checksum of its last record."""

    size: int = 0
    number: int = -1
    check: bytes = bytes(_CHECK_BYTES)


class WriteAheadLog:
    """The log at ``path``, which the first record creates. Raises `XmlPunctError` if it cannot be written.

    Bytes after the last intact record are the part of a record that a crash interrupted; the next append cuts them off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = WriteAheadLog(Path(folder) / "log")
    ...     for word in (b"one", b"two"):
    ...         log.append({"word": word})
    ...     log.close()
    ...     _ = log.path.write_bytes(log.path.read_bytes()[:-1])
    ...     log.read()
    [{'word': b'one'}]
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, -1
        self._prefix: _Prefix | None = None  # None before the first read or write
        self._is_torn = False

    def read(self) -> list[dict[str, bytes]]:
        """The records, in order. Another process may append to them. Raises OSError and `DamagedError`."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        records, self._prefix = _records(self.path, data)
        return records

    @property
    def is_old(self) -> bool:
        """True if the log has the format of an older version of xmlpunct. Raises OSError."""
        data = self.path.read_bytes()
        if data.startswith(_OLD_MAGIC):
            return True
        length, checksum = _OLD_HEAD.unpack_from(data) if len(data) >= _OLD_HEAD.size else (0, 0)
        body = data[_OLD_HEAD.size :][:length]
        return bool(0 < length == len(body) and zlib.crc32(body) == checksum)

    def append(self, record: Record) -> None:
        """Append a record, durably."""
        with writing(self.path):
            if self._file < 0:
                self._open()
            self.check()
            prefix = self._prefix or _Prefix()
            if self._is_torn:
                os.ftruncate(self._file, prefix.size)
            data, new_prefix = _framed([record], prefix)
            self._is_torn = True  # until the record is on disk
            write_all(self._file, data)
            os.fsync(self._file)
        self._is_torn, self._prefix = False, new_prefix

    def replace(self, *records: Record) -> None:
        """Replace all records, durably and atomically."""
        self.check()
        if self._prefix is None:
            with writing(self.path):
                self.read()
        data, new_prefix = _framed(records, self._prefix or _Prefix())
        self._save(data, new_prefix._replace(size=len(data)))

    def take_over(self) -> None:
        """Become the only writer: earlier writers fail from now on."""
        if self._prefix is None:
            self.read()
        prefix = self._prefix or _Prefix()
        self._save(self.path.read_bytes()[: prefix.size], prefix)

    def close(self) -> None:
        """Close the file; the next append reopens it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Open the file for appending, and cut off an incomplete record."""
        self.check()
        if self._prefix is None:
            self.read()
        size = (self._prefix or _Prefix()).size
        self._file = open_durably(self.path, os.O_RDWR | os.O_APPEND)
        if os.fstat(self._file).st_size > size:
            os.ftruncate(self._file, size)

    def _save(self, data: bytes, prefix: _Prefix) -> None:
        """Replace the file, and keep the new one open, so that `check` detects its removal."""
        self.close()
        self._file = open_saved(self.path, data)
        self._is_torn, self._prefix = False, prefix

    def check(self) -> None:
        """Raise `XmlPunctError` if the file of the records was removed or replaced."""
        with writing(self.path):
            is_named = _is_linked(self._file) if self._file >= 0 else is_there(self.path)
            if self._prefix is None or is_named:
                return
            if is_there(self.path):
                raise XmlPunctError(f"another run has taken over {self.path.parent}: this run stops writing")
            raise XmlPunctError(f"{self.path} no longer exists: the checkpoint was removed during the run")


def _is_linked(file: int) -> bool:
    """True if an open file still has a directory entry. Raises OSError."""
    try:
        return os.fstat(file).st_nlink > 0
    except OSError as error:
        if error.errno == ESTALE:  # a network file system reports a replaced file so
            return False
        raise


def _framed(records: Sequence[Record], before: _Prefix) -> tuple[bytes, _Prefix]:
    """Records with headers, to be written in one step after the prefix ``before``; and the new prefix."""
    framed, number, check = list[bytes](), before.number, before.check
    for followers, record in zip(range(len(records) - 1, -1, -1), records, strict=True):
        body, number = pack(record), number + 1
        fields = _FIELDS.pack(_MAGIC, followers, number, len(body), check)
        fields += _HEAD.pack(zlib.crc32(fields))
        check = _checksum(fields, body)
        framed += [fields, check, body]
    data = b"".join(framed)
    return data, _Prefix(before.size + len(data), number, check)


def _checksum(fields: bytes, body: bytes) -> bytes:
    hashed = blake2b(fields, digest_size=_CHECK_BYTES)
    hashed.update(body)
    return hashed.digest()


def is_torn(data: bytes, begin: int, end: int) -> bool:
    """True if a crash explains why the bytes from ``begin`` to ``end`` of a file differ from the written ones.

    A crash that interrupts an append leaves sectors missing, or full of zeros from ``begin`` on. It changes no other
    byte.

    >>> is_torn(b"x" * 512 + bytes(88), 0, 600), is_torn(b"x" * 600, 0, 601), is_torn(b"x" * 600, 0, 600)
    (True, True, False)
    """
    starts = range(begin - begin % _SECTOR_BYTES, end, _SECTOR_BYTES)
    return len(data) < end or any(
        not any(data[max(start, begin) : start + _SECTOR_BYTES]) for start in starts
    )


def _body_end(data: bytes, at: int) -> int | None:
    """The end of the record at offset ``at``, according to its header; None if the header is broken."""
    fields = data[at : at + _FIELDS.size]
    head = data[at + _FIELDS.size : at + _FIELD_BYTES]
    if not fields.startswith(_MAGIC) or head != _HEAD.pack(zlib.crc32(fields)):
        return None
    return at + _HEAD_BYTES + int(_FIELDS.unpack(fields)[3])


def _entry(data: bytes, at: int) -> _Entry | None:
    """The intact record at offset ``at``, or None."""
    end = _body_end(data, at)
    if end is None or len(data) < end:
        return None
    _, followers, number, _, link = _FIELDS.unpack_from(data, at)
    fields, body = data[at : at + _FIELD_BYTES], data[at + _HEAD_BYTES : end]
    check = data[at + _FIELD_BYTES : at + _HEAD_BYTES]
    return _Entry(number, link, check, body, followers) if _checksum(fields, body) == check else None


def _records(path: Path, data: bytes) -> tuple[list[dict[str, bytes]], _Prefix]:
    """The records of a log, and its intact prefix. Raises `DamagedError`."""
    records, prefix, followers = list[dict[str, bytes]](), _Prefix(), 0
    while (entry := _entry(data, prefix.size)) is not None:
        if records and (entry.number, entry.link) != (prefix.number + 1, prefix.check):
            raise DamagedError(path, prefix.size)
        records.append(pieces(entry.body))
        followers = entry.followers
        prefix = _Prefix(prefix.size + _HEAD_BYTES + len(entry.body), entry.number, entry.check)
    at = prefix.size
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        next_entry = _entry(data, at)
        if next_entry is not None and next_entry.number > prefix.number:
            raise DamagedError(path, prefix.size)
    at, end = prefix.size, _body_end(data, prefix.size) or prefix.size + _HEAD_BYTES
    if followers or (at < len(data) and not is_torn(data, at, end)):
        raise DamagedError(path, at)
    return records, prefix

"""An append-only file of records, each of which is written atomically.

A checkpoint stores all its records in these files: the job, the commit, the slices since then, and the extent of each
spool. `xmlpunct.base.codec.pack` packs a record of named pieces of bytes. A header of 56 bytes, big-endian, precedes
each record:

==========  ========  ====================================================================================
``magic``   4 bytes   ``ff 58 50 31``: a record of this form begins here
``behind``  4 bytes   the number of records after this one that were written in one step with it
``number``  8 bytes   the number of the record: one more than that of the record before
``length``  8 bytes   the length of its body
``link``    16 bytes  the checksum of the record before
``check``   16 bytes  the checksum (BLAKE2b) of the header up to here and of the body
==========  ========  ====================================================================================

Numbers and links continue when all records are replaced: they chain each record of a run to the first.

A crash can tear the last record, if it was appended: it is cut off. Any other broken record is damage: a broken record
before an intact one, a record out of order, or a missing record that ``behind`` of an earlier record counts. Damage is
an error; no record after it is dropped silently.
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

_MAGIC = b"\xffXP1"
_CHECK_BYTES = 16
_FIELDS = struct.Struct(f">4sIQQ{_CHECK_BYTES}s")
_HEAD_BYTES = _FIELDS.size + _CHECK_BYTES
_OLD_HEAD = struct.Struct(">II")
"""The header up to version 11 of checkpoints: the length of a record and its CRC-32."""

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
        check = _checksum(fields, body)
        framed += [fields, check, body]
    data = b"".join(framed)
    return data, _Prefix(before.size + len(data), number, check)


def _checksum(fields: bytes, body: bytes) -> bytes:
    hashed = blake2b(fields, digest_size=_CHECK_BYTES)
    hashed.update(body)
    return hashed.digest()


def _entry(data: bytes, at: int) -> _Entry | None:
    """The intact record at offset ``at``, or None."""
    if len(data) < at + _HEAD_BYTES or not data.startswith(_MAGIC, at):
        return None
    _, followers, number, length, link = _FIELDS.unpack_from(data, at)
    begin = at + _HEAD_BYTES
    fields, check, body = data[at : begin - _CHECK_BYTES], data[begin - _CHECK_BYTES : begin], b""
    if len(data) >= begin + length:
        body = data[begin : begin + length]
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
    if followers:
        raise DamagedError(path, prefix.size)
    return records, prefix

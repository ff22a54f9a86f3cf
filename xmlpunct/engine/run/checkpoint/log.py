"""A file of records that grows at its end, each of which is there as a whole or not at all.

All that a checkpoint has to know stands in such files: what the run is, what it has committed and read since, and
how far each spool is complete. A record is packed by `xmlpunct.base.codec.pack`: named pieces of bytes. Before each
stands a header of 56 bytes, big-endian:

==========  ========  ====================================================================================
``magic``   4 bytes   ``ff 58 50 31``: a record of this form begins here
``behind``  4 bytes   how many records behind this one were written in one step with it
``number``  8 bytes   the number of the record: one more than that of the record before
``length``  8 bytes   the length of its body
``link``    16 bytes  the checksum of the record before
``check``   16 bytes  the checksum (BLAKE2b) of the header up to here and of the body
==========  ========  ====================================================================================

Numbers and links go on where all records are replaced: they chain each record of a run to the first.

A crash can tear the last record, if it was appended: it is cut off. Any other broken record is damage: one with a whole
record behind it, one out of order, or one that a record before says was written with it. Damage is an error; no record
behind it is dropped in silence.
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
"""What is written: pieces by name."""


class DamagedError(XmlPunctError):
    """A log holds a record that is broken, and that no crash broke."""

    def __init__(self, path: Path, byte: int) -> None:
        super().__init__(
            f"{path} is damaged: start again with another --checkpoint, or restore it and its output from a backup "
            f"(byte {byte:,} does not match its checksum)"
        )


class _Entry(NamedTuple):
    """A whole record: its number, the length of its body, its link and checksum, its body, and ``behind``."""

    number: int
    link: bytes
    check: bytes
    body: bytes
    behind: int


class _Whole(NamedTuple):
    """What is whole of a log: how many bytes, and the number and checksum of the last record."""

    size: int = 0
    number: int = -1
    check: bytes = bytes(_CHECK_BYTES)


class WriteAheadLog:
    """The log at ``path``, which the first record makes. Raises `XmlPunctError` where it cannot be written.

    What follows the last whole record is half of one that a crash kept from being written; it is cut off before
    another is added.

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
        self._whole: _Whole | None = None  # once known
        self._is_torn = False

    def read(self) -> list[dict[str, bytes]]:
        """The records, in order. Another process may be adding to them. Raises OSError and `DamagedError`."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        records, self._whole = _records(self.path, data)
        return records

    @property
    def is_old(self) -> bool:
        """Whether an older version of xmlpunct wrote the log, in another form. Raises OSError."""
        data = self.path.read_bytes()
        length, checksum = _OLD_HEAD.unpack_from(data) if len(data) >= _OLD_HEAD.size else (0, 0)
        body = data[_OLD_HEAD.size :][:length]
        return bool(0 < length == len(body) and zlib.crc32(body) == checksum)

    def append(self, record: Record) -> None:
        """Add a record, durably."""
        with writing(self.path):
            if self._file < 0:
                self._open()
            self.check()
            whole = self._whole or _Whole()
            if self._is_torn:
                os.ftruncate(self._file, whole.size)
            data, behind = _framed([record], whole)
            self._is_torn = True  # until all of it is on disk
            write_all(self._file, data)
            os.fsync(self._file)
        self._is_torn, self._whole = False, behind

    def replace(self, *records: Record) -> None:
        """Put these in the place of all records, durably: whoever looks sees the old ones or the new."""
        self.check()
        if self._whole is None:
            with writing(self.path):
                self.read()
        data, behind = _framed(records, self._whole or _Whole())
        self._save(data, behind._replace(size=len(data)))

    def take_over(self) -> None:
        """Be the only one who can add to it: whoever did so before is refused from now on."""
        if self._whole is None:
            self.read()
        whole = self._whole or _Whole()
        self._save(self.path.read_bytes()[: whole.size], whole)

    def close(self) -> None:
        """Close the file; another record opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        """Open the file to add to it, and cut off what is no whole record."""
        self.check()
        if self._whole is None:
            self.read()
        size = (self._whole or _Whole()).size
        self._file = open_durably(self.path, os.O_RDWR | os.O_APPEND)
        if os.fstat(self._file).st_size > size:
            os.ftruncate(self._file, size)

    def _save(self, data: bytes, whole: _Whole) -> None:
        """Put a new file in the place of the old one, and keep it open: so one knows whether it is still there."""
        self.close()
        self._file = open_saved(self.path, data)
        self._is_torn, self._whole = False, whole

    def check(self) -> None:
        """Raise `XmlPunctError` if there were records, and the file with them has been removed or replaced."""
        with writing(self.path):
            is_named = _is_there(self._file) if self._file >= 0 else is_there(self.path)
            if self._whole is None or is_named:
                return
            if is_there(self.path):
                raise XmlPunctError(
                    f"another run has taken over {self.path.parent}: this one writes nothing more"
                )
            raise XmlPunctError(f"{self.path} is gone: the checkpoint was removed under this run")


def _is_there(file: int) -> bool:
    """Whether an open file has a name, on the machine that holds it. Raises OSError."""
    try:
        return os.fstat(file).st_nlink > 0
    except OSError as error:
        if error.errno == ESTALE:  # a network file system reports a replaced file so
            return False
        raise


def _framed(records: Sequence[Record], before: _Whole) -> tuple[bytes, _Whole]:
    """Records with their headers, to be written in one step behind the whole ones; what is whole then."""
    framed, number, check = list[bytes](), before.number, before.check
    for behind, record in zip(range(len(records) - 1, -1, -1), records, strict=True):
        body, number = pack(record), number + 1
        fields = _FIELDS.pack(_MAGIC, behind, number, len(body), check)
        check = _checksum(fields, body)
        framed += [fields, check, body]
    data = b"".join(framed)
    return data, _Whole(before.size + len(data), number, check)


def _checksum(fields: bytes, body: bytes) -> bytes:
    hashed = blake2b(fields, digest_size=_CHECK_BYTES)
    hashed.update(body)
    return hashed.digest()


def _entry(data: bytes, at: int) -> _Entry | None:
    """The record that begins at a byte; None if no whole one does."""
    if len(data) < at + _HEAD_BYTES or not data.startswith(_MAGIC, at):
        return None
    _, behind, number, length, link = _FIELDS.unpack_from(data, at)
    begin = at + _HEAD_BYTES
    fields, check, body = data[at : begin - _CHECK_BYTES], data[begin - _CHECK_BYTES : begin], b""
    if len(data) >= begin + length:
        body = data[begin : begin + length]
    return _Entry(number, link, check, body, behind) if _checksum(fields, body) == check else None


def _records(path: Path, data: bytes) -> tuple[list[dict[str, bytes]], _Whole]:
    """The records of a log, and what is whole of it. Raises `DamagedError`."""
    records, whole, behind = list[dict[str, bytes]](), _Whole(), 0
    while (entry := _entry(data, whole.size)) is not None:
        if records and (entry.number, entry.link) != (whole.number + 1, whole.check):
            raise DamagedError(path, whole.size)
        records.append(pieces(entry.body))
        behind = entry.behind
        whole = _Whole(whole.size + _HEAD_BYTES + len(entry.body), entry.number, entry.check)
    at = whole.size
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        later = _entry(data, at)
        if later is not None and later.number > whole.number:
            raise DamagedError(path, whole.size)
    if behind:
        raise DamagedError(path, whole.size)
    return records, whole

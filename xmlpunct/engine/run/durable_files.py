"""Crash-safe writing of files: growing output, and records that are replaced atomically."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from xmlpunct.base.errors import UsageError, XmlPunctError, undoing

PRIVATE, SHARED = 0o600, 0o666
"""File modes, before the umask: of files that hold input data, and of output files."""
PRIVATE_FOLDER, SHARED_FOLDER = 0o700, 0o777


class Appender:
    """Appends to a file, to standard output (``path`` None or ``-``), or to a pipe or device.

    A killed run may have left bytes after the first ``length`` bytes of a file. They stay until they are overwritten,
    because the restarted run writes the same bytes. Only regular files (``is_file``) can be overwritten: a pipe may
    receive the last group of a killed run twice. A file that no earlier run has ``begun`` is emptied first, or
    refused if ``must_be_empty``.
    """

    def __init__(
        self, path: str | None, length: int, *, begun: bool = False, must_be_empty: bool = False
    ) -> None:
        standard = path in (None, "-")
        self._standard = standard_output() if standard else None
        self.name = "standard output" if standard else str(path)
        self._file, self.is_file = -1, False
        try:
            if self._standard is None:
                self._file = os.open(self.name, os.O_WRONLY | os.O_CREAT, 0o666)
                self.is_file = stat.S_ISREG(os.fstat(self._file).st_mode)
            if self.is_file:
                self._lock()
                self._size = os.fstat(self._file).st_size
                if must_be_empty and self._size and not begun:
                    raise UsageError(
                        f"{self.name} is not empty, and the checkpoint is new: give the --checkpoint of the run that "
                        "wrote it, name another file, or overwrite it with --replace"
                    )
                if not (length or begun):
                    self._cut(0)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise UsageError(f"cannot write {self.name}: {error.strerror}") from None
            raise
        if self.is_file and self._size < length:
            self.close()
            raise XmlPunctError(f"{path} is shorter than the {length:,} bytes committed to it")

    @property
    def is_terminal(self) -> bool:
        """True if it writes to a terminal."""
        return os.isatty(self._file) if self._standard is None else self._standard.isatty()

    def close(self) -> None:
        """Close the file, if this object has opened it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def finish(self) -> None:
        """Close a pipe or standard output, so that its reader sees the end while this process runs on."""
        ours = sys.__stdout__
        if self._standard is not None and ours is not None and ours is sys.stdout and not ours.isatty():
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, ours.fileno())
            os.close(null_device)
        elif not self.is_file:
            self.close()

    def append(self, data: bytes | bytearray, length: int, *, replaying: bool = False) -> int:
        """Write ``data`` at offset ``length`` and return the new length. Raises `XmlPunctError`.

        ``replaying``: keep the bytes after ``data`` that a killed run left, because they are rewritten next.
        """
        with writing(self.name):
            if self.is_file:
                os.lseek(self._file, length, os.SEEK_SET)
                write_all(self._file, data)
                self._size = max(self._size, length + len(data))
                if self._size > length + len(data) and not replaying:
                    self._cut(length + len(data))
            elif self._file >= 0:
                write_all(self._file, data)
            elif data and self._standard is not None:
                left = memoryview(data)
                while left:  # unbuffered (python -u), it may take a part only
                    left = left[self._standard.write(left) :]
                self._standard.flush()
        return length + len(data)

    def sync(self) -> None:
        """Force a file to disk."""
        if self.is_file:
            with writing(self.name):
                os.fsync(self._file)
                sync_folder(Path(self.name).resolve().parent)  # the directory entry, after following links

    def _lock(self) -> None:
        """Lock the file. Raises `UsageError` while another run writes it."""
        if not lock_exclusively(self._file):
            raise UsageError(f"another run is writing {self.name}")

    def _cut(self, length: int) -> None:
        os.ftruncate(self._file, length)
        self._size = length


def lock_exclusively(file: int, *, needs_locks: bool = False) -> bool:
    """Lock an open file until it is closed; False while another process holds the lock.

    ``needs_locks``: raises OSError on a file system without locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if needs_locks:
            raise
    return True


def standard_output() -> BinaryIO:
    """Standard output. Raises `UsageError` if there is none."""
    if sys.stdout is None:
        raise UsageError("cannot write standard output: it is closed")
    return sys.stdout.buffer


def is_there(path: Path) -> bool:
    """True if a file exists. Raises OSError if that is unknown; later versions of `Path.exists` return False then."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def writing(name: str | Path) -> Iterator[None]:
    """Turn an OSError into an error with the name of the file. BrokenPipeError passes unchanged."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise XmlPunctError(f"cannot write {name}: {error.strerror}") from error


def write_all(file: int, data: bytes | bytearray) -> None:
    """Write all of ``data`` to a descriptor. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def save_durably(path: Path, data: bytes) -> None:
    """Replace the file at ``path`` by ``data``, atomically and durably."""
    os.close(open_saved(path, data, SHARED))


def open_saved(path: Path, data: bytes, mode: int = PRIVATE) -> int:
    """Like `save_durably`, but returns the new file, open for appending. It replaces any link at its path."""
    half = path.with_name(path.name + ".half")
    with writing(path):
        half.unlink(missing_ok=True)
        file = os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, mode)
        with undoing(partial(os.close, file)):
            write_all(file, data)
            os.fsync(file)
            os.replace(half, path)
            sync_folder(path.parent)
    return file


def private(path: str, flags: int) -> int:
    """Opener for `open`: creates a private file, and refuses links. Raises OSError."""
    return os.open(path, flags | os.O_NOFOLLOW, PRIVATE)


def open_durably(path: Path, flags: int) -> int:
    """Open or create a private file, and force its directory entry to disk. Raises OSError, also for a link."""
    file = private(os.fspath(path), flags | os.O_CREAT)
    with undoing(partial(os.close, file)):
        # A killed run may have created it without syncing the directory.
        sync_folder(path.parent)
    return file


def make_folder(path: Path, mode: int = SHARED_FOLDER) -> None:
    """Make a directory and its parents, and force their entries to disk. Raises OSError."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode, exist_ok=True)
    sync_folder(path.parent)


def sync_tree(path: Path) -> None:
    """Force a directory and all its contents to disk. Raises OSError."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        sync_folder(Path(folder))
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Force the entries of a directory to disk. Raises OSError."""
    try:
        folder = os.open(path, os.O_RDONLY)
    except PermissionError:  # a directory may be writable without being readable
        os.sync()
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""A simulated disk: after a power failure it holds synced bytes under synced names, and some of the others.

POSIX promises no more. Within a file, each unsynced sector, and the size, may be old or new. Each unsynced creation,
rename, removal and directory may be undone, independently of the others. Calls also fail on request, and after a failed
sync the unsynced data of the file is lost although it can still be read, as on Linux.
"""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Inode = tuple[int, int]
SECTOR = 512
SHORT_WRITE = -1
"""In `Disk.failures`: the call writes only half of its bytes, and does not fail."""


@dataclass
class Entry:
    """A change of a name that is not synced: of ``path`` in a directory; ``before`` are the bytes it had, if any.

    ``source`` is the earlier path of a renamed file or directory.
    """

    directory: Inode
    path: Path
    before: bytes | None
    source: Path | None = None


class Disk:
    """Records a run's file operations, so that `crash` can undo some of those that were not synced."""

    def __init__(self) -> None:
        self._synced: dict[Inode, bytes] = {}  # synced bytes of each file opened for writing
        self._dropped: dict[Inode, bytes] = {}  # bytes of each file at its last failed sync
        self._entries: list[Entry] = []
        self._folders = set[Path]()
        self.calls = 0
        self.failures: Mapping[int, int] = {}
        """Error numbers by the number of the call that fails."""
        self.failed: list[str] = []
        """The calls that have failed."""
        self.forgets: Callable[[], bool] = lambda: True
        """Called for each unsynced change: True if the power failure loses it."""
        self.tears = False
        """A power failure decides for each sector of a file, not for the whole file."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the file operations of the block. Real syncs are skipped, because they are slow."""
        real = builtins.open

        def call(file: Any, *arguments: Any, **options: Any) -> Any:
            named = isinstance(file, str | os.PathLike)
            return real(file, *arguments, **({"opener": os.open} | options if named else options))

        with self._replacing("open", "mkdir", "rename", "replace", "unlink", "fsync", "write", "ftruncate"):
            builtins.open = call
            try:
                yield
            finally:
                builtins.open = real

    def synced(self, path: Path) -> bytes:
        """The synced bytes of ``path``, even if the names of its directories are not synced."""
        for entry in self._entries:
            if entry.path == path:
                return entry.before or b""
        return self._synced.get(_inode(os.stat(path)), b"") if path.exists() else b""

    def crash(self) -> None:
        """Simulate a power failure."""
        for path in list(self._written()):
            synced, data = self._synced.get(_inode(os.stat(path))), path.read_bytes()
            if synced is not None and synced != data:
                path.write_bytes(
                    self._torn(synced, data) if self.tears else synced if self.forgets() else data
                )
        renames = list[tuple[Path, Path]]()  # that survive, the last one first
        for entry in reversed(self._entries):
            path, before = entry.path, entry.before
            for old, new in reversed(renames):
                path = new / path.relative_to(old) if old in path.parents else path
            if not self.forgets():
                renames += [(entry.source, entry.path)] if entry.source is not None else []
                continue
            if entry.source is not None and path.exists():
                entry.source.parent.mkdir(parents=True, exist_ok=True)
                os.rename(path, entry.source)
            if path.is_dir():
                shutil.rmtree(path)
            elif before is not None:
                with suppress(NotADirectoryError, FileExistsError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(before)
            else:
                path.unlink(missing_ok=True)
        self._synced, self._entries, self._dropped = {}, [], {}

    def _torn(self, old: bytes, new: bytes) -> bytes:
        """A mixture of sectors; a sector that has no old bytes is zero if it is lost."""
        size = len(old) if self.forgets() else len(new)
        data = bytearray(old[:size].ljust(size, b"\0"))
        for at in range(0, size, SECTOR):
            if not self.forgets():
                sector = new[at : min(at + SECTOR, size)]
                data[at : at + len(sector)] = sector
        return bytes(data)

    def _written(self) -> Iterator[Path]:
        for folder in self._folders:
            if folder.is_dir():
                yield from (path for path in folder.iterdir() if path.is_file())

    @contextmanager
    def _replacing(self, *names: str) -> Iterator[None]:
        real = {name: getattr(os, name) for name in names}
        for name, function in real.items():
            setattr(os, name, self._failing(name, getattr(self, f"_{name}", lambda real: real)(function)))
        try:
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)

    def _failing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            code, self.calls = self.failures.get(self.calls), self.calls + 1
            if code == SHORT_WRITE and name == "write":
                return function(arguments[0], bytes(arguments[1])[: max(len(arguments[1]) // 2, 1)])
            if code is None or code == SHORT_WRITE or (name == "open" and not _writes(arguments[1])):
                return function(*arguments, **options)
            self.failed.append(name)
            if name == "fsync":
                self._drop(arguments[0])
            raise OSError(code, os.strerror(code))

        return call

    def _drop(self, file: int) -> None:
        """The unsynced data of a file is lost, although it can still be read."""
        status = os.fstat(file)
        if stat.S_ISREG(status.st_mode):
            self._dropped[_inode(status)] = _content(file, status.st_size)

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            writes = _writes(flags) and "dir_fd" not in options
            new = writes and not os.path.exists(path)
            before = b"" if new or not writes or not os.path.isfile(path) else Path(path).read_bytes()
            file = real(path, flags, *arguments, **options)
            if writes and stat.S_ISREG(os.fstat(file).st_mode):
                self._folders.add(Path(path).absolute().parent)
                inode = _inode(os.fstat(file))
                if new:
                    self._synced[inode] = b""
                    self._changed(Path(path), None)
                else:
                    self._synced.setdefault(inode, before)
            return file

        return call

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *arguments: Any, **options: Any) -> None:
            real(path, *arguments, **options)
            self._changed(Path(path), None)

        return call

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(source: Any, target: Any) -> None:
            before = self._survivor(Path(target))
            real(source, target)
            old, new = Path(source).absolute(), Path(target).absolute()
            self._folders |= {new / f.relative_to(old) for f in self._folders if f.is_relative_to(old)}
            self._changed(new, before, old)

        return call

    _replace = _rename

    def _unlink(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *, dir_fd: int | None = None) -> None:
            folder = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
            whole = Path(folder, path).absolute()
            before = self._survivor(whole)
            real(path, dir_fd=dir_fd)
            if before is not None:
                self._changed(whole, before)

        return call

    def _survivor(self, path: Path) -> bytes | None:
        """The synced bytes of a file that loses its name; None if there is none."""
        return self._synced.get(_inode(os.stat(path)), path.read_bytes()) if path.is_file() else None

    def _fsync(self, _: Callable[..., None]) -> Callable[..., None]:
        def call(file: int) -> None:
            status = os.fstat(file)
            inode = _inode(status)
            if stat.S_ISDIR(status.st_mode):
                self._entries = [entry for entry in self._entries if entry.directory != inode]
                return
            data = _content(file, status.st_size)
            if inode in self._dropped:  # only what was written since the failed sync is durable
                lost, old = self._dropped[inode], self._synced.get(inode, b"")
                for at in range(0, len(data), SECTOR):
                    if data[at : at + SECTOR] == lost[at : at + SECTOR]:
                        kept = old[at : at + SECTOR].ljust(len(data[at : at + SECTOR]), b"\0")
                        data = data[:at] + kept + data[at + SECTOR :]
            self._synced[inode] = data

        return call

    def _changed(self, path: Path, before: bytes | None, source: Path | None = None) -> None:
        path = path.absolute()
        if path.parent.is_dir():
            self._entries.append(Entry(_inode(os.stat(path.parent)), path, before, source))


FAILURES = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS, SHORT_WRITE)


def _writes(flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR))


def _content(file: int, size: int) -> bytes:
    with open(f"/proc/self/fd/{file}", "rb") as same:
        return same.read(size)


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino

"""A simulated disk: after a power failure it holds only synced bytes, under synced names."""

from __future__ import annotations

import builtins
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Inode = tuple[int, int]


class Disk:
    """Records a run's file operations, so that `crash` can undo all that were not synced.

    A removal is final at once: a run must tolerate both a removed file and a file that is still there.
    """

    def __init__(self) -> None:
        self._synced: dict[Inode, bytes] = {}  # synced bytes of each file opened for writing
        # (directory, name, earlier content) of each name that is not synced
        self._names: list[tuple[Inode, Path, bytes | None]] = []
        self._folders = set[Path]()
        self.forgets: Callable[[], bool] = lambda: True
        """Called for each unsynced change: True if the power failure loses it."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the file operations of the block. Real syncs are skipped, because they are slow."""
        real = builtins.open

        def call(file: Any, *arguments: Any, **options: Any) -> Any:
            named = isinstance(file, str | os.PathLike)
            return real(file, *arguments, **({"opener": os.open} | options if named else options))

        with self._replacing("open", "mkdir", "rename", "replace", "fsync"):
            builtins.open = call
            try:
                yield
            finally:
                builtins.open = real

    def synced(self, path: Path) -> bytes:
        """The synced bytes of ``path``, even if the names of its directories are not synced."""
        for _, name, before in self._names:
            if name == path:
                return before or b""
        return self._synced.get(_inode(os.stat(path)), b"") if path.exists() else b""

    def crash(self) -> None:
        """Simulate a power failure: restore the synced state."""
        for path in list(self._written()):
            synced = self._synced.get(_inode(os.stat(path)))
            if synced is not None and synced != path.read_bytes() and self.forgets():
                path.write_bytes(synced)
        for _, path, before in reversed(self._names):
            if not self.forgets():
                continue
            if path.is_dir():
                shutil.rmtree(path)
            elif before is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(before)
            else:
                path.unlink(missing_ok=True)
        self._synced, self._names = {}, []

    def _written(self) -> Iterator[Path]:
        for folder in self._folders:
            if folder.is_dir():
                yield from (path for path in folder.iterdir() if path.is_file())

    @contextmanager
    def _replacing(self, *names: str) -> Iterator[None]:
        real = {name: getattr(os, name) for name in names}
        for name, function in real.items():
            setattr(os, name, getattr(self, f"_{name}")(function))
        try:
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            writes = flags & (os.O_WRONLY | os.O_RDWR) and "dir_fd" not in options
            new = writes and not os.path.exists(path)
            before = b"" if new or not writes or not os.path.isfile(path) else Path(path).read_bytes()
            file = real(path, flags, *arguments, **options)
            if writes and stat.S_ISREG(os.fstat(file).st_mode):
                self._folders.add(Path(path).absolute().parent)
                inode = _inode(os.fstat(file))
                if new:
                    self._synced[inode] = b""
                    self._name(Path(path), None)
                else:
                    self._synced.setdefault(inode, before)
            return file

        return call

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *arguments: Any, **options: Any) -> None:
            real(path, *arguments, **options)
            self._name(Path(path), None)

        return call

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(source: Any, target: Any) -> None:
            before = Path(target).read_bytes() if os.path.isfile(target) else None
            real(source, target)
            old, new = Path(source).absolute(), Path(target).absolute()

            def moved(path: Path) -> Path:
                return new / path.relative_to(old) if path.is_relative_to(old) else path

            self._folders = set(map(moved, self._folders))
            self._names = [
                (directory, moved(path), content) for directory, path, content in self._names if path != old
            ]
            self._name(new, before)

        return call

    _replace = _rename

    def _fsync(self, _: Callable[..., None]) -> Callable[..., None]:
        def call(file: int) -> None:
            status = os.fstat(file)
            if stat.S_ISDIR(status.st_mode):
                self._names = [n for n in self._names if n[0] != _inode(status)]
            else:
                size = status.st_size
                with open(f"/proc/self/fd/{file}", "rb") as same:
                    self._synced[_inode(status)] = same.read(size)

        return call

    def _name(self, path: Path, before: bytes | None) -> None:
        path = path.absolute()
        self._names.append((_inode(os.stat(path.parent)), path, before))


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino

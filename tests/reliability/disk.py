"""A disk that keeps, when the power fails, only what it was told to: synced bytes, under synced names."""

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
    """Watches what a run does to files, so that `crash` can take back all of it that was not synced.

    That a file is removed is certain at once: what is gone must not be missed either way.
    """

    def __init__(self) -> None:
        self._kept: dict[Inode, bytes] = {}  # what of each file that was opened to be written would be left
        self._names: list[
            tuple[Inode, Path, bytes | None]
        ] = []  # by directory: new names, and what was there
        self._folders = set[Path]()
        self.forgets: Callable[[], bool] = lambda: True
        """Whether something that was not synced is lost; each time anew."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the block. Nothing is really synced, which takes long and is not for a test to find out."""
        real = builtins.open

        def call(file: Any, *more: Any, **options: Any) -> Any:
            named = isinstance(file, str | os.PathLike)
            return real(file, *more, **({"opener": os.open} | options if named else options))

        with self._replacing("open", "mkdir", "rename", "replace", "fsync"):
            builtins.open = call
            try:
                yield
            finally:
                builtins.open = real

    def kept(self, path: Path) -> bytes:
        """What it was told to keep at ``path``, whatever becomes of the directories above."""
        for _, name, before in self._names:
            if name == path:
                return before or b""
        return self._kept.get(_inode(os.stat(path)), b"") if path.exists() else b""

    def crash(self) -> None:
        """Let the power fail: what is found afterwards is what the disk had been told to keep."""
        for path in list(self._written()):
            kept = self._kept.get(_inode(os.stat(path)))
            if kept is not None and kept != path.read_bytes() and self.forgets():
                path.write_bytes(kept)
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
        self._kept, self._names = {}, []

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
        def call(path: Any, flags: int, *more: Any, **options: Any) -> int:
            writes = flags & (os.O_WRONLY | os.O_RDWR) and "dir_fd" not in options
            new = writes and not os.path.exists(path)
            before = b"" if new or not writes or not os.path.isfile(path) else Path(path).read_bytes()
            file = real(path, flags, *more, **options)
            if writes and stat.S_ISREG(os.fstat(file).st_mode):
                self._folders.add(Path(path).absolute().parent)
                inode = _inode(os.fstat(file))
                if new:
                    self._kept[inode] = b""
                    self._name(Path(path), None)
                else:
                    self._kept.setdefault(inode, before)
            return file

        return call

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(path: Any, *more: Any, **options: Any) -> None:
            real(path, *more, **options)
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
            self._names = [(above, moved(path), held) for above, path, held in self._names if path != old]
            self._name(new, before)

        return call

    _replace = _rename

    def _fsync(self, _: Callable[..., None]) -> Callable[..., None]:
        def call(file: int) -> None:
            found = os.fstat(file)
            if stat.S_ISDIR(found.st_mode):
                self._names = [n for n in self._names if n[0] != _inode(found)]
            else:
                size = found.st_size
                with open(f"/proc/self/fd/{file}", "rb") as same:
                    self._kept[_inode(found)] = same.read(size)

        return call

    def _name(self, path: Path, before: bytes | None) -> None:
        path = path.absolute()
        self._names.append((_inode(os.stat(path.parent)), path, before))


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino

"""A temporary directory for all files of Spark, which is removed at the end of the process."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from xmlpunct.engine.run.durable_files import lock_exclusively, private

_PREFIX = "xmlpunct-"
_LOCK = "lock"
"""Locked by the owning process. A process id does not suffice: ids differ between containers."""


class Scratch:
    """A new private directory with a short path, because socket paths are limited."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        sweep(base)
        folder = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        lock_exclusively(self._lock)  # without effect on a file system without locks: `sweep` fails there
        self.path = folder.rename(
            base / folder.name.removeprefix(".")
        )  # `sweep` finds this name; the lock is held by now

    def directory(self, name: str) -> Path:
        """A subdirectory, created if missing."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def log(self) -> Path:
        """The log of the JVM and its workers."""
        return self.path / "spark.log"

    def keep_log(self) -> Path:
        """Move the log out of the directory, and return its new path."""
        path = self.path.parent / f"{self.path.name}.log"
        if self.log.exists():
            self.log.replace(path)
        return path

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(base: Path) -> None:
    """Remove this user's directories whose lock is free: their processes were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            lock = private(str(folder / _LOCK), os.O_RDWR)
            try:
                if lock_exclusively(lock, needs_locks=True):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

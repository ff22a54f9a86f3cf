"""The directory that holds whatever Spark drops while it runs, and goes with the process."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from xmlpunct.engine.run.durable_files import private

_PREFIX = "xmlpunct-"
_LOCK = "lock"
"""Locked by the process whose directory it is. Its id would tell less: processes in other containers have other ids."""


class Scratch:
    """A new directory with a short path (sockets have no room for a long one), for this user alone."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        sweep(base)
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        self._lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(OSError):  # a file system without locks, where nobody can sweep either
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = made.rename(
            base / made.name.removeprefix(".")
        )  # where others may sweep: it is locked by now

    def directory(self, name: str) -> Path:
        """A directory inside, made if need be."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def log(self) -> Path:
        """Where the JVM and its workers write what they have to say."""
        return self.path / "spark.log"

    def keep_log(self) -> Path:
        """Move the log out of the directory, for somebody to read; its new path."""
        kept = self.path.parent / f"{self.path.name}.log"
        if self.log.exists():
            self.log.replace(kept)
        return kept

    def remove(self) -> None:
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(base: Path) -> None:
    """Remove this user's directories that nobody holds any more: their processes were killed before they could."""
    for left in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = left.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = private(str(left / _LOCK), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)

"""The directory that holds whatever Spark drops while it runs, and goes with the process."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

_PREFIX = "xmlpunct-"


class Scratch:
    """A new directory with a short path (sockets have no room for a long one) named after this process."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
        self.kept = False

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


def sweep(base: Path) -> None:
    """Remove the directories of processes that were killed before they could."""
    for left in base.glob(f"{_PREFIX}*-*"):
        found = re.match(rf"{_PREFIX}(\d+)-", left.name)
        if found and left.is_dir() and left.stat().st_uid == os.getuid() and not _alive(int(found[1])):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

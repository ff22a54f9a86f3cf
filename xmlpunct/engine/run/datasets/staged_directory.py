"""Staged directories: files are written to a staging folder, and each set of files appears by one rename.

::

    DIR/_xmlpunct/lock       locked while a run writes the directory
    DIR/_xmlpunct/run        the run that owns the directory, and its last visible group of results
    DIR/_xmlpunct/done-RUN   an empty file: all results of the run are visible
    DIR/_xmlpunct/...        files in progress

Readers skip names that begin with ``_``. Visible files never change.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.last_group import LastGroup
from xmlpunct.connectors.outlet import Existing
from xmlpunct.engine.run.durable_files import (
    lock_exclusively,
    make_folder,
    save_durably,
    sync_folder,
    sync_tree,
    writing,
)

STAGING = "_xmlpunct"
"""Name of the staging folder of datasets."""
INCOMPLETE = "_incomplete"
"""Name of the folder of partitions that were open when a run was stopped or failed."""
COMPLETE = "_SUCCESS"
"""Name of the empty file that Spark's writers create when nothing follows."""
_LOCK, _READY = "lock", "ready-"
_REMEDY = {
    Existing.ACCEPT: "",
    Existing.REFUSE: "; --replace removes the results of another run",
    Existing.REPLACE: "; --replace removes only results of runs",
}


class StagedDirectory:
    """The directory ``name``, with the staging folder ``staging``."""

    def __init__(self, name: str, staging: str = STAGING) -> None:
        self.name, self.path = name, Path(name).absolute()
        self.staging = self.path / staging
        self.last_group = LastGroup(name)
        """The last visible group of results of the run that owns the directory."""
        self.is_done = False
        """True if all results of the run that owns the directory are visible."""
        self._run, self._lock = "", -1

    @property
    def is_locked(self) -> bool:
        """True between `lock` and `close`."""
        return self._lock >= 0

    def lock(self, *, needs_locks: bool = True) -> None:
        """Create the directory and lock it. Raises OSError, and `UsageError` while another run writes it.

        ``needs_locks``: raises OSError on a file system without locks.
        """
        make_folder(self.path)
        make_folder(self.staging)
        self._lock = os.open(self.staging / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            is_free = lock_exclusively(self._lock, needs_locks=needs_locks)
        except OSError:
            self.close()
            raise
        if not is_free:
            self.close()
            raise UsageError(f"another run is writing the dataset {self.name}")

    def claim(self, run: str, existing: Existing, is_own: Callable[[str], object]) -> None:
        """Lock the directory for a run, and remove the files of an interrupted `publish`.

        ``is_own`` recognizes the names of entries that a run publishes. Raises OSError, and `UsageError` if the
        directory has entries that may not be removed.
        """
        self._run = run
        make_folder(self.path)
        continues = self._done.exists() or self._owner()[0] == run
        entries = {name for name in os.listdir(self.path) if not name.startswith(("_", "."))}
        if (self.path / INCOMPLETE).exists():
            entries.add(INCOMPLETE)
        replaced = {
            name for name in entries if existing is Existing.REPLACE and (name == INCOMPLETE or is_own(name))
        }
        if entries > replaced and not continues:
            raise UsageError(
                f"{self.name} holds {min(entries - replaced)}, and published files are never changed: "
                "name another directory, or empty this one" + _REMEDY[existing]
            )
        self.lock()
        if not continues:
            self._take_over(replaced)
        for folder in self.staging.glob(f"{_READY}*"):
            shutil.rmtree(folder)
        self.is_done = self._done.exists()
        owner, group = self._owner()
        if owner == run and group:
            self.last_group = LastGroup(self.name, *json.loads(group))

    def record_group(self, group: LastGroup) -> None:
        """Record durably the group whose results `publish` makes visible next."""
        if group.number > self.last_group.number:
            save_durably(self._marker, f"{self._run}\n{json.dumps([group.number, group.digest])}".encode())
            self.last_group = group

    def new_folder(self, name: str) -> Path:
        """A new folder in the staging folder, for the files of one `publish`."""
        folder = self.staging / f"{_READY}{name}"
        folder.mkdir()
        return folder

    def publish(self, folder: Path, name: str) -> None:
        """Make a staged folder visible as ``name``, durably, by one rename."""
        target = self.path / name
        with writing(self.path):
            sync_tree(folder)
            make_folder(target.parent)
            os.rename(folder, target)
            sync_folder(target.parent)

    def publish_files(self, folder: Path, leftovers: Iterable[Path]) -> None:
        """Make the files of a staged folder visible, the first one last: if it is visible, all are.

        ``leftovers`` are visible files of an interrupted call: they stay if the folder has the same file.
        """
        with writing(self.path):
            sync_folder(folder)
            names = sorted(os.listdir(folder), reverse=True)
            for leftover in leftovers:
                if leftover.name in names and filecmp.cmp(leftover, folder / leftover.name, shallow=False):
                    names.remove(leftover.name)
                else:
                    leftover.unlink()
            for name in names:
                if name == names[-1]:
                    sync_folder(self.path)
                os.rename(folder / name, self.path / name)
            shutil.rmtree(folder)
            sync_folder(self.path)

    def finish(self) -> None:
        """Record that all results are visible, and remove the other files of the staging folder."""
        save_durably(self._done, b"")
        self.empty_staging(self._done.name)

    def empty_staging(self, *exceptions: str) -> None:
        """Remove everything from the staging folder but the lock and some exceptions."""
        for path in self.staging.iterdir():
            if path.name not in (_LOCK, *exceptions):
                remove(path)

    def remove_staging(self) -> None:
        """Remove the staging folder, because no run will continue from it."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def close(self) -> None:
        """Release the lock."""
        if self.is_locked:
            os.close(self._lock)
            self._lock = -1

    @property
    def _done(self) -> Path:
        return self.staging / f"done-{self._run}"

    @property
    def _marker(self) -> Path:
        return self.staging / "run"

    def _owner(self) -> tuple[str, str]:
        """The run that owns the directory, and its last visible group as JSON; empty texts if unknown."""
        run, _, group = self._marker.read_text().partition("\n") if self._marker.exists() else ("", "", "")
        return run, group

    def _take_over(self, replaced: Iterable[str]) -> None:
        """Make this run the owner, and remove the results and the staged files of another run."""
        (self.path / COMPLETE).unlink(missing_ok=True)
        for name in replaced:
            remove(self.path / name)
        self.empty_staging()
        save_durably(self._marker, self._run.encode())


def remove(path: Path) -> None:
    """Remove a file, or a directory with its contents. Raises OSError."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()

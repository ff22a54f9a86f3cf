"""The rows of partitions that are not complete yet: in memory, and in files that no reader of the dataset looks at.

::

    DIR/_xmlpunct/run           the run that writes here, and the last group that is published of it; lock is locked
                                while it writes
    DIR/_xmlpunct/open-12       the rows of the 12th partition, as far as they are not in memory
    DIR/_xmlpunct/state-7       after the 7th commit: which partitions are open, and what was promised of them
    DIR/_xmlpunct/ready-12      files on their way to where they are seen
    DIR/_xmlpunct/aside-...     on Spark, instead of open-12 and state-7: rows as tasks put them aside
    DIR/_xmlpunct/done-RUN      all is published: then nothing else is left
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.base.codec import dump, load
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.datasets.chunks import Chunk
from xmlpunct.engine.run.datasets.dataset_files import append
from xmlpunct.engine.run.durable_files import sync_folder

MEMORY_BYTES = 64 * 2**20
"""What is held in memory of all open partitions together."""
_EACH = 64
"""More files than so many are made durable by one call."""
_HEAD = 8
"""The bytes of the length before each piece of a file."""


@dataclass
class OpenPartition:
    """An open partition: its ``number``, in the order in which they came, its values, and its rows.

    ``length`` is how much of its file counts, ``rows`` what is not there yet, which takes about ``held`` bytes. Where
    tasks put rows aside, ``chunks`` are all of them.
    """

    number: int
    key: tuple[Any, ...]
    length: int = 0
    rows: list[pl.DataFrame] = field(default_factory=list)
    held: int = 0
    chunks: list[Chunk] = field(default_factory=list)


class Staging:
    """The rows of open partitions, in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = 0
        self._unsynced = set[int]()

    def path(self, partition: OpenPartition) -> Path:
        """Where the rows of a partition are."""
        return self.folder / f"open-{partition.number}"

    def add(self, partition: OpenPartition, rows: pl.DataFrame) -> None:
        """Take rows of a partition. `spill` bounds what that takes."""
        size = int(rows.estimated_size())
        partition.rows.append(rows)
        partition.held += size
        self._held += size

    def spill(self, partitions: list[OpenPartition]) -> None:
        """Keep no more in memory than `MEMORY_BYTES`: write the largest down, to half of that. Raises OSError."""
        if self._held <= MEMORY_BYTES:
            return
        for partition in sorted(partitions, key=lambda p: -p.held):
            if self._held <= MEMORY_BYTES // 2:
                return
            self._write(partition)

    def sync(self, partitions: list[OpenPartition]) -> None:
        """Come back when all rows are on disk. Raises OSError."""
        for partition in partitions:
            self._write(partition)
        dirty = [self.path(p) for p in partitions if p.number in self._unsynced]
        if len(dirty) > _EACH:
            os.sync()
        else:
            for path in dirty:
                file = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
        if dirty:
            sync_folder(self.folder)
        self._unsynced.clear()

    def read(self, partition: OpenPartition) -> Iterator[pl.DataFrame]:
        """All rows of a partition, in the order in which they came. Raises OSError."""
        if partition.length:
            with open(self.path(partition), "rb") as file:
                while file.tell() < partition.length:
                    piece = file.read(int.from_bytes(file.read(_HEAD), "big"))
                    yield load(piece)
        yield from partition.rows

    def drop(self, partition: OpenPartition) -> None:
        """Forget the rows of a partition, which are elsewhere now."""
        self._held -= partition.held
        self._unsynced.discard(partition.number)
        self.path(partition).unlink(missing_ok=True)

    def look(self, partition: OpenPartition) -> None:
        """Raise `XmlPunctError` if rows that were made durable are gone."""
        path = self.path(partition)
        size = path.stat().st_size if path.exists() else 0
        if size < partition.length:
            raise XmlPunctError(f"{path} is shorter than the committed output")

    def _write(self, partition: OpenPartition) -> None:
        if not partition.rows:
            return
        piece = dump(pl.concat(partition.rows))
        data = len(piece).to_bytes(_HEAD, "big") + piece
        partition.length = append(self.path(partition), data, partition.length)
        self._unsynced.add(partition.number)
        self._held -= partition.held
        partition.rows, partition.held = [], 0

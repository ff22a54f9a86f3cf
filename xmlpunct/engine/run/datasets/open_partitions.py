"""The rows of incomplete partitions: chunks in staged files, and rows in memory.

::

    DIR/_xmlpunct/aside-...  staged rows of several partitions
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, TypeVar

import polars as pl

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.run.datasets.chunks import ASIDE, Chunk, Merging, put_aside
from xmlpunct.schema import Schema

MEMORY_BYTES = 64 * 2**20
"""Maximal size of the rows in memory."""
SMALL_BYTES = 2**20
MANY = 64
"""This many consecutive chunks of a partition, each smaller than `SMALL_BYTES`, are merged."""
_COUNT, _OPEN, _CHUNKS = "count", "open", "chunks"
_CHUNK = {
    "$number": pl.Int64(),
    "$file": pl.String(),
    "$at": pl.Int64(),
    "$length": pl.Int64(),
    "$check": pl.String(),
}

PartitionKey = tuple[Any, ...]
"""Values of the partition columns."""

T = TypeVar("T")


class Executor(Protocol):
    """Runs tasks on several machines."""

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run tasks, each at least once, and return their results."""


@dataclass
class OpenPartition:
    """An incomplete partition. Partitions are numbered in the order of their first rows.

    ``chunks`` are its staged rows, ``rows`` the later ones, of about ``memory_bytes`` bytes.
    """

    number: int
    key: PartitionKey
    chunks: list[Chunk] = field(default_factory=list)
    rows: list[pl.DataFrame] = field(default_factory=list)
    memory_bytes: int = 0


class OpenPartitions:
    """The incomplete partitions by key; staged rows are in files of ``folder``. Methods raise `XmlPunctError`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._partitions: dict[PartitionKey, OpenPartition] = {}
        self._count = 0
        """Number of partitions so far; that of the next one."""
        self._chunks_of_file = Counter[str]()
        self._merged: list[Chunk] = []
        """Chunks that were merged since the last commit, which refers to them."""

    def __iter__(self) -> Iterator[OpenPartition]:
        return iter(self._partitions.values())

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._partitions

    def __getitem__(self, key: PartitionKey) -> OpenPartition:
        """The partition with this key, a new one if it is not open."""
        if key not in self._partitions:
            self._partitions[key] = OpenPartition(self._count, key)
            self._count += 1
        return self._partitions[key]

    @property
    def keys(self) -> list[PartitionKey]:
        """The keys, in the order of the numbers."""
        return list(self._partitions)

    def add_rows(self, partition: OpenPartition, rows: pl.DataFrame) -> None:
        """Add rows in memory. `spill` bounds their size."""
        partition.rows.append(rows)
        partition.memory_bytes += int(rows.estimated_size())

    def add_chunks(self, partition: OpenPartition, chunks: Iterable[Chunk]) -> None:
        """Add staged rows."""
        for chunk in chunks:
            partition.chunks.append(chunk)
            self._chunks_of_file[chunk.file] += 1

    def spill(self) -> None:
        """Stage the rows of the largest partitions if all rows in memory exceed `MEMORY_BYTES`, down to half of it."""
        left = sum(partition.memory_bytes for partition in self)
        if left <= MEMORY_BYTES:
            return
        spilled: list[OpenPartition] = []
        for partition in sorted(self, key=lambda p: -p.memory_bytes):
            if left <= MEMORY_BYTES // 2:
                break
            spilled.append(partition)
            left -= partition.memory_bytes
        self.stage(spilled)

    def stage(self, partitions: Iterable[OpenPartition]) -> None:
        """Write the rows in memory of some partitions to one file, durably."""
        with_rows = [partition for partition in partitions if partition.rows]
        if not with_rows:
            return
        chunks = put_aside(self.folder, "open", (pl.concat(partition.rows) for partition in with_rows))
        for partition, chunk in zip(with_rows, chunks, strict=True):
            self.add_chunks(partition, [chunk])
            partition.rows, partition.memory_bytes = [], 0

    def merge(self, run_tasks: Callable[[Sequence[Merging]], list[Chunk]]) -> None:
        """Merge many small chunks. They are removed by the next `forget_merged`."""
        runs = [(partition, run) for partition in self if len(run := _small_chunks(partition)) >= MANY]
        if not runs:
            return
        merges = [Merging(self.folder, str(partition.number), tuple(run)) for partition, run in runs]
        for (partition, run), chunk in zip(runs, run_tasks(merges), strict=True):
            del partition.chunks[-len(run) :]
            self.add_chunks(partition, [chunk])
            self._merged += run

    def forget_merged(self) -> None:
        """Remove merged chunks, because a commit refers to their successors."""
        self._remove(self._merged)
        self._merged = []

    def pop(self, keys: Iterable[PartitionKey]) -> list[OpenPartition]:
        """Remove partitions with these keys; the caller calls `drop` for each of them."""
        return [self._partitions.pop(key) for key in keys]

    def drop(self, partition: OpenPartition) -> None:
        """Remove the staged rows of a partition."""
        self._remove(partition.chunks)

    def check(self, partition: OpenPartition) -> None:
        """Raise `XmlPunctError` if staged rows are missing."""
        for chunk in partition.chunks:
            path = self.folder / chunk.file
            if not path.exists():
                raise XmlPunctError(
                    f"{self.folder} does not contain the committed file {chunk.file}: it was removed, or this is "
                    "another directory"
                )
            if path.stat().st_size < chunk.at + chunk.length:
                raise XmlPunctError(f"{path} is shorter than the committed output")

    def remove_strays(self) -> None:
        """Remove staged rows that no partition refers to: their tasks were repeated, or their run was killed."""
        for path in self.folder.glob(f"{ASIDE}*"):
            if path.name not in self._chunks_of_file:
                path.unlink(missing_ok=True)

    def snapshot(self, keys: Schema) -> Frames:
        """The partitions, all of whose rows are staged. ``keys`` are the partition columns."""
        numbers = pl.DataFrame({"$number": [partition.number for partition in self]}, {"$number": pl.Int64()})
        values = keys.frame(self.keys) if len(keys) else pl.DataFrame()
        chunks = [(p.number, *astuple(chunk)) for p in self for chunk in p.chunks]
        return {
            _COUNT: pl.DataFrame({_COUNT: [self._count]}),
            _OPEN: numbers.hstack(values),
            _CHUNKS: pl.DataFrame(chunks, schema=_CHUNK, orient="row"),
        }

    def restore(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Restore a snapshot."""
        self._count = frames[_COUNT].item()
        by_number: dict[int, OpenPartition] = {}
        for number, *key in frames[_OPEN].iter_rows():
            by_number[number] = self._partitions[tuple(key)] = OpenPartition(number, tuple(key))
        for number, *chunk in frames[_CHUNKS].iter_rows():
            self.add_chunks(by_number[number], [Chunk(*chunk)])

    def _remove(self, chunks: Iterable[Chunk]) -> None:
        """Remove chunks; a file is removed with its last chunk."""
        for chunk in chunks:
            self._chunks_of_file[chunk.file] -= 1
            if not self._chunks_of_file[chunk.file]:
                del self._chunks_of_file[chunk.file]
                (self.folder / chunk.file).unlink(missing_ok=True)


def _small_chunks(partition: OpenPartition) -> list[Chunk]:
    """The small chunks at the end of a partition."""
    return [*takewhile(lambda chunk: chunk.length < SMALL_BYTES, reversed(partition.chunks))][::-1]

"""A directory of files in columns whose rows many processes put aside, and whose files they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Protocol, TypeVar

import polars as pl

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.connectors.outlet import Existing, Results
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.run.datasets.chunks import ASIDE, Chunk, Making, Merging, in_groups
from xmlpunct.engine.run.datasets.dataset_files import FILE_BYTES
from xmlpunct.engine.run.datasets.directory import Directory
from xmlpunct.engine.run.datasets.staging import OpenPartition
from xmlpunct.engine.run.durable_files import sync_folder, writing
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

SMALL_BYTES = 4 * 2**20
MANY = 64
"""Of a partition that stays open, so many chunks in a row that are smaller than that are made one."""
_CHUNKS = "chunks"
_CHUNK = {"$number": pl.Int64(), "$file": pl.String(), "$at": pl.Int64(), "$length": pl.Int64()}

KeyedChunk = tuple[tuple[object, ...], Chunk]
"""Rows that were put aside, behind the values of the columns to partition by that they have in common."""

T = TypeVar("T")


class Workers(Protocol):
    """Who does the work."""

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run some tasks, each perhaps more than once; what they give."""


class SharedDataset(Directory):
    """The dataset in directory ``path``: who has it knows where rows are, and ``workers`` make files of them.

    What a run has to know that goes on is not kept there but given: `snapshot`, `restore`. Rows that no snapshot
    knows of count for nothing, whoever put them aside.
    """

    def __init__(self, path: str, format_: str, by: Sequence[str], workers: Workers) -> None:
        super().__init__(path, format_, by)
        self.folder = self._own
        """Where rows are put aside."""
        self._workers, self._files = workers, Counter[str]()
        """``_files``: how many open chunks each file has."""
        self._merged: list[Chunk] = []
        """What is not needed any more when the next micro-batch comes, since what it became is committed then."""

    def open(self, schema: Schema, run: str, existing: Existing = Existing.ACCEPT) -> None:
        """Make the directory this run's. Raises `UsageError` for what cannot be written there."""
        self._begin(schema, run, existing)

    def restore(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Go on where a snapshot was taken; without one, begin. What was put aside since is removed."""
        if self._settled:
            return
        if frames:
            by_number = {number: list[Chunk]() for number in frames[_CHUNKS]["$number"].unique()}
            for number, *chunk in frames[_CHUNKS].iter_rows():
                by_number[number].append(Chunk(*chunk))
            self._take_frames(frames)
            for partition in self._open.values():
                self._put(partition, by_number.get(partition.number, ()))
            self._look_at_all()
        for path in self.folder.glob(f"{ASIDE}*"):
            if path.name not in self._files:
                path.unlink(missing_ok=True)

    def snapshot(self) -> Frames:
        """What a run has to know that goes on."""
        self._kept = True
        rows = [
            (partition.number, chunk.file, chunk.at, chunk.length)
            for partition in self._open.values()
            for chunk in partition.chunks
        ]
        return {**self._frames(), _CHUNKS: pl.DataFrame(rows, schema=_CHUNK, orient="row")}

    def write(
        self, given: Iterable[KeyedChunk], punctuations: Sequence[Punctuation], last: bool, group: Results
    ) -> None:
        """Record the chunks of a micro-batch, and publish complete partitions; if it is the ``last``, all.

        ``group`` has its number and its digest.
        """
        if self._settled:  # all of it is there
            return
        with writing(self._path):
            self._take(group)
            self._forget(self._merged)
            self._merged = []
            # By what was there at the last commit, so that a micro-batch that comes again publishes the same.
            if not self._by and self._measure >= FILE_BYTES:
                self._publish(list(self._open))
            for key, chunk in given:
                self._put(self._partition(key), [chunk])
                self._measure += chunk.length
            sync_folder(self.folder)
            if self._by and punctuations:
                self._publish_promised(punctuations)
            if last:
                self._end()
            else:
                self._merge()

    def _merge(self) -> None:
        """Make few chunks of many."""
        runs = [
            (partition, run) for partition in self._open.values() if len(run := _small(partition)) >= MANY
        ]
        merges = [Merging(self.folder, str(partition.number), tuple(run)) for partition, run in runs]
        if not merges:
            return
        for (partition, run), chunk in zip(runs, self._workers.run(merges), strict=True):
            del partition.chunks[-len(run) :]
            self._put(partition, [chunk])
            self._merged += run
        sync_folder(self.folder)

    def _put(self, partition: OpenPartition, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            partition.chunks.append(chunk)
            self._files[chunk.file] += 1

    def _made(self, partitions: Iterable[OpenPartition]) -> Iterator[OpenPartition]:
        made, files = list(partitions), list[Making]()
        for partition in made:
            ready = self._ready(partition)
            ready.mkdir()
            for number, group in enumerate(in_groups(partition.chunks, FILE_BYTES)):
                path = ready / self._file(partition, number)
                files.append(Making(self.folder, tuple(group), path, self._format, self._rest))
        if files:
            self._workers.run(files)
        yield from made

    def _drop(self, partition: OpenPartition) -> None:
        self._forget(partition.chunks)

    def _forget(self, chunks: Iterable[Chunk]) -> None:
        """Remove the files that have no others."""
        for chunk in chunks:
            self._files[chunk.file] -= 1
            if not self._files[chunk.file]:
                del self._files[chunk.file]
                (self.folder / chunk.file).unlink(missing_ok=True)

    def _look(self, partition: OpenPartition) -> None:
        for name in {chunk.file for chunk in partition.chunks}:
            if not (self.folder / name).exists():
                raise XmlPunctError(
                    f"{self.folder} does not contain the committed file {name}: it was removed, or this is another "
                    "directory"
                )


def _small(partition: OpenPartition) -> list[Chunk]:
    """The last chunks of a partition, as far as they are small."""
    return [*takewhile(lambda chunk: chunk.length < SMALL_BYTES, reversed(partition.chunks))][::-1]

"""A directory of files in columns whose rows many processes put aside, and whose files they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import polars as pl

from xmlpunct.engine.checkpoint.commit import Frames
from xmlpunct.engine.datasets.chunks import ASIDE, Chunk, ChunkedFile, in_groups
from xmlpunct.engine.datasets.directory import Directory
from xmlpunct.engine.datasets.files import FILE_BYTES
from xmlpunct.engine.datasets.staging import Partition
from xmlpunct.engine.files import sync_folder, writing
from xmlpunct.errors import XmlPunctError
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

_CHUNKS = "chunks"
_CHUNK = {"$number": pl.Int64(), "$file": pl.String(), "$at": pl.Int64(), "$length": pl.Int64()}

Keyed = tuple[tuple[object, ...], Chunk]
"""Rows that were put aside, behind the values of the columns to partition by that they have in common."""


class SharedDataset(Directory):
    """The dataset in directory ``path``: who has it knows where rows are, and ``make`` has others make files of them.

    What a run has to know that goes on is not kept there but given: `snapshot`, `restore`. Rows that no snapshot
    knows of count for nothing, whoever put them aside.
    """

    def __init__(
        self, path: str, format_: str, by: Sequence[str], make: Callable[[Sequence[ChunkedFile]], None]
    ) -> None:
        super().__init__(path, format_, by)
        self.folder = self._own
        """Where rows are put aside."""
        self._make, self._files = make, Counter[str]()
        """How many open chunks each file has."""

    def open(self, schema: Schema, run: str) -> None:
        """Make the directory this run's. Raises `UsageError` for what cannot be written there."""
        self._begin(schema, run)

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

    def write(self, given: Iterable[Keyed], punctuations: Sequence[Punctuation], last: bool) -> None:
        """Take what a micro-batch says, and publish what is complete then; all of it, if this is the ``last``."""
        if self._settled:  # all of it is there
            return
        with writing(self._path):
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

    def _put(self, partition: Partition, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            partition.chunks.append(chunk)
            self._files[chunk.file] += 1

    def _made(self, partitions: Iterable[Partition]) -> Iterator[Partition]:
        made, files = list(partitions), list[ChunkedFile]()
        for partition in made:
            ready = self._ready(partition)
            ready.mkdir()
            for number, group in enumerate(in_groups(partition.chunks, FILE_BYTES)):
                path = ready / self._file(partition, number)
                files.append(ChunkedFile(self.folder, tuple(group), path, self._format, self._rest))
        if files:
            self._make(files)
        yield from made

    def _drop(self, partition: Partition) -> None:
        for chunk in partition.chunks:
            self._files[chunk.file] -= 1
            if not self._files[chunk.file]:
                del self._files[chunk.file]
                (self.folder / chunk.file).unlink(missing_ok=True)

    def _look(self, partition: Partition) -> None:
        for name in {chunk.file for chunk in partition.chunks}:
            if not (self.folder / name).exists():
                raise XmlPunctError(
                    f"{self.folder} does not hold what this run committed to it: {name} was removed, or it is another "
                    "directory"
                )

"""Staged rows: many processes write chunks to files of their own, from which one process makes dataset files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import polars as pl

from xmlpunct.base.codec import dump, load
from xmlpunct.engine.run.datasets.dataset_files import write_files
from xmlpunct.engine.run.durable_files import writing
from xmlpunct.schema import Schema

ASIDE = "aside-"
"""Prefix of the names of files with staged rows."""


@dataclass(frozen=True)
class Chunk:
    """Rows in a file: ``length`` bytes from offset ``at``."""

    file: str
    at: int
    length: int


def put_aside(folder: Path, name: str, frames: Iterable[pl.DataFrame]) -> list[Chunk]:
    """Write frames durably to a new file in ``folder``; returns their chunks. Raises `XmlPunctError`.

    The file's name is unique, and contains ``name``. The file is ignored until another process receives its chunks.
    """
    path = folder / f"{ASIDE}{name}-{uuid4().hex}"
    chunks: list[Chunk] = []
    with writing(folder), open(path, "xb") as file:
        for frame in frames:
            at = file.tell()
            file.write(dump(frame))
            chunks.append(Chunk(path.name, at, file.tell() - at))
        file.flush()
        os.fsync(file.fileno())
    return chunks


def read_chunks(folder: Path, chunks: Iterable[Chunk]) -> Iterator[pl.DataFrame]:
    """Read the rows of chunks. Raises OSError."""
    for chunk in chunks:
        with open(folder / chunk.file, "rb") as file:
            file.seek(chunk.at)
            yield load(file.read(chunk.length))


def in_groups(chunks: Sequence[Chunk], bytes_: int) -> list[list[Chunk]]:
    """Split chunks into groups of ``bytes_`` bytes or slightly more.

    >>> [[c.at for c in group] for group in in_groups([Chunk("a", at, 4) for at in (0, 4, 8, 12)], 8)]
    [[0, 4], [8, 12]]
    """
    total = sum(chunk.length for chunk in chunks)
    share = total / max(1, total // bytes_)
    groups: list[list[Chunk]] = []
    before = 0
    for chunk in chunks:
        if not groups or before >= share * len(groups):
            groups.append([])
        groups[-1].append(chunk)
        before += chunk.length
    return groups


@dataclass(frozen=True)
class Merging:
    """Concatenates chunks of ``folder`` into one chunk, in a new file named as by `put_aside`."""

    folder: Path
    name: str
    chunks: tuple[Chunk, ...]

    def __call__(self) -> Chunk:
        with writing(self.folder):
            rows = pl.concat(read_chunks(self.folder, self.chunks))
        (chunk,) = put_aside(self.folder, self.name, [rows])
        return chunk


@dataclass(frozen=True)
class Making:
    """Makes the dataset file ``path`` from chunks in ``folder``."""

    folder: Path
    chunks: tuple[Chunk, ...]
    path: Path
    format: str
    schema: Schema

    def __call__(self) -> None:
        """Make the file durably and atomically. Raises `XmlPunctError`."""
        half = self.folder / f"{ASIDE}half-{uuid4().hex}"
        with writing(self.folder):
            rows = read_chunks(self.folder, self.chunks)
            write_files(self.format, self.schema, rows, lambda _: half, None)
            os.replace(half, self.path)

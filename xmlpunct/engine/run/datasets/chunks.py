"""Staged rows: many processes write chunks to files of their own, from which one process makes dataset files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import uuid4

import polars as pl

from xmlpunct.base.codec import dump, load
from xmlpunct.connectors.outlet import chained
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.datasets.dataset_files import write_files
from xmlpunct.engine.run.durable_files import writing
from xmlpunct.schema import Schema

ASIDE = "aside-"
"""Prefix of the names of files with staged rows."""


@dataclass(frozen=True)
class Chunk:
    """Rows in a file: ``length`` bytes from offset ``at``, with the checksum ``check``."""

    file: str
    at: int
    length: int
    check: str


KeyedChunk = tuple[tuple[object, ...], Chunk]
"""A chunk with the values of the partition columns."""


def put_aside(folder: Path, name: str, frames: Iterable[pl.DataFrame]) -> list[Chunk]:
    """Write frames durably to a new file in ``folder``; returns their chunks. Raises `XmlPunctError`.

    The file's name is unique, and contains ``name``. The file is ignored until another process receives its chunks.
    """
    path = folder / f"{ASIDE}{name}-{uuid4().hex}"
    chunks: list[Chunk] = []
    with writing(folder), open(path, "xb") as file:
        for frame in frames:
            data = dump(frame)
            chunks.append(Chunk(path.name, file.tell(), len(data), chained("", data)))
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return chunks


def read_chunks(folder: Path, chunks: Iterable[Chunk]) -> Iterator[pl.DataFrame]:
    """Read the rows of chunks. Raises OSError and `DamagedError`."""
    for chunk in chunks:
        with open(folder / chunk.file, "rb") as file:
            file.seek(chunk.at)
            data = file.read(chunk.length)
            if chained("", data) != chunk.check:
                raise DamagedError(folder / chunk.file, chunk.at)
            yield load(data)


def in_groups(chunks: Sequence[Chunk], bytes_: int) -> list[list[Chunk]]:
    """Split chunks into groups of ``bytes_`` bytes or slightly more.

    >>> [[c.at for c in group] for group in in_groups([Chunk("a", at, 4, "") for at in (0, 4, 8, 12)], 8)]
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
    """Makes dataset files in folder ``target``: from chunks in ``staging``, then from ``rows``.

    The files are ``stem`` with a number from ``number`` on; each has about ``max_bytes`` bytes (None: one file).
    """

    staging: Path
    chunks: tuple[Chunk, ...]
    target: Path
    stem: str
    format: str
    schema: Schema
    number: int
    rows: tuple[pl.DataFrame, ...] = ()
    max_bytes: int | None = None

    def __call__(self) -> None:
        """Make the files durably, each atomically. Raises `XmlPunctError`."""
        halves: list[Path] = []

        def new_half(_: int) -> Path:
            halves.append(self.staging / f"{ASIDE}half-{uuid4().hex}")
            return halves[-1]

        with writing(self.staging):
            rows = chain(read_chunks(self.staging, self.chunks), self.rows)
            write_files(self.format, self.schema, rows, new_half, self.max_bytes)
            for number, half in enumerate(halves, self.number):
                os.replace(half, self.target / f"{self.stem}{number}.{self.format}")

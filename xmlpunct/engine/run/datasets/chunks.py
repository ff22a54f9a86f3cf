"""Rows that many processes put aside, and one makes files of later: each in a file of its own, chunk by chunk."""

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
"""How the names of files begin that hold rows which were put aside."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: ``length`` bytes at ``at`` in the file of that name."""

    file: str
    at: int
    length: int


def put_aside(folder: Path, name: str, frames: Iterable[pl.DataFrame]) -> list[Chunk]:
    """Put frames into a new file of ``folder``, durably; where each is. Raises `XmlPunctError`.

    Nobody else has its name, which begins with ``name``: it counts for nothing before somebody else is told of it.
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
    """The rows of chunks. Raises OSError."""
    for chunk in chunks:
        with open(folder / chunk.file, "rb") as file:
            file.seek(chunk.at)
            yield load(file.read(chunk.length))


def in_groups(chunks: Sequence[Chunk], bytes_: int) -> list[list[Chunk]]:
    """Chunks in groups of about so many bytes, or somewhat more.

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
    """Makes one chunk of some in ``folder``, in a file whose name begins with ``name``, as `put_aside` does."""

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
    """Makes a file of a dataset at ``path``, of chunks in ``folder``."""

    folder: Path
    chunks: tuple[Chunk, ...]
    path: Path
    format: str
    schema: Schema

    def __call__(self) -> None:
        """Make it, durably, so that whoever looks finds all of it or nothing. Raises `XmlPunctError`."""
        half = self.folder / f"{ASIDE}half-{uuid4().hex}"
        with writing(self.folder):
            rows = read_chunks(self.folder, self.chunks)
            write_files(self.format, self.schema, rows, lambda _: half, None)
            os.replace(half, self.path)

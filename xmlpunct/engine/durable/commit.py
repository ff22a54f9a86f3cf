"""The sink's commit record: what was written up to which micro-batch, in one file, replaced in one step."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.operators.driver import pack, unpack

Frames = dict[str, pl.DataFrame]


@dataclass
class Commit:
    """What a run has committed.

    ``batch`` is the last micro-batch written; ``length`` and ``rejects_length`` are the bytes of the output
    and of the rejects file up to there. ``ended``: the output is complete; ``failure``: what a `SourceError`
    is made of. ``stats`` are the numbers so far; ``gather`` and ``output`` are state.
    """

    batch: int = -1
    length: int = 0
    rejects_length: int = 0
    ended: bool = False
    failure: list[Any] | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    gather: Frames = field(default_factory=dict)
    output: Frames = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The record as bytes."""
        values = {k: v for k, v in vars(self).items() if k not in ("gather", "output")}
        frames = {"values": pl.DataFrame({"json": [json.dumps(values)]})}
        for kind, held in (("gather", self.gather), ("output", self.output)):
            frames |= {f"{kind}/{name}": frame for name, frame in held.items()}
        return pack(frames)

    @classmethod
    def from_bytes(cls, data: bytes) -> Commit:
        """The inverse of `to_bytes`."""
        frames = unpack(data)
        values = json.loads(frames.pop("values").item())
        found = cls(**values)
        for key, frame in frames.items():
            kind, _, name = key.partition("/")
            (found.gather if kind == "gather" else found.output)[name] = frame
        return found


def load(path: Path) -> Commit:
    """The record at ``path``; a new one if there is none."""
    return Commit.from_bytes(path.read_bytes()) if path.exists() else Commit()


def save(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, durably, so that whoever looks finds the old or the new, whole."""
    half = path.with_name(path.name + ".half")
    with open(half, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""The commit record: what was written up to which slice, and the state after it, in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.operators.driver import pack, unpack

Frames = dict[str, pl.DataFrame]


@dataclass
class Commit:
    """What a run has committed.

    ``batch`` is the last micro-batch written, or record of the log; ``length`` and ``rejects_length`` are the
    bytes of the output and of the rejects file up to there. ``closed``: the output is complete; ``ended``: and
    no input is left to be judged; ``failure``: what a `SourceError` is made of. ``stats`` are the numbers so far,
    ``cursors`` where each feed stands, of which Spark keeps account by itself; ``operators`` and ``output`` are
    the state of those that run beside it.
    """

    batch: int = -1
    length: int = 0
    rejects_length: int = 0
    ended: bool = False
    failure: list[Any] | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    cursors: list[Any] = field(default_factory=list)
    operators: Frames = field(default_factory=dict)
    output: Frames = field(default_factory=dict)
    closed: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.ended or self.failure is not None

    def to_bytes(self) -> bytes:
        """The record as bytes."""
        values = {k: v for k, v in vars(self).items() if k not in ("operators", "output")}
        frames = {"values": pl.DataFrame({"json": [json.dumps(values)]})}
        for kind, held in (("operators", self.operators), ("output", self.output)):
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
            (found.operators if kind == "operators" else found.output)[name] = frame
        return found


def load(path: Path) -> Commit:
    """The record at ``path``; a new one if there is none."""
    return Commit.from_bytes(path.read_bytes()) if path.exists() else Commit()

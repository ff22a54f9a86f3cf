"""The commit record: what was written up to which slice, and the state after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from xmlpunct.codec import load

COMMIT = "commit"
"""The piece of its record that holds all but frames."""
HELD = "held"
_FRAMES = ("operators", "output", HELD)

Frames = dict[str, pl.DataFrame]


@dataclass
class Commit:
    """What a run has committed.

    ``batch`` is the last micro-batch written, or record of the log; ``length`` and ``rejects_length`` are the
    bytes of the output and of the rejects file up to there. ``closed``: the output is complete; ``ended``: and
    no input is left to be judged; ``failure``: what a `SourceError` is made of. ``stats`` are the numbers so far,
    ``cursors`` where each feed stands, of which Spark keeps account by itself; ``operators`` and ``output`` are
    the state of those that run beside it, ``held`` is what `xmlpunct.engine.why.holding.Holding` gave.
    ``groups`` are the groups of results that were written, ``position`` what the output's `Outlet.commit` gave;
    ``rejects_groups`` and ``rejects_position`` are those of the rejects.
    """

    batch: int = -1
    length: int = 0
    rejects_length: int = 0
    ended: bool = False
    failure: list[Any] | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    cursors: list[Any] = field(default_factory=list)
    held: Frames = field(default_factory=dict)
    operators: Frames = field(default_factory=dict)
    output: Frames = field(default_factory=dict)
    closed: bool = False
    groups: int = 0
    position: Any = None
    rejects_groups: int = 0
    rejects_position: Any = None

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.ended or self.failure is not None

    def to_record(self) -> dict[str, pl.DataFrame | bytes]:
        """The commit as a record of a log."""
        values = {k: v for k, v in vars(self).items() if k not in _FRAMES}
        record: dict[str, pl.DataFrame | bytes] = {COMMIT: json.dumps(values).encode()}
        for kind in _FRAMES:
            record |= {f"{kind}/{name}": frame for name, frame in getattr(self, kind).items()}
        return record

    @staticmethod
    def held_record(held: Frames) -> dict[str, pl.DataFrame | bytes]:
        """What is held, as a record that takes the place of what the commit before says of it."""
        return {f"{HELD}/{name}": frame for name, frame in held.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, bytes]) -> Commit:
        """The inverse of `to_record`."""
        commit = cls(**json.loads(record[COMMIT]))
        for key, piece in record.items():
            kind, _, name = key.partition("/")
            if kind in _FRAMES:
                getattr(commit, kind)[name] = load(piece)
        return commit

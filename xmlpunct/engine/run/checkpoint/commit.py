"""The commit record: the extent of the outputs up to a slice, and the state after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from xmlpunct.base.codec import load
from xmlpunct.engine.plan import Query

COMMIT = "commit"
"""The piece of the record that holds all fields but the frames."""
HELD = "held"
_FRAMES = ("operators", "output", HELD)

Frames = dict[str, pl.DataFrame]


@dataclass
class Written:
    """The written extent of an output, or of the rejects.

    ``length`` is the number of bytes, ``groups`` the number of groups of results, ``position`` the result of
    `Outlet.commit`, ``digest`` the digest of all groups. ``last`` is the offset of the last group with bytes, and the
    digest of these bytes: a file has to hold them. ``closed``: the output is complete.
    """

    length: int = 0
    groups: int = 0
    position: Any = None
    closed: bool = False
    digest: str = ""
    last: tuple[int, str] = (0, "")

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> Written:
        """The extent that a record of the log describes."""
        return cls(**values | {"last": tuple(values["last"])})


@dataclass
class Commit:
    """A commit of a run.

    ``batch`` is the number of the last written micro-batch, or of the last record of the log. ``outputs`` and
    ``rejects`` are the written extents. ``ended``: all outputs are complete, and no input must be read for its rejects.
    ``failure`` are the arguments of a `SourceError`. ``stats`` are the counters, ``cursors`` the positions of the feeds
    (empty on Spark, which stores its own). ``operators`` is the state of the operators, ``output`` the state of the
    outputs by index of the answer, ``held`` a snapshot of `xmlpunct.engine.why.holding.Holding`. ``offset`` is the end
    offset of the micro-batch, in Spark's form.
    """

    batch: int = -1
    outputs: list[Written] = field(default_factory=lambda: [Written()])
    rejects: Written = field(default_factory=Written)
    ended: bool = False
    failure: list[Any] | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    cursors: list[Any] = field(default_factory=list)
    offset: str = ""
    held: Frames = field(default_factory=dict)
    operators: Frames = field(default_factory=dict)
    output: Frames = field(default_factory=dict)

    @classmethod
    def begun(cls, query: Query) -> Commit:
        """The commit of a new run: all outputs are empty."""
        return cls(outputs=[Written() for _ in query.answers])

    @property
    def closed(self) -> bool:
        """True if all outputs are complete."""
        return all(written.closed for written in self.outputs)

    @property
    def over(self) -> bool:
        """True if the run has ended or failed."""
        return self.ended or self.failure is not None

    def to_record(self) -> dict[str, pl.DataFrame | bytes]:
        """The commit as a record of a log."""
        values = {k: v for k, v in vars(self).items() if k not in _FRAMES}
        record: dict[str, pl.DataFrame | bytes] = {COMMIT: json.dumps(values, default=asdict).encode()}
        for kind in _FRAMES:
            record |= {f"{kind}/{name}": frame for name, frame in getattr(self, kind).items()}
        return record

    @staticmethod
    def held_record(held: Frames) -> dict[str, pl.DataFrame | bytes]:
        """A record with a new snapshot of ``held``, which replaces that of the commit before."""
        return {f"{HELD}/{name}": frame for name, frame in held.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, bytes]) -> Commit:
        """The inverse of `to_record`."""
        values = json.loads(record[COMMIT])
        values["outputs"] = [Written.from_record(written) for written in values["outputs"]]
        values["rejects"] = Written.from_record(values["rejects"])
        commit = cls(**values)
        for key, piece in record.items():
            kind, _, name = key.partition("/")
            if kind in _FRAMES:
                getattr(commit, kind)[name] = load(piece)
        return commit

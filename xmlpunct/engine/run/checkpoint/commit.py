"""The commit record: what was written up to which slice, and the state after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from xmlpunct.base.codec import load
from xmlpunct.engine.plan import Query

COMMIT = "commit"
"""The piece of its record that holds all but frames."""
HELD = "held"
_FRAMES = ("operators", "output", HELD)

Frames = dict[str, pl.DataFrame]


@dataclass
class Written:
    """How far an output, or the rejects, is written.

    ``length`` are its bytes and ``groups`` how many groups of results they came in; ``position`` is what
    `Outlet.commit` gave. ``closed``: it is complete. ``digest`` is that of the last group.
    """

    length: int = 0
    groups: int = 0
    position: Any = None
    closed: bool = False
    digest: str = ""


@dataclass
class Commit:
    """What a run has committed.

    ``batch`` is the last micro-batch written, or record of the log; ``outputs`` tell how far each answer's output is
    written, and ``rejects`` how far those are. ``ended``: all outputs are complete, and
    no input is left to be judged; ``failure``: what a `SourceError` is made of. ``stats`` are the numbers so far,
    ``cursors`` where each feed stands, of which Spark keeps account by itself; ``operators`` and ``output`` are
    the state of those that run beside it, the latter by the answer's place; ``held`` is what
    `xmlpunct.engine.why.holding.Holding` gave. ``offset`` is where Spark's micro-batch ended, as Spark keeps it.
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
        """Nothing is written yet of what a query gives."""
        return cls(outputs=[Written() for _ in query.answers])

    @property
    def closed(self) -> bool:
        """Whether all outputs are complete."""
        return all(written.closed for written in self.outputs)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
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
        """What is held, as a record that takes the place of what the commit before says of it."""
        return {f"{HELD}/{name}": frame for name, frame in held.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, bytes]) -> Commit:
        """The inverse of `to_record`."""
        values = json.loads(record[COMMIT])
        values["outputs"] = [Written(**written) for written in values["outputs"]]
        values["rejects"] = Written(**values["rejects"])
        commit = cls(**values)
        for key, piece in record.items():
            kind, _, name = key.partition("/")
            if kind in _FRAMES:
                getattr(commit, kind)[name] = load(piece)
        return commit

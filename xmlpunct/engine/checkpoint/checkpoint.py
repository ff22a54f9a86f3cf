"""What a run leaves in its checkpoint for a later run to continue from.

::

    DIR/job         the query, its inputs and shards as the first run found them
    DIR/commit      what was written, and the state that goes with it
    DIR/log         the local engine's own: the slices since that record
    DIR/spool/      what was read from sources that cannot be read twice
    DIR/spark/      Spark's own: offsets and state
    DIR/pacing      which input the sink wants to be read next
    DIR/lock        locked while a run is at it
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from xmlpunct.engine.checkpoint.commit import Commit, load
from xmlpunct.engine.exchange.hashing import VERSION as HASH_VERSION
from xmlpunct.engine.files import make_folder, save
from xmlpunct.engine.inputs.parts import Input, Part
from xmlpunct.engine.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.options import RunOptions
from xmlpunct.engine.plan import Node, Query
from xmlpunct.errors import UsageError
from xmlpunct.punctuations.pattern import ENUMERABLE

VERSION = 4
"""Of all that a checkpoint holds."""


_NAMES = ("job", "commit", "log", "spool", "spark", "pacing", "lock")
OWN_NAMES = frozenset((*_NAMES, *(f"{name}.half" for name in _NAMES)))
"""What a run writes and removes there."""


@dataclass
class Found:
    """What a run is to work on: its inputs, the spools to be started, its shards (None: it is a new run), and
    what was committed of it."""

    inputs: list[Input]
    spools: list[Spool]
    shards: int | None
    commit: Commit


class Checkpoint:
    """The checkpoint in directory ``path``, made if need be; a context manager. Raises `UsageError`."""

    def __init__(self, path: Path, query: Query, options: RunOptions, engine: str = "spark") -> None:
        self.path, self.query, self.options = path.absolute(), query, options
        try:
            make_folder(self.path)
        except OSError as error:
            raise UsageError(f"cannot make the checkpoint {path}: {error.strerror}") from None
        self.record, self.log, self.spark, self.pacing = (
            self.path / name for name in ("commit", "log", "spark", "pacing")
        )
        self._job, self._spool = self.path / "job", self.path / "spool"
        self._lock: IO[bytes] | None = None
        self._made_by = {"version": VERSION, "hash": HASH_VERSION, "enumerable": ENUMERABLE}
        self._asked = {
            "engine": engine,
            "--strict or --rejects": options.guarded,  # which makes another plan of the same query
            "query": _described(query),
            "choice of rules": sorted(query.rules),
            "output": _place(options.output),
            "format": options.format,
            "slice size": options.slice_bytes,
            "rejects file": _place(options.rejects),
            "punctuation namespace": options.punct_namespace,
        }

    def __enter__(self) -> Checkpoint:
        """Keep others away. Raises `UsageError` if another run is at it."""
        try:
            self._lock = open(self.path / "lock", "wb")
        except OSError as error:
            raise UsageError(f"cannot write the checkpoint {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UsageError(f"another run is using the checkpoint {self.path}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def find(self) -> Found:
        """What to work on.

        Raises `UsageError` if the checkpoint belongs to something else, and `SourceError` for a source that
        cannot be opened, or has changed.
        """
        if not self._job.exists():
            return Found(*find_inputs(self.query, self._spool), None, Commit())
        saved = json.loads(self._job.read_text())
        if saved["made_by"] != self._made_by:
            raise UsageError(f"the checkpoint {self.path} is of another version of xmlpunct")
        for what, value in self._asked.items():
            if saved[what] != value:
                raise UsageError(f"the checkpoint {self.path} belongs to a run with another {what}")
        inputs = [_input(values) for values in saved["inputs"]]
        commit = load(self.record)
        return Found(inputs, [] if commit.over else unfinished(inputs), saved["shards"], commit)

    def settle(self, found: Found, shards: int) -> int:
        """Put down what a new run works on; the number of its shards, ``shards`` if it is a new one."""
        if found.shards is None:
            found.shards = shards
            inputs = [asdict(i) for i in found.inputs]
            saved = {"made_by": self._made_by, **self._asked, "shards": shards, "inputs": inputs}
            save(self._job, json.dumps(saved).encode())
        return found.shards

    def clean_if_over(self) -> None:
        """Drop what no run needs any more, if none has anything left to do."""
        if load(self.record).over:
            self.clean()

    def clean(self) -> None:
        """Drop what only a run that goes on needs: what it has read, and Spark's state."""
        for folder in (self._spool, self.spark):
            shutil.rmtree(folder, ignore_errors=True)


def _place(path: str | None) -> str | None:
    """A file, wherever one stands."""
    return path if path in (None, "-") else os.path.abspath(str(path))


def _described(query: Query) -> list[Any]:
    """A query in words that stay the same from run to run: its plan and its streams."""
    streams = [
        (s.name, s.source, s.element, s.where, s.nested, [repr(a) for a in s.schema]) for s in query.streams
    ]
    return list(json.loads(json.dumps([streams, [_brief(node) for node in query.root.walk()]])))


def _brief(node: Node) -> str:
    """A node by its own fields, without what stands below it."""
    own = {f.name: getattr(node, f.name) for f in fields(node)}
    below = (*node.inputs, node.inputs)
    return f"{type(node).__name__} { {name: value for name, value in own.items() if value not in below} }"


def _input(values: dict[str, Any]) -> Input:
    parts = tuple(Part(**part) for part in values["parts"])
    return Input(values["source"], tuple(values["streams"]), parts, values["sender"])

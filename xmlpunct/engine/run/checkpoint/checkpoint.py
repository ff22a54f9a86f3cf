"""What a run leaves in its checkpoint for a later run to continue from.

::

    DIR/log         the job: the query, its inputs and shards as the first run found them; the commit: what was
                    written, and the state that goes with it; the local engine's slices since that commit
    DIR/spool/      what was read from sources that cannot be read twice
    DIR/spark/      Spark's own: offsets and state
    DIR/said        what was said to a run on Spark, in a stream's place
    DIR/cuts        where large files can be cut, for Spark
    DIR/pacing      which input the sink wants to be read next
    DIR/lock        locked while a run is at it
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from xmlpunct.base.codec import load
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError, ended_by, undoing
from xmlpunct.base.secrets import stored
from xmlpunct.connectors.contract import scheme_of
from xmlpunct.engine.partition.hashing import VERSION as HASH_VERSION
from xmlpunct.engine.plan import Node, Query
from xmlpunct.engine.run.checkpoint.commit import COMMIT, HELD, Commit, Frames
from xmlpunct.engine.run.checkpoint.log import DamagedError, WriteAheadLog
from xmlpunct.engine.run.durable_files import PRIVATE_FOLDER, is_there, make_folder, private
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.types.pattern import ENUMERABLE

VERSION = 12
"""Of all that a checkpoint holds. Up to 4 it was in files of other names, of which `_OLD` was the first; up to 11 the
records of its logs had no numbers and were not chained."""
_OLD = "job"
_JOB, _SLICES = "job", "slices"
"""The records of the log beside the commit, each by its one piece."""

_NAMES = ("log", "spool", "spark", "said", "cuts", "pacing", "lock")
OWN_NAMES = frozenset((*_NAMES, *(f"{name}.half" for name in _NAMES)))
"""What a run writes and removes there."""


@dataclass
class Found:
    """What a run is to work on: its inputs, the spools to be started, its shards (None: it is a new run), what was
    committed of it, and the slices of the local engine since, as `Checkpoint.put_down` got them."""

    inputs: list[Input]
    spools: list[Spool]
    shards: int | None
    commit: Commit
    slices: list[dict[str, Any]]

    @property
    def cursors(self) -> list[tuple[int, Any]]:
        """How far the local engine had read its feeds, by their numbers: at the commit, and after each slice since."""
        committed = [(number, cursor) for number, (cursor, *_) in enumerate(self.commit.cursors)]
        places = [place for record in self.slices for place in record["places"]]
        return [*committed, *((number, cursor) for number, cursor, *_ in places)]

    @property
    def failure(self) -> SourceError | None:
        """What the run failed for, once for all: whoever saw its end may not see it go on behind that."""
        if self.commit.failure is None:
            return None
        source, reason, *place = self.commit.failure
        known = [(p.path, p.stored) for given in self.inputs for p in given.parts if p.name == source]
        for path, size in known:
            with suppress(OSError):
                if size is not None and os.stat(path).st_size > size:
                    reason += (
                        "; it has grown since, but that run is over: read it anew with another --checkpoint"
                    )
        return SourceError(source, reason, *place)


class Checkpoint:
    """The checkpoint in directory ``path``, made if need be; a context manager. Raises `UsageError`."""

    def __init__(self, path: Path, query: Query, options: RunOptions, engine: str = "spark") -> None:
        self.path, self.query, self.options = path.absolute(), query, options
        try:
            make_folder(self.path, PRIVATE_FOLDER)
        except OSError as error:
            raise UsageError(f"cannot make the checkpoint {path}: {error.strerror}") from None
        self.spark, self.said, self.cuts, self.pacing, self._spool = (
            self.path / name for name in ("spark", "said", "cuts", "pacing", "spool")
        )
        self._log = WriteAheadLog(self.path / "log")
        self._job: bytes = b""
        self.run = run_name()
        """What tells this run from others, however often it goes on."""
        self._over = self._is_unused = False
        """``_is_unused``: the run is new, and nothing was committed."""
        self._lock: IO[bytes] | None = None
        self._made_by = {"version": VERSION, "hash": HASH_VERSION, "enumerable": ENUMERABLE}
        each = [options.to(answer.destination) for answer in query.answers]
        asked = {
            "engine": engine,
            "--strict, --rejects or --max-rejects": options.guarded,  # which makes another plan of the same query
            "--max-rejects": None if options.max_rejects is None else options.max_rejects.text,
            "choice of streams": [stream.name for stream in query.streams],
            "source": [stream.source for stream in query.streams],
            "query": described(query),
            "choice of rules": sorted(query.rules),
            "choice of sinks": [answer.name for answer in query.answers],
            "output": [_place(of.output) for of in each],
            "format": [of.format for of in each],
            "choice of columns to partition by": [list(of.partition_by) for of in each],
            "form of its XML": [None if of.form is None else asdict(of.form) for of in each],
            "slice size": options.slice_bytes,
            "rejects file": _place(options.rejects),
            "punctuation namespace": options.punct_namespace,
        }
        self._asked: dict[str, Any] = stored(asked)

    def __enter__(self) -> Checkpoint:
        """Keep others away: other runs, and other users. Raises `UsageError` if another run is at it, and for links."""
        try:
            self._refuse_links()
            self._lock = open(self.path / "lock", "ab", opener=private)
            with undoing(self._lock.close):
                self._make_private()
        except OSError as error:
            raise UsageError(f"cannot write the checkpoint {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UsageError(f"another run is using the checkpoint {self.path}") from None
        except OSError as error:
            self._lock.close()
            raise UsageError(f"cannot lock the checkpoint {self.path}: {error.strerror}") from None
        return self

    def _refuse_links(self) -> None:
        """Raise `UsageError` for a symbolic link inside, by which somebody else would have a run write elsewhere."""
        for folder in (self.path, self._spool):
            names = os.listdir(folder) if folder.is_dir() else []
            for path in (folder / name for name in names if folder == self._spool or name in OWN_NAMES):
                if path.is_symlink():
                    raise UsageError(
                        f"{path} is a symbolic link, and none is followed in a checkpoint: remove it"
                    )

    def _make_private(self) -> None:
        """Keep other users out of the checkpoint, unless it holds something else too."""
        own = {*os.listdir(self.path)} <= OWN_NAMES
        for folder in (*([self.path] if own else []), self._spool, self.spark):
            if folder == self.spark and self._asked["engine"] == "spark":
                folder.mkdir(PRIVATE_FOLDER, exist_ok=True)  # Spark would let all users in
            if folder.is_dir() and folder.stat().st_uid == os.getuid():
                folder.chmod(PRIVATE_FOLDER)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with ended_by(self._lock.close if self._lock is not None else lambda: None):
            self._log.close()
            if self._is_unused and kind is not None and issubclass(kind, UsageError):
                with suppress(OSError):  # else it stays the checkpoint of the run that was refused
                    self._log.path.unlink(missing_ok=True)

    def find(self) -> Found:
        """What to work on.

        Raises `UsageError` if the checkpoint belongs to something else, `SourceError` for a source that cannot be
        opened, or has changed, and OSError where the checkpoint cannot be read.
        """
        if is_there(self.path / _OLD):
            raise self._of_another_version()
        if not is_there(self._log.path):
            return Found(*find_inputs(self.query, self._spool), None, Commit.begun(self.query), [])
        records = self._log.read()
        if not (records and _JOB in records[0]):
            raise self._of_another_version() if self._log.is_old else DamagedError(self._log.path, 0)
        self._job = records[0][_JOB]
        saved = json.loads(self._job)
        if saved["made_by"] != self._made_by:
            raise self._of_another_version()
        for what, value in self._asked.items():
            if saved[what] != value:
                raise UsageError(f"the checkpoint {self.path} belongs to a run with another {what}")
        self._log.take_over()
        inputs = [_input(values, self.path, self.query) for values in saved["inputs"]]
        self.run = saved["run"]
        commits = [Commit.from_record(record) for record in records if COMMIT in record]
        commit = commits[-1] if commits else Commit.begun(self.query)
        self._over = commit.over
        spools = [] if commit.over else unfinished(inputs)
        slices = [json.loads(record[_SLICES]) for record in records if _SLICES in record]
        return Found(inputs, spools, saved["shards"], commit, slices)

    def _of_another_version(self) -> UsageError:
        return UsageError(
            f"the checkpoint {self.path} was made by another version of xmlpunct: finish the run with that version, "
            "or start again with another --checkpoint"
        )

    def settle(self, found: Found, shards: int) -> int:
        """Put down what a new run works on; the number of its shards, ``shards`` if it is a new one."""
        if found.shards is None:
            found.shards = shards
            inputs = [_saved_input(i, self.path) for i in found.inputs]
            saved = {
                "made_by": self._made_by,
                **self._asked,
                "shards": shards,
                "inputs": inputs,
                "run": self.run,
            }
            saved["inferred"] = dict(self.query.inferred)
            saved["planned"] = {
                "sql": self.query.sql,
                "sources": {s.declared: s.source for s in self.query.streams if s.source is not None},
                "folder": os.getcwd(),
            }
            self._job = json.dumps(stored(saved)).encode()
            self._log.replace({_JOB: self._job})
            self._is_unused = True
        return found.shards

    def put_down(self, slices: Mapping[str, Any]) -> None:
        """Add to the log, durably, which slices were read since the last commit, and what they gave."""
        self._log.append({_SLICES: json.dumps(slices).encode()})

    def put_down_held(self, held: Frames) -> None:
        """Add to the log what is held by now, for whoever asks."""
        self._log.append(Commit.held_record(held))

    def check(self) -> None:
        """Raise `XmlPunctError` if another run has taken over, or the checkpoint is gone."""
        self._log.check()

    def commit(self, commit: Commit) -> None:
        """Keep a commit, durably, in the place of the one before and of all slices since."""
        self._log.replace({_JOB: self._job}, commit.to_record())
        self._over, self._is_unused = commit.over, False

    def clean_if_over(self) -> None:
        """Drop what no run needs any more, if none has anything left to do."""
        if self._over:
            self.clean()

    def clean(self) -> None:
        """Drop what only a run that goes on needs: what it has read, and Spark's state."""
        for folder in (self._spool, self.spark):
            with suppress(OSError):  # which it raises all the same in some versions of Python
                shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Seen:
    """What somebody else sees of a run: its job as it was saved, whether it is over, and what it holds.

    ``complete`` are the names of the sinks that nothing follows in; empty: of the SELECT beside them.
    """

    job: dict[str, Any]
    over: bool
    held: Frames
    complete: frozenset[str] = frozenset()


def look(path: Path) -> Seen:
    """Look at the checkpoint of a run, which may be going on. Raises `UsageError` if there is none."""
    log = WriteAheadLog(path / "log")
    try:
        records = log.read()
    except OSError as error:
        raise UsageError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if not records and log.path.exists() and log.is_old:
        raise UsageError(f"the checkpoint {path} was made by another version of xmlpunct")
    if not (records and _JOB in records[0]):
        raise UsageError(
            f"{path} is no checkpoint of a run: name the directory that run --checkpoint was given"
        )
    seen = Seen(json.loads(records[0][_JOB]), False, {})
    if seen.job["made_by"].get("version") != VERSION:
        raise UsageError(f"the checkpoint {path} was made by another version of xmlpunct")
    for record in records:
        if COMMIT in record:
            commit = Commit.from_record(record)
            seen.over = commit.ended
            pairs = zip(seen.job["choice of sinks"], commit.outputs, strict=True)
            seen.complete = frozenset(name for name, written in pairs if written.closed)
        if COMMIT in record or any(name.startswith(f"{HELD}/") for name in record):
            seen.held = {
                name.removeprefix(f"{HELD}/"): load(piece)
                for name, piece in record.items()
                if name.startswith(f"{HELD}/")
            }
    return seen


def inferred_before(path: str | None) -> dict[str, list[Any]]:
    """What the run that a checkpoint belongs to inferred, by stream; nothing if there is none."""
    with suppress(OSError, XmlPunctError):  # which `Checkpoint` tells
        for record in WriteAheadLog(Path(path) / "log").read() if path is not None else ():
            if _JOB in record:
                inferred: dict[str, list[Any]] = json.loads(record[_JOB]).get("inferred", {})
                return inferred
    return {}


def _place(path: str | None) -> str | None:
    """A file, wherever one stands."""
    return path if path is None or scheme_of(path) else os.path.abspath(path)


def run_name() -> str:
    """A name for a new run that no other has."""
    return uuid.uuid4().hex


def described(query: Query) -> list[Any]:
    """A query in words that stay the same from run to run: its plan and its streams."""
    streams = [
        (s.name, s.source, s.element, s.where, s.nested, [repr(a) for a in s.schema]) for s in query.streams
    ]
    return list(json.loads(json.dumps([streams, [_brief(node) for node in query.walk()]])))


def _brief(node: Node) -> str:
    """A node by its own fields, without what stands below it."""
    own = {f.name: getattr(node, f.name) for f in fields(node)}
    below = (*node.inputs, node.inputs)
    return f"{type(node).__name__} { {name: value for name, value in own.items() if value not in below} }"


def _saved_input(given: Input, folder: Path) -> dict[str, Any]:
    """An input as plain values. The paths of its spools are relative to ``folder``: a checkpoint can be moved."""
    values = asdict(given)
    for part in values["parts"]:
        if part["spooled"]:
            part["path"] = os.path.relpath(part["path"], folder)
    return values


def _input(values: dict[str, Any], folder: Path, query: Query) -> Input:
    """The inverse of `_saved_input`. The source comes from the query: the saved one has no passwords."""
    parts = tuple(
        Part(**part | {"path": str(folder / part["path"]), "texts": tuple(map(tuple, part["texts"]))})
        for part in values["parts"]
    )
    source = query.streams[values["streams"][0]].source
    assert source is not None
    return Input(source, tuple(values["streams"]), parts, values["sender"])

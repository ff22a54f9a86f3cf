"""The checkpoint directory of a run, from which a later run continues.

::

    DIR/log         the job: the query, its inputs and number of shards; the commit: the extent of the outputs,
                    and the state; the local engine's slices since that commit
    DIR/spool/      input of sources that cannot be read twice
    DIR/spark/      Spark's own files: offsets and state
    DIR/said        punctuations injected into a run on Spark
    DIR/cuts        positions at which large files can be cut, for Spark
    DIR/pacing      the input that the sink asks the source to read next
    DIR/counts      tuples and bytes that tasks of Spark have read in the first micro-batch
    DIR/lock        locked while a run uses the checkpoint
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

from xmlpunct.base.codec import load
from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError, ended_by, undoing
from xmlpunct.base.secrets import stored
from xmlpunct.engine.partition.hashing import VERSION as HASH_VERSION
from xmlpunct.engine.plan import Node, Query, Stream
from xmlpunct.engine.run.checkpoint.commit import COMMIT, HELD, Commit, Frames
from xmlpunct.engine.run.checkpoint.log import DamagedError, WriteAheadLog
from xmlpunct.engine.run.checkpoint.stored_paths import is_same_file, located, restored_input, saved_input
from xmlpunct.engine.run.durable_files import PRIVATE_FOLDER, is_there, lock_exclusively, make_folder, private
from xmlpunct.engine.run.inputs.parts import Input
from xmlpunct.engine.run.inputs.spool import Spool, find_inputs, unfinished
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.types.pattern import ENUMERABLE

VERSION = 13
"""Version of the checkpoint format. Up to 4 the files had other names (`_OLD`); up to 11 the records of logs had no
numbers and were not chained; up to 12 it had absolute paths, and a changed byte in the last record or
piece was taken for the end."""
_OLD = "job"
_JOB, _SLICES = "job", "slices"
"""The record kinds of the log beside the commit; each has one piece of this name."""

_FILES = ("source", "output", "rejects file")
"""The options that name files."""
_NAMES = ("log", "spool", "spark", "said", "cuts", "pacing", "counts", "lock")
OWN_NAMES = frozenset((*_NAMES, *(f"{name}.half" for name in _NAMES)))
"""The names of files that a run writes and removes."""


@dataclass
class RestoredRun:
    """The state of a run from its checkpoint: inputs, spools to start, number of shards (None: a new run), the last
    commit, and the slices of the local engine since then, as `Checkpoint.put_down` recorded them."""

    inputs: list[Input]
    spools: list[Spool]
    shards: int | None
    commit: Commit
    slices: list[dict[str, Any]]

    @property
    def cursors(self) -> list[tuple[int, Any]]:
        """Read positions with feed numbers: at the commit, and after each slice since then."""
        committed = [(number, cursor) for number, (cursor, *_) in enumerate(self.commit.cursors)]
        positions = [position for record in self.slices for position in record["places"]]
        return [*committed, *((number, cursor) for number, cursor, *_ in positions)]

    @property
    def failure(self) -> SourceError | None:
        """The error that ended the run. It is final: its output was closed, and must not grow again."""
        if self.commit.failure is None:
            return None
        source, reason, *position = self.commit.failure
        part_files = [(p.path, p.stored) for input_ in self.inputs for p in input_.parts if p.name == source]
        for path, size in part_files:
            with suppress(OSError):
                if size is not None and os.stat(path).st_size > size:
                    reason += "; it has grown since, but that run has ended: read it again with another --checkpoint"
        return SourceError(source, reason, *position)


class Checkpoint:
    """The checkpoint in directory ``path``, which is created if missing; a context manager. Raises `UsageError`."""

    def __init__(self, path: Path, query: Query, options: RunOptions, engine: str = "spark") -> None:
        self.path, self.query, self.options = path.absolute(), query, options
        try:
            make_folder(self.path, PRIVATE_FOLDER)
        except OSError as error:
            raise UsageError(f"cannot make the checkpoint {path}: {error.strerror}") from None
        self.spark, self.said, self.cuts, self.pacing, self.counts, self._spool = (
            self.path / name for name in ("spark", "said", "cuts", "pacing", "counts", "spool")
        )
        self._log = WriteAheadLog(self.path / "log")
        self._job: bytes = b""
        self.run = run_name()
        """Unique name of the run; it stays the same when the run is continued."""
        self._over = self._is_unused = False
        """``_is_unused``: the run is new, without a commit."""
        self._lock: IO[bytes] | None = None
        self._made_by = {"version": VERSION, "hash": HASH_VERSION, "enumerable": ENUMERABLE}
        targets = [options.to(answer.destination) for answer in query.answers]
        asked = {
            "engine": engine,
            "--strict, --rejects or --max-rejects": options.guarded,  # guards change the plan
            "--max-rejects": None if options.max_rejects is None else options.max_rejects.text,
            "choice of streams": [stream.name for stream in query.streams],
            "source": [located(stream.source, self.path) for stream in query.streams],
            "query": described(query, with_sources=False),
            "choice of rules": sorted(query.rules),
            "choice of sinks": [answer.name for answer in query.answers],
            "output": [located(to.output, self.path) for to in targets],
            "format": [to.format for to in targets],
            "choice of columns to partition by": [list(to.partition_by) for to in targets],
            "form of its XML": [None if to.form is None else asdict(to.form) for to in targets],
            "slice size": options.slice_bytes,
            "rejects file": [located(options.rejects, self.path)],
            "punctuation namespace": options.punct_namespace,
        }
        self._asked: dict[str, Any] = stored(asked)

    def __enter__(self) -> Checkpoint:
        """Lock out other runs and other users. Raises `UsageError` if another run has the lock, and for links."""
        try:
            self._refuse_links()
            self._lock = open(self.path / "lock", "ab", opener=private)
            with undoing(self._lock.close):
                self._make_private()
        except OSError as error:
            raise UsageError(f"cannot write the checkpoint {self.path}: {error.strerror}") from None
        with undoing(self._lock.close):
            try:
                is_free = lock_exclusively(self._lock.fileno(), needs_locks=True)
            except OSError as error:
                raise UsageError(f"cannot lock the checkpoint {self.path}: {error.strerror}") from None
            if not is_free:
                raise UsageError(f"another run is using the checkpoint {self.path}")
        return self

    def _refuse_links(self) -> None:
        """Raise `UsageError` for a symbolic link inside: another user could redirect writes with it."""
        for folder in (self.path, self._spool):
            names = os.listdir(folder) if folder.is_dir() else []
            for path in (folder / name for name in names if folder == self._spool or name in OWN_NAMES):
                if path.is_symlink():
                    raise UsageError(
                        f"{path} is a symbolic link, which a checkpoint must not contain: remove it"
                    )

    def _make_private(self) -> None:
        """Remove the permissions of other users, unless the directory holds foreign files."""
        has_own_files_only = {*os.listdir(self.path)} <= OWN_NAMES
        for folder in (*([self.path] if has_own_files_only else []), self._spool, self.spark):
            if folder == self.spark and self._asked["engine"] == "spark":
                folder.mkdir(PRIVATE_FOLDER, exist_ok=True)  # Spark would create it readable for all users
            if folder.is_dir() and folder.stat().st_uid == os.getuid():
                folder.chmod(PRIVATE_FOLDER)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with ended_by(self._lock.close if self._lock is not None else lambda: None):
            self._log.close()
            if self._is_unused and kind is not None and issubclass(kind, UsageError):
                with suppress(OSError):  # otherwise the refused run keeps the checkpoint
                    self._log.path.unlink(missing_ok=True)

    def find(self) -> RestoredRun:
        """Read the checkpoint, or begin a new run.

        Raises `UsageError` if the checkpoint belongs to another run, `SourceError` for a source that cannot be opened
        or has changed, and OSError for an unreadable checkpoint.
        """
        if is_there(self.path / _OLD):
            raise self._of_another_version()
        if not is_there(self._log.path):
            return RestoredRun(
                *find_inputs(self.query, self._spool, punct_namespace=self.options.punct_namespace),
                None,
                Commit.begun(self.query),
                [],
            )
        records = self._log.read()
        if not (records and _JOB in records[0]):
            raise self._of_another_version() if self._log.is_old else DamagedError(self._log.path, 0)
        self._job = records[0][_JOB]
        saved = json.loads(self._job)
        if saved["made_by"] != self._made_by:
            raise self._of_another_version()
        for option, value in self._asked.items():
            if not _is_same(option, saved[option], value):
                raise UsageError(f"the checkpoint {self.path} belongs to a run with another {option}")
        self._log.take_over()
        inputs = [restored_input(values, self.path, self.query) for values in saved["inputs"]]
        self.run = saved["run"]
        commits = [Commit.from_record(record) for record in records if COMMIT in record]
        commit = commits[-1] if commits else Commit.begun(self.query)
        self._over = commit.over
        spools = [] if commit.over else unfinished(inputs, self.query, self.options.punct_namespace)
        slices = [json.loads(record[_SLICES]) for record in records if _SLICES in record]
        return RestoredRun(inputs, spools, saved["shards"], commit, slices)

    def _of_another_version(self) -> UsageError:
        return UsageError(
            f"the checkpoint {self.path} was made by another version of xmlpunct: finish the run with that version, "
            "or start again with another --checkpoint"
        )

    def settle(self, restored: RestoredRun, shards: int) -> int:
        """Record the job of a new run. Returns its number of shards, ``shards`` for a new run."""
        if restored.shards is None:
            restored.shards = shards
            inputs = [saved_input(i, self.path) for i in restored.inputs]
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
                "sources": {
                    s.declared: located(s.source, self.path)
                    for s in self.query.streams
                    if s.source is not None
                },
                "folder": os.path.relpath(os.getcwd(), self.path),
                "labels": self.query.has_labels,
            }
            self._job = json.dumps(stored(saved)).encode()
            self._log.replace({_JOB: self._job})
            self._is_unused = True
        return restored.shards

    def put_down(self, slices: Mapping[str, Any]) -> None:
        """Append to the log, durably, the slices since the last record, and the checksum of their output."""
        self._log.append({_SLICES: json.dumps(slices).encode()})

    def put_down_held(self, held: Frames) -> None:
        """Append to the log a snapshot of the retained state, for `why`."""
        self._log.append(Commit.held_record(held))

    def check(self) -> None:
        """Raise `XmlPunctError` if another run has taken over, or the checkpoint was removed."""
        self._log.check()

    def commit(self, commit: Commit) -> None:
        """Record a commit durably; it replaces the commit before and all slices since then."""
        self._log.replace({_JOB: self._job}, commit.to_record())
        self._over, self._is_unused = commit.over, False

    def clean_if_over(self) -> None:
        """Remove spools and Spark's state if the run is over."""
        if self._over:
            self.clean()

    def clean(self) -> None:
        """Remove the files that only a continued run needs: spools, and Spark's state."""
        for folder in (self._spool, self.spark):
            with suppress(OSError):  # some versions of Python raise in spite of ignore_errors
                shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Seen:
    """A run as another process sees it: its saved job, whether it is over, and its retained state (``held``).

    ``complete`` are the names of complete sinks; the empty name is the SELECT without a sink.
    """

    job: dict[str, Any]
    over: bool
    held: Frames
    complete: frozenset[str] = frozenset()


def recorded(path: Path) -> tuple[dict[str, Any], list[dict[str, bytes]]]:
    """The job and all records of a run, which may be running. Raises `UsageError` if there is none, `DamagedError`."""
    log = WriteAheadLog(path / "log")
    try:
        records = log.read()
    except OSError as error:
        raise UsageError(f"cannot read the checkpoint {path}: {error.strerror}") from None
    if not records and log.path.exists() and log.is_old:
        raise UsageError(f"the checkpoint {path} was made by another version of xmlpunct")
    if not (records and _JOB in records[0]):
        raise UsageError(f"{path} is no checkpoint of a run: name the directory of run --checkpoint")
    job = json.loads(records[0][_JOB])
    if job["made_by"].get("version") != VERSION:
        raise UsageError(f"the checkpoint {path} was made by another version of xmlpunct")
    return job, records


def look(path: Path) -> Seen:
    """Read the checkpoint of a run, which may be running. Raises `UsageError` if there is none."""
    job, records = recorded(path)
    run = Seen(job, False, {})
    for record in records:
        if COMMIT in record:
            commit = Commit.from_record(record)
            run.over = commit.ended
            pairs = zip(run.job["choice of sinks"], commit.outputs, strict=True)
            run.complete = frozenset(name for name, written in pairs if written.closed)
        if COMMIT in record or any(name.startswith(f"{HELD}/") for name in record):
            run.held = {
                name.removeprefix(f"{HELD}/"): load(piece)
                for name, piece in record.items()
                if name.startswith(f"{HELD}/")
            }
    return run


def inferred_before(path: str | None) -> dict[str, list[Any]]:
    """Inferred schemas of the checkpoint's run, by stream; empty without a checkpoint."""
    with suppress(OSError, XmlPunctError):  # `Checkpoint` reports it
        for record in WriteAheadLog(Path(path) / "log").read() if path is not None else ():
            if _JOB in record:
                inferred: dict[str, list[Any]] = json.loads(record[_JOB]).get("inferred", {})
                return inferred
    return {}


def _is_same(option: str, saved: Any, now: Any) -> bool:
    """True if an option of a run has the saved value."""
    if option not in _FILES:
        return bool(saved == now)
    names = option == "source"
    return len(saved) == len(now) and all(
        is_same_file(*pair, compares_names=names) for pair in zip(saved, now, strict=True)
    )


def run_name() -> str:
    """A unique name for a new run."""
    return uuid.uuid4().hex


def described(query: Query, *, with_sources: bool = True) -> list[Any]:
    """The streams and the plan of a query, as text that is equal in all runs."""
    streams = []
    for s in query.streams:
        source, columns = s.source if with_sources else "", [repr(a) for a in s.schema]
        options = [*map(repr, s.marks), *([s.dtd] if s.dtd else [])]
        streams.append((s.name, source, s.element, s.where, s.nested, columns, *options))
    return list(json.loads(json.dumps([streams, [_brief(node, with_sources) for node in query.walk()]])))


def _brief(node: Node, with_sources: bool) -> str:
    """A node's class and fields, without its inputs."""
    values = {f.name: getattr(node, f.name) for f in fields(node)}
    if not with_sources:
        values = {k: replace(v, source=None) if isinstance(v, Stream) else v for k, v in values.items()}
    inputs = (*node.inputs, node.inputs)
    return f"{type(node).__name__} { {name: value for name, value in values.items() if value not in inputs} }"

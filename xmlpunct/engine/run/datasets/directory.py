"""A directory of files in columns: a partition is to be seen when punctuations promise that it is complete.

A partition's files are written aside and appear by one rename of their directory; nothing that can be seen is
written to again. What is open is on disk at each commit. A run that goes on is given all that came after that once
more: then the same partitions, with the same numbers, become complete again, and what is there already stays.

Without columns to partition by, a file appears when it is full, and the last one at the end.

Before anything appears, ``_xmlpunct/run`` says which group of results is the last that it holds: a run whose log does
not know that group has gone back to an older checkpoint, and is refused.
"""

from __future__ import annotations

import fcntl
import filecmp
import json
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.last_group import LastGroup
from xmlpunct.connectors.outlet import Existing, Results
from xmlpunct.engine.run.checkpoint.commit import Frames
from xmlpunct.engine.run.datasets.partition_names import check_columns, directory, unfit
from xmlpunct.engine.run.datasets.staging import OpenPartition
from xmlpunct.engine.run.durable_files import make_folder, save_durably, sync_folder, writing
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema

OWN = "_xmlpunct"
"""The directory of what is not to be seen. Readers pass over names that begin with ``_``."""
COMPLETE = "_SUCCESS"
"""The empty file that says, as Spark's writers do, that nothing follows."""
_COUNTS, _OPEN, _JOINT = "counts", "open", "joint/"
_NUMBER, _LENGTH = "$number", "$length"
_PUBLISHED = re.compile(r"part-[0-9]{6,}-[0-9]+\.(parquet|arrow|csv)|[^=]+=.*", re.DOTALL)
"""The names of what a run publishes: files, and directories of partitions."""

_REMEDY = {
    Existing.ACCEPT: "",
    Existing.REFUSE: "; --replace removes the results of another run",
    Existing.REPLACE: "; --replace removes only results of runs",
}


class Directory(ABC):
    """What is to be seen in the directory ``path``, of files of a format, partitioned by some columns, or none.

    Where the rows of open partitions are, and who makes files of them, is for others to say.
    """

    def __init__(self, path: str, format_: str, by: Sequence[str]) -> None:
        self._path, self._format, self._by = Path(path).absolute(), format_, list(by)
        self._name = path
        self._own = self._path / OWN
        self._open = dict[tuple[Any, ...], OpenPartition]()
        self._number = self._measure = 0
        self._complete = self._settled = self._kept = False
        self._lock = -1
        self._last = LastGroup(path)  # that can be seen
        self._current = LastGroup(path)  # that was taken

    @abstractmethod
    def _made(self, partitions: Iterable[OpenPartition]) -> Iterator[OpenPartition]:
        """Write partitions' files to where `_ready` says, durably; each partition as soon as its files are."""

    @abstractmethod
    def _drop(self, partition: OpenPartition) -> None:
        """Forget the rows of a partition, which can be seen by now."""

    @abstractmethod
    def _look(self, partition: OpenPartition) -> None:
        """Raise `XmlPunctError` if rows of a partition are gone that were committed."""

    def check(self, schema: Schema) -> None:
        """Raise `UsageError` if results of this schema cannot be written."""
        check_columns(schema, self._by)
        if self._format == "csv":
            writer_for("csv", schema)
        self._schema = schema

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """What can name no directory."""
        return unfit(self._schema, self._by, tuples)

    def check_last(self, last: int) -> None:
        """Raise `XmlPunctError` if groups of this run can be seen that are behind number ``last``."""
        self._last.check(last)

    def close(self) -> None:
        """Let go of it. What is not to be seen is removed, unless a run can go on from it."""
        if self._lock < 0:
            return
        try:
            if not (self._kept or self._settled):
                shutil.rmtree(self._own, ignore_errors=True)
            elif self._complete or self._settled:
                save_durably(self._done, b"")
                for path in self._own.iterdir():
                    if path.name not in ("lock", self._done.name):
                        path.unlink()
        finally:
            os.close(self._lock)
            self._lock = -1

    def break_off(self) -> None:
        """What is open will never be complete. Without partitions, all that came is written."""
        if not self._by:
            with writing(self._path):
                self._publish(list(self._open))

    def _begin(self, schema: Schema, run: str, existing: Existing) -> None:
        """Make the directory this run's. Raises `UsageError` for what cannot be written there."""
        self.check(schema)
        self._rest = Schema.of(a for a in schema if a.name not in self._by)
        self._keys = Schema.of(schema[name] for name in self._by)
        places = [schema.index(name) for name in self._by]
        self._places, self._run = places, run
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in places])
        try:
            make_folder(self._path)
            self._take_over(existing)
            self._tidy()
            self._settled = self._done.exists()
            run, _, last = self._marker.read_text().partition("\n") if self._marker.exists() else ("", "", "")
            if run == self._run and last:
                self._last = LastGroup(self._name, *json.loads(last))
        except OSError as error:
            raise UsageError(f"cannot write the dataset {self._name}: {error.strerror}") from None

    def _frames(self) -> Frames:
        """Which partitions are open, and what was promised of them."""
        partitions = [*self._open.values()]
        numbers = {_NUMBER: [p.number for p in partitions], _LENGTH: [p.length for p in partitions]}
        keys = self._keys.frame([p.key for p in partitions]) if self._by else pl.DataFrame()
        counts = pl.DataFrame({"number": [self._number], "measure": [self._measure]})
        joint = {f"{_JOINT}{name}": frame for name, frame in self._joint.snapshot().items()}
        return {_COUNTS: counts, _OPEN: pl.DataFrame(numbers).hstack(keys), **joint}

    def _take_frames(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """The inverse of `_frames`."""
        self._number, self._measure = frames[_COUNTS].row(0)
        for number, length, *key in frames[_OPEN].iter_rows():
            self._open[tuple(key)] = OpenPartition(number, tuple(key), length)
        joint = {
            name.removeprefix(_JOINT): frame for name, frame in frames.items() if name.startswith(_JOINT)
        }
        self._joint.restore(joint)
        self._kept = True

    def _look_at_all(self) -> None:
        for partition in self._open.values():
            if not self._is_published(partition):
                self._look(partition)

    @property
    def _done(self) -> Path:
        """The empty file that says that all of this run is published, and nothing has to be kept aside."""
        return self._own / f"done-{self._run}"

    @property
    def _marker(self) -> Path:
        """The file that names the run that writes here, and behind it the last group that can be seen."""
        return self._own / "run"

    def _take(self, results: Results) -> None:
        """Take note of a group. Raises `XmlPunctError` if another one by its number can be seen."""
        self._last.holds(results)
        self._current = LastGroup(self._name, results.number, results.digest)

    def _take_over(self, existing: Existing) -> None:
        """Make the directory this run's. Raises `UsageError` if it is another's."""
        marker = self._marker
        is_ours = self._done.exists() or (
            marker.exists() and marker.read_text().partition("\n")[0] == self._run
        )
        others = [name for name in os.listdir(self._path) if not name.startswith(("_", "."))]
        replaced = [name for name in others if existing is Existing.REPLACE and _PUBLISHED.fullmatch(name)]
        if len(others) > len(replaced) and not is_ours:
            raise UsageError(
                f"{self._name} holds {min({*others} - {*replaced})}, and published files are never changed: "
                "name another directory, or empty this one" + _REMEDY[existing]
            )
        make_folder(self._own)
        lock = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise UsageError(f"another run is writing the dataset {self._name}") from None
        self._lock = lock
        if not is_ours:
            (self._path / COMPLETE).unlink(missing_ok=True)
            for path in (self._path / name for name in replaced):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name in os.listdir(self._own):
                if name != "lock" and not name.startswith("ready-"):
                    (self._own / name).unlink()
            save_durably(marker, self._run.encode())

    def _tidy(self) -> None:
        """Remove what was on its way when a run was killed."""
        for folder in self._own.glob("ready-*"):
            shutil.rmtree(folder)

    def _partition(self, key: tuple[Any, ...]) -> OpenPartition:
        partition = self._open.get(key)
        if partition is None:
            partition = self._open[key] = OpenPartition(self._number, key)
            self._number += 1
            if self._by and self._target(partition).exists() and not self._is_published(partition):
                raise XmlPunctError(
                    f"a tuple came for {self._target(partition)}, which was complete: the published files stay"
                )
        return partition

    def _end(self) -> None:
        """Publish what is left: nothing follows."""
        self._publish(list(self._open))
        save_durably(self._path / COMPLETE, b"")
        self._complete = True

    def _publish_promised(self, punctuations: Sequence[Punctuation]) -> None:
        """Publish the partitions that the punctuations by now promise to be complete."""
        closed = PunctuationSet(self._keys, self._joint.add(punctuations).rebase(self._keys, self._places))
        if not (len(closed) and self._open):
            return
        keys = self._keys.frame(self._open)
        self._publish(list(keys.filter(closed.mask(keys)).iter_rows()))

    def _publish(self, keys: Iterable[tuple[Any, ...]]) -> None:
        """Let partitions be seen, unless they are, and forget them."""
        fresh: list[OpenPartition] = []
        for partition in map(self._open.pop, keys):
            if self._is_published(partition):
                self._drop(partition)
            else:
                fresh.append(partition)
        if fresh and self._current.number > self._last.number:
            last = json.dumps([self._current.number, self._current.digest])
            save_durably(self._marker, f"{self._run}\n{last}".encode())
            self._last = self._current
        for partition in self._made(fresh):
            self._show(partition)
            self._drop(partition)
        if not self._by:
            self._measure = 0

    def _show(self, partition: OpenPartition) -> None:
        """Let the files of a partition be seen, by one rename if they have a directory of their own."""
        ready, target = self._ready(partition), self._target(partition)
        sync_folder(ready)
        make_folder(target.parent)
        if self._by:
            os.rename(ready, target)
        else:
            self._show_files(partition, ready)
        sync_folder(target.parent)

    def _show_files(self, partition: OpenPartition, ready: Path) -> None:
        """Let files be seen, the first one last: where it is, all are. A run that was killed may have come to some."""
        names = sorted(os.listdir(ready), reverse=True)
        for left in self._path.glob(self._file(partition, "*")):
            if left.name in names and filecmp.cmp(left, ready / left.name, shallow=False):
                names.remove(left.name)
            else:
                left.unlink()
        for name in names:
            if name == names[-1]:
                sync_folder(self._path)
            os.rename(ready / name, self._path / name)
        shutil.rmtree(ready)

    def _ready(self, partition: OpenPartition) -> Path:
        """The directory of a partition's files on their way to where they are seen."""
        return self._own / f"ready-{partition.number}"

    def _file(self, partition: OpenPartition, number: int | str) -> str:
        return f"part-{partition.number:06d}-{number}.{self._format}"

    def _target(self, partition: OpenPartition) -> Path:
        """Where a partition is seen: its directory, or its first file."""
        if not self._by:
            return self._path / self._file(partition, 0)
        texts = self._keys.texts(self._keys.frame([partition.key])).row(0)
        return self._path / directory(self._by, texts)

    def _is_published(self, partition: OpenPartition) -> bool:
        """Whether it can be seen, by the same number."""
        target = self._target(partition)
        return (target / self._file(partition, 0) if self._by else target).exists()

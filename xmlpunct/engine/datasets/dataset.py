"""A directory of files in columns: a partition is to be seen when punctuations promise that it is complete.

A partition's files are written aside and appear by one rename of their directory; nothing that can be seen is
written to again. What is open is on disk at each commit. A run that goes on is given all that came after that once
more: then the same partitions, with the same numbers, become complete again, and what is there already stays.

Without columns to partition by, a file appears when it is full, and the last one at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from xmlpunct.codec import pack, unpack
from xmlpunct.engine.datasets.files import FILE_BYTES, write_files
from xmlpunct.engine.datasets.names import check_columns, directory, unfit
from xmlpunct.engine.datasets.staging import Partition, Staging
from xmlpunct.engine.files import make_folder, save, sync_folder, writing
from xmlpunct.errors import UsageError, XmlPunctError
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.connectors import Form, Outlet, Results
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

OWN = "_xmlpunct"
"""The directory of what is not to be seen. Readers pass over names that begin with ``_``."""
COMPLETE = "_SUCCESS"
"""The empty file that says, as Spark's writers do, that nothing follows."""
_COUNTS, _OPEN, _JOINT = "counts", "open", "joint/"
_NUMBER, _LENGTH = "$number", "$length"


class Dataset(Outlet):
    """The dataset in directory ``path``, of files of a format, partitioned by some columns, or none."""

    takes_columns = True

    def __init__(self, path: str, format_: str, by: Sequence[str]) -> None:
        self._path, self._format, self._by = Path(path).absolute(), format_, list(by)
        self._name = path
        self._own = self._path / OWN
        self._staging = Staging(self._own)
        self._open = dict[tuple[Any, ...], Partition]()
        self._number = self._measure = self._commits = 0
        self._complete = self._settled = False
        self._lock = -1

    def check(self, schema: Schema) -> None:
        check_columns(schema, self._by)
        if self._format == "csv":
            writer_for("csv", schema)
        self._schema = schema

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        """What can name no directory."""
        return unfit(self._schema, self._by, tuples)

    def open(self, form: Form, position: Any) -> None:
        self.check(form.schema)
        schema = form.schema
        self._rest = Schema.of(a for a in schema if a.name not in self._by)
        self._keys = Schema.of(schema[name] for name in self._by)
        places = [schema.index(name) for name in self._by]
        self._places, self._run = places, form.run
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in places])
        try:
            make_folder(self._path)
            self._take_over()
            self._tidy()
            self._settled = self._done.exists()
        except OSError as error:
            raise UsageError(f"cannot write the dataset {self._name}: {error.strerror}") from None
        if position is not None and not self._settled:
            self._restore(position)

    def write(self, results: Results, *, again: bool = False) -> None:
        if self._settled:  # all of it is there
            return
        with writing(self._path):
            for slice_ in results.slices:
                self._take(slice_)
                if self._by and slice_.punctuations:
                    self._publish_promised(slice_)
            self._staging.spill([*self._open.values()])
            self._measure += len(results.data)
            if results.last or (not self._by and self._measure >= FILE_BYTES):
                self._publish_all()
            if results.last:
                save(self._path / COMPLETE, b"")
                self._complete = True

    def break_off(self) -> None:
        """What is open will never be complete. Without partitions, all that came is written."""
        if not self._by:
            with writing(self._path):
                self._publish_all()

    def commit(self) -> int:
        if self._settled:
            return self._commits
        with writing(self._path):
            partitions = [*self._open.values()]
            self._staging.sync(partitions)
            numbers = {_NUMBER: [p.number for p in partitions], _LENGTH: [p.length for p in partitions]}
            keys = self._keys.frame([p.key for p in partitions]) if self._by else pl.DataFrame()
            counts = pl.DataFrame({"number": [self._number], "measure": [self._measure]})
            state = {_COUNTS: counts, _OPEN: pl.DataFrame(numbers).hstack(keys)}
            state |= {f"{_JOINT}{name}": frame for name, frame in self._joint.snapshot().items()}
            self._commits += 1
            save(self._state(self._commits), pack(state))
            self._state(self._commits - 2).unlink(missing_ok=True)
        return self._commits

    def close(self) -> None:
        if self._lock < 0:
            return
        try:
            if not (self._commits or self._settled):  # nobody can go on from what is open
                shutil.rmtree(self._own, ignore_errors=True)
            elif self._complete:
                save(self._done, b"")
                for path in self._own.iterdir():
                    if path.name not in ("lock", self._done.name):
                        path.unlink()
        finally:
            os.close(self._lock)
            self._lock = -1

    @property
    def _done(self) -> Path:
        """The empty file that says that all of this run is published, and nothing has to be kept aside."""
        return self._own / f"done-{self._run}"

    def _take_over(self) -> None:
        """Make the directory this run's. Raises `UsageError` if it is another's."""
        marker = self._own / "run"
        is_ours = self._done.exists() or (marker.exists() and marker.read_text() == self._run)
        others = [name for name in os.listdir(self._path) if not name.startswith(("_", "."))]
        if others and not is_ours:
            raise UsageError(
                f"{self._name} holds {min(others)}, and what was published is never changed: "
                "name another directory, or empty this one"
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
            for name in os.listdir(self._own):
                if name != "lock" and not name.startswith("ready-"):
                    (self._own / name).unlink()
            save(marker, self._run.encode())

    def _tidy(self) -> None:
        """Remove what was on its way when a run was killed."""
        for folder in self._own.glob("ready-*"):
            shutil.rmtree(folder)

    def _state(self, number: int) -> Path:
        return self._own / f"state-{number}"

    def _restore(self, position: int) -> None:
        try:
            state = unpack(self._state(position).read_bytes())
        except FileNotFoundError:
            raise XmlPunctError(
                f"{self._own} does not hold what this run committed to it: it was removed, or it is another directory"
            ) from None
        self._commits = position
        self._number, self._measure = state[_COUNTS].row(0)
        for number, length, *key in state[_OPEN].iter_rows():
            partition = Partition(number, tuple(key), length)
            if not self._is_published(partition):
                self._staging.look(partition)
            self._open[partition.key] = partition
        joint = {name.removeprefix(_JOINT): frame for name, frame in state.items() if name.startswith(_JOINT)}
        self._joint.restore(joint)

    def _take(self, slice_: Slice) -> None:
        """Put tuples to their partitions."""
        if not slice_.tuples.height:
            return
        if not self._by:
            self._staging.add(self._partition(()), slice_.tuples)
            return
        for key, rows in slice_.tuples.partition_by(self._by, as_dict=True, maintain_order=True).items():
            self._staging.add(self._partition(key), rows.select(self._rest.names))

    def _partition(self, key: tuple[Any, ...]) -> Partition:
        partition = self._open.get(key)
        if partition is None:
            partition = self._open[key] = Partition(self._number, key)
            self._number += 1
            if self._by and self._target(partition).exists() and not self._is_published(partition):
                raise XmlPunctError(
                    f"a tuple comes for {self._target(partition)}, which was complete: what was published stays"
                )
        return partition

    def _publish_promised(self, slice_: Slice) -> None:
        """Publish the partitions that the punctuations by now promise to be complete."""
        closed = PunctuationSet(
            self._keys, self._joint.add(slice_.punctuations).rebase(self._keys, self._places)
        )
        if not (len(closed) and self._open):
            return
        keys = self._keys.frame(self._open)
        for key in keys.filter(closed.mask(keys)).iter_rows():
            self._publish(key)

    def _publish_all(self) -> None:
        for key in list(self._open):
            self._publish(key)
        self._measure = 0

    def _publish(self, key: tuple[Any, ...]) -> None:
        """Let a partition be seen, unless it is, and forget it."""
        partition = self._open.pop(key)
        if not self._is_published(partition):
            ready = self._own / f"ready-{partition.number}"
            ready.mkdir()
            rows = self._staging.read(partition)
            most = FILE_BYTES if self._by else None
            write_files(self._format, self._rest, rows, lambda n: ready / self._file(partition, n), most)
            sync_folder(ready)
            target = self._target(partition)
            make_folder(target.parent)
            if self._by:
                os.rename(ready, target)
            else:
                os.rename(ready / target.name, target)
                ready.rmdir()
            sync_folder(target.parent)
        self._staging.drop(partition)

    def _file(self, partition: Partition, number: int) -> str:
        return f"part-{partition.number:06d}-{number}.{self._format}"

    def _target(self, partition: Partition) -> Path:
        """Where a partition is seen: its directory, or its first file."""
        if not self._by:
            return self._path / self._file(partition, 0)
        texts = self._keys.texts(self._keys.frame([partition.key])).row(0)
        return self._path / directory(self._by, texts)

    def _is_published(self, partition: Partition) -> bool:
        """Whether it can be seen, by the same number."""
        target = self._target(partition)
        return (target / self._file(partition, 0) if self._by else target).exists()

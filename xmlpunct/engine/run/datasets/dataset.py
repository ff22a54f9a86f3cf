"""Datasets: directories of columnar files, partitioned by columns, or not.

A partition appears when punctuations promise that it is complete, by one rename of its directory. Without partition
columns, a file appears when it is full, and the last one at the end. At each commit the rows of incomplete partitions
are staged on disk::

    DIR/_xmlpunct/state-7    the open partitions, and the promises about them, after the 7th commit
    DIR/_incomplete/...      the partitions that were open when the run was stopped for good, or its input failed

A continued run receives all later results again. The same partitions, with the same numbers, become complete again,
and visible ones stay as they are. Before results appear, their group is recorded: a run whose log does not have this
group continues from an older checkpoint, and is refused.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from xmlpunct.base.codec import pack, unpack
from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.last_group import LastGroup
from xmlpunct.connectors.outlet import Form, Results, chained
from xmlpunct.engine.run.checkpoint.log import DamagedError
from xmlpunct.engine.run.datasets.chunks import KeyedChunk, Making, in_groups, read_chunks
from xmlpunct.engine.run.datasets.dataset_files import FILE_BYTES
from xmlpunct.engine.run.datasets.open_partitions import Executor, OpenPartition, OpenPartitions, PartitionKey
from xmlpunct.engine.run.datasets.partition_names import check_columns, directory, unfit
from xmlpunct.engine.run.datasets.staged_directory import COMPLETE, INCOMPLETE, StagedDirectory
from xmlpunct.engine.run.datasets.staged_outlet import StagedOutlet
from xmlpunct.engine.run.durable_files import save_durably, writing
from xmlpunct.firehose import writer_for
from xmlpunct.punctuations.joint_cover import JointCover
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_set import PunctuationSet
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_EXTENT, _JOINT = "extent", "joint/"
_PUBLISHED = re.compile(r"part-[0-9]{6,}-[0-9]+\.(parquet|arrow|csv)|[^=]+=.*", re.DOTALL)
"""Names that a run publishes: files, and directories of partitions."""

T = TypeVar("T")

_log = logging.getLogger("xmlpunct")


class Dataset(StagedOutlet):
    """The dataset in directory ``path``, in one file format, partitioned by the columns ``keys``.

    With an ``executor``, tasks stage the rows (see `stage`) and make the files.
    """

    takes_columns = can_replace = True

    def __init__(
        self, path: str, format_: str, keys: Sequence[str], executor: Executor | None = None
    ) -> None:
        self._format, self._keys, self._executor = format_, list(keys), executor
        self._directory = StagedDirectory(path)
        self._open = OpenPartitions(self._directory.staging)
        self._group = LastGroup(path)
        """The last received group."""
        self._measure = self._commits = 0
        self._state_digest = ""
        """``_measure``: size of the rows since the last file, without partition columns."""
        self._is_committed = self._is_complete = self._is_final = False
        self._staged: Sequence[KeyedChunk] = ()

    @property
    def staging(self) -> Path:
        return self._directory.staging

    def check(self, schema: Schema) -> None:
        check_columns(schema, self._keys)
        if self._format == "csv":
            writer_for("csv", schema)
        self._schema = schema

    def unfit(self, tuples: pl.DataFrame) -> pl.Series | None:
        return unfit(self._schema, self._keys, tuples)

    def open(self, form: Form, position: Any) -> None:
        schema = form.schema
        self.check(schema)
        self._file_schema = Schema.of(a for a in schema if a.name not in self._keys)
        self._key_schema = Schema.of(schema[name] for name in self._keys)
        self._key_indices = [schema.index(name) for name in self._keys]
        self._joint = JointCover(schema, [i for i in range(len(schema)) if i not in self._key_indices])
        try:
            self._directory.claim(form.run, form.existing, _PUBLISHED.fullmatch)
        except OSError as error:
            raise UsageError(f"cannot write the dataset {self._directory.name}: {error.strerror}") from None
        if self._directory.is_done:
            return
        if position is not None:
            self._restore(position)
        self._open.remove_strays()

    def stage(self, chunks: Sequence[KeyedChunk]) -> None:
        self._staged = chunks

    def write(self, results: Results, *, again: bool = False) -> None:
        chunks, self._staged = self._staged, ()
        self.group_bytes = sum(chunk.length for _, chunk in chunks)
        if self._directory.is_done:
            return
        with writing(self._directory.path):
            if results.slices or self._executor is not None:
                self._receive(results)
            self._open.forget_merged()
            self._publish_full()  # by the size at the last commit: a repeated micro-batch publishes the same file
            for key, chunk in chunks:
                self._open.add_chunks(self._partition(key), [chunk])
            for slice_ in results.slices:
                self._add(slice_)
                if self._keys and slice_.punctuations:
                    self._publish_promised(slice_.punctuations)
            self._measure += len(results.data) + self.group_bytes
            if results.last:
                self._end()
                return
            self._open.spill()
            self._open.merge(self._run_tasks)
            if self._executor is None:
                self._publish_full()

    def check_last(self, last: int) -> None:
        self._directory.last_group.check(last)

    def verify(self) -> None:
        with writing(self._directory.path):
            for partition in self._open:
                if not self._is_published(partition):
                    deque(read_chunks(self.staging, partition.chunks), maxlen=0)

    def commit(self) -> list[Any]:
        if not self._directory.is_done:
            with writing(self._directory.path):
                self._open.stage(self._open)
                self._commits += 1
                self._is_committed = True
                joint = {f"{_JOINT}{name}": frame for name, frame in self._joint.snapshot().items()}
                extent = {
                    _EXTENT: pl.DataFrame({"measure": [self._measure], "complete": [self._is_complete]})
                }
                frames = {**self._open.snapshot(self._key_schema), **extent, **joint}
                state = pack(frames)
                self._state_digest = chained("", state)
                save_durably(self._state(self._commits), state)
                self._state(self._commits - 2).unlink(missing_ok=True)
        return [self._commits, self._state_digest]

    def break_off(self) -> None:
        """Publish all rows; rows of open partitions go to the folder `INCOMPLETE`."""
        open_keys = self._open.keys
        with writing(self._directory.path):
            self._publish(open_keys, INCOMPLETE if self._keys else "")
        self._is_final = True
        if open_keys and self._keys:
            incomplete = Path(self._directory.name, INCOMPLETE)
            count = (
                "1 partition that is" if len(open_keys) == 1 else f"{len(open_keys):,} partitions that are"
            )
            _log.warning("%s has the rows of %s not complete", incomplete, count)

    def close(self) -> None:
        """Release the directory. The staging folder is removed, unless a run can continue from it."""
        if not self._directory.is_locked:
            return
        with closing(self._directory):
            is_complete = self._is_complete or self._directory.is_done
            if not (self._is_committed or self._directory.is_done) or (self._is_final and not is_complete):
                self._directory.remove_staging()
            elif is_complete:
                self._directory.finish()

    def _state(self, number: int) -> Path:
        return self.staging / f"state-{number}"

    def _restore(self, position: list[Any]) -> None:
        number, self._state_digest = position
        path = self._state(number)
        try:
            state = path.read_bytes()
        except FileNotFoundError:
            raise XmlPunctError(
                f"{self.staging} does not contain the committed results of this run: they were removed, or it is "
                "another directory"
            ) from None
        if chained("", state) != self._state_digest:
            raise DamagedError(path, 0)
        frames = unpack(state)
        self._commits, self._is_committed = number, True
        self._open.restore(frames)
        self._measure, self._is_complete = frames[_EXTENT].row(0)
        self._joint.restore(
            {name.removeprefix(_JOINT): frame for name, frame in frames.items() if name.startswith(_JOINT)}
        )
        for partition in self._open:
            if not self._is_published(partition):
                self._open.check(partition)

    def _receive(self, results: Results) -> None:
        """Record a group. Raises `XmlPunctError` if a different group with its number is visible."""
        self._directory.last_group.holds(results)
        self._group = LastGroup(self._directory.name, results.number, results.digest)

    def _add(self, slice_: Slice) -> None:
        """Add tuples to their partitions."""
        if not slice_.tuples.height:
            return
        if not self._keys:
            self._open.add_rows(self._partition(()), slice_.tuples)
            return
        for key, rows in slice_.tuples.partition_by(self._keys, as_dict=True, maintain_order=True).items():
            self._open.add_rows(self._partition(key), rows.select(self._file_schema.names))

    def _partition(self, key: PartitionKey) -> OpenPartition:
        """The open partition with this key. Raises `XmlPunctError` if it was complete."""
        is_new, partition = key not in self._open, self._open[key]
        if is_new and self._keys and self._target(partition).exists() and not self._is_published(partition):
            raise XmlPunctError(
                f"a tuple came for {self._target(partition)}, which was complete: the published files stay"
            )
        return partition

    def _end(self) -> None:
        """Publish all partitions: nothing follows."""
        self._publish(self._open.keys)
        save_durably(self._directory.path / COMPLETE, b"")
        self._is_complete = True

    def _publish_full(self) -> None:
        """Publish a file if it is full."""
        if not self._keys and self._measure >= FILE_BYTES:
            self._publish(self._open.keys)

    def _publish_promised(self, punctuations: Sequence[Punctuation]) -> None:
        """Publish the partitions that punctuations promise to be complete."""
        covered = self._joint.add(punctuations).rebase(self._key_schema, self._key_indices)
        closed = PunctuationSet(self._key_schema, covered)
        if len(closed) and self._open.keys:
            keys = self._key_schema.frame(self._open.keys)
            self._publish(keys.filter(closed.mask(keys)).iter_rows())

    def _publish(self, keys: Iterable[PartitionKey], parent: str = "") -> None:
        """Publish partitions in a folder ``parent``, unless they are visible, and drop them."""
        partitions = self._open.pop(keys)
        new = [partition for partition in partitions if not self._is_published(partition)]
        if new:
            self._directory.record_group(self._group)
        for group in [new] if self._executor is not None else [[partition] for partition in new]:
            folders = [self._directory.new_folder(str(partition.number)) for partition in group]
            pairs = [*zip(group, folders, strict=True)]
            self._run_tasks(
                [task for partition, folder in pairs for task in self._makings(partition, folder)]
            )
            for partition, folder in pairs:
                self._show(partition, folder, parent)
        for partition in partitions:
            self._open.drop(partition)
        if not self._keys:
            self._measure = 0

    def _makings(self, partition: OpenPartition, folder: Path) -> list[Making]:
        """The tasks that make the files of a partition: several if an executor runs them."""
        stem, chunks = self._file(partition, ""), partition.chunks
        if self._executor is None:
            size, rows = FILE_BYTES if self._keys else None, tuple(partition.rows)
            return [
                Making(
                    self.staging, tuple(chunks), folder, stem, self._format, self._file_schema, 0, rows, size
                )
            ]
        return [
            Making(self.staging, tuple(group), folder, stem, self._format, self._file_schema, number)
            for number, group in enumerate(in_groups(chunks, FILE_BYTES))
        ]

    def _run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return (
            [task() for task in tasks] if self._executor is None or not tasks else self._executor.run(tasks)
        )

    def _show(self, partition: OpenPartition, folder: Path, parent: str) -> None:
        """Make the files of a partition visible."""
        if self._keys:
            target = self._target(partition).relative_to(self._directory.path)
            self._directory.publish(folder, str(Path(parent) / target))
        else:
            leftovers = [*self._directory.path.glob(f"{self._file(partition, '*')}.{self._format}")]
            self._directory.publish_files(folder, leftovers)

    def _file(self, partition: OpenPartition, number: int | str) -> str:
        """Name of a file of a partition, without its format."""
        return f"part-{partition.number:06d}-{number}"

    def _target(self, partition: OpenPartition) -> Path:
        """The visible path of a partition: its directory, or its first file."""
        if not self._keys:
            return self._directory.path / f"{self._file(partition, 0)}.{self._format}"
        texts = self._key_schema.texts(self._key_schema.frame([partition.key])).row(0)
        return self._directory.path / directory(self._keys, texts)

    def _is_published(self, partition: OpenPartition) -> bool:
        """True if the partition with this number is visible."""
        target = self._target(partition)
        return (target / f"{self._file(partition, 0)}.{self._format}" if self._keys else target).exists()

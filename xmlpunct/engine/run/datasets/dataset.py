"""Datasets that one process writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from xmlpunct.base.codec import pack, unpack
from xmlpunct.base.errors import XmlPunctError
from xmlpunct.connectors.outlet import Form, Outlet, Results
from xmlpunct.engine.run.datasets.dataset_files import FILE_BYTES, write_files
from xmlpunct.engine.run.datasets.directory import Directory
from xmlpunct.engine.run.datasets.staging import OpenPartition, Staging
from xmlpunct.engine.run.durable_files import save_durably, writing
from xmlpunct.slice import Slice


class Dataset(Directory, Outlet):
    """The dataset in directory ``path``, in one file format, partitioned by the columns ``by``."""

    takes_columns = can_replace = True

    def __init__(self, path: str, format_: str, by: Sequence[str]) -> None:
        super().__init__(path, format_, by)
        self._staging = Staging(self._own)
        self._commits = 0

    def open(self, form: Form, position: Any) -> None:
        self._begin(form.schema, form.run, form.existing)
        if position is not None and not self._settled:
            self._restore(position)

    def write(self, results: Results, *, again: bool = False) -> None:
        if self._settled:  # a complete dataset
            return
        with writing(self._path):
            if results.slices:
                self._take(results)
            for slice_ in results.slices:
                self._add(slice_)
                if self._by and slice_.punctuations:
                    self._publish_promised(slice_.punctuations)
            self._staging.spill([*self._open.values()])
            self._measure += len(results.data)
            if results.last:
                self._end()
            elif not self._by and self._measure >= FILE_BYTES:
                self._publish(list(self._open))

    def commit(self) -> int:
        if self._settled:
            return self._commits
        with writing(self._path):
            self._staging.sync([*self._open.values()])
            self._commits += 1
            self._kept = True
            save_durably(self._state(self._commits), pack(self._frames()))
            self._state(self._commits - 2).unlink(missing_ok=True)
        return self._commits

    def _state(self, number: int) -> Path:
        return self._own / f"state-{number}"

    def _restore(self, position: int) -> None:
        try:
            state = unpack(self._state(position).read_bytes())
        except FileNotFoundError:
            raise XmlPunctError(
                f"{self._own} does not contain the committed results of this run: they were removed, or it is another "
                "directory"
            ) from None
        self._commits = position
        self._take_frames(state)
        self._look_at_all()

    def _add(self, slice_: Slice) -> None:
        """Add tuples to their partitions."""
        if not slice_.tuples.height:
            return
        if not self._by:
            self._staging.add(self._partition(()), slice_.tuples)
            return
        for key, rows in slice_.tuples.partition_by(self._by, as_dict=True, maintain_order=True).items():
            self._staging.add(self._partition(key), rows.select(self._rest.names))

    def _made(self, partitions: Iterable[OpenPartition]) -> Iterator[OpenPartition]:
        for partition in partitions:
            self._make(partition)
            yield partition

    def _make(self, partition: OpenPartition) -> None:
        ready, rows = self._ready(partition), self._staging.read(partition)
        ready.mkdir()
        most = FILE_BYTES if self._by else None
        write_files(self._format, self._rest, rows, lambda n: ready / self._file(partition, n), most)

    def _drop(self, partition: OpenPartition) -> None:
        self._staging.drop(partition)

    def _look(self, partition: OpenPartition) -> None:
        self._staging.look(partition)

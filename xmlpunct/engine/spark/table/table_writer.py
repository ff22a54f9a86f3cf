"""Writes a table: a directory of XML files, in which each slice appears atomically and exactly once.

::

    OUT/slice-000000000000/part-00000.xml           <ROWS> <ROW>...
    OUT/slice-000000000000/punctuations-00000.xml   <ROWS> <punct:ROW>...
    OUT/_staging/...                                slices in progress

A batch write is one slice, and so is each micro-batch of a stream. The files in the order of names are one stream, in
which punctuations follow the tuples of their slice.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from xmlpunct.base.errors import SchemaError, UsageError, XmlPunctError
from xmlpunct.connectors.contract import paths_of
from xmlpunct.engine.run.datasets.staged_directory import StagedDirectory
from xmlpunct.engine.run.durable_files import make_folder, writing
from xmlpunct.engine.spark.table.table_options import ROW, TableOptions, plain_path
from xmlpunct.firehose import XmlWriter
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.slice import Slice

_SLICE, _STAGING, _RUN = "slice-", "_staging", "_run"
_PACK: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "none": ("", open),
    "gzip": (".gz", gzip.open),
    "bzip2": (".bz2", bz2.open),
    "xz": (".xz", lzma.open),
}
"""File name suffix and open function by compression."""


@dataclass
class WrittenFiles(WriterCommitMessage):  # type: ignore[misc]
    """The files that a task has written to a folder."""

    folder: Path
    names: tuple[str, ...]


class TableDirectory:
    """The directory of a table, and the layout of its files.

    Tasks write to a staging folder, which one rename turns into a slice.
    """

    def __init__(self, columns: spark.StructType, options: TableOptions, overwrite: bool, run: str) -> None:
        (path,) = options.paths or ("",)
        if not paths_of(path):
            raise UsageError(
                f'{path or "nothing"} cannot be written: save("DIR"), where all executors see the directory'
            )
        self.options, self.overwrite = options, overwrite
        self._directory = StagedDirectory(paths_of(path)[0], _STAGING)
        self.path = self._directory.path
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{path} is a file: xmlpunct writes a directory")
        self.run = run
        self.staging = self._directory.staging / f"{run}-{uuid.uuid4().hex}"
        punctuation_columns = {options.punctuation}
        if options.punctuation is not None and options.punctuation not in columns.names:
            raise SchemaError(f"there is no column {options.punctuation}: columnNameOfPunctuation names one")
        data = [field for field in columns.fields if field.name not in punctuation_columns]
        self.layout = options.naming.layout(spark.StructType(data), writing=True)
        self._writer()  # raises errors of the columns early

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write the rows of a task. Raises `XmlPunctError` for a value that XML cannot represent."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        attempt = uuid.uuid4().hex[:8]  # a task may have several attempts, of which one counts
        with writing(self.staging):
            self.staging.mkdir(parents=True, exist_ok=True)
        names: list[str] = []
        punctuations: list[Punctuation] = []
        ending, pack = _PACK[self.options.compression]
        file: Any = None
        writer = self._writer()
        try:
            for batch in batches:
                tuples, new_punctuations = self._split(batch)
                punctuations += new_punctuations
                if not len(tuples):
                    continue
                frame = self.layout.frame(tuples)
                unfit = writer.unfit(frame)
                if unfit is not None:
                    reason = next(reason for reason in unfit if reason is not None)
                    raise XmlPunctError(f"a row cannot be written: {reason}")
                if file is None:
                    names.append(f"part-{number:05d}-{attempt}.xml{ending}")
                    file = pack(str(self.staging / names[-1]), "wb")
                    file.write(writer.start())
                file.write(writer.body(Slice(frame)))
            if file is not None:
                file.write(writer.end())
        finally:
            if file is not None:
                file.close()
        if punctuations:
            names.append(f"punctuations-{number:05d}-{attempt}.xml{ending}")
            with pack(str(self.staging / names[-1]), "wb") as out:
                out.write(
                    writer.start()
                    + writer.body(Slice(self.layout.schema.empty(), punctuations))
                    + writer.end()
                )
        return WrittenFiles(self.staging, tuple(names))

    def publish(self, messages: list[WrittenFiles | None], batch: int = 0) -> None:
        """Publish the files of tasks as a slice, unless this run has published ``batch`` already."""
        written = [message for message in messages if message is not None and message.names]
        slices = self._slices()  # listed once: if another run publishes meanwhile, the rename below fails
        if (written or self.overwrite) and not self._is_published(slices, batch):
            # Tasks may have another `TableDirectory` object, with another staging folder.
            folder = written[0].folder if written else self.staging
            counted = {name for message in written for name in message.names}
            with writing(self.path):
                make_folder(self.path)
                folder.mkdir(parents=True, exist_ok=True)
                for file in folder.iterdir():
                    if file.name not in counted:
                        file.unlink()  # the file of an attempt that does not count
                (folder / _RUN).write_text(json.dumps({"run": self.run, "batch": batch}))
                number = int(slices[-1].name.removeprefix(_SLICE)) + 1 if slices else 0
                self._directory.publish(folder, f"{_SLICE}{number:012d}")
                for old in slices if self.overwrite else ():
                    shutil.rmtree(old)
        self.discard()

    def discard(self) -> None:
        """Remove the staging folders of the run."""
        for folder in self._directory.staging.glob(f"{self.run}-*"):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another run is writing, or the folder is missing
            self._directory.staging.rmdir()

    def check(self) -> None:
        """Raise `UsageError` if overwriting would remove foreign files."""
        if not (self.overwrite and self.path.is_dir()):
            return
        foreign_names = [e.name for e in self.path.iterdir() if not e.name.startswith((_SLICE, "_", "."))]
        if foreign_names:
            raise UsageError(
                f"{self.path} holds {foreign_names[0]}, which xmlpunct did not write: remove it, or write elsewhere"
            )

    def _slices(self) -> list[Path]:
        return sorted(self.path.glob(f"{_SLICE}*")) if self.path.is_dir() else []

    def _is_published(self, slices: list[Path], batch: int) -> bool:
        """True if one of the slices is this micro-batch of the run, or a later one."""
        for folder in reversed(slices):
            with suppress(OSError, ValueError):
                record = json.loads((folder / _RUN).read_text())
                if record["run"] == self.run:
                    return bool(record["batch"] >= batch)
        return False

    def _split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Punctuation]]:
        """Split a batch into rows of tuples, and the punctuations of the other rows."""
        name = self.options.punctuation
        if name is None:
            return batch, []
        texts = batch.column(name)
        listed, written = self.layout.listed, self.layout.schema
        order = [listed.index(name) for name in written.names]
        closed = [
            Punctuation.parse(listed, text).rebase(written, order) for text in texts.to_pylist() if text
        ]
        return (batch.filter(texts.is_null()) if closed else batch), closed

    def _writer(self) -> XmlWriter:
        options = self.options
        return XmlWriter(
            self.layout.schema,
            options.root,
            options.row or ROW,
            options.punct_namespace,
            options.naming.namespaces,
        )


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a data frame as one slice."""

    def __init__(self, columns: spark.StructType, options: TableOptions, overwrite: bool) -> None:
        self.target = TableDirectory(columns, options, overwrite, uuid.uuid4().hex)
        self.target.check()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        return self.target.write(iterator)

    def commit(self, messages: list[Any]) -> None:
        self.target.publish(messages)

    def abort(self, messages: list[Any]) -> None:
        self.target.discard()


class TableStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of a stream, each exactly once, also after retries."""

    def __init__(self, columns: spark.StructType, options: TableOptions, overwrite: bool) -> None:
        if options.checkpoint is None:
            raise UsageError(
                'a restarted query must find its output: set option("checkpointLocation", ...) beside the others'
            )
        self.target = TableDirectory(columns, options, overwrite, _query_id(options.checkpoint))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        return self.target.write(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.target.publish(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        self.target.discard()


def _query_id(checkpoint: str) -> str:
    """The id of a streaming query in Spark's checkpoint."""
    for folder in paths_of(plain_path(checkpoint)):
        with suppress(OSError, ValueError, KeyError):
            return str(json.loads((Path(folder) / "metadata").read_text())["id"])
    raise UsageError(
        f"the checkpoint {checkpoint} has no query id: it must be a directory that the driver sees, and Spark "
        "must write to it first"
    )

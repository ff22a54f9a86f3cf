"""XML datasets: a directory with one folder per micro-batch, whose files Spark's own ``xml`` writer makes.

::

    OUT/slice-000000000012/0-tuples/part-...xml         <stream> <result>...
    OUT/slice-000000000012/1-punctuations/part-...xml   <stream> <punct:result>...

The files in the order of names are the result stream. Values are formatted as text by our own rules, so that they are
read back unchanged, independent of Spark's formats. A slice is written in ``OUT/_xmlpunct``, and one rename makes it
visible.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import UNHOLDABLE
from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.connectors.outlet import Existing
from xmlpunct.engine.run.datasets.chunks import Chunk, read_chunks
from xmlpunct.engine.run.datasets.staged_directory import StagedDirectory
from xmlpunct.engine.run.durable_files import writing
from xmlpunct.engine.run.output import Output
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.spark.aside import AsideFolder
from xmlpunct.engine.spark.column_dataset import Cluster
from xmlpunct.engine.spark.outputs import Group, Taken
from xmlpunct.engine.spark.table.spark_columns import Layout
from xmlpunct.punctuations.punctuation import to_frame
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

_ATTRIBUTE = "@"
"""Prefix of columns that become XML attributes; element names cannot begin with it, unlike with the default ``_``."""


def check_dataset(options: RunOptions, schema: Schema) -> None:
    """Raise `UsageError` for options and columns that Spark's writer does not support."""
    if options.format != "xml":
        raise UsageError(f"a dataset such as {options.output} is written as xml, parquet, arrow or csv")
    if options.form is not None:
        raise UsageError(
            f"a dataset such as {options.output} takes no {options.spelled('root')}, {options.spelled('row')}, "
            f"{options.spelled('namespaces')} or {options.spelled('pretty')}: write a file"
        )
    for a in schema:
        if not a.type.comparable:
            raise UsageError(
                f"column {a.name} is {a.type.kind}: a dataset such as {options.output} has text in each column: "
                "write a file"
            )
    for name in schema.names:
        if not is_xml_name(name):
            raise UsageError(
                f"column {name!r}: a dataset such as {options.output} has a child for each column, no attributes, "
                "nested elements or prefixes: write a file, or give the column another alias"
            )


@dataclass(frozen=True)
class ChunkTexts:
    """Reads the tuples of chunks as texts, by the numbers of the chunks in the first column."""

    folder: Path
    chunks: tuple[Chunk, ...]
    schema: Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            batch_chunks = [self.chunks[number] for number in batch.column(0).to_pylist()]
            for tuples in read_chunks(self.folder, batch_chunks):
                yield self.layout.batch(self.schema.texts(tuples))

    @property
    def layout(self) -> Layout:
        """The layout of the columns, all of them text."""
        return Layout.flat(Schema.of(Attribute(name, STRING) for name in self.schema.names))


class XmlTarget:
    """The XML dataset at ``options.output``."""

    position: Any = 0

    def __init__(self, options: RunOptions, cluster: Cluster) -> None:
        self._options, self._cluster = options, cluster
        self._directory = StagedDirectory(str(options.output))
        self.path, self._staging = self._directory.path, self._directory.staging

    def open(self, run: str, committed: int, position: Any = None) -> None:
        """Remove the slices after micro-batch ``committed``. Raises `UsageError` if the dataset cannot be written.

        Without a ``position`` the run is new, and the directory may hold slices of another run.
        """
        refuses = self._options.existing is Existing.REFUSE
        if position is None and refuses and (existing := sorted(self.path.glob("slice-*"))):
            raise UsageError(
                f"{self._options.output} holds {existing[0].name}, and the checkpoint is new: give the --checkpoint of "
                "the run that wrote it, name another directory, or remove its slices with --replace"
            )
        try:
            self._directory.lock()
            for folder in self.path.glob("slice-*"):
                if int(folder.name.removeprefix("slice-")) > committed:
                    shutil.rmtree(folder)
            self._directory.empty_staging()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write the dataset {self._options.output}: {error}") from None

    def place(self) -> AsideFolder:
        """The directory of staged rows, which readers skip."""
        return AsideFolder(self._staging, self._options)

    def write(self, output: Output, batch_results: Taken, group: Group, closes: bool) -> tuple[int, str]:
        length, digest = group.written.length, group.written.digest
        punctuations = output.prepare(batch_results.slice_).punctuations
        chunks = [chunk for outcome in batch_results.put for _, chunk in outcome.keyed]
        name = f"slice-{group.batch:012d}"
        folder = self._staging / name
        if chunks:
            self._write(self._tuples(output.schema, chunks), folder / "0-tuples", "result")
        if punctuations:
            patterns = to_frame(output.schema, punctuations)
            # As our own writer does: a punctuation may always be omitted.
            patterns = patterns.filter(~pl.any_horizontal(pl.all().str.contains(UNHOLDABLE)).fill_null(False))
            namespace = pl.lit(self._options.punct_namespace).alias(f"{_ATTRIBUTE}xmlns:punct")
            texts = patterns.with_columns(namespace).to_arrow(compat_level=pl.CompatLevel.oldest())
            frame = self._session.createDataFrame(texts).coalesce(1)
            self._write(frame, folder / "1-punctuations", "punct:result")
        if not folder.exists():
            return length, digest
        with writing(self.path):
            length += sum(path.stat().st_size for path in folder.glob("*/part-*"))
            self._directory.publish(folder, name)
            for file in {chunk.file for chunk in chunks}:
                (self._staging / file).unlink()
        return length, digest

    def break_off(self) -> None:
        """Nothing to do: all slices are written."""

    def finish(self) -> None:
        """Nothing to do: no reader waits at a directory."""

    def close(self) -> None:
        """Release the directory."""
        if self._directory.is_locked:
            self._directory.remove_staging()
            self._directory.close()

    @property
    def _session(self) -> Any:
        assert self._cluster.session is not None
        return self._cluster.session

    def _tuples(self, schema: Schema, chunks: Sequence[Chunk]) -> DataFrame:
        """A frame of the tuples of chunks, with one partition per chunk."""
        texts = ChunkTexts(self._staging, tuple(chunks), schema)
        numbers = self._session.range(0, len(chunks), 1, len(chunks))
        frame: DataFrame = numbers.mapInArrow(texts, texts.layout.columns)
        return frame

    def _write(self, frame: DataFrame, folder: Path, tag: str) -> None:
        options = {"rowTag": tag, "rootTag": "stream", "attributePrefix": _ATTRIBUTE, "valueTag": "#text"}
        writer = frame.write.format("xml").mode("overwrite").options(**options)
        writer.option("validateName", False).save(folder.as_uri())

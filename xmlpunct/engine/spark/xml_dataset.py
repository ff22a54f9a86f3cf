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
from xmlpunct.connectors.outlet import Existing, Form, Results
from xmlpunct.engine.run.datasets.chunks import Chunk, KeyedChunk, read_chunks
from xmlpunct.engine.run.datasets.staged_directory import StagedDirectory
from xmlpunct.engine.run.datasets.staged_outlet import StagedOutlet
from xmlpunct.engine.run.durable_files import writing
from xmlpunct.engine.run.run_options import RunOptions
from xmlpunct.engine.spark.spark_executor import SparkExecutor
from xmlpunct.engine.spark.table.spark_columns import Layout
from xmlpunct.punctuations.punctuation import Punctuation, to_frame
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import STRING

_SLICE = "slice-"
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
                f"column {a.name} is {a.type.kind}: a dataset such as {options.output} has only text in its columns: "
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


class XmlDataset(StagedOutlet):
    """The XML dataset at ``options.output``, whose files ``executor`` makes. Its position is the last slice."""

    can_replace = True

    def __init__(self, options: RunOptions, executor: SparkExecutor) -> None:
        self._options, self._executor = options, executor
        self._directory = StagedDirectory(str(options.output))
        self._last = -1
        self._staged: Sequence[KeyedChunk] = ()

    @property
    def staging(self) -> Path:
        return self._directory.staging

    def open(self, form: Form, position: Any) -> None:
        """Remove the slices after ``position``."""
        self._schema, self._last = form.schema, -1 if position is None else position
        refuses = position is None and form.existing is Existing.REFUSE
        if refuses and (existing := sorted(self._directory.path.glob(f"{_SLICE}*"))):
            raise UsageError(
                f"{self._options.output} holds {existing[0].name}, and the checkpoint is new: give the --checkpoint of "
                "the run that wrote it, name another directory, or remove its slices with --replace"
            )
        try:
            self._directory.lock(needs_locks=False)
            for folder in self._directory.path.glob(f"{_SLICE}*"):
                if int(folder.name.removeprefix(_SLICE)) > self._last:
                    shutil.rmtree(folder)
            self._directory.empty_staging()
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write the dataset {self._options.output}: {error}") from None

    def stage(self, chunks: Sequence[KeyedChunk]) -> None:
        self._staged = chunks

    def write(self, results: Results, *, again: bool = False) -> None:
        chunks, self._staged = [chunk for _, chunk in self._staged], ()
        folder = self.staging / f"{_SLICE}{results.number:012d}"
        self._last, self.group_bytes = results.number, 0
        if chunks:
            self._write(self._tuples(chunks), folder / "0-tuples", "result")
        if punctuations := [p for slice_ in results.slices for p in slice_.punctuations]:
            self._write(self._patterns(punctuations), folder / "1-punctuations", "punct:result")
        if folder.exists():
            self.group_bytes = sum(path.stat().st_size for path in folder.glob("*/part-*"))
            self._directory.publish(folder, folder.name)
            with writing(self._directory.path):
                for file in {chunk.file for chunk in chunks}:
                    (self.staging / file).unlink()

    def commit(self) -> int:
        return self._last

    def close(self) -> None:
        if self._directory.is_locked:
            self._directory.remove_staging()
            self._directory.close()

    @property
    def _session(self) -> Any:
        assert self._executor.session is not None
        return self._executor.session

    def _patterns(self, punctuations: Sequence[Punctuation]) -> DataFrame:
        """A frame of punctuations, with a single partition."""
        patterns = to_frame(self._schema, punctuations)
        # As our own writer does: a punctuation may always be omitted.
        patterns = patterns.filter(~pl.any_horizontal(pl.all().str.contains(UNHOLDABLE)).fill_null(False))
        namespace = pl.lit(self._options.punct_namespace).alias(f"{_ATTRIBUTE}xmlns:punct")
        texts = patterns.with_columns(namespace).to_arrow(compat_level=pl.CompatLevel.oldest())
        frame: DataFrame = self._session.createDataFrame(texts).coalesce(1)
        return frame

    def _tuples(self, chunks: Sequence[Chunk]) -> DataFrame:
        """A frame of the tuples of chunks, with one partition per chunk."""
        texts = ChunkTexts(self.staging, tuple(chunks), self._schema)
        numbers = self._session.range(0, len(chunks), 1, len(chunks))
        frame: DataFrame = numbers.mapInArrow(texts, texts.layout.columns)
        return frame

    def _write(self, frame: DataFrame, folder: Path, tag: str) -> None:
        options = {"rowTag": tag, "rootTag": "stream", "attributePrefix": _ATTRIBUTE, "valueTag": "#text"}
        writer = frame.write.format("xml").mode("overwrite").options(**options)
        writer.option("validateName", False).save(folder.as_uri())

"""A dataset: a directory that holds, for each micro-batch, files that Spark's own ``xml`` writer made.

::

    OUT/slice-000000000012/0-tuples/part-...xml         <stream> <result>...
    OUT/slice-000000000012/1-punctuations/part-...xml   <stream> <punct:result>...

Read back in the order of names, that is the stream again. Values are turned into text by our own rules, so
that what is read back is what was written, whatever Spark makes of a timestamp.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
from pyspark.sql import SparkSession

from xmlpunct.engine.files import make_folder, sync_tree, writing
from xmlpunct.engine.options import RunOptions
from xmlpunct.engine.output import Output
from xmlpunct.errors import UsageError
from xmlpunct.escapes import UNHOLDABLE
from xmlpunct.names import is_xml_name
from xmlpunct.punctuations.punctuation import to_frame
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_ATTRIBUTE = "@"
"""Marks columns that become XML attributes; no XML element can be called so, and ``_``, the default, can."""


def check_dataset(options: RunOptions, schema: Schema) -> None:
    """Raise `UsageError` for what Spark's writer cannot be told, or would write in another way than ours."""
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


class DatasetTarget:
    """The dataset in directory ``path``; slices behind micro-batch ``committed`` are removed."""

    position: Any = None

    def __init__(self, path: str, committed: int, punct_namespace: str) -> None:
        self.path = Path(path).absolute()
        self.session: SparkSession | None = None
        self._namespace = punct_namespace
        try:
            make_folder(self.path)
            for folder in self.path.glob("slice-*"):
                if int(folder.name.removeprefix("slice-")) > committed:
                    shutil.rmtree(folder)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot write the dataset {path}: {error}") from None

    def break_off(self) -> None:
        """All slices that came are written."""

    def finish(self) -> None:
        """Nobody waits at a directory."""

    def write(self, output: Output, given: Slice, batch: int, length: int, first: bool, closes: bool) -> int:
        ready = output.prepare(given)
        folder = self.path / f"slice-{batch:012d}"
        if ready.tuples.height:
            texts = output.schema.texts(ready.tuples)
            self._write(texts, folder / "0-tuples", "result")
        if ready.punctuations:
            patterns = to_frame(output.schema, ready.punctuations)
            # As our own writer does: to leave a punctuation unsaid is never wrong.
            patterns = patterns.filter(~pl.any_horizontal(pl.all().str.contains(UNHOLDABLE)).fill_null(False))
            namespace = pl.lit(self._namespace).alias(f"{_ATTRIBUTE}xmlns:punct")
            self._write(patterns.with_columns(namespace), folder / "1-punctuations", "punct:result")
        if folder.exists():
            with writing(folder):
                sync_tree(folder)  # Spark's writer does not
        return length

    def _write(self, texts: pl.DataFrame, folder: Path, tag: str) -> None:
        assert self.session is not None
        frame: Any = self.session.createDataFrame(texts.to_arrow(compat_level=pl.CompatLevel.oldest()))
        options = {"rowTag": tag, "rootTag": "stream", "attributePrefix": _ATTRIBUTE, "valueTag": "#text"}
        writer = frame.coalesce(1).write.format("xml").mode("overwrite").options(**options)
        writer.option("validateName", False).save(folder.as_uri())

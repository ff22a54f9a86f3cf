"""Files in FROM: ``FROM 'orders.xml.gz'`` and ``FROM read_xml('orders/*.xml', element => 'order')``."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sqlglot import exp

from xmlpunct.base.paths import read_element
from xmlpunct.connectors.contract import paths_of
from xmlpunct.engine.inference import WHOLE_SOURCE, Inference, sample_size
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.sql.planner.declaration import column_list, identifier, string_literal
from xmlpunct.firehose.spec import name_parts
from xmlpunct.schema import Schema
from xmlpunct.schema.sql_errors import at, refuse

READ_XML = "read_xml"
_INFERRED = "this column is inferred from the beginning of the source"
_USAGE = (
    "read_xml('feeds/*.xml', element => 'item', sample => '8MiB'): a source, and perhaps the tuples' element, and the "
    "bytes to read for its columns, or 'all'"
)
_OPTIONS = ("element", "sample")


class FileTables:
    """The undeclared streams of files in FROM, with inferred columns.

    ``streams`` maps the text in FROM to the stream.
    """

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self.streams: dict[str, Stream] = {}

    def named(self, table: exp.Identifier) -> tuple[Stream, str] | None:
        """The stream of a quoted path or URL, and a table name for it; None for other identifiers."""
        path = table.name
        is_path = any(mark in path for mark in "./*:") or path == "-" or os.path.exists(path)
        if not table.args.get("quoted") or not is_path:
            return None
        base = path.rstrip("/").rpartition("/")[2]
        return self._stream(path, path, None), base.partition(".")[0] or base

    def read_xml(self, call: exp.Expr) -> tuple[Stream, str]:
        """The stream of a call of ``read_xml``, and a table name for it."""
        source, *options = call.expressions or [None]
        if not isinstance(source, exp.Literal) or not source.is_string:
            refuse(_USAGE, source or call)
        texts: dict[str, str] = {}
        for option in options:
            key = option.this.name.lower() if isinstance(option, exp.Kwarg) else ""
            value = option.args.get("expression")
            if (
                key not in _OPTIONS
                or key in texts
                or not isinstance(value, exp.Literal)
                or not value.is_string
            ):
                refuse(_USAGE, option)
            texts[key] = value.name
            with at(value):
                read_element(texts.get("element", "any"))
                sample_size(texts.get("sample"))
        suffix = "".join(f", {key} => {string_literal(text)}" for key, text in texts.items())
        name = f"{READ_XML}({string_literal(source.name)}{suffix})"
        return self._stream(name, source.name, **texts), READ_XML

    def _stream(
        self, name: str, source: str, element: str | None = None, sample: str | None = None
    ) -> Stream:
        if name not in self.streams:
            inferred = self._inference(name, source, element, sample=sample, any_namespace=True)
            remedy = FileRemedy(source, inferred.element, sample)
            self.streams[name] = Stream(
                name, inferred.schema, inferred.element, source, guessed=True, remedy=remedy
            )
        return self.streams[name]


@dataclass(frozen=True)
class FileRemedy:
    """The remedy for a file without a declaration: see `Stream.remedy`. ``sample`` is the option of ``read_xml``."""

    source: str
    element: str
    sample: str | None

    def __call__(self, columns: Schema) -> str:
        table = name_parts(read_element(self.element)[-1])[1]
        options = f"source = {string_literal(self.source)}, element = {string_literal(self.element)}"
        statement = f"CREATE STREAM {identifier(table)} ({column_list(columns)}) WITH ({options});"
        advice = f"{_INFERRED}: declare the columns, {statement} and write FROM {identifier(table)}"
        if self.sample == WHOLE_SOURCE or not paths_of(self.source):
            return advice
        options = f"element => {string_literal(self.element)}, sample => 'all'"
        whole = f"{READ_XML}({string_literal(self.source)}, {options})"
        return f"{advice}; or infer them from all of it, FROM {whole}"


@dataclass(frozen=True)
class ColumnsRemedy:
    """The remedy for a CREATE STREAM without columns, or for a stream without a declaration, of this ``element``."""

    stream: str
    element: str | None = None

    def __call__(self, columns: Schema) -> str:
        start = f"CREATE STREAM {identifier(self.stream)} ({column_list(columns)})"
        if self.element is not None:
            element = string_literal(self.element)
            return f"{_INFERRED}: declare the columns, {start} WITH (element = {element});"
        return (
            f"{_INFERRED}: declare the columns, {start}; or infer them from all of it, WITH (sample = 'all')"
        )

"""Files in FROM: ``FROM 'orders.xml.gz'`` and ``FROM read_xml('orders/*.xml', element => 'order')``."""

from __future__ import annotations

import os

from sqlglot import exp

from xmlpunct.base.paths import read_element
from xmlpunct.engine.inference import Inference
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.sql.planner.declaration import string_literal
from xmlpunct.schema.sql_errors import at, refuse

READ_XML = "read_xml"
_USAGE = "read_xml('feeds/*.xml', element => 'item'): a source, and perhaps the tuples' element"


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
        element = None
        for option in options:
            name, value = option.this, option.args.get("expression")
            is_element = isinstance(option, exp.Kwarg) and name.name.lower() == "element" and element is None
            if not is_element or not isinstance(value, exp.Literal) or not value.is_string:
                refuse(_USAGE, option)
            element = value.name
            with at(value):
                read_element(element)
        suffix = "" if element is None else f", element => {string_literal(element)}"
        return self._stream(
            f"{READ_XML}({string_literal(source.name)}{suffix})", source.name, element
        ), READ_XML

    def _stream(self, name: str, source: str, element: str | None) -> Stream:
        if name not in self.streams:
            inferred = self._inference(name, source, element)
            self.streams[name] = Stream(name, inferred.schema, inferred.element, source, guessed=True)
        return self.streams[name]

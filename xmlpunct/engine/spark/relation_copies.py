"""Small constant relations, read with Spark's own ``xml`` source as texts.

Spark's source gives the texts of a document's elements. They are copied to a file of simple XML beside the spools,
which is then an input like any other: the rules of this package convert the texts. A relation is left to this package's
reader if the two could differ: see `_texts`. So rejects and errors have the lines of the source.

Only `query_frame` does this, in a session that is warm. For a run from the command line, Spark's first read takes some
seconds, and this package's reader a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark

from xmlpunct.connectors.contract import columns_named, is_endless
from xmlpunct.engine.plan import Stream
from xmlpunct.engine.run.durable_files import PRIVATE_FOLDER, make_folder, save_durably
from xmlpunct.engine.run.inputs.parts import Input, Part
from xmlpunct.engine.spark.job import Job
from xmlpunct.firehose import Parser
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.spec import Limits
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.provenance import SOURCE
from xmlpunct.types import XML

MOST_BYTES = 1_000_000
"""The size up to which a relation is copied: its texts pass through the driver, and exceed no `Limits`."""
_ROW = "row"
_PATH = re.compile(r"(?:[A-Za-z_][\w.-]*/)*@?[A-Za-z_][\w.-]*", re.ASCII)
_ELEMENT = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_DECLARATION = re.compile(
    rb"\s*<\?xml\s+version\s*=\s*['\"]1\.0['\"]\s*(encoding\s*=\s*['\"]utf-8['\"]\s*)?[^>]*\?>", re.I
)
_PREFIX = re.compile(rb"(?:<|</|\s)([\w.-]+):[\w.-]+(?=[\s=/>])")
_OPTIONS = {"mode": "FAILFAST", "ignoreSurroundingSpaces": "false", "attributePrefix": "@"}
_SUSPICIOUS_PATH = re.compile(r"[*?\[\]{}\\,]|/[_.][^/]*$")
"""Paths that Spark would take for patterns, or files that it skips."""

_Tree = dict[str, "_Tree | int"]
"""The steps of paths below an element; an int is the number of a column."""


def with_relation_copies(session: SparkSession, job: Job, folder: Path) -> Job:
    """The job, with copies of constant relations in ``folder`` as inputs; copies that exist are used again."""
    inputs, streams = list(job.inputs), list(job.query.streams)
    for number, input_ in enumerate(inputs):
        if len(input_.streams) != 1:
            continue
        (index,) = input_.streams
        copy = folder / f"{number}.xml"
        if not copy.exists() and _is_suitable(streams[index], input_):
            texts = _texts(session, streams[index], input_)
            if texts is not None:
                data = b"".join(_document(texts))
                if _is_accepted(_copied(streams[index]), data):
                    make_folder(folder, PRIVATE_FOLDER)
                    save_durably(copy, data)
        if copy.exists():
            size = copy.stat().st_size
            part = Part(input_.source, str(copy.absolute()), size, stored=size)
            inputs[number], streams[index] = replace(input_, parts=(part,)), _copied(streams[index])
    return replace(job, inputs=tuple(inputs), query=replace(job.query, streams=tuple(streams)))


def _is_suitable(stream: Stream, input_: Input) -> bool:
    """True for a declared constant relation in small files, with plain columns."""
    is_plain = not (
        stream.guessed
        or stream.guarded
        or stream.where
        or stream.nested
        or stream.validity
        or stream.order
        or stream.promised
        or stream.sender
        or SOURCE in stream.schema
        or columns_named(stream.source)
        or is_endless(str(stream.source))
    )
    return (
        stream.relation
        and stream.change is None
        and is_plain
        and _ELEMENT.fullmatch(stream.element) is not None
        and all(
            _PATH.fullmatch(a.path) and not isinstance(a.type, ArrayType) and a.type is not XML
            for a in stream.schema
        )
        and all(not part.spooled and not _SUSPICIOUS_PATH.search(part.path) for part in input_.parts)
        and sum(part.size or 0 for part in input_.parts) <= MOST_BYTES
    )


def _texts(session: SparkSession, stream: Stream, input_: Input) -> list[tuple[str | None, ...]] | None:
    """The texts of the columns of all rows, read by Spark; None if Spark could read them in another way.

    Spark ignores namespaces, gives an element's markup as text, cannot read all encodings and entities, and takes the
    last of repeated elements.
    """
    tree = _tree(stream.schema)
    names = {step.lstrip("@") for a in stream.schema for step in a.path.split("/")}
    if tree is None or not all(_is_simple(Path(part.path).read_bytes(), names) for part in input_.parts):
        return None
    paths = [Path(part.path).as_uri() for part in input_.parts]
    try:
        reader = session.read.format("xml").options(rowTag=stream.element, **_OPTIONS)
        rows = reader.schema(_fields(tree)).load(paths).collect() if paths else []
    except (
        PySparkException,
        Py4JError,
    ):  # which the reader of this package reports with its position, or accepts
        return None
    texts: list[tuple[str | None, ...]] = []
    for row in rows:
        values: list[str | None] = [None] * len(stream.schema)
        if not _fill(values, tree, row):
            return None
        texts.append(tuple(values))
    return texts or None


def _is_simple(data: bytes, names: set[str]) -> bool:
    """True for UTF-8 without prefixes, entities of its own, deep nesting, and ``names`` in capitals and small letters.

    Spark finds columns without regard to case.
    """
    for name in names:
        pattern = rb"[<\s]" + re.escape(name.encode()) + rb"[\s=/>]"
        if len(re.findall(pattern, data)) != len(re.findall(pattern, data, re.IGNORECASE)):
            return False
    if any(prefix != b"xml" for prefix in _PREFIX.findall(data)) or _depth(data) > Limits().depth:
        return False
    declaration = _DECLARATION.match(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    is_declared = declaration is not None or not data.lstrip().startswith(b"<?xml")
    return is_declared and b"xmlns" not in data and b"<!DOCTYPE" not in data


def _depth(data: bytes) -> int:
    """The greatest nesting of elements; comments and CDATA count as elements."""
    codes = np.frombuffer(data, np.uint8)
    opens, slash, closes = codes[:-1] == ord("<"), codes == ord("/"), codes[1:] == ord(">")
    steps = opens.astype(np.int64) - 2 * (opens & slash[1:]) - (slash[:-1] & closes)
    marks = (codes[1:] == ord("!")) | (codes[1:] == ord("?"))
    steps -= opens & marks
    return int(np.cumsum(steps).max(initial=0))


def _tree(schema: Schema) -> _Tree | None:
    """The steps of the columns' paths; None if one path is part of another, or two differ only in case."""
    root: _Tree = {}
    for number, attribute in enumerate(schema):
        *parents, last = attribute.path.split("/")
        level = root
        for step in parents:
            below = level.setdefault(step, {})
            if isinstance(below, int):
                return None
            level = below
        if last in level:
            return None
        level[last] = number
    return root if _is_distinct(root) else None


def _is_distinct(tree: _Tree) -> bool:
    below = (step for step in tree.values() if not isinstance(step, int))
    return len({step.lower() for step in tree}) == len(tree) and all(map(_is_distinct, below))


def _fields(tree: _Tree) -> spark.StructType:
    """The columns for Spark: each element is an array, which shows whether it repeats."""
    fields = []
    for step, below in tree.items():
        type_ = spark.StringType() if isinstance(below, int) else _fields(below)
        fields.append(spark.StructField(step, type_ if step[0] == "@" else spark.ArrayType(type_)))
    return spark.StructType(fields)


def _fill(values: list[str | None], tree: _Tree, row: Any) -> bool:
    """Set the values of a row; False if an element repeats, or a text may be markup."""
    for step, value in zip(tree, row or (None,) * len(tree), strict=True):
        below = tree[step]
        if step[0] != "@":
            if value is not None and len(value) > 1:
                return False
            value = value[0] if value else None
        if not isinstance(below, int):
            if not _fill(values, below, value):
                return False
        elif value is not None:
            if "<" in value:
                return False
            values[below] = value
    return True


def _document(rows: Sequence[tuple[str | None, ...]]) -> Iterator[bytes]:
    yield b"<relation>\n"
    for row in rows:
        texts = (
            f"<c{i}>{escape(text, {chr(13): '&#13;'})}</c{i}>"
            for i, text in enumerate(row)
            if text is not None
        )
        yield f"<{_ROW}>{''.join(texts)}</{_ROW}>\n".encode()
    yield b"</relation>\n"


def _copied(stream: Stream) -> Stream:
    """The stream that reads the copy."""
    columns = (replace(a, path=f"c{i}") for i, a in enumerate(stream.schema))
    return replace(stream, element=_ROW, schema=Schema.of(columns))


def _is_accepted(stream: Stream, data: bytes) -> bool:
    """True if the rules of this package reject no row."""
    parsed = Parser([stream.spec(frozenset(stream.schema.names))]).parse(Split("", Position(), data, True))
    return parsed.error is None and not any(parsed.rejects)

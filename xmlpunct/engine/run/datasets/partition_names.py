"""The names of partitions' directories, as Hive writes them and Spark, DuckDB and polars read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE

NULL = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null."""
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_MOST = 255
"""The bytes of a file's name."""


def escaped(text: str) -> str:
    """A text as a part of a directory's name.

    >>> escaped("a/b=50%")
    'a%2Fb%3D50%25'
    """
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def directory(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The directory of a partition, by the texts of its values.

    >>> directory(["hour", "sid"], ["17", None])
    'hour=17/sid=__HIVE_DEFAULT_PARTITION__'
    """
    parts = zip(names, texts, strict=True)
    return "/".join(f"{escaped(name)}={NULL if text is None else escaped(text)}" for name, text in parts)


def check_columns(schema: Schema, names: Sequence[str]) -> None:
    """Raise `UsageError` for columns whose values cannot name directories."""
    for name in names:
        said = f"--partition-by {name}"
        if name not in schema:
            raise UsageError(f"{said}: the results have {', '.join(schema.names)}")
        if names.count(name) > 1:
            raise UsageError(f"{said}: it is named twice")
        if not schema[name].type.comparable or schema[name].type is DOUBLE:
            kind = schema[name].type.kind
            raise UsageError(
                f"{said}: it is {kind}, whose values name no directories: CAST it, or take another"
            )
        if name.startswith(("_", ".")):
            raise UsageError(
                f"{said}: directories whose names begin with {name[0]} are hidden: give the column another alias"
            )
    if len(names) == len(schema):
        raise UsageError("--partition-by leaves no column for the files: select another one")


def unfit(schema: Schema, names: Sequence[str], tuples: pl.DataFrame) -> pl.Series | None:
    """For each tuple why its values can name no directory, null if they can; None if all can."""
    if not (names and tuples.height):
        return None
    texts = tuples.select(schema[name].type.format_column(pl.col(name)).alias(name) for name in names)
    reasons = []
    for name in names:
        room = _MOST - len(f"{escaped(name)}=".encode())
        written = pl.col(name).str.len_bytes() + 2 * pl.col(name).str.count_matches(_ESCAPED.pattern)
        reasons += [
            pl.when(pl.col(name) == "").then(pl.lit(f"{name} is empty, and names a directory")),
            pl.when(pl.col(name) == NULL).then(
                pl.lit(f"{name} is {NULL}, which names the directory of null")
            ),
            pl.when(written > room).then(pl.lit(f"{name} is too long for the name of a directory")),
        ]
    said = texts.select(pl.coalesce(reasons).alias("reason")).to_series()
    return said if said.null_count() < len(said) else None

"""Directory names of partitions, in the form of Hive, which Spark, DuckDB and polars read."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE

NULL = "__HIVE_DEFAULT_PARTITION__"
"""Directory value of null."""
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_MOST = 255
"""Maximal length of a file name, in bytes."""


def directory_escaped(text: str) -> str:
    """Escape a text for use in a directory name.

    >>> directory_escaped("a/b=50%")
    'a%2Fb%3D50%25'
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def directory(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The directory of a partition with values of these texts.

    >>> directory(["hour", "sid"], ["17", None])
    'hour=17/sid=__HIVE_DEFAULT_PARTITION__'
    """
    parts = zip(names, texts, strict=True)
    return "/".join(
        f"{directory_escaped(name)}={NULL if text is None else directory_escaped(text)}"
        for name, text in parts
    )


def check_columns(schema: Schema, names: Sequence[str]) -> None:
    """Raise `UsageError` for columns whose values cannot name directories."""
    for name in names:
        option = f"--partition-by {name}"
        if name not in schema:
            raise UsageError(f"{option}: the results have {', '.join(schema.names)}")
        if names.count(name) > 1:
            raise UsageError(f"{option}: the column is named twice")
        if not schema[name].type.comparable or schema[name].type is DOUBLE:
            kind = schema[name].type.kind
            raise UsageError(
                f"{option}: it is {kind}, whose values cannot name directories: CAST it, or use another column"
            )
        if name.startswith(("_", ".")):
            raise UsageError(
                f"{option}: directories whose names begin with {name[0]} are hidden: give the column another alias"
            )
    if len(names) == len(schema):
        raise UsageError("--partition-by leaves no column for the files: select another one")


def unfit(schema: Schema, names: Sequence[str], tuples: pl.DataFrame) -> pl.Series | None:
    """The reason why a tuple's values cannot name a directory, or null; None if no tuple has a reason."""
    if not (names and tuples.height):
        return None
    texts = tuples.select(schema[name].type.format_column(pl.col(name)).alias(name) for name in names)
    reasons = []
    for name in names:
        room = _MOST - len(f"{directory_escaped(name)}=".encode())
        written = pl.col(name).str.len_bytes() + 2 * pl.col(name).str.count_matches(_ESCAPED.pattern)
        reasons += [
            pl.when(pl.col(name) == "").then(pl.lit(f"{name} is empty, and cannot name a directory")),
            pl.when(pl.col(name) == NULL).then(
                pl.lit(f"{name} is {NULL}, which names the directory of null")
            ),
            pl.when(written > room).then(pl.lit(f"{name} is too long for the name of a directory")),
        ]
    first_reasons = texts.select(pl.coalesce(reasons).alias("reason")).to_series()
    return first_reasons if first_reasons.null_count() < len(first_reasons) else None

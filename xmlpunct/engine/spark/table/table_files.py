"""The files of a table, and the labels in their names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors.contract import is_endless, open_source
from xmlpunct.connectors.listing import files_below, files_matching, is_pattern
from xmlpunct.connectors.source import Source, Texts
from xmlpunct.firehose.labels import Label, labels_of
from xmlpunct.firehose.spec import StreamSpec


@dataclass(frozen=True)
class TablePart:
    """A file, or a member of an archive, in a form that any machine can open.

    ``name`` is its name in the source ``spec``, ``path`` the path of a plain file, and ``size`` its stored size in
    bytes, if known.
    """

    spec: str
    name: str
    path: str | None
    size: int | None
    texts: Texts = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Sort key of parts."""
        return PurePosixPath(self.name).parts

    def open(self) -> Source:
        """A source of this part only. Raises `SourceError` if it is missing or its size has changed."""
        source = open_source(self.path if self.path is not None else self.spec)
        names = [name for name, _ in source.parts]
        number = names.index(self.name) if self.name in names else -1
        if self.path is not None and len(names) == 1:
            number = 0
        if number < 0:
            raise SourceError(self.name, f"it is no longer in {self.spec}")
        size = source.parts[number][1]
        if size != self.size:
            raise SourceError(
                self.name, f"it has {size or 0:,} bytes, and had {self.size or 0:,} when it was listed"
            )
        files = (source.files[number],) if source.files else ()
        opener = source.opener
        return Source(self.name, ((self.name, size),), lambda _: opener(number), files=files)

    def is_plain(self) -> bool:
        """True if the stored bytes are UTF-8, so that reading can start at any offset."""
        if self.path is None:
            return False
        with self.open().open() as reader:
            return not reader.transcoded


def table_parts(paths: Iterable[str]) -> list[TablePart]:
    """List the current parts of sources.

    Raises `SourceError` for a missing source, and `UsageError` for a source that can be read only once.
    """
    parts: list[TablePart] = []
    for path in paths:
        if is_endless(path):
            raise UsageError(
                f"{path} can be read only once, but Spark reads again: xmlpunct.spark.query reads it, or xmlpunct run"
            )
        source = open_source(path)
        if source.senders:
            raise UsageError(f"{path} has several senders, which only a query can merge")
        for number, (name, size) in enumerate(source.parts):
            file = source.files[number] if source.files else None
            texts = source.texts[number] if source.texts else ()
            parts.append(TablePart(path, name, None if file is None else os.path.abspath(file), size, texts))
    if not parts:
        raise UsageError('no path to read: write load("feed.xml")')
    return parts


def waits(path: str) -> bool:
    """True for a directory or pattern without files."""
    if os.path.isdir(path):
        return next(files_below(path), None) is None
    return is_pattern(path) and not files_matching(path)


def labels(spec: StreamSpec, parts: Iterable[TablePart], grows: bool = False) -> list[tuple[Label, ...]]:
    """The labels in the names of parts. With ``grows``, more files may follow, so no label closes its values."""
    named = tuple((part.name, part.texts) for part in parts)
    by_part = labels_of((spec,), named) or ((),) * len(named)
    return [
        tuple(replace(label, closes=label.closes and not grows) for label in of_part) for of_part in by_part
    ]

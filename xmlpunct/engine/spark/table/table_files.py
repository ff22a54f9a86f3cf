"""Which files a table is made of, and what their names say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.connectors.listing import files_below, files_matching, is_pattern
from xmlpunct.connectors.open_source import is_endless, open_source
from xmlpunct.connectors.source import Source, Texts
from xmlpunct.firehose.labels import Label, labels_of
from xmlpunct.firehose.spec import StreamSpec


@dataclass(frozen=True)
class TablePart:
    """A file, or a member of an archive: how it is found again on any machine.

    ``spec`` is a source in which it is ``name``; ``path`` its own path, if it is a plain file by itself, and ``size``
    its bytes as it is stored, if known.
    """

    spec: str
    name: str
    path: str | None
    size: int | None
    texts: Texts = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What parts are put in order by."""
        return PurePosixPath(self.name).parts

    def open(self) -> Source:
        """The source that has this part alone. Raises `SourceError` if it is gone, or has another size."""
        source = open_source(self.path if self.path is not None else self.spec)
        names = [name for name, _ in source.parts]
        number = names.index(self.name) if self.name in names else -1
        if self.path is not None and len(names) == 1:
            number = 0
        if number < 0:
            raise SourceError(self.name, f"it is not in {self.spec} any more")
        size = source.parts[number][1]
        if size != self.size:
            raise SourceError(
                self.name, f"it has {size or 0:,} bytes, and had {self.size or 0:,} when it was listed"
            )
        files = (source.files[number],) if source.files else ()
        opener = source.opener
        return Source(self.name, ((self.name, size),), lambda _: opener(number), files=files)

    def is_plain(self) -> bool:
        """Whether its bytes are UTF-8 as they are stored, so that it can be read from any of them on."""
        if self.path is None:
            return False
        with self.open().open() as reader:
            return not reader.transcoded


def listed(paths: Iterable[str]) -> list[TablePart]:
    """The parts of some sources, each as it is there now.

    Raises `SourceError` for what is not there, and `UsageError` for what cannot be read again.
    """
    parts: list[TablePart] = []
    for path in paths:
        if is_endless(path):
            raise UsageError(
                f"{path} can be read once only, and Spark reads again: xmlpunct.spark.query reads it, or xmlpunct run"
            )
        source = open_source(path)
        if source.senders:
            raise UsageError(f"{path} has several senders, which only a query can merge")
        for number, (name, size) in enumerate(source.parts):
            file = source.files[number] if source.files else None
            texts = source.texts[number] if source.texts else ()
            parts.append(TablePart(path, name, None if file is None else os.path.abspath(file), size, texts))
    if not parts:
        raise UsageError('there is nothing to read: load("feed.xml")')
    return parts


def waits(path: str) -> bool:
    """Whether a directory or a pattern has no files yet."""
    if os.path.isdir(path):
        return next(files_below(path), None) is None
    return is_pattern(path) and not files_matching(path)


def labels(spec: StreamSpec, parts: Iterable[TablePart], grows: bool = False) -> list[tuple[Label, ...]]:
    """What the names of parts say of their tuples; where more may come (``grows``), none closes anything."""
    named = tuple((part.name, part.texts) for part in parts)
    known = labels_of((spec,), named) or ((),) * len(named)
    return [
        tuple(replace(label, closes=label.closes and not grows) for label in of_part) for of_part in known
    ]

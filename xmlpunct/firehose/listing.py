"""Which files a directory, a pattern or an archive stands for, and in which order."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TypeVar

T = TypeVar("T")


def is_passed_over(name: str) -> bool:
    """Whether what has this name in a directory is none of what is read there."""
    return name.startswith(("_", ".")) or name.endswith(".crc")


def files_below(folder: str) -> Iterator[str]:
    """The files in a directory, at any depth, in order of their names."""
    for entry in sorted(Path(folder).iterdir(), key=lambda e: e.name):
        if is_passed_over(entry.name):
            continue
        if entry.is_dir():
            yield from files_below(str(entry))
        else:
            yield str(entry)


def is_pattern(path: str) -> bool:
    """Whether a path stands for the files that match it: it has ``*``, ``?`` or ``[``, and no file has that name."""
    return glob.has_magic(path) and not os.path.lexists(path)


def matches(pattern: str) -> list[str]:
    """The files that match a pattern, and those in the directories that do, in order of their names."""
    found = glob.glob(pattern, recursive=True)
    # What begins with _ is meant where the pattern itself begins so.
    meant = os.path.basename(pattern).startswith("_")
    listed: list[str] = []
    for path in sorted(set(found), key=lambda path: Path(path).parts):
        if is_passed_over(os.path.basename(path)) and not meant:
            continue
        listed += files_below(path) if os.path.isdir(path) else [path]
    return list(dict.fromkeys(listed))


def in_order(entries: Iterable[T], path: Callable[[T], str]) -> list[T]:
    """What would be read of these if they were files in a directory, in the same order."""
    kept = [(PurePosixPath(path(entry)).parts, entry) for entry in entries]
    kept = [(parts, entry) for parts, entry in kept if not any(_is_hidden(part) for part in parts)]
    return [entry for _, entry in sorted(kept, key=lambda found: found[0])]


def _is_hidden(part: str) -> bool:
    return part != ".." and is_passed_over(part)

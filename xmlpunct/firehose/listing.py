"""Which files a directory, a pattern or an archive stands for, and in which order."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
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
    """The files and directories that match a pattern, in order of their names."""
    found = sorted(set(glob.glob(pattern, recursive=True)), key=lambda path: Path(path).parts)
    # What begins with _ is meant where the pattern itself begins so.
    meant = os.path.basename(pattern).startswith("_")
    return [path for path in found if meant or not is_passed_over(os.path.basename(path))]


def files_matching(pattern: str) -> list[str]:
    """The files that match a pattern, and those in the directories that do."""
    listed: list[str] = []
    for path in matches(pattern):
        listed += files_below(path) if os.path.isdir(path) else [path]
    return list(dict.fromkeys(listed))


def would_match(pattern: str, path: str) -> bool:
    """Whether a file at a path, if there were one, would match a pattern."""
    wanted, given = os.path.abspath(pattern), os.path.abspath(path)
    if is_passed_over(os.path.basename(path)):
        return False
    if "**" in wanted:
        return fnmatchcase(given, wanted.replace("**/", "*"))
    pairs = list(zip(Path(wanted).parts, Path(given).parts, strict=False))
    is_as_deep = len(Path(wanted).parts) == len(Path(given).parts)
    return is_as_deep and all(fnmatchcase(there, part) for part, there in pairs)


def in_order(entries: Iterable[T], path: Callable[[T], str]) -> list[T]:
    """What would be read of these if they were files in a directory, in the same order."""
    kept = [(PurePosixPath(path(entry)).parts, entry) for entry in entries]
    kept = [(parts, entry) for parts, entry in kept if not any(_is_hidden(part) for part in parts)]
    return [entry for _, entry in sorted(kept, key=lambda found: found[0])]


def _is_hidden(part: str) -> bool:
    return part != ".." and is_passed_over(part)

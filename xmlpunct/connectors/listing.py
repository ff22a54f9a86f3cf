"""Lists the files of a directory, a pattern or an archive, in the order in which they are read."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeVar

from xmlpunct.base.errors import SourceError, UsageError

T = TypeVar("T")

_COLUMN = re.compile(r"\{([^\W\d][\w.-]*)\}")
"""In a pattern: the position of a column's value in a file's name."""
_UNLISTED = re.compile(
    r"(?i)(?:follow:|watch:|(?!file://)[a-z][a-z0-9+.-]*://).*(?<!\$)(\{[^\W\d][\w.-]*\})", re.DOTALL
)
"""A source that is no path, with a ``{column}`` that only a path may have."""
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
"""A character as Hive and Spark escape it in ``column=value``."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value that Hive and Spark write for null."""
_WILD = re.compile(r"(\*\*/?|\*|\?|\[!?\]?[^\]]*\])")
"""A wildcard of a pattern."""


def is_passed_over(name: str) -> bool:
    """True if an entry of a directory with this name is not read."""
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
    """True if a path is a pattern for files.

    It has ``*``, ``?``, ``[`` or ``{column}``, and no file has that name.
    """
    return bool(glob.has_magic(path) or _COLUMN.search(path)) and not os.path.lexists(path)


def columns_in(path: str) -> tuple[str, ...]:
    """The columns whose values are in the names of a pattern's files, without duplicates.

    Raises `UsageError` for a pattern in which the end of a value is ambiguous.
    """
    if not is_pattern(path):
        return ()
    for column in _COLUMN.finditer(path):
        before, after = path[: column.start()][-1:], path[column.end() :][:1]
        if before in ("*", "?", "]", "}") or after in ("*", "?", "[", "{"):
            raise UsageError(f"{path}: a fixed text is needed between {column[0]} and the next column")
    return tuple(dict.fromkeys(_COLUMN.findall(path)))


def refuse_columns(spec: str) -> None:
    """Raise `UsageError` for a source that is no path but contains ``{column}``.

    >>> refuse_columns("file:///feeds/hour={hour}.xml")
    >>> refuse_columns("s3://f/{a}.xml")
    Traceback (most recent call last):
    xmlpunct.base.errors.UsageError: s3://f/{a}.xml: {a} is only for local files: name a path; write %7B for a brace
    """
    match = _UNLISTED.match(spec)
    if match is not None and not (spec.startswith("follow:") and os.path.lexists(spec[7:])):
        raise UsageError(f"{spec}: {match[1]} is only for local files: name a path; write %7B for a brace")


def texts_in(pattern: str, path: str) -> tuple[tuple[str, str], ...]:
    """The texts of a pattern's columns in a file's path.

    After ``=``, values are escaped as by Hive and Spark: ``%3A`` is a colon. Raises `SourceError` for a path that can
    be read in two ways, and for the null of Hive and Spark, which the end of a file cannot close.

    >>> texts_in("feed/{sid}/at={at}", "feed/S1/at=17%3A30/a.xml")
    (('sid', 'S1'), ('at', '17:30'))
    """
    columns = columns_in(pattern)
    if not columns:
        return ()
    readings = [read.fullmatch(path) for read in _readers(pattern)]
    texts = [
        tuple((c, match[f"c{i}"]) for i, c in enumerate(columns)) for match in readings if match is not None
    ]
    if len(set(texts)) != 1:
        raise SourceError(path, f"it is not clear which part of its name is {' and which '.join(columns)}")
    escaped = {match[1] for match in _COLUMN.finditer(pattern) if pattern[: match.start()].endswith("=")}
    null = next((column for column, text in texts[0] if text == _NULL and column in escaped), None)
    if null is not None:
        raise SourceError(path, f"its name says that {null} is null, and no column of a file's name may be")
    return tuple(
        (column, _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text) if column in escaped else text)
        for column, text in texts[0]
    )


@lru_cache(maxsize=64)
def _readers(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two expressions that read the columns of a path: with the longest values, and with the shortest."""
    columns = list(dict.fromkeys(_COLUMN.findall(pattern)))

    def reader(shortest: str) -> re.Pattern[str]:
        earlier, text = set[str](), ""
        for number, piece in enumerate(_COLUMN.split(pattern)):
            if not number % 2:
                wild = enumerate(_WILD.split(piece))
                text += "".join(_wildcard_regex(p, shortest) if i % 2 else re.escape(p) for i, p in wild)
            elif piece in earlier:
                text += f"(?P=c{columns.index(piece)})"
            else:
                text += f"(?P<c{columns.index(piece)}>[^/]+{shortest})"
                earlier.add(piece)
        return re.compile(f"{text.rstrip('/')}(?:/.*)?", re.DOTALL)

    return reader(""), reader("?")


def _wildcard_regex(text: str, shortest: str) -> str:
    """A wildcard as a regular expression; ``shortest`` is ``?`` to match as few characters as possible."""
    if text[0] == "[":
        return translate(text).removeprefix("(?s:").removesuffix(")\\Z")
    wildcards = {"?": "[^/]", "*": f"[^/]*{shortest}", "**/": f"(?:.*{shortest}/)?{shortest}"}
    return wildcards.get(text, f".*{shortest}")


def _without_columns(pattern: str) -> str:
    """A pattern with ``*`` in place of columns."""
    return _COLUMN.sub("*", pattern)


def matches(pattern: str) -> list[str]:
    """The files and directories that match a pattern, in order of their names."""
    paths = sorted(
        set(glob.glob(_without_columns(pattern), recursive=True)), key=lambda path: Path(path).parts
    )
    if columns_in(pattern):
        paths = [path for path in paths if _readers(pattern)[0].fullmatch(path)]
    # Names that begin with _ are read only if the pattern itself begins with _.
    meant = os.path.basename(pattern).startswith("_")
    return [path for path in paths if meant or not is_passed_over(os.path.basename(path))]


def files_matching(pattern: str) -> list[str]:
    """The files that match a pattern, and the files in matching directories."""
    listed: list[str] = []
    for path in matches(pattern):
        listed += files_below(path) if os.path.isdir(path) else [path]
    return list(dict.fromkeys(listed))


def would_match(pattern: str, path: str) -> bool:
    """True if a file at this path would match a pattern."""
    full_pattern, full_path = os.path.abspath(_without_columns(pattern)), os.path.abspath(path)
    if is_passed_over(os.path.basename(path)):
        return False
    if "**" in full_pattern:
        return fnmatchcase(full_path, full_pattern.replace("**/", "*"))
    pairs = list(zip(Path(full_pattern).parts, Path(full_path).parts, strict=False))
    is_as_deep = len(Path(full_pattern).parts) == len(Path(full_path).parts)
    return is_as_deep and all(fnmatchcase(segment, part) for part, segment in pairs)


def in_order(entries: Iterable[T], path: Callable[[T], str]) -> list[T]:
    """The entries that would be read as files in a directory, in the same order."""
    visible = [(PurePosixPath(path(entry)).parts, entry) for entry in entries]
    visible = [(parts, entry) for parts, entry in visible if not any(_is_hidden(part) for part in parts)]
    return [entry for _, entry in sorted(visible, key=lambda item: item[0])]


def _is_hidden(part: str) -> bool:
    return part != ".." and is_passed_over(part)

"""Which files a directory, a pattern or an archive stands for, and in which order."""

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
"""Where the name of a file has the value of a column."""
_UNLISTED = re.compile(
    r"(?i)(?:follow:|(?!file://)[a-z][a-z0-9+.-]*://).*(?<!\$)(\{[^\W\d][\w.-]*\})", re.DOTALL
)
"""A source that is no path, and what would be the value of a column in one."""
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
"""A character as Hive and Spark write it in ``column=value``."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What they write where there is no value."""
_WILD = re.compile(r"(\*\*/?|\*|\?|\[!?\]?[^\]]*\])")
"""What stands for other characters than itself."""


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
    """Whether a path stands for the files that match it.

    It has ``*``, ``?``, ``[`` or ``{column}``, and no file has that name.
    """
    return bool(glob.has_magic(path) or _COLUMN.search(path)) and not os.path.lexists(path)


def columns_in(path: str) -> tuple[str, ...]:
    """The columns whose values a pattern's files have in their names, each once.

    Raises `UsageError` for a pattern that does not say where a value ends.
    """
    if not is_pattern(path):
        return ()
    for place in _COLUMN.finditer(path):
        before, behind = path[: place.start()][-1:], path[place.end() :][:1]
        if before in ("*", "?", "]", "}") or behind in ("*", "?", "[", "{"):
            raise UsageError(f"{path}: something fixed has to stand between {place[0]} and what is beside it")
    return tuple(dict.fromkeys(_COLUMN.findall(path)))


def refuse_columns(spec: str) -> None:
    """Raise `UsageError` for a source that is no path, but has ``{column}`` as if it were.

    >>> refuse_columns("file:///feeds/hour={hour}.xml")
    >>> refuse_columns("s3://f/{a}.xml")
    Traceback (most recent call last):
    xmlpunct.base.errors.UsageError: s3://f/{a}.xml: {a} is for the names of local files: name a path; a brace is %7B
    """
    found = _UNLISTED.match(spec)
    if found is not None and not (spec.startswith("follow:") and os.path.lexists(spec[7:])):
        raise UsageError(f"{spec}: {found[1]} is for the names of local files: name a path; a brace is %7B")


def texts_in(pattern: str, path: str) -> tuple[tuple[str, str], ...]:
    """The texts of the columns that the name of a file, or of a directory it is in, has by a pattern.

    Behind ``=`` it is written as Hive and Spark do: ``%3A`` is a colon. Raises `SourceError` for a name that can be
    read in two ways, and for their null, which no file closes.

    >>> texts_in("feed/{sid}/at={at}", "feed/S1/at=17%3A30/a.xml")
    (('sid', 'S1'), ('at', '17:30'))
    """
    columns = columns_in(pattern)
    if not columns:
        return ()
    ways = [read.fullmatch(path) for read in _readers(pattern)]
    texts = [tuple((c, way[f"c{i}"]) for i, c in enumerate(columns)) for way in ways if way is not None]
    if len(set(texts)) != 1:
        raise SourceError(path, f"it is not clear which part of its name is {' and which '.join(columns)}")
    escaped = {place[1] for place in _COLUMN.finditer(pattern) if pattern[: place.start()].endswith("=")}
    null = next((column for column, text in texts[0] if text == _NULL and column in escaped), None)
    if null is not None:
        raise SourceError(path, f"its name says that {null} is null, and no column of a file's name may be")
    return tuple(
        (column, _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text) if column in escaped else text)
        for column, text in texts[0]
    )


@lru_cache(maxsize=64)
def _readers(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Two expressions that read the columns of a name: as long as they can be, and as short."""
    columns = list(dict.fromkeys(_COLUMN.findall(pattern)))

    def reader(shortest: str) -> re.Pattern[str]:
        seen, text = set[str](), ""
        for number, piece in enumerate(_COLUMN.split(pattern)):
            if not number % 2:
                wild = enumerate(_WILD.split(piece))
                text += "".join(_wild(p, shortest) if i % 2 else re.escape(p) for i, p in wild)
            elif piece in seen:
                text += f"(?P=c{columns.index(piece)})"
            else:
                text += f"(?P<c{columns.index(piece)}>[^/]+{shortest})"
                seen.add(piece)
        return re.compile(f"{text.rstrip('/')}(?:/.*)?", re.DOTALL)

    return reader(""), reader("?")


def _wild(text: str, shortest: str) -> str:
    """What stands for other characters, as a regular expression: ``shortest`` is ``?`` for as few as can be."""
    if text[0] == "[":
        return translate(text).removeprefix("(?s:").removesuffix(")\\Z")
    known = {"?": "[^/]", "*": f"[^/]*{shortest}", "**/": f"(?:.*{shortest}/)?{shortest}"}
    return known.get(text, f".*{shortest}")


def _plain(pattern: str) -> str:
    """A pattern that says nothing of columns."""
    return _COLUMN.sub("*", pattern)


def matches(pattern: str) -> list[str]:
    """The files and directories that match a pattern, in order of their names."""
    found = sorted(set(glob.glob(_plain(pattern), recursive=True)), key=lambda path: Path(path).parts)
    if columns_in(pattern):
        found = [path for path in found if _readers(pattern)[0].fullmatch(path)]
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
    wanted, given = os.path.abspath(_plain(pattern)), os.path.abspath(path)
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

"""Translate patterns of RE2, the syntax of DuckDB, to the Rust syntax of polars.

RE2 differs in these points: ``\\d``, ``\\s``, ``\\w`` and ``\\b`` match ASCII only; ``[``, ``&``, ``~`` and ``-`` in a
class are characters unless they form a range; a ``{`` that begins no count is a character; ``\\Q...\\E`` quotes; and
every other escape of an ASCII punctuation character is that character.
"""

from __future__ import annotations

import re
from string import punctuation

import polars as pl

_CLASSES = {"d": "0-9", "s": r"\t\n\f\r ", "w": "0-9A-Za-z_"}
_COUNT = re.compile(r"\{\d+(,\d*)?\}")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)|\\E", re.DOTALL)
_PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|(.))", re.DOTALL)
_NUMBER = re.compile(r"\\x(?:\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{2})")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")


def of_polars(pattern: str) -> str:
    r"""A pattern of RE2 in the syntax of polars. One that RE2 refuses is still refused, or has its meaning in Rust.

    >>> of_polars(r"\w+@[\w.-]+"), of_polars(r"\bx{a}\b"), of_polars("[[a&&b]")
    ('[0-9A-Za-z_]+@[0-9A-Za-z_\\.\\-]+', '(?-u:\\b)x\\{a}(?-u:\\b)', '[\\[a\\&\\&b]')
    """
    out, index = list[str](), 0
    while index < len(pattern):
        if pattern[index] == "[":
            piece, index = _class(pattern, index)
        elif pattern[index] == "{" and not _COUNT.match(pattern, index):
            piece, index = r"\{", index + 1
        elif quoted := _QUOTED.match(pattern, index):
            piece, index = pl.escape_regex(quoted[1] or ""), quoted.end()
        elif pattern[index : index + 2] in (r"\b", r"\B"):
            piece, index = f"(?-u:{pattern[index : index + 2]})", index + 2
        else:
            piece, index = _character(pattern, index)
        out.append(piece)
    return "".join(out)


def _class(pattern: str, index: int) -> tuple[str, int]:
    """A translated class in brackets, and the index after it."""
    out = ["["]
    index += 1
    if pattern[index : index + 1] == "^":
        out.append("^")
        index += 1
    first = index
    while index < len(pattern) and (pattern[index] != "]" or index == first):
        posix = _POSIX.match(pattern, index)
        if posix:
            out.append(posix[0])
            index = posix.end()
            continue
        low, index = _character(pattern, index, in_class=True)
        out.append(low)
        if (
            pattern[index : index + 1] == "-"
            and pattern[index + 1 : index + 2] not in ("", "]")
            and not _is_set(low)
        ):
            high, index = _character(pattern, index + 1, in_class=True)
            out += ["-", high]
    return "".join([*out, pattern[index : index + 1]]), index + 1


def _is_set(piece: str) -> bool:
    """Whether a piece of a class is a set of characters, which cannot begin a range."""
    return piece in _CLASSES.values() or piece[:2] in ("[^", r"\p", r"\P")


def _character(pattern: str, index: int, in_class: bool = False) -> tuple[str, int]:
    """A translated character or escape, and the index after it."""
    char, escaped = pattern[index], pattern[index + 1 : index + 2]
    if char != "\\":
        return (pl.escape_regex(char) if in_class else char), index + 1
    if escaped.lower() in _CLASSES:
        characters = _CLASSES[escaped.lower()]
        negated = "^" if escaped.isupper() else ""
        return (characters if in_class and not negated else f"[{negated}{characters}]"), index + 2
    if named := _PROPERTY.match(pattern, index):
        sign = named[1] if not named[2] else "pP"[named[1] == "p"]
        return f"\\{sign}{{{named[3] or named[4]}}}", named.end()
    if number := _NUMBER.match(pattern, index):
        return number[0], number.end()
    if escaped and escaped in punctuation:
        return pl.escape_regex(escaped), index + 2
    return pattern[index : index + 2], index + 2

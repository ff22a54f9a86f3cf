"""Patterns of RE2, which DuckDB reads, as patterns of polars, whose regular expressions are those of Rust.

Both are read alike but for these: to RE2 ``\\d``, ``\\s``, ``\\w`` and ``\\b`` are about ASCII alone, ``[``, ``&``,
``~`` and ``-`` in a class are characters unless they make a range, a ``{`` that begins no count is a character,
``\\Q...\\E`` quotes, and every other escape of an ASCII sign is that sign.
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
    r"""A pattern of RE2 as polars reads it. What is no pattern of RE2 stays none, or is read as Rust does.

    >>> of_polars(r"\w+@[\w.-]+"), of_polars(r"\bx{a}\b"), of_polars("[[a&&b]")
    ('[0-9A-Za-z_]+@[0-9A-Za-z_\\.\\-]+', '(?-u:\\b)x\\{a}(?-u:\\b)', '[\\[a\\&\\&b]')
    """
    out, at = list[str](), 0
    while at < len(pattern):
        if pattern[at] == "[":
            piece, at = _class(pattern, at)
        elif pattern[at] == "{" and not _COUNT.match(pattern, at):
            piece, at = r"\{", at + 1
        elif quoted := _QUOTED.match(pattern, at):
            piece, at = pl.escape_regex(quoted[1] or ""), quoted.end()
        elif pattern[at : at + 2] in (r"\b", r"\B"):
            piece, at = f"(?-u:{pattern[at : at + 2]})", at + 2
        else:
            piece, at = _one(pattern, at)
        out.append(piece)
    return "".join(out)


def _class(pattern: str, at: int) -> tuple[str, int]:
    """A class in brackets, and where it ends."""
    out = ["["]
    at += 1
    if pattern[at : at + 1] == "^":
        out.append("^")
        at += 1
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        posix = _POSIX.match(pattern, at)
        if posix:
            out.append(posix[0])
            at = posix.end()
            continue
        low, at = _one(pattern, at, in_class=True)
        out.append(low)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("", "]") and not _is_set(low):
            high, at = _one(pattern, at + 1, in_class=True)
            out += ["-", high]
    return "".join([*out, pattern[at : at + 1]]), at + 1


def _is_set(piece: str) -> bool:
    """Whether a piece of a class is no single character, and so begins no range."""
    return piece in _CLASSES.values() or piece[:2] in ("[^", r"\p", r"\P")


def _one(pattern: str, at: int, in_class: bool = False) -> tuple[str, int]:
    """A character, or an escape, and where it ends."""
    char, escaped = pattern[at], pattern[at + 1 : at + 2]
    if char != "\\":
        return (pl.escape_regex(char) if in_class else char), at + 1
    if escaped.lower() in _CLASSES:
        characters = _CLASSES[escaped.lower()]
        negated = "^" if escaped.isupper() else ""
        return (characters if in_class and not negated else f"[{negated}{characters}]"), at + 2
    if named := _PROPERTY.match(pattern, at):
        sign = named[1] if not named[2] else "pP"[named[1] == "p"]
        return f"\\{sign}{{{named[3] or named[4]}}}", named.end()
    if number := _NUMBER.match(pattern, at):
        return number[0], number.end()
    if escaped and escaped in punctuation:
        return pl.escape_regex(escaped), at + 2
    return pattern[at : at + 2], at + 2

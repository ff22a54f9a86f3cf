"""JSON in a STRING: what stands at a path of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, Literal, Outcome
from xmlpunct.expressions.functions.casts import each, is_null, of_type
from xmlpunct.types import BOOLEAN, INT, STRING

_STEP = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\["]+)|\[(#?-?[0-9]+)\]', re.DOTALL)

Path = list[str | int]
"""Names of members and places of items; a negative place counts from the end."""


def read_path(text: str | int) -> Path:
    """The steps of a path. What does not begin with $ is a name, or a place. Raises ValueError where it is none.

    >>> read_path('$.a."b c"[0][#-1]'), read_path("b c"), read_path(2)
    (['a', 'b c', 0, -1], ['b c'], [2])
    """
    if isinstance(text, int):
        return [text]
    if not text.startswith(("$", "/")) and text:
        return [text]
    path: Path = []
    at = 1
    while text.startswith("$") and at < len(text):
        step = _STEP.match(text, at)
        if step is None or step[1] == "*":
            break
        if step[1] is None:
            place = step[2].removeprefix("#")
            if step[2].startswith("#") and not place.startswith("-"):
                break
            path.append(int(place))
        else:
            path.append(json.loads(step[1]) if step[1].startswith('"') else step[1])
        at = step.end()
    if at != len(text) or not text.startswith("$"):
        raise ValueError(f"{text!r} is no path of one value: '$.name', '$.list[0]', '$.\"a name\"'")
    return path


class _Number(str):
    """A number that is no whole one, as it stood."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of members of one name the first counts."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)


_NOTHING = object()


def _at(text: str, path: Path) -> Any:
    """What stands at a path; `_NOTHING` if nothing does. Raises ValueError where the text is no JSON."""
    value = _DECODER.decode(text)
    if "\\u" in text:
        _written(value).encode()  # half a character is none
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, _NOTHING)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _NOTHING
    return value


def _number(text: str) -> str:
    """A number in one form: a whole one as it is, others with the fewest digits."""
    if text.lstrip("-").isdigit():
        return "0" if text == "-0" else text
    value = float(text)
    if not math.isfinite(value):
        return text
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    if not -7 < int(exponent) < 21:
        return f"{digits}e{int(exponent)}"
    plain = f"{Decimal(repr(value)):f}"
    return plain if "." in plain else f"{plain}.0"


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_written(k)}:{_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _scalar(value: Any) -> str | None:
    return None if value is None or value is _NOTHING or isinstance(value, dict | list) else _written(value)


def _plain(value: Any) -> str | None:
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    return None if value is None or value is _NOTHING else value if is_text else _written(value)


def _whole(value: Any) -> str | None:
    return None if value is _NOTHING else _written(value)


def _typed(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, path = of_type(record.name, args[0], STRING), args[1]
    if is_null(path):
        return Literal(STRING, True, None)
    if not isinstance(path, Literal) or path.type not in (STRING, INT):
        raise ValueError(f"{record.name} wants a literal path: '$.name'")
    read_path(path.value)
    return record.call(STRING, text, path)


def _of_path(shown: Callable[[Any], str | None]) -> Callable[[Call, pl.Expr, pl.Expr], Outcome]:
    def evaluate(call: Call, text: pl.Expr, _: pl.Expr) -> Outcome:
        (written,) = (a.value for a in call.args[1:] if isinstance(a, Literal))
        path = read_path(written)

        def found(given: str) -> str | None:
            try:
                return shown(_at(given, path))
            except RecursionError:
                raise ValueError("nested too deeply") from None

        def is_json(given: str) -> bool:
            found(given)
            return True

        return Outcome(
            each(text, found, STRING), [(each(text, is_json, BOOLEAN).is_null(), "malformed JSON")]
        )

    return evaluate


def _always(args: Any) -> bool:
    """Null where nothing stands at the path."""
    return True


# fmt: off
JSON_VALUE = Function(
    "JSON_VALUE", _typed, _of_path(_scalar), called=("JSON_VALUE",), nullable=_always,
    doc=Doc("JSON_VALUE(s, path)",
            "The number, text (in quotes, as JSON has it) or truth value at a path; null where there is none.",
            "JSON_VALUE('{\"a\": [1, 2.50]}', '$.a[1]')"))
JSON_EXTRACT = Function(
    "JSON_EXTRACT", _typed, _of_path(_whole), called=("JSON_EXTRACT",), nullable=_always,
    doc=Doc("JSON_EXTRACT(s, path), s -> path", "What stands at a path, as JSON in a STRING. A path is `'$.a[0]'`, the "
            "name of a member, or the place of an item from 0 on.", "'{\"a\": {\"b\": 1}}' -> 'a'"))
JSON_EXTRACT_STRING = Function(
    "JSON_EXTRACT_STRING", _typed, _of_path(_plain), called=("JSON_EXTRACT_STRING",), nullable=_always,
    doc=Doc("JSON_EXTRACT_STRING(s, path), s ->> path",
            "What stands at a path: a text without quotes, anything else as JSON.",
            "JSON_EXTRACT_STRING('{\"a\": \"x\"}', '$.a')"))

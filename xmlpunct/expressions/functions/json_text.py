"""JSON in a STRING: the value at a path."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl

from xmlpunct.expressions.expression import Call, Doc, Expression, Function, FunctionResult, Literal
from xmlpunct.expressions.functions.casts import each, is_null, of_type
from xmlpunct.types import BOOLEAN, INT, STRING

_STEP = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\["]+)|\[(#?-?[0-9]+)\]', re.DOTALL)

JsonPath = list[str | int]
"""Names of members and indices of items; a negative index counts from the end."""


def read_json_path(text: str | int) -> JsonPath:
    """The steps of a path. A text without leading $ is the name of one member. Raises ValueError for a malformed path.

    >>> read_json_path('$.a."b c"[0][#-1]'), read_json_path("b c"), read_json_path(2)
    (['a', 'b c', 0, -1], ['b c'], [2])
    """
    if isinstance(text, int):
        return [text]
    if not text.startswith(("$", "/")) and text:
        return [text]
    path: JsonPath = []
    position = 1
    while text.startswith("$") and position < len(text):
        step = _STEP.match(text, position)
        if step is None or step[1] == "*":
            break
        if step[1] is None:
            index = step[2].removeprefix("#")
            if step[2].startswith("#") and not index.startswith("-"):
                break
            path.append(int(index))
        else:
            path.append(json.loads(step[1]) if step[1].startswith('"') else step[1])
        position = step.end()
    if position != len(text) or not text.startswith("$"):
        raise ValueError(f"{text!r} is no path to a single value: '$.name', '$.list[0]', '$.\"a name\"'")
    return path


class _Number(str):
    """The text of a number, unchanged."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object. The first of several members with one name counts."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        members.setdefault(name, value)
    return members


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=_Number, parse_int=_Number, parse_constant=_Number
)


_MISSING = object()


def _value_at(text: str, path: JsonPath) -> Any:
    """The value at a path; `_MISSING` if there is none. Raises ValueError if the text is no JSON."""
    value = _DECODER.decode(text)
    if "\\u" in text:
        _to_json(value).encode()  # raises for an unpaired surrogate
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, _MISSING)
        elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _MISSING
    return value


def _number(text: str) -> str:
    """A number in canonical form: integers unchanged, other numbers with the fewest digits."""
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
    decimal = f"{Decimal(repr(value)):f}"
    return decimal if "." in decimal else f"{decimal}.0"


def _to_json(value: Any) -> str:
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_to_json(k)}:{_to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_to_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _scalar(value: Any) -> str | None:
    return None if value is None or value is _MISSING or isinstance(value, dict | list) else _to_json(value)


def _text_or_json(value: Any) -> str | None:
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    return None if value is None or value is _MISSING else value if is_text else _to_json(value)


def _json(value: Any) -> str | None:
    return None if value is _MISSING else _to_json(value)


def _type_call(record: Function, args: tuple[Expression, ...]) -> Expression:
    text, path = of_type(record.name, args[0], STRING), args[1]
    if is_null(path):
        return Literal(STRING, True, None)
    if not isinstance(path, Literal) or path.type not in (STRING, INT):
        raise ValueError(f"{record.name} needs a literal path: '$.name'")
    read_json_path(path.value)
    return record.call(STRING, text, path)


def _of_path(to_text: Callable[[Any], str | None]) -> Callable[[Call, pl.Expr, pl.Expr], FunctionResult]:
    def evaluate(call: Call, text: pl.Expr, _: pl.Expr) -> FunctionResult:
        (path_text,) = (a.value for a in call.args[1:] if isinstance(a, Literal))
        path = read_json_path(path_text)

        def extract(document: str) -> str | None:
            try:
                return to_text(_value_at(document, path))
            except RecursionError:
                raise ValueError("nested too deeply") from None

        def is_json(document: str) -> bool:
            extract(document)
            return True

        return FunctionResult(
            each(text, extract, STRING), [(each(text, is_json, BOOLEAN).is_null(), "malformed JSON")]
        )

    return evaluate


def _nullable(args: Any) -> bool:
    """The nullability of results that are null if the path has no value."""
    return True


# fmt: off
JSON_VALUE = Function(
    "JSON_VALUE", _type_call, _of_path(_scalar), called=("JSON_VALUE",), nullable=_nullable,
    doc=Doc("JSON_VALUE(s, path)",
            "The number, string (in quotes, as JSON) or boolean at the path; null if the path has none of these.",
            "JSON_VALUE('{\"a\": [1, 2.50]}', '$.a[1]')"))
JSON_EXTRACT = Function(
    "JSON_EXTRACT", _type_call, _of_path(_json), called=("JSON_EXTRACT",), nullable=_nullable,
    doc=Doc("JSON_EXTRACT(s, path), s -> path", "The value at the path, as JSON in a STRING. A path is `'$.a[0]'`, the "
            "name of a member, or the index of an item, counted from 0.", "'{\"a\": {\"b\": 1}}' -> 'a'"))
JSON_EXTRACT_STRING = Function(
    "JSON_EXTRACT_STRING", _type_call, _of_path(_text_or_json), called=("JSON_EXTRACT_STRING",), nullable=_nullable,
    doc=Doc("JSON_EXTRACT_STRING(s, path), s ->> path",
            "The value at the path: a string without quotes, any other value as JSON.",
            "JSON_EXTRACT_STRING('{\"a\": \"x\"}', '$.a')"))

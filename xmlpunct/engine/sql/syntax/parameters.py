"""Parameters of SQL: ``:name``, for which a literal is put before anything is read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from xmlpunct.base.errors import SqlError, UsageError
from xmlpunct.engine.sql.planner.declaration import string_literal
from xmlpunct.engine.sql.syntax.dialect import PunctSQL

_LITERAL = re.compile(
    r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?|'(?:[^']|'')*'|null|true|false|(?:date|timestamp)\s*'[^']*'",
    re.IGNORECASE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")


def bound(sql: str, literals: Mapping[str, str]) -> str:
    """A text of SQL with literals in the place of its parameters.

    Raises `SqlError`, with the place, for one that is not given, and `UsageError` for one that is not there.

    >>> bound("SELECT ':a' AS t FROM s WHERE n > :least AND k = :key", {"least": "-5", "key": "'it''s'"})
    "SELECT ':a' AS t FROM s WHERE n > -5 AND k = 'it''s'"
    """
    try:
        tokens = PunctSQL().tokenize(sql)
    except Exception:  # of sqlglot, whatever it is
        return sql  # what reads it says why
    pieces, done, used = list[str](), 0, dict[str, None]()
    for colon, name in pairwise(tokens):
        is_parameter = colon.token_type is TokenType.COLON and name.start == colon.end + 1
        if not is_parameter or not _NAME.fullmatch(name.text) or sql[name.start] == '"':
            continue
        if name.text not in literals:
            remedy = f"write --param {name.text}=..., or params={{'{name.text}': ...}} in Python"
            raise SqlError(
                f"the parameter :{name.text} has no value: {remedy}", sql, colon.start, name.end + 1
            )
        before = sql[done : colon.start]
        # a sign or a word right before the colon stays by itself
        pieces += [before, " " * (before[-1:] not in ("", " ", "(", ",")), literals[name.text]]
        done, used[name.text] = name.end + 1, None
    for name_ in literals:
        if name_ not in used:
            there = ", ".join(f":{n}" for n in used) or "none"
            raise UsageError(f"the query has no parameter :{name_}: there are {there}")
    return "".join([*pieces, sql[done:]])


def of_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The literals that texts are: those of SQL are themselves, any other text is a string.

    >>> of_texts({"n": "-2.5", "t": "S01", "q": "'17'", "d": "DATE '2026-01-01'", "z": "null"})
    {'n': '-2.5', 't': "'S01'", 'q': "'17'", 'd': "DATE '2026-01-01'", 'z': 'null'}
    """
    return {name: text if _LITERAL.fullmatch(text) else string_literal(text) for name, text in texts.items()}


def of_values(values: Mapping[str, object]) -> dict[str, str]:
    """The literals that values of Python are. Raises `UsageError` for one that none is.

    >>> of_values({"n": 5, "x": 0.5, "m": Decimal("1.50"), "t": "it's", "p": True, "z": None})
    {'n': '5', 'x': '0.5e0', 'm': '1.50', 't': "'it''s'", 'p': 'TRUE', 'z': 'NULL'}
    >>> of_values({"day": date(2026, 1, 2), "at": datetime(2026, 1, 2, 3, tzinfo=UTC)})
    {'day': "DATE '2026-01-02'", 'at': "TIMESTAMP '2026-01-02T03:00:00Z'"}
    """
    return {name: _literal(name, value) for name, value in values.items()}


def _literal(name: str, value: object) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, str):
        return string_literal(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{'NaN' if math.isnan(value) else 'INF' if value > 0 else '-INF'}' AS DOUBLE)"
    if isinstance(value, float):
        return repr(value) if "e" in repr(value) else f"{value!r}e0"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return f"TIMESTAMP '{moment.isoformat().removesuffix('+00:00')}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    kinds = "None, bool, int, float, Decimal, str, date and datetime"
    raise UsageError(f"the parameter :{name} is {type(value).__name__}: there are {kinds}")

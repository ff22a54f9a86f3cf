"""The syntax of window table functions and of EMIT.

TUMBLE, HOP and SESSION stand in FROM, alone or as TABLE(TUMBLE(...)), with their arguments by position or by name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.base.errors import SqlError
from xmlpunct.engine.sql.syntax.xml_syntax import XmlParser

_ARGUMENTS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "ORIGIN"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "ORIGIN"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}
_SYNONYMS = {"OFFSET": "ORIGIN"}
_FORMS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), size [, origin])",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), slide, size [, origin])",
    "SESSION": "SESSION(TABLE t [PARTITION BY k], DESCRIPTOR(ts), gap)",
}
_OPTIONAL = "ORIGIN"


class WindowTable(exp.Expression):
    """TUMBLE, HOP or SESSION (``kind``) over the item of FROM ``this``; ``named``: the arguments are by name."""

    arg_types: ClassVar = {
        "this": True,
        "kind": True,
        "timestamp": True,
        "keys": False,
        "named": False,
        "slide": False,
        "size": False,
        "gap": False,
        "origin": False,
    }


class WindowFunctionParser(XmlParser):
    """Parses window table functions."""

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table | exp.Dot | None:
        """As sqlglot does; or a window table function."""
        wrapped = 2 if self._comes("TABLE", "(") else 0
        if not any(self._comes(kind, "(", skip=wrapped) for kind in _ARGUMENTS):
            table: exp.Table | exp.Dot | None = super()._parse_table_parts(*args, **kwargs)
            return table
        if kwargs.get("fast"):
            return None
        self._advance(wrapped)
        window_table = exp.Table(this=self._parse_window_table())
        if wrapped:
            self._match_r_paren()
        return window_table

    def _parse_window_table(self) -> WindowTable:
        start = self._curr
        kind = start.text.upper()
        self._advance(2)
        names = _ARGUMENTS[kind]
        parts: dict[str, Any] = {}
        named = self._next and self._next.token_type == TokenType.FARROW
        while not (self._curr and self._curr.token_type == TokenType.R_PAREN):
            token = self._curr
            name = self._parse_argument_name(kind, names, len(parts), bool(named))
            if name in parts:
                self._fail(f"{name} is given twice", token)
            parts[name] = self._parse_window_argument(kind, name)
            if not self._match(TokenType.COMMA):
                break
        if missing := [name for name in names if name not in parts and name != _OPTIONAL]:
            self._fail(f"{kind} lacks {missing[0]}: {_FORMS[kind]}")
        if not self._match(TokenType.R_PAREN):
            self._fail(f"a comma, or the end of {kind}: {_FORMS[kind]}")
        data, keys = parts.pop("DATA")
        timestamp = parts.pop("TIMECOL")
        lengths = {name.lower(): node for name, node in parts.items()}
        table = WindowTable(
            this=data, kind=kind, timestamp=timestamp, keys=keys, named=bool(named), **lengths
        )
        table.meta.update(start=start.start, end=self._prev.end)
        return table

    def _parse_argument_name(self, kind: str, names: tuple[str, ...], position: int, named: bool) -> str:
        """The name of the next argument, as written or by its position."""
        if named != bool(self._next and self._next.token_type == TokenType.FARROW):
            self._fail(f"the arguments of {kind} must be all by position, or all by name")
        if not named:
            if position >= len(names):
                self._fail(f"{kind} has too many arguments: {_FORMS[kind]}")
            return names[position]
        written = self._curr.text.upper()
        name = _SYNONYMS.get(written, written)
        if name not in names:
            self._fail(f"{kind} has no argument {written}: there are {', '.join(names)}")
        self._advance(2)
        return name

    def _parse_window_argument(self, kind: str, name: str) -> Any:
        start = self._curr
        if name == "DATA":
            return self._parse_data(kind)
        if name == "TIMECOL":
            if not self._match_text_seq("DESCRIPTOR"):
                self._fail(f"DESCRIPTOR(ts) names the timestamp: {_FORMS[kind]}")
            columns = self._parse_wrapped_csv(self._parse_column)
            if len(columns) != 1 or not isinstance(columns[0], exp.Column):
                self._fail("DESCRIPTOR needs one column", start)
            return columns[0]
        length = self._parse_disjunction()
        if length is None:
            self._fail(f"{name} is missing: {_FORMS[kind]}")
        length.meta.update(start=start.start, end=self._prev.end)
        return length

    def _parse_data(self, kind: str) -> tuple[exp.Expr, list[exp.Expr]]:
        """TABLE and an item of FROM, or one in parentheses; and the columns of PARTITION BY."""
        if not self._match(TokenType.TABLE) and not self._comes("("):
            self._fail(f"TABLE and an input: {_FORMS[kind]}")
        data: exp.Expr = self._parse_table() or self._fail("an input: TABLE t, or TABLE (SELECT ...)")
        keys: list[exp.Expr] = []
        token = self._curr
        if self._match(TokenType.PARTITION_BY):
            if kind != "SESSION":
                self._fail(f"{kind} has no PARTITION BY: windows do not depend on other rows", token)
            keys = self._parse_partition_columns()
        return data, keys

    def _parse_partition_columns(self) -> list[exp.Expr]:
        """The columns of PARTITION BY, up to the next argument."""
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            columns: list[exp.Expr] = self._parse_wrapped_csv(self._parse_column)
            return columns
        columns = [self._parse_column() or self._fail("PARTITION BY needs a column")]
        while self._comes(",") and not self._comes(",", "DESCRIPTOR") and not self._comes_named():
            self._advance()
            columns.append(self._parse_column() or self._fail("PARTITION BY needs a column"))
        return columns

    def _comes_named(self) -> bool:
        """Whether a comma and an argument by name come next."""
        token_behind = self._tokens[self._index + 2 : self._index + 3]
        return bool(token_behind) and token_behind[0].token_type == TokenType.FARROW


_FINAL = (["FINAL"], ["ON", "WINDOW", "CLOSE"])


def without_emit(tokens: list[Token], sql: str) -> list[Token]:
    """The tokens without EMIT FINAL or EMIT ON WINDOW CLOSE behind queries; EMIT CHANGES is refused."""
    remaining: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.token_type is TokenType.VAR and token.text.upper() == "EMIT":
            indices = range(position, len(tokens))
            end = next((i for i in indices if tokens[i].token_type is TokenType.SEMICOLON), len(tokens))
            words = [t.text.upper() for t in tokens[position + 1 : min(end, position + 5)]]
            if words == ["CHANGES"]:
                reason = (
                    "EMIT CHANGES would show results that later tuples change: a result is released once, when "
                    "punctuations make it final (EMIT FINAL)"
                )
                raise SqlError(reason, sql, token.start, tokens[end - 1].end + 1)
            if words in _FINAL:
                position = end
                continue
        remaining.append(token)
        position += 1
    return remaining

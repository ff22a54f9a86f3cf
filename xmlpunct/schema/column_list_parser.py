"""The syntax of column lists: columns, keys, WATERMARK and XMLNAMESPACES, with the operators that CHECK may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.schema.sql_nesting import InsideOut


class KeyClause(exp.Expression):
    """PRIMARY KEY (a, b) or UNIQUE (a, b) in a column list, of the columns ``expressions``."""

    arg_types: ClassVar = {"expressions": True}


class Watermark(exp.Expression):
    """WATERMARK FOR ``this`` AS ``expression`` [AHEAD ``ahead`` [AFTER ``after``]], in a column list."""

    arg_types: ClassVar = {"this": True, "expression": True, "ahead": False, "after": False}


def _arrow(name: str) -> Callable[[Any, exp.Expr, exp.Expr], exp.Expr]:
    return lambda parser, this, path: exp.Anonymous(this=name, expressions=[this, path])


_ARROWS = {TokenType.ARROW: "JSON_EXTRACT", TokenType.DARROW: "JSON_EXTRACT_STRING"}


class ColumnListParser(InsideOut):
    """Reads column lists, with the operators of all SQL of xmlpunct."""

    COLUMN_OPERATORS: ClassVar = {
        token: f for token, f in InsideOut.COLUMN_OPERATORS.items() if token not in _ARROWS
    }
    JSON_OPERATORS: ClassVar = {token: _arrow(name) for token, name in _ARROWS.items()}
    LAMBDAS: ClassVar = {token: f for token, f in InsideOut.LAMBDAS.items() if token not in _ARROWS}
    BITWISE: ClassVar = {token: f for token, f in InsideOut.BITWISE.items() if token is not TokenType.CARET}
    EXPONENT: ClassVar = {TokenType.CARET: exp.Pow, TokenType.DSTAR: exp.Pow}

    def _parse_primary(self) -> exp.Expr | None:
        """As sqlglot does; NULL, TRUE and FALSE also record their position."""
        token = self._curr
        primary: exp.Expr | None = super()._parse_primary()
        if isinstance(primary, exp.Null | exp.Boolean):
            primary.meta.update(start=token.start, end=token.end)
        return primary

    def _parse_column_list(self) -> list[exp.Expr]:
        """A column list and its closing parenthesis."""
        items: list[exp.Expr] = self._parse_csv(self._parse_stream_item)
        self._match_r_paren()
        return items

    def _parse_stream_item(self) -> exp.Expr:
        special = self._parse_namespaces() or self._parse_watermark() or self._parse_key()
        return special or self._parse_stream_column()

    def _parse_stream_column(self) -> exp.Expr:
        token = self._curr
        name = self._parse_id_var(any_token=True) or self._fail("a column's name")
        is_array = self._curr and self._curr.text.upper() == "ARRAY" and self._next
        if is_array and self._next.token_type == TokenType.L_PAREN:
            self._advance()
            kind: exp.Expr = exp.Schema(expressions=self._parse_wrapped_csv(self._parse_stream_column))
        else:
            kind = self._parse_types(schema=True) or self._fail("a column's type")
        column = exp.ColumnDef(this=name, kind=kind)
        column.meta.update(start=token.start, end=self._prev.end)
        while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            self._parse_stream_constraint(column)
        return column

    def _parse_stream_constraint(self, column: exp.ColumnDef) -> None:
        if self._match_pair(TokenType.NOT, TokenType.NULL):
            column.meta["not_null"] = True
        elif self._match_text_seq("PATH"):
            path = self._parse_string() or self._fail("PATH needs a quoted path: 'a/b' or '@id'")
            column.meta["path"] = path
        elif self._match_text_seq("CHECK"):
            column.append("constraints", self._parse_wrapped(self._parse_disjunction))
        elif self._match_key():
            column.meta["key"] = True
        else:
            self._fail(
                "after its type, a column may have NOT NULL, PATH '...', CHECK (...), PRIMARY KEY and UNIQUE only"
            )

    def _parse_key(self) -> KeyClause | None:
        """PRIMARY KEY (a, b) or UNIQUE (a, b); None, and nothing is consumed, for a column with that name."""
        start = self._curr
        if not (self._comes("PRIMARY KEY", "(") or self._comes("UNIQUE", "(")):
            return None
        self._advance()
        node = KeyClause(expressions=self._parse_names())
        node.meta.update(start=start.start, end=self._prev.end)
        return node

    def _match_key(self) -> bool:
        """Read PRIMARY KEY or UNIQUE, if it comes."""
        return bool(self._match(TokenType.PRIMARY_KEY) or self._match_text_seq("UNIQUE"))

    def _parse_names(self) -> list[exp.Expr]:
        """Columns in parentheses."""
        if not self._match(TokenType.L_PAREN):
            self._fail("columns in parentheses")
        names = (
            []
            if self._curr and self._curr.token_type == TokenType.R_PAREN
            else self._parse_csv(self._parse_id_var)
        )
        if not self._match(TokenType.R_PAREN):
            self._fail("a comma, or the end of the columns")
        return names

    def _parse_watermark(self) -> Watermark | None:
        """WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, if that comes next."""
        start = self._curr
        if not self._comes("WATERMARK", "FOR"):
            return None
        self._advance(2)
        column = self._parse_id_var(any_token=True) or self._fail("a column")
        if not self._match_text_seq("AS"):
            self._fail("AS and the watermark: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND")
        begin = self._curr
        expression = self._parse_disjunction() or self._fail("ts, or ts minus a delay")
        expression.meta.update(start=begin.start, end=self._prev.end)
        ahead, after = self._parse_jumps()
        node = Watermark(this=column, expression=expression, ahead=ahead, after=after)
        node.meta.update(start=start.start, end=self._prev.end)
        return node

    def _parse_jumps(self) -> tuple[exp.Expr | None, exp.Expr | None]:
        """AHEAD INTERVAL '1' DAY [AFTER 3], if that comes next: the length and the number of tuples."""
        if not self._match_text_seq("AHEAD"):
            return None, None
        ahead = self._parse_unary() or self._fail("the length of AHEAD: INTERVAL '1' DAY, or a number")
        after = None
        if self._match_text_seq("AFTER"):
            after = self._parse_unary() or self._fail("the number of tuples behind AFTER")
        return ahead, after

    def _parse_namespaces(self) -> exp.Properties | None:
        """XMLNAMESPACES('uri' AS prefix, DEFAULT 'uri'), if that comes next."""
        token = self._curr
        is_open = self._next and self._next.token_type == TokenType.L_PAREN
        if not (is_open and token and token.text.upper() == "XMLNAMESPACES"):
            return None
        self._advance()
        node = exp.Properties(expressions=self._parse_wrapped_csv(self._parse_namespace))
        node.meta.update(start=token.start, end=self._prev.end)
        return node

    def _parse_namespace(self) -> exp.Expr:
        token = self._curr
        is_default = self._match_text_seq("DEFAULT")
        uri = self._parse_string() or self._fail("XMLNAMESPACES('uri' AS prefix, DEFAULT 'uri')")
        if not is_default and not self._match_text_seq("AS"):
            self._fail("AS and a prefix")
        prefix = None if is_default else self._parse_id_var(any_token=True) or self._fail("a prefix")
        node = exp.Property(this=exp.Literal.string(prefix.name if prefix else ""), value=uri)
        node.meta.update(start=token.start, end=self._prev.end)
        return node

    def _comes(self, *texts: str, skip: int = 0) -> bool:
        """Whether these tokens come next, after ``skip`` tokens."""
        at = self._index + skip
        coming = self._tokens[at : at + len(texts)]
        return [token.text.upper() for token in coming] == list(texts)

    def _fail(self, message: str, token: Token | None = None) -> NoReturn:
        self.raise_error(message, token or self._curr or self._prev)
        raise AssertionError(message)  # not reached: errors are raised at once

    def _warn_unsupported(self) -> None:
        """No warning: statements that sqlglot parses as a Command are refused later, with their position."""


class ColumnListSQL(Dialect):
    """The dialect of a column list, as ``CREATE STREAM name (columns)``."""

    class Tokenizer(tokens.Tokenizer):
        KEYWORDS: ClassVar = {
            **tokens.Tokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "^@": TokenType.CARET_AT,
        }

    class Parser(ColumnListParser):
        # CHECK calls no function. A function there is read by its name, and refused with its position.
        FUNCTIONS: ClassVar = {}

        def _parse_create(self) -> exp.Create:
            start = self._prev
            self._advance(3)  # STREAM name (
            columns = self._parse_column_list()
            if self._curr:
                self._fail("one column list, and nothing after it")
            create = exp.Create(this=exp.Schema(expressions=columns), kind="STREAM")
            create.meta.update(start=start.start, end=self._prev.end)
            return create

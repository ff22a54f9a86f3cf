"""Deeply nested SQL: how deep it may be, and how sqlglot reads it without a deep stack."""

from __future__ import annotations

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.base.errors import SqlError

DEEPEST, MOST_QUERIES = 1500, 64
"""How many operands, and how many queries, can be nested.

No matter of speed: SQL that programs write stays below, and a hostile query is refused before it costs anything.
"""
SHALLOW = 10
"""How many levels sqlglot reads its own way. It takes some twenty calls a level, and Python's stack ends at 1,000."""

_OPENING = (TokenType.L_PAREN, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.END)
_SIGNS = (TokenType.NOT, TokenType.DASH)


def depth(tokens: list[Token]) -> tuple[int, int, Token | None]:
    """How deeply operands and queries nest, and the first token that does so too deeply."""
    deepest = most_queries = signs = opened = 0
    queries: list[int] = []
    for token in tokens:
        kind = token.token_type
        signs = signs + 1 if kind in _SIGNS else 0
        if kind is TokenType.SELECT and opened and opened not in queries[-1:]:
            queries.append(opened)
        opened += (kind in _OPENING) - (kind in _CLOSING)
        while queries and queries[-1] > opened:
            queries.pop()
        deepest, most_queries = max(deepest, opened + signs), max(most_queries, len(queries))
        if deepest > DEEPEST or most_queries > MOST_QUERIES:
            return deepest, most_queries, token
    return deepest, most_queries, None


def check_depth(tokens: list[Token], sql: str) -> None:
    """Raise `SqlError` if a query nests too deeply."""
    deepest, _, token = depth(tokens)
    if token is not None:
        deep = deepest > DEEPEST
        limit = f"{DEEPEST:,} parentheses, CASE, NOT and -" if deep else f"{MOST_QUERIES} queries"
        reason = f"this query is nested too deeply: at most {limit} can be nested"
        raise SqlError(reason, sql, token.start, token.end + 1)


class InsideOut(parser.Parser):
    """Reads operands that nest deeply from the inside out. What sqlglot reads next is then never deep."""

    _read: list[Token] | None = None
    _operands: dict[int, tuple[exp.Expr, int]]
    """The operands parsed so far, by the index of the first token, each with the index after its last token."""

    def _parse_statement(self) -> exp.Expr | None:
        self._begin_statement()
        statement: exp.Expr | None = super()._parse_statement()
        return statement

    def _begin_statement(self) -> None:
        if self._tokens is not self._read:  # else it is a statement inside one
            self._read, self._operands = self._tokens, {}
            if depth(self._tokens)[0] > SHALLOW:
                self._read_inside_out()

    def _read_inside_out(self) -> None:
        start = self._index
        for index in reversed(range(len(self._tokens))):
            if self._tokens[index].token_type in (*_OPENING, *_SIGNS):
                self._parse_operand(index)
                if index and self._tokens[index - 1].token_type in self.FUNC_TOKENS:
                    self._parse_operand(index - 1)
        self._retreat(start)

    def _parse_operand(self, index: int) -> None:
        """Parse and store the operand that begins at a token, if there is one."""
        self._retreat(index)
        try:
            operand = self._parse_unary()
        except ParseError:
            return
        if operand is not None:
            self._operands[index] = (operand, self._index)

    def _parse_unary(self) -> exp.Expr | None:
        if self._index not in self._operands:
            operand: exp.Expr | None = super()._parse_unary()
            return operand
        operand, end = self._operands[self._index]
        self._retreat(end)
        return operand

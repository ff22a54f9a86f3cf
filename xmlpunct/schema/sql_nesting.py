"""Deeply nested SQL: how deep it may be, and how sqlglot reads it without a deep stack."""

from __future__ import annotations

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.base.errors import SqlError

DEEPEST, MOST_QUERIES = 1500, 64
"""How many operands, and how many queries, can stand inside each other.

No matter of speed: SQL that programs write stays below, and a hostile query is refused before it costs anything.
"""
SHALLOW = 10
"""How many levels sqlglot reads its own way. It takes some twenty calls a level, and Python's stack ends at 1,000."""

_OPENING = (TokenType.L_PAREN, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.END)
_SIGNS = (TokenType.NOT, TokenType.DASH)


def depth(tokens: list[Token]) -> tuple[int, int, Token | None]:
    """How deeply operands and queries nest, and the first token that does so too deeply."""
    deepest = most = signs = opened = 0
    queries: list[int] = []
    for token in tokens:
        kind = token.token_type
        signs = signs + 1 if kind in _SIGNS else 0
        if kind is TokenType.SELECT and opened and opened not in queries[-1:]:
            queries.append(opened)
        opened += (kind in _OPENING) - (kind in _CLOSING)
        while queries and queries[-1] > opened:
            queries.pop()
        deepest, most = max(deepest, opened + signs), max(most, len(queries))
        if deepest > DEEPEST or most > MOST_QUERIES:
            return deepest, most, token
    return deepest, most, None


def check_depth(tokens: list[Token], sql: str) -> None:
    """Refuse what nests too deeply."""
    deepest, _, token = depth(tokens)
    if token is not None:
        deep = deepest > DEEPEST
        most = f"{DEEPEST:,} parentheses, CASE, NOT and -" if deep else f"{MOST_QUERIES} queries"
        reason = f"this query is nested too deeply: at most {most} can stand inside each other"
        raise SqlError(reason, sql, token.start, token.end + 1)


class InsideOut(parser.Parser):
    """Reads operands that nest deeply from the inside out. What sqlglot reads next is then never deep."""

    _read: list[Token] | None = None
    _known: dict[int, tuple[exp.Expr, int]]
    """The operands read so far: by the place of the first token, each with the place behind its last."""

    def _parse_statement(self) -> exp.Expr | None:
        if self._tokens is not self._read:  # else it is a statement inside one
            self._read, self._known = self._tokens, {}
            if depth(self._tokens)[0] > SHALLOW:
                self._read_inside_out()
        statement: exp.Expr | None = super()._parse_statement()
        return statement

    def _read_inside_out(self) -> None:
        here = self._index
        for place in reversed(range(len(self._tokens))):
            if self._tokens[place].token_type in (*_OPENING, *_SIGNS):
                self._read_ahead(place)
                if place and self._tokens[place - 1].token_type in self.FUNC_TOKENS:
                    self._read_ahead(place - 1)
        self._retreat(here)

    def _read_ahead(self, place: int) -> None:
        """Remember the operand that begins at a token, if one does."""
        self._retreat(place)
        try:
            operand = self._parse_unary()
        except ParseError:
            return
        if operand is not None:
            self._known[place] = (operand, self._index)

    def _parse_unary(self) -> exp.Expr | None:
        if self._index not in self._known:
            operand: exp.Expr | None = super()._parse_unary()
            return operand
        operand, end = self._known[self._index]
        self._retreat(end)
        return operand

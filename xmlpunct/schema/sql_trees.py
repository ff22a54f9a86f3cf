"""SQL as sqlglot's trees: every error is a `SqlError` with its position."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.base.errors import SqlError, XmlPunctError
from xmlpunct.base.library_guard import library_reason
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.schema.sql_nesting import check_depth


def parse_trees(
    sql: str, dialect: Dialect, rewrite: Callable[[list[Token], str], list[Token]] | None = None
) -> list[exp.Expr]:
    """Read SQL into sqlglot's trees, one per statement. ``rewrite`` changes the tokens before they are parsed.

    Raises `SqlError` with the position.
    """
    parser = None
    try:
        parser = dialect.parser()
        tokens = dialect.tokenize(sql)
        _check_tokens(tokens, sql)
        check_depth(tokens, sql)
        if rewrite is not None:
            tokens = rewrite(tokens, sql)
        return [tree for tree in parser.parse(tokens, sql) if tree is not None]
    except XmlPunctError:
        raise
    except ParseError as error:
        first = error.errors[0]
        line, column = first.get("line") or 1, first.get("col") or 1
        line_start = 0
        for _ in range(line - 1):
            line_start = sql.find("\n", line_start) + 1
        end = line_start + column  # sqlglot's column is that of the token's last character
        start = max(line_start, end - len(first.get("highlight") or ""))
        reason = _plain(str(first.get("description") or error))
        raise SqlError(f"{reason}{_misspelled(tokens, start)}", sql, start, end) from None
    except TokenError:  # it has no position; the last opening character is the one at fault
        start = max(sql.rfind(opening) for opening in ("'", '"', "/*", "$"))
        raise SqlError("a quotation or a comment is not closed", sql, max(start, 0), len(sql)) from None
    except Exception as error:  # whatever else sqlglot makes of it: the token that it has come to is at fault
        token = getattr(parser, "_curr", None)
        start, end = (token.start, token.end + 1) if token else (0, len(sql))
        raise SqlError(f"this cannot be read: {library_reason(error)}", sql, start, end) from error


_BEFORE_LIST = (TokenType.COMMA, TokenType.L_PAREN, TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM)
_AFTER_LIST = (
    TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY,
    TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION, TokenType.INTERSECT,
    TokenType.EXCEPT, TokenType.JOIN, TokenType.ON, TokenType.USING, TokenType.SEMICOLON,
)  # fmt: skip


def _check_tokens(tokens: list[Token], sql: str) -> None:
    """Refuse ``a,, b`` and ``a, FROM``, which sqlglot reads as if nothing were missing, and hints."""
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.HINT:
            raise SqlError("hints are not supported", sql, token.start, token.end + 1)
        if token.token_type is TokenType.COMMA:
            before = tokens[index - 1].token_type if index else TokenType.COMMA
            after = tokens[index + 1].token_type if index + 1 < len(tokens) else TokenType.COMMA
            if after is TokenType.WHERE and index + 2 < len(tokens) and tokens[index + 2].text == "=":
                continue  # an option of CREATE STREAM
            if before in _BEFORE_LIST or after in _AFTER_LIST:
                raise SqlError(
                    "something is missing before or after this comma", sql, token.start, token.end + 1
                )


_KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "UNION",
    "INTERSECT", "EXCEPT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "ON", "USING", "WITH", "AS", "AND",
    "NOT", "NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "CREATE", "VALUES",
    "DESCRIBE", "SUMMARIZE",
)  # fmt: skip


def _misspelled(tokens: list[Token], start: int) -> str:
    """The misspelled keyword at or shortly before ``start``, where the parser stopped."""
    index = next((i for i, token in enumerate(tokens) if token.start >= start), len(tokens))
    if index and index < len(tokens) and tokens[index].token_type is TokenType.SLASH:
        return ": the name of a file stands in quotes"
    for token in reversed(tokens[max(index - 2, 0) : index + 1]):
        if token.token_type is TokenType.VAR and (hint := did_you_mean(token.text, _KEYWORDS)):
            return hint
    return ""


def _plain(message: str) -> str:
    """A message of sqlglot's parser without its internals."""
    if message.startswith("Required keyword") or "<Token" in message or "<class" in message:
        return "something is missing here"
    return message.replace("Invalid expression / Unexpected token", "this was not expected here")

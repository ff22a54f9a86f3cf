"""The syntax of a stream's promises: PUNCTUATED BY, PUNCTUATE ORDER BY and PUNCTUATE ON."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from xmlpunct.engine.sql.syntax.window_tables import WindowFunctionParser


class OrderOf(exp.Expression):
    """PUNCTUATE ORDER BY ``attribute`` [SLACK ``slack``] [AHEAD ``ahead`` [AFTER ``after``]] [FROM ``file`` BY a]."""

    arg_types: ClassVar = {
        "attribute": True,
        "slack": False,
        "ahead": False,
        "after": False,
        "file": False,
        "sender": False,
    }


class MarkOf(exp.Expression):
    """PUNCTUATE ON ``element`` [WHERE ``path`` = ``value``] CLOSES (column = 'path', ...), or CLOSES ALL."""

    arg_types: ClassVar = {"element": True, "path": False, "value": False, "closes": True}


SCHEMES = "schemes"
"""The argument of a CREATE STREAM that holds the schemes of PUNCTUATED BY."""
ORDER_OF = "punctuate"
"""The argument of a CREATE STREAM, or of a subquery or file in FROM, that holds its `OrderOf`."""
MISPLACED = "PUNCTUATE must follow a subquery, (SELECT ...) AS q, a file in quotes, or in CREATE STREAM"
MARKS = "marks"
"""The argument of a CREATE STREAM that holds the list of its `MarkOf`."""
_ON = "PUNCTUATE ON 'element' [WHERE 'path' = 'value'] CLOSES (column = 'path', ...), or CLOSES ALL"


class PromiseParser(WindowFunctionParser):
    """Parses the promises of streams."""

    def _parse_promises(self, create: exp.Create) -> None:
        """PUNCTUATED BY (a), (b, c), PUNCTUATE ORDER BY ... and any PUNCTUATE ON ..., as arguments of its own."""
        while True:
            token = self._curr
            if self._match_text_seq("PUNCTUATED"):
                part = SCHEMES
                if not self._match_text_seq("BY"):
                    self._fail("PUNCTUATED BY (a), (b, c)")
                argument: object = self._parse_csv(self._parse_scheme)
            elif self._comes("PUNCTUATE", "ON"):
                create.append(MARKS, self._parse_mark())
                continue
            elif (argument := self._parse_access_order()) is not None:
                part = ORDER_OF
            else:
                return
            if part in create.args:
                self._fail(f"{token.text.upper()} can be written once only", token)
            create.set(part, argument)

    def _parse_mark(self) -> MarkOf:
        """PUNCTUATE ON 'element' [WHERE 'path' = 'value'] CLOSES (column = 'path', ...), which comes next."""
        start = self._curr
        self._advance(2)
        element, path, value = self._parse_string() or self._fail(_ON), None, None
        if self._match(TokenType.WHERE):
            path = self._parse_string() or self._fail(_ON)
            value = (self._match(TokenType.EQ) and self._parse_string()) or self._fail(_ON)
        if not self._match_text_seq("CLOSES"):
            self._fail(_ON)
        closes = [] if self._match_text_seq("ALL") else self._parse_wrapped_csv(self._parse_closed_column)
        mark = MarkOf(element=element, path=path, value=value, closes=closes)
        mark.meta.update(start=start.start, end=self._prev.end)
        return mark

    def _parse_closed_column(self) -> exp.EQ:
        column = self._parse_id_var() or self._fail(_ON)
        path = (self._match(TokenType.EQ) and self._parse_string()) or self._fail(_ON)
        return exp.EQ(this=column, expression=path)

    def _parse_scheme(self) -> exp.Tuple:
        start = self._curr
        scheme = exp.Tuple(expressions=self._parse_names())
        scheme.meta.update(start=start.start, end=self._prev.end)
        return scheme

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        """As sqlglot does, with PUNCTUATE behind it, which is no alias."""
        is_next = self._comes("PUNCTUATE", "ORDER BY")
        subquery: exp.Subquery | None = super()._parse_subquery(this, parse_alias and not is_next)
        if subquery is not None and (order := self._parse_access_order()) is not None:
            subquery.set(ORDER_OF, order)
        return subquery

    def _parse_table(self, schema: bool = False, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """As sqlglot does, with PUNCTUATE behind it."""
        table: exp.Expr | None = super()._parse_table(schema, *args, **kwargs)
        if not schema and self._comes("PUNCTUATE", "ORDER BY"):
            if not isinstance(table, exp.Table):
                self._fail(MISPLACED)
            table.set(ORDER_OF, self._parse_access_order())
        return table

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        """As sqlglot does; behind a name PUNCTUATE is no alias, and ORDER BY not that of the query."""
        if self._comes("PUNCTUATE", "ORDER BY"):
            return None
        alias: exp.TableAlias | None = super()._parse_table_alias(*args, **kwargs)
        return alias

    def _parse_access_order(self) -> OrderOf | None:
        """PUNCTUATE ORDER BY a [SLACK s] [AHEAD d [AFTER n]] [FROM 'file' BY b], if it comes next."""
        start = self._curr
        if not self._match_text_seq("PUNCTUATE"):
            return None
        if not self._match(TokenType.ORDER_BY):
            self._fail("PUNCTUATE ORDER BY a [SLACK n] [FROM 'senders.txt' BY b]")
        attribute = self._parse_id_var() or self._fail("a column")
        slack = self._parse_unary() if self._match_text_seq("SLACK") else None
        ahead, after = self._parse_jumps()
        file = sender = None
        if self._match(TokenType.FROM):
            file = self._parse_string() or self._fail("FROM needs the quoted path of a list of senders")
            if not self._match_text_seq("BY"):
                self._fail("BY and the column of the sender's name")
            sender = self._parse_id_var() or self._fail("a column")
        order = OrderOf(attribute=attribute, slack=slack, ahead=ahead, after=after, file=file, sender=sender)
        order.meta.update(start=start.start, end=self._prev.end)
        return order

"""The syntax of relations and windows: ISTREAM(...), DSTREAM(...), RSTREAM(...), and [windows] behind what FROM reads.

sqlglot would read ``[NOW]`` as an index and ``[RANGE 5]`` as a cast, and refuse the others.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from xmlpunct.engine.sql.syntax.xml_syntax import XmlParser

WINDOW = "window"
"""The argument of an item of FROM that has its window."""
_STREAMS = ("ISTREAM", "DSTREAM", "RSTREAM")
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", *_STREAMS)
"""The words that begin a query."""
_WINDOWS = (
    "[NOW], [RANGE n [SLIDE n [ORIGIN at]]], [RANGE UNBOUNDED], [ROWS n] or [PARTITION BY column ROWS n]"
)


class WindowSpec(exp.Expression):
    """A window: ``kind`` is NOW, RANGE or ROWS. RANGE without ``size`` is unbounded."""

    arg_types: ClassVar = {"kind": True, "size": False, "slide": False, "origin": False, "by": False}


class StreamOf(exp.Expression):
    """ISTREAM, DSTREAM or RSTREAM (``kind``) of the query ``this``, [EVERY ``every`` [ORIGIN ``origin``]].

    While SELECT ISTREAM(a, b) FROM s is parsed, ``expressions`` are a and b, and there is no ``this``.
    """

    arg_types: ClassVar = {
        "this": False, "expressions": False, "kind": True, "every": False, "origin": False, "with_": False
    }  # fmt: skip


def _stream_of(kind: str) -> Any:
    return lambda self: self._parse_stream_of(kind)


class WindowParser(XmlParser):
    """Reads them."""

    FUNCTION_PARSERS: ClassVar = {
        **XmlParser.FUNCTION_PARSERS,
        **{kind: _stream_of(kind) for kind in _STREAMS},
    }

    def _parse_stream_of(self, kind: str) -> StreamOf:
        """What stands in its parentheses."""
        name = self._tokens[self._index - 2]
        query = columns = None
        if self._is_query():
            query = self._parse_set_operations(self._parse_select(nested=True, parse_subquery_alias=False))
        else:
            columns = self._parse_expressions()
        if not query and not columns:
            self._fail(f"{kind} needs a query: {kind}(SELECT ...)")
        every = origin = None
        if kind == "RSTREAM" and self._match_text_seq("EVERY"):
            every = self._parse_unary() or self._fail("EVERY needs a number of instants")
            origin = self._parse_origin()
        found = StreamOf(this=query, expressions=columns, kind=kind, every=every, origin=origin)
        found.meta.update(start=name.start, end=self._curr.end if self._curr else self._prev.end)
        return found

    def _is_query(self) -> bool:
        """True if a query comes next, perhaps in parentheses."""
        index = self._index
        while index < len(self._tokens) and self._tokens[index].token_type is TokenType.L_PAREN:
            index += 1
        return index < len(self._tokens) and self._tokens[index].text.upper() in _QUERIES

    def _parse_query_modifiers(self, this: Any) -> Any:
        """As sqlglot does; SELECT ISTREAM(a, b) FROM s is ISTREAM(SELECT a, b FROM s), as in CQL."""
        query = super()._parse_query_modifiers(this)
        if isinstance(query, exp.Select) and len(query.expressions) == 1:
            stream = query.expressions[0]
            if isinstance(stream, StreamOf) and (columns := stream.expressions):
                stream.pop()
                query.set("expressions", columns)
                stream.set("expressions", None)
                stream.set("this", query)
                return stream
        return query

    def _parse_select_query(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
    ) -> exp.Expr | None:
        """As sqlglot does; a stream of a relation is a query too."""
        coming = [token.text.upper() for token in (self._curr, self._next) if token]
        if table or coming not in [[kind, "("] for kind in _STREAMS]:
            query: exp.Expr | None = super()._parse_select_query(
                nested, table, parse_subquery_alias, parse_set_operation
            )
            return query
        stream: exp.Expr | None = self._parse_function(optional_parens=False)
        return self._parse_set_operations(stream) if parse_set_operation else stream

    def _parse_origin(self) -> exp.Expr | None:
        if not self._match_text_seq("ORIGIN"):
            return None
        return self._parse_unary() or self._fail("ORIGIN needs an instant")

    def _parse_stream_window(self) -> WindowSpec | None:
        """A window, if one comes next."""
        start = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        parts: dict[str, Any] = {}
        if self._match_text_seq("NOW"):
            parts["kind"] = "NOW"
        elif self._match_text_seq("RANGE"):
            parts["kind"] = "RANGE"
            if not self._match_text_seq("UNBOUNDED"):
                parts["size"] = self._parse_length() or self._fail(
                    "RANGE needs a number of instants, or UNBOUNDED"
                )
            if self._match_text_seq("SLIDE"):
                parts["slide"] = self._parse_length() or self._fail("SLIDE needs a number of instants")
                parts["origin"] = self._parse_origin()
        else:
            if self._match(TokenType.PARTITION_BY):
                parts["by"] = self._parse_csv(self._parse_column)
            if not self._match_text_seq("ROWS"):
                self._fail(f"a window is {_WINDOWS}")
            if "by" not in parts and self._match_text_seq("UNBOUNDED"):
                parts["kind"] = "RANGE"
            else:
                parts["kind"] = "ROWS"
                parts["size"] = self._parse_unary() or self._fail("ROWS needs a number")
        if not self._match(TokenType.R_BRACKET):
            self._fail(f"] is expected here: a window is {_WINDOWS}")
        window = WindowSpec(**parts)
        window.meta.update(start=start.start, end=self._prev.end)
        return window

    def _parse_length(self) -> exp.Expr | None:
        """A length, also as CQL writes it: 30 SECONDS is INTERVAL '30' SECONDS."""
        length: exp.Expr | None = self._parse_unary()
        is_unit = self._curr and self._curr.text.upper() not in ("SLIDE", "ORIGIN", "]")
        if isinstance(length, exp.Literal) and is_unit:
            unit = exp.var(self._curr.text)
            self._advance()
            return exp.Interval(this=exp.Literal.string(length.name), unit=unit)
        return length

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> exp.Table | exp.Dot | None:
        """As sqlglot does, with the window behind it."""
        table: exp.Table | exp.Dot | None = super()._parse_table_parts(*args, **kwargs)
        if isinstance(table, exp.Table) and (window := self._parse_stream_window()) is not None:
            table.set(WINDOW, window)
        return table

    def _parse_subquery(self, this: exp.Expr | None, parse_alias: bool = True) -> exp.Subquery | None:
        """As sqlglot does, with the window behind it."""
        window = self._parse_stream_window() if this else None
        subquery: exp.Subquery | None = super()._parse_subquery(this, parse_alias)
        if subquery is not None and window is not None:
            subquery.set(WINDOW, window)
        return subquery

    def _is_every(self) -> bool:
        """True if RSTREAM's EVERY comes next, and not an alias."""
        is_every = self._curr and self._curr.text.upper() == "EVERY" and self._next
        return bool(is_every) and self._next.token_type in (
            TokenType.NUMBER,
            TokenType.INTERVAL,
            TokenType.DASH,
        )

    def _parse_alias(self, this: Any, *args: Any, **kwargs: Any) -> Any:
        """As sqlglot does; RSTREAM's EVERY is no alias."""
        return this if self._is_every() else super()._parse_alias(this, *args, **kwargs)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> exp.TableAlias | None:
        """As sqlglot does; RSTREAM's EVERY is no alias."""
        if self._is_every():
            return None
        alias: exp.TableAlias | None = super()._parse_table_alias(*args, **kwargs)
        if alias is not None and self._curr and self._curr.token_type is TokenType.L_BRACKET:
            self._fail("a window is written before the alias: packet [NOW] p")
        return alias

"""The syntax of CREATE STREAM and CREATE RELATION, and of the statements that describe streams.

``CREATE STREAM name (column list) WITH (key = value, ...)`` becomes an ``exp.Create`` of kind STREAM whose
``this`` is an ``exp.Schema`` of ``exp.ColumnDef`` and whose options stand in ``properties``; CREATE RELATION one of
kind RELATION. ``CREATE VIEW name [(columns)] AS query`` becomes a `CreateView`, and
``CREATE SINK name WITH (key = value, ...) AS query`` a `CreateSink`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.connectors.contract import AND_THEN, FOLDER_OPTIONS, THEN
from xmlpunct.engine.sql.syntax.promise_syntax import PromiseParser

OPTIONS = (
    "source",
    "element",
    "where",
    "nested",
    "xsd",
    "dtd",
    "sample",
    "connections",
    "follow",
    "timestamp",
    "change",
    *FOLDER_OPTIONS,
    "overlap",
)
"""The keys of WITH (...) in CREATE STREAM and CREATE RELATION."""
SINK_OPTIONS = ("output", "format", "partition_by", "root", "row", "namespaces", "pretty")
"""The keys of WITH (...) in CREATE SINK."""
UNQUOTED = ("nested", "connections", "follow", "pretty")
"""The keys whose values need no quotes: a number, true or false."""
LENGTHS = ("settle",)
"""The keys whose values are an INTERVAL."""


class CreateView(exp.Expression):
    """CREATE VIEW ``this`` [(``columns``)] AS ``expression``."""

    arg_types: ClassVar = {"this": True, "columns": False, "expression": True}


class CreateSink(exp.Expression):
    """CREATE SINK ``this`` WITH (``properties``) AS ``expression``."""

    arg_types: ClassVar = {"this": True, "properties": True, "expression": True}


class Description(exp.Expression):
    """DESCRIBE or SUMMARIZE (``kind``) of the query ``this``, or SHOW STREAMS."""

    arg_types: ClassVar = {"this": False, "kind": True}


class StreamParser(PromiseParser):
    """Parses CREATE STREAM, RELATION, VIEW and SINK, DESCRIBE, SUMMARIZE and SHOW STREAMS."""

    def _parse_statement(self) -> exp.Expr | None:
        token = self._curr
        kind = token.text.upper() if token else ""
        if kind not in ("DESCRIBE", "SUMMARIZE", "SHOW"):
            statement: exp.Expr | None = super()._parse_statement()
            return statement
        self._begin_statement()
        self._advance()
        query = None
        if kind == "SHOW":
            if not self._curr or self._curr.text.strip().upper() != "STREAMS":
                self._fail("write SHOW STREAMS", self._curr or token)
            self._advance()
        else:
            query = self._parse_named_query()
            table = self._parse_table() if query is None else None
            if table is not None:
                query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
            if query is None:
                self._fail(f"write {kind} 'FILE', {kind} STREAM or {kind} SELECT ...", token)
        description = Description(this=query, kind=kind)
        description.meta.update(start=token.start, end=token.end)
        return description

    def _parse_create(self) -> exp.Create | CreateView | CreateSink:  # type: ignore[override]
        start = self._prev
        if self._match_text_seq("SINK"):
            return self._parse_sink()
        if self._match_text_seq("VIEW"):
            return self._parse_view()
        if not (self._match_text_seq("STREAM") or self._match_text_seq("RELATION")):
            kind = self._curr.text if self._curr else ""
            hint = did_you_mean(kind, ("STREAM", "RELATION", "VIEW", "SINK"))
            self._fail(
                f"only CREATE STREAM, CREATE RELATION, CREATE VIEW and CREATE SINK are supported{hint}"
            )
        kind = self._prev.text.upper()
        name = self._parse_id_var() or self._fail(f"a {kind.lower()} needs a name")
        columns: list[exp.Expr] = []  # empty: the columns are inferred
        if self._match(TokenType.L_PAREN):
            columns = self._parse_column_list()
        elif not (self._curr and self._curr.token_type == TokenType.WITH):
            self._fail(
                f"the {kind.lower()}'s column list is missing: (name TYPE, ...), or WITH (source = '...')"
            )
        schema = exp.Schema(this=exp.Table(this=name), expressions=columns)
        options = []
        if self._match_text_seq("WITH"):
            options = self._parse_options("STREAM", OPTIONS)
        create = exp.Create(this=schema, kind=kind, properties=exp.Properties(expressions=options))
        self._parse_promises(create)
        if self._curr and self._curr.token_type != TokenType.SEMICOLON:
            self._fail(
                f"CREATE {kind} ends here, or continues with WITH (...), PUNCTUATED BY (...), "
                "PUNCTUATE ORDER BY ... or PUNCTUATE ON ..."
            )
        create.meta.update(start=start.start, end=self._prev.end)
        return create

    def _parse_view(self) -> CreateView:
        name = self._parse_id_var() or self._fail("a view needs a name")
        has_columns = self._curr and self._curr.token_type == TokenType.L_PAREN
        columns = self._parse_names() if has_columns else []
        if not self._match(TokenType.ALIAS):
            self._fail("CREATE VIEW name AS SELECT ...")
        query = self._parse_named_query() or self._fail("a view needs a query")
        return CreateView(this=name, columns=columns, expression=query)

    def _parse_sink(self) -> CreateSink:
        name = self._parse_id_var() or self._fail("a sink needs a name")
        if not self._match_text_seq("WITH"):
            self._fail("CREATE SINK name WITH (output = '...') AS SELECT ...")
        options = exp.Properties(expressions=self._parse_options("SINK", SINK_OPTIONS))
        if not self._match(TokenType.ALIAS):
            self._fail("CREATE SINK name WITH (...) continues with AS SELECT ...")
        query = self._parse_named_query() or self._fail("a sink needs a query")
        return CreateSink(this=name, properties=options, expression=query)

    def _parse_named_query(self) -> exp.Expr | None:
        query: exp.Expr | None = self._parse_set_operations(
            self._parse_select(nested=True, parse_subquery_alias=False)
        )
        return query

    def _parse_options(self, kind: str, allowed: Sequence[str]) -> list[exp.Expr]:
        """WITH (key = value, ...) with keys among ``allowed``."""
        options: list[exp.Expr] = self._parse_wrapped_csv(lambda: self._parse_option(kind, allowed))
        return options

    def _parse_option(self, kind: str, allowed: Sequence[str]) -> exp.Expr:
        token = self._curr
        key = self._parse_var(any_token=True)
        if not key or key.name.lower() not in allowed:
            hint = did_you_mean(token.text, allowed)
            self._fail(f"an option of CREATE {kind} must be one of {', '.join(allowed)}{hint}", token)
        if not self._match(TokenType.EQ):
            self._fail("key = value")
        value: exp.Expr | None = self._parse_string()
        if value is None and key.name.lower() in LENGTHS:
            value = self._parse_interval()
        plain = self._curr and self._curr.token_type in (
            TokenType.NUMBER,
            TokenType.TRUE,
            TokenType.FALSE,
        )
        if value is None and plain and key.name.lower() in UNQUOTED:
            self._advance()
            value = exp.Literal.string(self._prev.text)
        value = value or self._fail(f"{key.name} needs a quoted value")
        is_contiguous = False
        if key.name.lower() == "source" and kind == "STREAM" and self._match(TokenType.THEN):
            live = self._parse_string() or self._fail("the quoted live source behind THEN")
            value = exp.Literal.string(f"{THEN}{value.name}{AND_THEN}{live.name}")
            is_contiguous = bool(self._match_text_seq("CONTIGUOUS"))
        option = exp.Property(this=exp.var(key.name.lower()), value=value)
        option.meta.update(start=token.start, end=self._prev.end, contiguous=is_contiguous)
        return option

"""The SQL dialect: what sqlglot reads beyond standard SQL, and column lists as schemas.

``CREATE STREAM name (column list) WITH (key = value, ...)`` becomes an ``exp.Create`` of kind STREAM whose
``this`` is an ``exp.Schema`` of ``exp.ColumnDef`` and whose options stand in ``properties``.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser
from sqlglot.tokens import TokenType

from xmlpunct import patterns as pt
from xmlpunct.errors import SchemaError, SqlError
from xmlpunct.patterns import EMPTY, WILDCARD, Pattern
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

OPTIONS = ("source", "element")
"""The keys that WITH (...) of a CREATE STREAM knows."""


class PunctSQL(Dialect):
    """Standard SQL, CREATE STREAM, and PATH in column lists."""

    class Parser(Parser):
        def _parse_create(self) -> exp.Create:
            start = self._prev
            if not self._match_text_seq("STREAM"):
                self.raise_error("only CREATE STREAM is known here")
            name = self._parse_id_var() or self.raise_error("a stream needs a name")
            table = self.expression(exp.Table(this=name))
            if not self._match(TokenType.L_PAREN):
                self.raise_error("the stream's column list is missing: (name TYPE, ...)")
            columns = self._parse_csv(self._parse_stream_column)
            self._match_r_paren()
            schema = self.expression(exp.Schema(this=table, expressions=columns))
            options = self._parse_stream_options() if self._match_text_seq("WITH") else []
            if not self._is_statement_end():
                self.raise_error("CREATE STREAM ends here, or goes on with WITH (...)")
            create = self.expression(exp.Create(this=schema, kind="STREAM"))
            create.set("properties", exp.Properties(expressions=options))
            create.meta.update(start=start.start, end=start.end)
            return create

        def _is_statement_end(self) -> bool:
            return not self._curr or self._curr.token_type == TokenType.SEMICOLON

        def _parse_stream_options(self) -> list[exp.Property]:
            return self._parse_wrapped_csv(self._parse_stream_option)

        def _parse_stream_option(self) -> exp.Property:
            token = self._curr
            key = self._parse_var(any_token=True)
            if not key or key.name.lower() not in OPTIONS:
                self.raise_error(f"an option of CREATE STREAM is one of {', '.join(OPTIONS)}", token)
            self._match(TokenType.EQ) or self.raise_error("key = value")
            value = self._parse_primary() or self._parse_var(any_token=True)
            option = self.expression(exp.Property(this=exp.var(key.name.lower()), value=value))
            option.meta.update(start=token.start, end=token.end)
            return option

        def _parse_stream_column(self) -> exp.ColumnDef:
            token = self._curr
            name = self._parse_id_var(any_token=True) or self.raise_error("a column's name")
            kind = self._parse_types(schema=True) or self.raise_error("a column's type")
            column = self.expression(exp.ColumnDef(this=name, kind=kind))
            column.meta.update(start=token.start, end=self._prev.end)
            while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                self._parse_stream_constraint(column)
            return column

        def _parse_stream_constraint(self, column: exp.ColumnDef) -> None:
            if self._match_pair(TokenType.NOT, TokenType.NULL):
                column.meta["not_null"] = True
            elif self._match_text_seq("PATH"):
                path = self._parse_string() or self.raise_error("PATH wants a quoted path: 'a/b' or '@id'")
                column.meta["path"] = path.name
            elif self._match_text_seq("CHECK"):
                column.set("constraints", [self._parse_wrapped(self._parse_disjunction)])
            else:
                self.raise_error("a column has NOT NULL, PATH '...' and CHECK (...), nothing else")


def parse_statements(sql: str) -> list[exp.Expr]:
    """Read SQL into sqlglot's trees, one per statement. Raises `SqlError` with the place."""
    try:
        return [s for s in PunctSQL().parse(sql) if s is not None]
    except ParseError as error:
        found = error.errors[0]
        line, column = found.get("line") or 1, found.get("col") or 1
        highlight = found.get("highlight") or ""
        line_start = 0
        for _ in range(line - 1):
            line_start = sql.find("\n", line_start) + 1
        end = line_start + column  # sqlglot's column is that of the token's last character
        start = max(line_start, end - len(highlight))
        raise SqlError(str(found.get("description") or error), sql, start, end) from None
    except TokenError as error:
        raise SqlError(str(error).split("\n")[0], sql, error.start, error.end) from None


def place(node: exp.Expr) -> tuple[int | None, int | None]:
    """Where a node stands in its SQL: character offsets, end exclusive; (None, None) if nobody knows."""
    found = [n.meta for n in node.walk() if "start" in n.meta]
    if not found:
        return None, None
    return min(m["start"] for m in found), max(m["end"] for m in found) + 1


def refuse(reason: str, sql: str, node: exp.Expr) -> NoReturn:
    """Raise `SqlError` about a node."""
    raise SqlError(reason, sql, *place(node))


def parse_columns(text: str) -> Schema:
    """Read a column list without its parentheses (see `Schema.parse`)."""
    head = "CREATE STREAM s ("
    sql = f"{head}{text})"
    try:
        (create,) = parse_statements(sql)
        return schema_of(create, sql)
    except SqlError as error:
        if error.start is None:
            raise
        start, end = (
            max(0, min(at - len(head), len(text))) for at in (error.start, error.end or error.start)
        )
        raise SqlError(error.reason, text, start, end) from None
    except ValueError:
        raise SqlError("one column list, and nothing after it", text, 0, len(text)) from None


def schema_of(create: exp.Expr, sql: str) -> Schema:
    """The schema of a CREATE STREAM."""
    attributes = []
    for column in create.this.expressions:
        name, type_ = column.name, type_of(column.args["kind"], sql)
        path = column.meta.get("path", "")
        if path and not all(path.replace("/@", "/").removeprefix("@").split("/")) or path.count("@") > 1:
            refuse(f"PATH '{path}' is no path: a child, a/b, @id or a/@id", sql, column)
        domain = WILDCARD
        for condition in column.args.get("constraints") or ():
            domain = pt.intersect(domain, _domain(condition, name, type_, sql))
        try:
            attributes.append(Attribute(name, type_, not column.meta.get("not_null", False), path, domain))
        except SchemaError as error:
            refuse(str(error), sql, column)
    double = [a.name for i, a in enumerate(attributes) if a.name in {b.name for b in attributes[:i]}]
    if double:
        refuse(f"two columns are named {double[0]}", sql, create)
    return Schema.of(attributes)


_TYPES = {
    "TEXT": STRING, "VARCHAR": STRING, "CHAR": STRING, "INT": INT, "BIGINT": INT, "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": TIMESTAMP,
}  # fmt: skip


def type_of(kind: exp.Expr, sql: str) -> Type:
    """Our type for sqlglot's. Raises `SqlError` for one we do not have."""
    name = kind.this.name if isinstance(kind, exp.DataType) else str(kind)
    arguments = [int(p.name) for p in kind.expressions if p.name.isdigit()]
    if name == "DECIMAL" and len(arguments) in (1, 2):
        try:
            return decimal(arguments[0], arguments[1] if len(arguments) == 2 else 0)
        except ValueError as error:
            refuse(str(error), sql, kind)
    if name not in _TYPES or kind.expressions:
        known = "STRING, INT, BIGINT, DOUBLE, DECIMAL(p,s), BOOLEAN, DATE, TIMESTAMP"
        refuse(f"no type {kind.sql()}: there are {known}", sql, kind.parent or kind)
    return _TYPES[name]


def literal(node: exp.Expr, type_: Type) -> object:
    """The value of a literal read as ``type_``; ValueError if it is none."""
    sign = ""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        sign, node = "-", node.this
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):  # DATE '2026-01-01'
        node = node.this
    if isinstance(node, exp.Boolean):
        return type_.accept(bool(node.this))
    if not isinstance(node, exp.Literal):
        raise ValueError(f"{node.sql()} is no literal")
    text = sign + node.name
    if type_ is TIMESTAMP and " " in text:
        text = text.replace(" ", "T", 1)
    return type_.parse(text)


_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _domain(node: exp.Expr, name: str, type_: Type, sql: str) -> Pattern:
    """The pattern of the values that satisfy a CHECK over one column."""
    try:
        found = _domain_of(node, name, type_, sql)
    except ValueError as error:
        refuse(str(error), sql, node)
    if found is None:
        refuse(f"CHECK is BETWEEN, IN or comparisons of {name} with literals, joined by AND", sql, node)
    return found


def _domain_of(node: exp.Expr, name: str, type_: Type, sql: str) -> Pattern | None:
    def mine(side: exp.Expr) -> bool:
        return isinstance(side, exp.Column) and side.name == name and not side.table

    if isinstance(node, exp.Paren):
        return _domain_of(node.this, name, type_, sql)
    if isinstance(node, exp.And):
        both = [_domain(side, name, type_, sql) for side in (node.left, node.right)]
        return pt.intersect(*both)
    if isinstance(node, exp.Between) and mine(node.this):
        low, high = literal(node.args["low"], type_), literal(node.args["high"], type_)
        return pt.interval(type_, low, high, True, True)
    if isinstance(node, exp.In) and mine(node.this) and node.expressions:
        return pt.values(type_, [literal(e, type_) for e in node.expressions])
    if type(node) in _MIRROR:
        kind, column, value = type(node), node.this, node.expression
        if mine(value):
            kind, column, value = _MIRROR[kind], value, column
        if not mine(column):
            return None
        bound = literal(value, type_)
        if kind is exp.EQ:
            return pt.constant(type_, bound)
        if kind in (exp.LT, exp.LTE):
            return pt.interval(type_, None, bound, False, kind is exp.LTE)
        return pt.interval(type_, bound, None, kind is exp.GTE, False)
    return EMPTY if isinstance(node, exp.Boolean) and not node.this else None

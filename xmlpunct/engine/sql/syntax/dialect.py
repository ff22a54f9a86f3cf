"""The SQL dialect: what sqlglot reads beyond standard SQL, and column lists as schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from xmlpunct.base.errors import SchemaError, SqlError, XmlPunctError
from xmlpunct.base.library_guard import why
from xmlpunct.base.paths import read_path
from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.engine.sql.syntax.nesting import check_depth
from xmlpunct.engine.sql.syntax.promise_syntax import Key
from xmlpunct.engine.sql.syntax.stream_syntax import StreamParser
from xmlpunct.engine.sql.syntax.window_syntax import WindowParser
from xmlpunct.engine.sql.syntax.window_tables import without_emit
from xmlpunct.expressions.expression import FUNCTIONS
from xmlpunct.operators.group.aggregate import FUNCTIONS as AGGREGATE_FUNCTIONS
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of, check_path
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import XML, Type, parse_type
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

T = TypeVar("T")


class AggregateCall(exp.Expression, exp.AggFunc):
    """An aggregate that is read by its name alone, with DISTINCT and ORDER BY where they stand."""

    _sql_names: ClassVar = ["AGGREGATE_CALL"]
    is_var_len_args = True
    arg_types: ClassVar = {"this": True, "expressions": False}


def _called(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: AggregateCall(this=name, expressions=args)


def _arrow(name: str) -> Callable[[Any, exp.Expr, exp.Expr], exp.Expr]:
    return lambda parser, this, path: exp.Anonymous(this=name, expressions=[this, path])


_ARROWS = {TokenType.ARROW: "JSON_EXTRACT", TokenType.DARROW: "JSON_EXTRACT_STRING"}
_AGGREGATES = {name for f in AGGREGATE_FUNCTIONS.values() for name in f.called}
_FUNCTIONS = {name for f in FUNCTIONS.values() for name in f.called} | {"DATE_ADD"}


class PunctSQL(Dialect):
    """Standard SQL with its XML, CREATE STREAM, and PATH in column lists."""

    # Otherwise ORDER BY without NULLS would mean NULLS FIRST, as in some databases.
    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(tokens.Tokenizer):
        KEYWORDS: ClassVar = {
            **tokens.Tokenizer.KEYWORDS,
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "^@": TokenType.CARET_AT,
        }

    class Parser(WindowParser, StreamParser):
        # What is read by its name alone has its arguments in the order in which they stand.
        FUNCTIONS: ClassVar = {
            **{name: f for name, f in WindowParser.FUNCTIONS.items() if name not in _FUNCTIONS},
            **{name: _called(name) for name in _AGGREGATES},
        }
        FUNCTION_PARSERS: ClassVar = {
            name: f for name, f in WindowParser.FUNCTION_PARSERS.items() if name not in _AGGREGATES
        }

        COLUMN_OPERATORS: ClassVar = {
            token: f for token, f in WindowParser.COLUMN_OPERATORS.items() if token not in _ARROWS
        }
        JSON_OPERATORS: ClassVar = {token: _arrow(name) for token, name in _ARROWS.items()}
        LAMBDAS: ClassVar = {token: f for token, f in WindowParser.LAMBDAS.items() if token not in _ARROWS}
        BITWISE: ClassVar = {
            token: f for token, f in WindowParser.BITWISE.items() if token is not TokenType.CARET
        }
        EXPONENT: ClassVar = {TokenType.CARET: exp.Pow, TokenType.DSTAR: exp.Pow}

        def _parse_primary(self) -> exp.Expr | None:
            """As sqlglot does; NULL, TRUE and FALSE also remember their place."""
            token = self._curr
            primary: exp.Expr | None = super()._parse_primary()
            if isinstance(primary, exp.Null | exp.Boolean):
                primary.meta.update(start=token.start, end=token.end)
            return primary

        def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """As sqlglot does; a function remembers the name that it was called by."""
            token = self._curr
            call: exp.Expr | None = super()._parse_function_call(*args, **kwargs)
            if isinstance(call, exp.Func) and token is not None:
                call.meta["name"] = token.text
            return call

        def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
            """As sqlglot does; the join remembers its place, and whether a comma made it."""
            token = self._curr
            join: exp.Join | None = super()._parse_join(*args, **kwargs)
            if join is not None:
                comma = token.token_type is TokenType.COMMA
                join.meta.update(start=token.start, end=self._prev.end, comma=comma)
            return join

        def _warn_unsupported(self) -> None:
            """Say nothing: what becomes a Command is refused later, with its place."""


def parse_statements(sql: str) -> list[exp.Expr]:
    """Read SQL into sqlglot's trees, one per statement. Raises `SqlError` with the place."""
    parser = None
    try:
        dialect = PunctSQL()
        parser = dialect.parser()
        read = dialect.tokenize(sql)
        _check_tokens(read, sql)
        check_depth(read, sql)
        read = without_emit(read, sql)
        return [s for s in parser.parse(read, sql) if s is not None]
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
        raise SqlError(_plain(str(first.get("description") or error)), sql, start, end) from None
    except TokenError:  # it gives 50 characters and no place; the last opening character is the one at fault
        start = max(sql.rfind(opening) for opening in ("'", '"', "/*", "$"))
        raise SqlError("a quotation or a comment does not end", sql, max(start, 0), len(sql)) from None
    except Exception as error:  # whatever else sqlglot makes of it: the token that it has come to is at fault
        token = getattr(parser, "_curr", None)
        start, end = (token.start, token.end + 1) if token else (0, len(sql))
        raise SqlError(f"this cannot be read: {why(error)}", sql, start, end) from error


_BEFORE_LIST = (TokenType.COMMA, TokenType.L_PAREN, TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM)
_AFTER_LIST = (
    TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY,
    TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION, TokenType.INTERSECT,
    TokenType.EXCEPT, TokenType.JOIN, TokenType.ON, TokenType.USING, TokenType.SEMICOLON,
)  # fmt: skip


def _check_tokens(tokens: list[Token], sql: str) -> None:
    """Refuse ``a,, b`` and ``a, FROM``, which sqlglot reads as if nothing were missing, and hints."""
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.HINT:
            raise SqlError("hints are not supported", sql, token.start, token.end + 1)
        if token.token_type is TokenType.COMMA:
            before = tokens[place - 1].token_type if place else TokenType.COMMA
            after = tokens[place + 1].token_type if place + 1 < len(tokens) else TokenType.COMMA
            if after is TokenType.WHERE and place + 2 < len(tokens) and tokens[place + 2].text == "=":
                continue  # an option of CREATE STREAM
            if before in _BEFORE_LIST or after in _AFTER_LIST:
                raise SqlError("something is missing beside this comma", sql, token.start, token.end + 1)


def _plain(message: str) -> str:
    """A message of sqlglot's parser without its internals."""
    if message.startswith("Required keyword") or "<Token" in message or "<class" in message:
        return "something is missing here"
    return message.replace("Invalid expression / Unexpected token", "this was not expected here")


def place(node: exp.Expr) -> tuple[int | None, int | None]:
    """Where a node stands in its SQL: character offsets, end exclusive; (None, None) if that is not known."""
    at: exp.Expr | None = node
    while at is not None:
        metas = [n.meta for n in at.walk() if n.meta.get("end")]  # a * that stands nowhere is at 0
        if metas:
            return min(m["start"] for m in metas), max(m["end"] for m in metas) + 1
        at = at.parent
    return None, None


def refuse(reason: str, node: exp.Expr) -> NoReturn:
    """Raise `SqlError` about a node; `about` adds the text."""
    raise SqlError(reason, "", *place(node))


def check_comparable(type_: Type, what: str, node: exp.Expr) -> None:
    """Refuse to compare, group or order values that cannot be."""
    if not type_.comparable:
        refuse(f"{what} does not take {type_.kind}, which is compared with nothing", node)


@contextmanager
def at(node: exp.Expr) -> Iterator[None]:
    """Turn a ValueError raised inside into a `SqlError` about a node."""
    try:
        yield
    except ValueError as error:
        refuse(str(error), node)


@contextmanager
def about(sql: str) -> Iterator[None]:
    """Add the text to a `SqlError` that is raised inside."""
    try:
        yield
    except SqlError as error:
        if error.sql:
            raise
        raise SqlError(error.reason, sql, error.start, error.end) from None


def parse_columns(text: str) -> Schema:
    """Read a column list without its parentheses (see `Schema.parse`). A key is refused: nothing would judge it."""
    schema, keys = columns_and_keys(text)
    if keys:
        told = "a key is judged by a query alone (CREATE STREAM), and by check --schema; here write NOT NULL"
        raise SqlError(f"{', '.join(keys[0])}: {told}", text, 0, len(text))
    return schema


def columns_and_keys(text: str) -> tuple[Schema, tuple[tuple[str, ...], ...]]:
    """The schema and the keys that a column list declares, without its parentheses."""

    def read(create: exp.Expr) -> tuple[Schema, tuple[tuple[str, ...], ...]]:
        schema = schema_of(create)
        return schema, keys_of(create, schema)

    return _of_columns(text, read)


def _of_columns(text: str, read: Callable[[exp.Expr], T]) -> T:
    head = "CREATE STREAM s ("
    sql = f"{head}{text})"
    try:
        with about(sql):
            (create,) = parse_statements(sql)
            return read(create)
    except SqlError as error:
        if error.start is None:
            raise
        start, end = (
            max(0, min(at - len(head), len(text))) for at in (error.start, error.end or error.start)
        )
        raise SqlError(error.reason, text, start, end) from None
    except ValueError:
        raise SqlError("one column list, and nothing after it", text, 0, len(text)) from None


def schema_of(create: exp.Expr) -> Schema:
    """The schema of a CREATE STREAM."""
    columns = [c for c in create.this.expressions if isinstance(c, exp.ColumnDef)]
    schema = _schema_of(columns, namespaces_of(create.this.expressions), create, inside=False)
    in_keys = {name for key in keys_of(create, schema) for name in key}
    return Schema.of(replace(a, nullable=a.nullable and a.name not in in_keys) for a in schema)


def keys_of(create: exp.Expr, schema: Schema) -> tuple[tuple[str, ...], ...]:
    """The keys of a CREATE STREAM: those of its columns, then those of its column list."""
    found: dict[tuple[str, ...], None] = {}
    for item in create.this.expressions:
        if isinstance(item, exp.ColumnDef) and item.meta.get("key"):
            check_comparable(schema[item.name].type, "a key", item)
            found[(item.name,)] = None
    for item in create.this.expressions:
        if isinstance(item, Key):
            found[named_columns(item, schema, "a key")] = None
    if () in found:
        refuse("a key has a column at least", create)
    return tuple(found)


def named_columns(node: exp.Expr, schema: Schema, what: str) -> tuple[str, ...]:
    """The columns that stand in parentheses, each once."""
    names: dict[str, None] = {}
    for column in node.expressions:
        if column.name not in schema:
            refuse(f"no column {column.name} here: there are {', '.join(schema.names)}", column)
        check_comparable(schema[column.name].type, what, column)
        if column.name in names:
            refuse(f"{column.name} stands there twice", column)
        names[column.name] = None
    return tuple(names)


def namespaces_of(items: Iterable[exp.Expr]) -> dict[str, str]:
    """The namespaces that XMLNAMESPACES among some items declares, by prefix (empty: the default one)."""
    found: dict[str, str] = {}
    for item in items:
        for one in item.expressions if isinstance(item, exp.Properties) else ():
            prefix, uri = one.name, one.args["value"].name
            if not uri or set("{}") & set(uri):
                refuse(f"{uri!r} is no namespace: it is a URI", one)
            if prefix and (not is_xml_name(prefix) or prefix in ("xml", "xmlns")):
                refuse(f"{prefix} is no prefix that a namespace can have", one)
            if prefix in found:
                refuse(
                    f"two namespaces have the prefix {prefix}" if prefix else "two default namespaces", one
                )
            found[prefix] = uri
    return found


def _schema_of(
    columns: Sequence[exp.Expr], namespaces: Mapping[str, str], origin: exp.Expr, inside: bool
) -> Schema:
    """The schema of a column list, ``inside`` an array or not."""
    if not columns:
        refuse("a column at least", origin)
    attributes: list[Attribute] = []
    for column in columns:
        kind = column.args["kind"]
        if isinstance(kind, exp.Schema):
            type_: Type = array_of(_schema_of(kind.expressions, namespaces, column, inside=True))
        else:
            type_ = type_of(kind)
        if inside and column.meta.get("key"):
            refuse("a key is of the stream, not of an array in it", column)
        name = column.name
        path = _path_of(column, namespaces)
        domain: Pattern = WILDCARD
        for condition in column.args.get("constraints") or ():
            if type_ is XML or isinstance(type_, ArrayType):
                refuse(f"CHECK says nothing of {'XML' if type_ is XML else 'an array'}", condition)
            domain = pt.intersect(domain, _domain(condition, name, type_))
        try:
            attribute = Attribute(name, type_, not column.meta.get("not_null", False), path, domain)
            check_path(attribute, read_path(path), inside)
        except SchemaError as error:
            refuse(str(error), column.meta.get("path") or column)
        if isinstance(type_, ArrayType) and any(
            isinstance(a.type, ArrayType) and a.path == path for a in attributes
        ):
            refuse(f"two arrays are at PATH '{path}'", column)
        attributes.append(attribute)
    names = set[str]()
    for attribute in attributes:
        if attribute.name in names:
            refuse(f"two columns are named {attribute.name}", origin)
        names.add(attribute.name)
    return Schema.of(attributes)


def _path_of(column: exp.Expr, namespaces: Mapping[str, str]) -> str:
    """Where a column's value stands. Raises `SqlError` for a path, or a name without one, that cannot be read."""
    given: exp.Expr | None = column.meta.get("path")
    if given is None and not is_xml_name(column.name):
        refuse(f"no XML element can be named {column.name!r}: say with PATH where the value stands", column)
    path = column.name if given is None else given.name
    with at(given or column):
        return str(read_path(path, namespaces))


def type_of(kind: exp.Expr) -> Type:
    """Our type for sqlglot's. Raises `SqlError` for one we do not have."""
    name = kind.this.name if isinstance(kind, exp.DataType) else str(kind)
    if name == "USERDEFINED":
        name = str(kind.args["kind"]).upper()
    arguments = [p.name for p in kind.expressions]
    if name == "DECIMAL" and len(arguments) == 1:
        arguments.append("0")
    try:
        return parse_type(f"{name}({','.join(arguments)})" if arguments else name)
    except ValueError as error:
        is_column = isinstance(kind.parent, exp.ColumnDef) and str(error).startswith("no type")
        refuse(f"{error}{', XML, ARRAY(columns)' * is_column}", kind)


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
    return type_.parse_sql(sign + node.name)


_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _domain(node: exp.Expr, name: str, type_: Type) -> Pattern:
    """The pattern of the values that satisfy a CHECK over one column."""
    domain: Pattern = WILDCARD
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren):
            waiting.append(part.this)
        elif isinstance(part, exp.And):
            waiting += [part.right, part.left]
        else:
            with at(part):
                pattern = _domain_of(part, name, type_)
            if pattern is None:
                refuse(f"CHECK is BETWEEN, IN or comparisons of {name} with literals, joined by AND", part)
            domain = pt.intersect(domain, pattern)
    return domain


def _domain_of(node: exp.Expr, name: str, type_: Type) -> Pattern | None:
    def mine(side: exp.Expr) -> bool:
        return isinstance(side, exp.Column) and side.name == name and not side.table

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

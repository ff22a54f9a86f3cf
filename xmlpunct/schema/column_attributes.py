"""A column list as attributes and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from xmlpunct.base.errors import SchemaError, SqlError
from xmlpunct.base.paths import read_path
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.schema.arrays import ArrayType, array_of, check_path
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.column_list_parser import ColumnListSQL, KeyClause
from xmlpunct.schema.sql_errors import about, at, check_comparable, refuse
from xmlpunct.schema.sql_literals import literal_value, type_of
from xmlpunct.schema.sql_trees import parse_trees
from xmlpunct.types import XML, Type
from xmlpunct.types import pattern as pt
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern

T = TypeVar("T")


def parse_columns(text: str) -> tuple[Attribute, ...]:
    """Read a column list without its parentheses (see `Schema.parse`). A key is refused: nothing would enforce it.

    >>> [attribute.name for attribute in parse_columns("sid STRING, hour INT NOT NULL")]
    ['sid', 'hour']
    """
    attributes, keys = columns_and_keys(text)
    if keys:
        reason = "a key is only checked in CREATE STREAM and by check --schema: write NOT NULL here"
        raise SqlError(f"{', '.join(keys[0])}: {reason}", text, 0, len(text))
    return attributes


def columns_and_keys(text: str) -> tuple[tuple[Attribute, ...], tuple[tuple[str, ...], ...]]:
    """The attributes and the keys that a column list declares, without its parentheses."""

    def read(create: exp.Expr) -> tuple[tuple[Attribute, ...], tuple[tuple[str, ...], ...]]:
        attributes = attributes_of(create)
        return attributes, keys_of(create, attributes)

    return _of_columns(text, read)


def _of_columns(text: str, read: Callable[[exp.Expr], T]) -> T:
    head = "CREATE STREAM s ("
    sql = f"{head}{text})"
    try:
        with about(sql):
            (create,) = parse_trees(sql, ColumnListSQL())
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


def attributes_of(create: exp.Expr) -> tuple[Attribute, ...]:
    """The attributes of a CREATE STREAM."""
    columns = [c for c in create.this.expressions if isinstance(c, exp.ColumnDef)]
    attributes = _attributes_of(columns, namespaces_of(create.this.expressions), create, inside=False)
    in_keys = {name for key in keys_of(create, attributes) for name in key}
    return tuple(replace(a, nullable=a.nullable and a.name not in in_keys) for a in attributes)


def keys_of(create: exp.Expr, attributes: Iterable[Attribute]) -> tuple[tuple[str, ...], ...]:
    """The keys of a CREATE STREAM: first keys declared with a column, then keys of several columns."""
    types = {a.name: a.type for a in attributes}
    keys: dict[tuple[str, ...], None] = {}
    for item in create.this.expressions:
        if isinstance(item, exp.ColumnDef) and item.meta.get("key"):
            check_comparable(types[item.name], "a key", item)
            keys[(item.name,)] = None
    for item in create.this.expressions:
        if isinstance(item, KeyClause):
            keys[named_columns(item, types, "a key")] = None
    if () in keys:
        refuse("a key needs a column", create)
    return tuple(keys)


def named_columns(node: exp.Expr, types: Mapping[str, Type], clause: str) -> tuple[str, ...]:
    """The distinct columns named in parentheses. ``types`` has the type of each column of the stream."""
    names: dict[str, None] = {}
    for column in node.expressions:
        if column.name not in types:
            hint = did_you_mean(column.name, types)
            refuse(f"no column {column.name} here: there are {', '.join(types)}{hint}", column)
        check_comparable(types[column.name], clause, column)
        if column.name in names:
            refuse(f"{column.name} is listed twice", column)
        names[column.name] = None
    return tuple(names)


def namespaces_of(items: Iterable[exp.Expr]) -> dict[str, str]:
    """The namespaces that XMLNAMESPACES among some items declares, by prefix (empty: the default namespace)."""
    uris: dict[str, str] = {}
    for item in items:
        for declaration in item.expressions if isinstance(item, exp.Properties) else ():
            prefix, uri = declaration.name, declaration.args["value"].name
            if not uri or set("{}") & set(uri):
                refuse(f"{uri!r} is no namespace: it is a URI", declaration)
            if prefix and (not is_xml_name(prefix) or prefix in ("xml", "xmlns")):
                refuse(f"{prefix} is no prefix that a namespace can have", declaration)
            if prefix in uris:
                refuse(
                    f"two namespaces have the prefix {prefix}" if prefix else "two default namespaces",
                    declaration,
                )
            uris[prefix] = uri
    return uris


def _attributes_of(
    columns: Sequence[exp.Expr], namespaces: Mapping[str, str], origin: exp.Expr, inside: bool
) -> tuple[Attribute, ...]:
    """The attributes of a column list; ``inside``: of an array."""
    if not columns:
        refuse("a column at least", origin)
    attributes: list[Attribute] = []
    for column in columns:
        kind = column.args["kind"]
        if isinstance(kind, exp.Schema):
            type_: Type = array_of(_attributes_of(kind.expressions, namespaces, column, inside=True))
        else:
            type_ = type_of(kind)
        if inside and column.meta.get("key"):
            refuse("a key belongs to the stream, not to an array in it", column)
        name = column.name
        path = _path_of(column, namespaces)
        domain: Pattern = WILDCARD
        for condition in column.args.get("constraints") or ():
            if type_ is XML or isinstance(type_, ArrayType):
                refuse(f"CHECK does not apply to {'XML' if type_ is XML else 'an array'}", condition)
            domain = pt.intersect(domain, _domain(condition, name, type_))
        try:
            attribute = Attribute(name, type_, not column.meta.get("not_null", False), path, domain)
            check_path(attribute, read_path(path), inside)
        except SchemaError as error:
            refuse(str(error), column.meta.get("path") or column)
        if isinstance(type_, ArrayType) and any(
            isinstance(a.type, ArrayType) and a.path == path for a in attributes
        ):
            refuse(f"two arrays have PATH '{path}'", column)
        attributes.append(attribute)
    names = set[str]()
    for attribute in attributes:
        if attribute.name in names:
            refuse(f"two columns have the name {attribute.name}", origin)
        names.add(attribute.name)
    return tuple(attributes)


def _path_of(column: exp.Expr, namespaces: Mapping[str, str]) -> str:
    """The path of a column's value. Raises `SqlError` for a wrong path, or a wrong name without a path."""
    path_node: exp.Expr | None = column.meta.get("path")
    if path_node is None and not is_xml_name(column.name):
        refuse(
            f"no XML element can have the name {column.name!r}: write PATH with the path of the value", column
        )
    path = column.name if path_node is None else path_node.name
    with at(path_node or column):
        return str(read_path(path, namespaces))


_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _domain(node: exp.Expr, name: str, type_: Type) -> Pattern:
    """The pattern of the values that satisfy a CHECK over one column."""
    domain: Pattern = WILDCARD
    conditions = [node]
    while conditions:
        part = conditions.pop()
        if isinstance(part, exp.Paren):
            conditions.append(part.this)
        elif isinstance(part, exp.And):
            conditions += [part.right, part.left]
        else:
            with at(part):
                pattern = _domain_of(part, name, type_)
            if pattern is None:
                refuse(f"CHECK takes BETWEEN, IN or comparisons of {name} with literals, joined by AND", part)
            domain = pt.intersect(domain, pattern)
    return domain


def _domain_of(node: exp.Expr, name: str, type_: Type) -> Pattern | None:
    def is_column(side: exp.Expr) -> bool:
        return isinstance(side, exp.Column) and side.name == name and not side.table

    if isinstance(node, exp.Between) and is_column(node.this):
        low, high = literal_value(node.args["low"], type_), literal_value(node.args["high"], type_)
        return pt.interval(type_, low, high, True, True)
    if isinstance(node, exp.In) and is_column(node.this) and node.expressions:
        return pt.values(type_, [literal_value(e, type_) for e in node.expressions])
    if type(node) in _MIRROR:
        kind, column, value = type(node), node.this, node.expression
        if is_column(value):
            kind, column, value = _MIRROR[kind], value, column
        if not is_column(column):
            return None
        bound = literal_value(value, type_)
        if kind is exp.EQ:
            return pt.constant(type_, bound)
        if kind in (exp.LT, exp.LTE):
            return pt.interval(type_, None, bound, False, kind is exp.LTE)
        return pt.interval(type_, bound, None, kind is exp.GTE, False)
    return EMPTY if isinstance(node, exp.Boolean) and not node.this else None

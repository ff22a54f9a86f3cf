"""VALUES: a stream of constants, whose source URL contains the document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from urllib.parse import quote

import polars as pl
from sqlglot import exp

from xmlpunct.base.escapes import in_text
from xmlpunct.connectors.contract import DATA
from xmlpunct.engine.plan import Node, Project, Scan, Stream
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation
from xmlpunct.engine.sql.syntax.arguments import only
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import Program
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.sql_errors import at, refuse
from xmlpunct.types import BOOLEAN, Type, Value

MOST = 10_000
"""Maximal number of rows: the plan contains all of them."""
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CALLED = "VALUES "
_A_ROW = "_0"
"""A column for rows without values, so that they are counted."""


def constant_stream(node: exp.Values) -> tuple[Stream, dict[int, Type]]:
    """The stream of the rows of VALUES, with the columns ``_1``, ``_2``... except columns of only nulls.

    Null columns are returned separately, as types by index, because the document does not contain them.

    >>> from sqlglot import parse_one
    >>> stream, _ = constant_stream(parse_one("VALUES (1, 'a&b'), (2.5, NULL)"))
    >>> [str(a.type) for a in stream.schema], stream.source[:26]
    (['DECIMAL(20,1)', 'STRING'], 'data:,%3Cvalues%3E%3Crow%3')
    """
    rows = [_row(row) for row in only(node, "expressions", unread=("alias", "joins", "order", "limit"))]
    if len(rows) > MOST:
        refuse(f"VALUES has {len(rows):,} rows, and at most {MOST:,} are possible: put them in a file", node)
    first = rows[0]
    for row, syntax in zip(rows, node.expressions, strict=True):
        if len(row) != len(first):
            refuse(f"a row of {len(row)} values, and the first has {len(first)}", syntax)
    with at(node):
        types = [fn.common_type([row[index][1] for row in rows]) for index in range(len(first))]
    values = [
        [_value(e, type_, syntax) for (syntax, e), type_ in zip(row, types, strict=True)] for row in rows
    ]
    columns: dict[str, list[Value]] = {}
    nulls: dict[int, Type] = {}
    for index, type_ in enumerate(types):
        columns[f"_{index + 1}"] = [row[index] for row in values]
        if all(row[index] is None for row in values):
            nulls[index] = type_
            del columns[f"_{index + 1}"]
    by_name = {f"_{index + 1}": type_ for index, type_ in enumerate(types)} | {_A_ROW: BOOLEAN}
    columns = columns or {_A_ROW: [True for _ in rows]}
    schema = Schema.of(Attribute(name, by_name[name], None in column) for name, column in columns.items())
    document = "".join(_element("row", _content(schema, row)) for row in zip(*columns.values(), strict=True))
    source = f"{DATA},{quote(_element('values', document))}"
    return Stream(f"{_CALLED}{sha256(source.encode()).hexdigest()[:8]}", schema, "row", source), nulls


def with_nulls(relation: PlannedRelation, nulls: Mapping[int, Type]) -> PlannedRelation:
    """The relation of VALUES, with the null columns inserted at their indices."""
    if not nulls:
        return relation
    fields = [field for field in relation.fields if field.name != _A_ROW]
    columns: list[tuple[str, Expression]] = [(f.column, relation.column(f)) for f in fields]
    for index, type_ in nulls.items():
        table, origin = relation.fields[0].table, relation.fields[0].origin
        name = f"_{index + 1}"
        fields.insert(index, Field(table, name, f"{table}.{name}", origin))
        columns.insert(index, (f"{table}.{name}", fn.literal(type_, None)))
    return replace(relation, node=Project(relation.node, tuple(columns)), fields=tuple(fields))


def is_constant(node: Node) -> bool:
    """True if a node reads only VALUES."""
    while len(node.inputs) == 1:
        (node,) = node.inputs
    return isinstance(node, Scan) and node.stream.name.startswith(_CALLED)


def _row(row: exp.Expr) -> list[tuple[exp.Expr, Expression]]:
    items: Sequence[exp.Expr] = row.expressions if isinstance(row, exp.Tuple) else [row]
    for item in items:
        if (column := item.find(exp.Column, exp.Query)) is not None:
            refuse("VALUES takes constants only", column)
    scalars = Scalars(PlannedRelation(Node(), ()), "VALUES")
    return [(item, scalars.read(item)) for item in items]


def _value(expression: Expression, type_: Type, syntax: exp.Expr) -> Value:
    """The value of a constant expression."""
    with at(syntax):
        result = Program([("value", fn.cast(expression, type_))]).run(pl.DataFrame({"": [None]}))
        if result.reasons is not None and result.reasons[0] is not None:
            raise ValueError(result.reasons[0])
        value: Value = result.columns["value"][0]
        if isinstance(value, str) and (invalid := _NOT_IN_XML.search(value)):
            raise ValueError(f"XML holds no character U+{ord(invalid[0]):04X}")
    return value


def _content(schema: Schema, row: Sequence[Value]) -> str:
    """The elements of a row; a null has no element."""
    return "".join(
        _element(a.name, in_text(a.type.format(value)))
        for a, value in zip(schema, row, strict=True)
        if value is not None
    )


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"

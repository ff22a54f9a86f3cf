"""Declared punctuations: PUNCTUATE, WATERMARK, PUNCTUATED BY, PUNCTUATE ON of CREATE STREAM; PUNCTUATE in FROM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sqlglot import exp

from xmlpunct.base.paths import read_element, read_path
from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.connectors.contract import senders_of
from xmlpunct.engine.plan import DropOverlap, Key, Project, Punctuate, Scan, Select
from xmlpunct.engine.sql.planner.scope import PlannedRelation
from xmlpunct.engine.sql.planner.window_lengths import length_of
from xmlpunct.engine.sql.planner.windowing import watermark_order
from xmlpunct.engine.sql.syntax.dialect import parse_statements
from xmlpunct.engine.sql.syntax.promise_syntax import MARKS, ORDER_OF, SCHEMES, OrderOf
from xmlpunct.firehose.spec import ClosingMark
from xmlpunct.operators.time.access_order import AccessOrder, slack_of
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.column_attributes import named_columns, namespaces_of
from xmlpunct.schema.column_list_parser import Watermark
from xmlpunct.schema.sql_errors import about, at, check_comparable, refuse
from xmlpunct.types import DATE, STRING, TIMESTAMP, Type

MOST_AFTER = 1_000
"""The greatest number of tuples after AFTER, which bounds the tuples that are held for each sender."""


def promised_schemes(statement: exp.Expr, schema: Schema) -> tuple[tuple[str, ...], ...] | None:
    """The column sets of PUNCTUATED BY; None without it."""
    schemes = statement.args.get(SCHEMES)
    if schemes is None:
        return None
    types = {a.name: a.type for a in schema}
    return tuple(dict.fromkeys(named_columns(scheme, types, "PUNCTUATED BY") for scheme in schemes))


def declared_marks(
    statement: exp.Expr, schema: Schema, namespaces: Mapping[str, str] | None
) -> tuple[ClosingMark, ...]:
    """The marks of PUNCTUATE ON."""
    marks = []
    for syntax in statement.args.get(MARKS) or ():
        element, path, value = (syntax.args[part] for part in ("element", "path", "value"))
        with at(element):
            names = "/".join(read_element(element.name, namespaces))
        closes: dict[str, str] = {}
        for pair in syntax.args["closes"]:
            attribute = _column_of(statement, schema, pair.this)
            check_comparable(attribute.type, "PUNCTUATE ON", pair.this)
            if attribute.name in closes:
                refuse(f"CLOSES names {attribute.name} twice", pair.this)
            closes[attribute.name] = _mark_path(pair.expression, namespaces)
        where = None if path is None else (_mark_path(path, namespaces), value.name)
        marks.append(ClosingMark(names, tuple(closes.items()), where))
    return tuple(marks)


def marks_of(clauses: str, columns: str | None, schema: Schema) -> tuple[ClosingMark, ...]:
    """The marks of PUNCTUATE ON clauses, behind the column list ``columns`` if there is one. Raises `SqlError`.

    >>> marks_of("PUNCTUATE ON 'page' CLOSES (hour = '@hour')", None, Schema.parse("hour INT"))
    (ClosingMark(element='page', closes=(('hour', '@hour'),), where=None),)
    """
    sql = f"CREATE STREAM s {'' if columns is None else f'({columns}) '}WITH (source = '-') {clauses}"
    with about(sql):
        statement, *more = parse_statements(sql)
        promise = statement.args.get(ORDER_OF) or next(iter(statement.args.get(SCHEMES) or more), None)
        if promise is not None or MARKS not in statement.args:
            refuse("only PUNCTUATE ON is possible here", promise or statement)
        return declared_marks(statement, schema, namespaces_of(statement.this.expressions))


def _mark_path(syntax: exp.Expr, namespaces: Mapping[str, str] | None) -> str:
    """A path of a mark, with expanded names."""
    with at(syntax):
        path = read_path(syntax.name, namespaces)
    if path.up:
        refuse(f"PATH '{syntax.name}' leaves the mark: name the element around it in PUNCTUATE ON", syntax)
    return str(path)


def _column_of(statement: exp.Expr, schema: Schema, column: exp.Expr) -> Attribute:
    """The column of CREATE STREAM that a promise names."""
    if column.name not in schema:
        hint = did_you_mean(column.name, schema.names)
        name = statement.this.this.name
        refuse(f"no column {column.name} in {name}: there are {', '.join(schema.names)}{hint}", column)
    return schema[column.name]


def access_order(statement: exp.Expr, schema: Schema) -> AccessOrder | None:
    """The access order of PUNCTUATE or WATERMARK in CREATE STREAM, or None."""
    order = statement.args.get(ORDER_OF)
    watermarks = [item for item in statement.this.expressions if isinstance(item, Watermark)]
    if watermarks:
        if order is not None or len(watermarks) > 1:
            refuse(
                "only one order per stream: a second WATERMARK, or WATERMARK and PUNCTUATE", watermarks[-1]
            )
        order_of_watermark = watermark_order(watermarks[0], schema)
        return _with_jumps(order_of_watermark, schema[order_of_watermark.attribute].type, watermarks[0])
    return None if order is None else _order(order, lambda column: _column_of(statement, schema, column))


def punctuate_relation(relation: PlannedRelation, order: OrderOf) -> PlannedRelation:
    """A relation of FROM with its PUNCTUATE, which requires the tuples of one source in their order."""
    node = relation.node
    while not isinstance(node, Scan):
        if not isinstance(node, Select | Project | Key | Punctuate | DropOverlap):
            refuse(f"PUNCTUATE needs the order of a single source, which {node.name} does not keep", order)
        (node,) = node.inputs
    if node.stream.keys and senders_of(node.stream.source) > 1:
        name = node.stream.name
        refuse(
            f"PUNCTUATE needs the order of a single sender, but the key of {name} is checked after the senders are "
            "merged",
            order,
        )

    def selected(column: exp.Expr) -> Attribute:
        field = relation.find(column, None, column)
        if field is None:
            names = [f.name for f in relation.listed()]
            hint = did_you_mean(column.name, names)
            refuse(f"no column {column.name} to punctuate: there are {', '.join(names)}{hint}", column)
        return relation.node.schema[field.column]

    return replace(relation, node=Punctuate(relation.node, _order(order, selected)))


def _order(order: OrderOf, find: Callable[[exp.Expr], Attribute]) -> AccessOrder:
    """The access order of PUNCTUATE. The file of senders, which is read here, has one value per line."""
    column, slack_said, file, sender = (order.args[part] for part in ("attribute", "slack", "file", "sender"))
    attribute, key = find(column), None if sender is None else find(sender)
    for checked, syntax in ((attribute, column), (key, sender)):
        if checked is not None:
            check_comparable(checked.type, "PUNCTUATE", syntax)
    slack: float = 0
    if slack_said is not None:
        with at(slack_said):
            slack = _steps(attribute.type, slack_said, "SLACK")
    declared = _with_jumps(AccessOrder(attribute.name, slack), attribute.type, order)
    if key is None:
        return declared
    try:
        lines = Path(file.name).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:  # a ValueError: it is not UTF-8
        refuse(f"cannot read {file.name}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}", file)
    with at(file):
        senders = tuple(dict.fromkeys(key.type.parse(line.strip()) for line in lines if line.strip()))
    if not senders:
        refuse(f"{file.name} lists no sender", file)
    return replace(declared, sender_column=key.name, senders=senders)


def _with_jumps(order: AccessOrder, type_: Type, clause: exp.Expr) -> AccessOrder:
    """An access order with the AHEAD and the AFTER of its clause, if they are written."""
    ahead, after = (clause.args[part] for part in ("ahead", "after"))
    if ahead is None:
        return order
    with at(ahead):
        order = replace(order, ahead=_steps(type_, ahead, "AHEAD"))
    if after is None:
        return order
    if (
        not isinstance(after, exp.Literal)
        or not after.name.isdecimal()
        or not 1 <= int(after.name) <= MOST_AFTER
    ):
        refuse(f"AFTER is a number of tuples, from 1 to {MOST_AFTER:,}", after)
    return replace(order, after=int(after.name))


def _steps(type_: Type, node: exp.Expr, clause: str) -> float:
    """SLACK or AHEAD in the attribute's steps. Raises ValueError."""
    if type_ is STRING:
        raise ValueError(f"{clause} makes no sense over STRING")
    if type_ not in (DATE, TIMESTAMP):
        if not isinstance(node, exp.Literal) or node.is_string:
            raise ValueError(f"{clause} over {type_} is a number, 0 or more")
        return slack_of(type_, node.name, clause)
    return length_of(type_, node, clause, 0)

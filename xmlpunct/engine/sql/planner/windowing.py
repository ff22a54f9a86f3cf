"""Window table functions: from syntax to plan nodes."""

from __future__ import annotations

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.plan import Hop, Node, Session, WindowPromises, is_changing
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation, Unused
from xmlpunct.engine.sql.planner.window_lengths import TIMES, length_of, origin_of
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.engine.sql.syntax.window_tables import WindowTable
from xmlpunct.operators.time.access_order import AccessOrder
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.schema import Schema
from xmlpunct.schema.column_list_parser import Watermark
from xmlpunct.schema.sql_errors import at, check_comparable, refuse
from xmlpunct.types import Type

START, END = "window_start", "window_end"
_MOST = 100_000
"""Maximal number of windows per row."""


def with_windows(table: WindowTable, data: PlannedRelation) -> PlannedRelation:
    """A relation with the columns window_start and window_end for the windows of its rows."""
    if is_changing(data.node):
        kind = table.args["kind"]
        refuse(
            f"windows of {kind} need a stream, and this is a relation: ISTREAM converts it to a stream",
            table,
        )
    timestamp = _timestamp(table.args["timestamp"], data)
    for field in data.listed():
        if field.name.lower() in (START, END):
            refuse(f"there is a column {field.name} already: give it another name in a subquery", table)
    type_, names = data.node.schema[timestamp.column].type, data.node.schema.names
    unused = Unused([*names, *(data.outer.node.schema.names if data.outer else ())])
    prefix = f"{timestamp.table}." if timestamp.table else ""
    start, end = (unused.take(f"{prefix}{name}") for name in (START, END))
    if table.args["kind"] == "SESSION":
        keys = tuple(dict.fromkeys(_key(column, data, timestamp) for column in table.args.get("keys") or ()))
        with at(table.args["gap"]):
            gap = length_of(type_, table.args["gap"], "the gap between sessions")
        node: Node = Session(data.node, timestamp.column, gap, keys, start, end)
    else:
        frame = _frame(table, type_)
        node = Hop(data.node, timestamp.column, frame, start, end)
        node = WindowPromises(node, timestamp.column, frame, start, end)
    bounds = ((START, start), (END, end))
    fields = (Field(timestamp.table, name, column, table) for name, column in bounds)
    return PlannedRelation(node, (*data.fields, *fields), data.outer)


def _timestamp(column: exp.Expr, data: PlannedRelation) -> Field:
    """The column of DESCRIPTOR."""
    field = _column(column, data)
    attribute = data.node.schema[field.column]
    if attribute.type not in TIMES:
        refuse(f"a timestamp must be INT, DATE or TIMESTAMP: {field.name} is {attribute.type}", column)
    if attribute.nullable:
        remedy = (
            f"{field.name} may be null, and null is in no window: read (SELECT * FROM ... WHERE {field.name} IS NOT "
            "NULL)"
        )
        refuse(f"a timestamp must be NOT NULL: {remedy}", column)
    return field


def _column(column: exp.Expr, data: PlannedRelation) -> Field:
    if not isinstance(column, exp.Column):
        refuse("a column is expected here", column)
    name, table = take(column, "this", "table")
    field = data.find(name, table, column)
    hint = did_you_mean(name.name, (f.name for f in data.fields))
    return field or refuse(f"no column {column.sql()} here: there are {_names(data)}{hint}", column)


def _key(column: exp.Expr, data: PlannedRelation, timestamp: Field) -> str:
    """The column of PARTITION BY."""
    field = _column(column, data)
    if field.column == timestamp.column:
        refuse(
            "sessions cannot be partitioned by their timestamp: each instant would be its own session", column
        )
    check_comparable(data.node.schema[field.column].type, "PARTITION BY", column)
    return field.column


def _names(data: PlannedRelation) -> str:
    return ", ".join(field.name for field in data.listed())


def _frame(table: WindowTable, type_: Type) -> HoppingWindows:
    """The windows of TUMBLE or HOP."""
    args = table.args
    with at(args["size"]):
        size = length_of(type_, args["size"], "the size of a window")
    slide = size
    if table.args["kind"] == "HOP":
        with at(args["slide"]):
            slide = length_of(type_, args["slide"], "the slide of windows")
        if slide > size and not args.get("named"):
            refuse(
                "HOP takes the slide, then the size, and this slide is longer than the size: swap them; or, to leave "
                "gaps between windows, write SLIDE => ..., SIZE => ...",
                args["slide"],
            )
        if size // slide > _MOST:
            refuse(f"each row would be in more than {_MOST:,} windows: take a longer slide", args["slide"])
    origin = args.get("origin")
    with at(origin or table):
        return HoppingWindows(type_, slide, size, origin_of(type_, origin))


def watermark_order(watermark: Watermark, schema: Schema) -> AccessOrder:
    """The access order of WATERMARK FOR ts AS ts - n: later values are greater than the maximum minus n."""
    name, waited = watermark.this.name, watermark.args["expression"]
    if name not in schema:
        refuse(f"no column {name} here: there are {', '.join(schema.names)}", watermark.this)
    type_ = schema[name].type
    if type_ not in TIMES:
        refuse(f"a watermark is for INT, DATE or TIMESTAMP: {name} is {type_}", watermark.this)
    slack = 0
    if isinstance(waited, exp.Sub):
        waited, length = waited.this, waited.expression
        with at(length):
            slack = length_of(type_, length, "the delay of a watermark", least=0)
    if not isinstance(waited, exp.Column) or waited.name != name or waited.table:
        refuse(f"a watermark for {name} is {name}, or {name} minus a delay", watermark.args["expression"])
    return AccessOrder(name, slack, watermark=True)

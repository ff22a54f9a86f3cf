"""What a stream promises, as CREATE STREAM declares it: PUNCTUATE, WATERMARK and PUNCTUATED BY."""

from __future__ import annotations

from pathlib import Path

from sqlglot import exp

from xmlpunct.engine.sql.dialect import at, check_comparable, named_columns, refuse
from xmlpunct.engine.sql.lengths import length_of
from xmlpunct.engine.sql.window_functions import Watermark
from xmlpunct.engine.sql.windowing import watermark_order
from xmlpunct.operators.access_order import AccessOrder, slack_of
from xmlpunct.schema import Schema
from xmlpunct.types import DATE, STRING, TIMESTAMP, Type


def promised_schemes(statement: exp.Expr, schema: Schema) -> tuple[tuple[str, ...], ...] | None:
    """The sets of columns that PUNCTUATED BY names; None if it is not said."""
    schemes = statement.meta.get("schemes")
    if schemes is None:
        return None
    return tuple(dict.fromkeys(named_columns(scheme, schema, "PUNCTUATED BY") for scheme in schemes))


def access_order(statement: exp.Expr, schema: Schema) -> AccessOrder | None:
    """What PUNCTUATE or WATERMARK says. The file of senders, read now, has a value of its type on each line."""
    parts = statement.meta.get("order")
    watermarks = [item for item in statement.this.expressions if isinstance(item, Watermark)]
    if watermarks:
        if parts is not None or len(watermarks) > 1:
            refuse("one order per stream: a second WATERMARK, or PUNCTUATE beside it", watermarks[-1])
        return watermark_order(watermarks[0], schema)
    if parts is None:
        return None
    for part in ("attribute", "by"):
        if parts[part] is not None and parts[part].name not in schema:
            there = ", ".join(schema.names)
            refuse(
                f"no column {parts[part].name} in {statement.this.this.name}: there are {there}", parts[part]
            )
    for part in ("attribute", "by"):
        if parts[part] is not None:
            check_comparable(schema[parts[part].name].type, "PUNCTUATE", parts[part])
    attribute = schema[parts["attribute"].name]
    slack: float = 0
    if parts["slack"] is not None:
        with at(parts["slack"]):
            slack = _slack(attribute.type, parts["slack"])
    if parts["by"] is None:
        return AccessOrder(attribute.name, slack)
    by, file = schema[parts["by"].name], parts["file"]
    try:
        lines = Path(file.name).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:  # a ValueError: it is not UTF-8
        refuse(f"cannot read {file.name}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}", file)
    with at(file):
        senders = tuple(dict.fromkeys(by.type.parse(line.strip()) for line in lines if line.strip()))
    if not senders:
        refuse(f"{file.name} lists no sender", file)
    return AccessOrder(attribute.name, slack, by.name, senders)


def _slack(type_: Type, node: exp.Expr) -> float:
    """SLACK in the attribute's steps. Raises ValueError."""
    if type_ is STRING:
        raise ValueError("SLACK makes no sense over STRING")
    if type_ not in (DATE, TIMESTAMP):
        if not isinstance(node, exp.Literal) or node.is_string:
            raise ValueError(f"SLACK over {type_} is a number, 0 or more")
        return slack_of(type_, node.name)
    return length_of(type_, node, "SLACK", 0)

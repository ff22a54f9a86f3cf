"""Types and literals of SQL trees as ours."""

from __future__ import annotations

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.schema.sql_errors import refuse
from xmlpunct.types import Type, parse_type

_TYPES = ("STRING", "TEXT", "VARCHAR", "INT", "BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TIMESTAMP")


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
        is_unknown = str(error).startswith("no type")
        is_column = isinstance(kind.parent, exp.ColumnDef) and is_unknown
        hint = did_you_mean(name, _TYPES) if is_unknown else ""
        refuse(f"{error}{', XML, ARRAY(columns)' * is_column}{hint}", kind)


def literal_value(node: exp.Expr, type_: Type) -> object:
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

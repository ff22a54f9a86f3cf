"""UNNEST: one row for each item of an array, joined with its tuple."""

from __future__ import annotations

from sqlglot import exp

from xmlpunct.engine.plan import Node, Project, Unnest, attributes, is_changing, plain, timing
from xmlpunct.engine.sql.planner.scope import Field, PlannedRelation, Unused
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.sql_errors import refuse

ORDINALITY = "ordinality"
"""Default name of the column of WITH ORDINALITY."""


def unnested(left: PlannedRelation, join: exp.Expr, outer: PlannedRelation | None = None) -> PlannedRelation:
    """A relation joined with the items of one of its arrays."""
    right, on, using, side, kind = take(join, "this", "on", "using", "side", "kind", unread=("pivots",))
    if (side or "", kind or "") not in (
        ("", ""),
        ("", "CROSS"),
        ("", "INNER"),
        ("LEFT", ""),
        ("LEFT", "OUTER"),
    ):
        refuse("UNNEST needs CROSS JOIN or LEFT JOIN", join)
    if using or (on is not None and not (isinstance(on, exp.Boolean) and on.this)):
        refuse("UNNEST has no join condition: write ON TRUE, or WHERE", on or join)
    arrays, alias, offset = take(right, "expressions", "alias", "offset")
    label, column_names = take(alias, "this", "columns") if alias else (None, None)
    if len(arrays) != 1:
        refuse("UNNEST takes one array", right)
    (array,) = arrays
    if not isinstance(array, exp.Column):
        refuse("UNNEST takes an array column: compute it in a subquery, FROM (SELECT ...)", array)
    name, table = take(array, "this", "table")
    field = left.find(name, table, array)
    if field is None:
        refuse(f"no column {array.sql()} here", array)
    type_ = left.node.schema[field.column].type
    if not isinstance(type_, ArrayType):
        refuse(f"{field.name} is of type {type_}, and no array", array)
    field_names = [a.name for a in type_.attributes]
    names = [*field_names]
    renamed = [*(column_names or ())] + ([offset] if isinstance(offset, exp.Identifier) else [])
    if offset:
        names.append(ORDINALITY)
    if renamed:
        if len(renamed) != len(names):
            refuse(f"{len(renamed)} names for {len(names)} columns", renamed[0])
        names = [node.name for node in renamed]
    shown = label.name if label else field.name
    if shown in left.tables:
        refuse(f"two tables have the name {shown}: give one an alias", right)
    unused = Unused([*left.node.schema.names, *(outer.node.schema.names if outer else ())])
    columns = [unused.take(f"{shown}.{n}") for n in names]
    count = len(field_names)
    fields = zip(columns[:count], field_names, strict=True)
    node = Unnest(left.node, field.column, tuple(fields), columns[count] if offset else None, side == "LEFT")
    origins = renamed or [right] * len(names)
    item_fields = (Field(shown, n, c, o) for n, c, o in zip(names, columns, origins, strict=True))
    below: Node = node
    if is_changing(node):
        below = Project(node, (*plain(node, attributes(node)), *timing(node)))
    return PlannedRelation(below, (*left.fields, *item_fields), left.outer)

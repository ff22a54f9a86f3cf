"""The items of SELECT: expressions with names, and the expansion of ``*``."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.plan import Project, timing
from xmlpunct.engine.sql.planner.column_labels import distinct_names, label
from xmlpunct.engine.sql.planner.scalars import FIELD
from xmlpunct.engine.sql.planner.scope import Field, Fields, PlannedRelation, unique
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.functions import literal
from xmlpunct.schema.sql_errors import refuse

Listed = list[tuple[str, exp.Expr]]
"""Output columns: name and syntax."""


def select_columns(items: Sequence[exp.Expr], relation: PlannedRelation, has_labels: bool = False) -> Listed:
    """The output columns, each with its name: the alias, the column's declared name, or ``_1``, ``_2``...

    ``has_labels``: unnamed columns, and a second column of one name, are named as DuckDB names them.
    """
    listed: Listed = []
    for item in items:
        if isinstance(item, exp.Star):
            listed += _of_star(item, item, relation.listed())
        elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            star, table = take(item, "this", "table")
            listed += _of_star(star, item, relation.of(table))
        elif isinstance(item, exp.Alias):
            expression, alias = take(item, "this", "alias")
            listed.append((alias.name, expression))
        else:
            field = None
            if isinstance(item, exp.Column) and relation.sees(item.this, item.args.get("table"), item):
                field = relation.find(item.this, item.args.get("table"), item)
            has_label = has_labels and not isinstance(item, exp.Column)  # an unknown column is refused later
            unnamed = label(item) if has_label else f"_{len(listed) + 1}"
            listed.append((field.name if field else unnamed, item))
    if not has_labels:
        return listed
    names = distinct_names(name for name, _ in listed)
    return [(name, item) for name, (_, item) in zip(names, listed, strict=True)]


def _of_star(star: exp.Expr, item: exp.Expr, fields: Sequence[Field]) -> Listed:
    """Expand ``*`` to fields, with EXCLUDE, REPLACE and RENAME."""
    excluded, replaced, renamed = take(star, "except_", "replace", "rename")
    by_name = Fields(list(fields))
    left_out = {field for name in excluded or () for field in _fields_named(name, by_name, "EXCLUDE")}
    other = {f: e.this for e in replaced or () for f in _fields_named(e.args["alias"], by_name, "REPLACE")}
    names = {f: e.alias for e in renamed or () for f in _fields_named(e.this, by_name, "RENAME")}
    listed = [
        (names.get(field, field.name), other[field] if field in other else _reference(field, item))
        for field in fields
        if field not in left_out
    ]
    if not listed:
        refuse("* EXCLUDE leaves no column", item)
    return listed


def _fields_named(name: exp.Expr, fields: Fields, clause: str) -> list[Field]:
    """The fields with a name. Refuses an unknown name."""
    matches = fields.of(name.this if isinstance(name, exp.Column) else name)
    if not matches:
        names = dict.fromkeys(field.name for field in fields.fields)
        hint = did_you_mean(name.name, names)
        refuse(f"* {clause}: there is no column {name.name}, but {', '.join(names)}{hint}", name)
    return matches


def matched(left: PlannedRelation, right: PlannedRelation) -> list[PlannedRelation]:
    """Two queries with matching columns, by name. Missing columns are null."""
    fields_by_side = [Fields(list(side.fields)) for side in (left, right)]
    new = [field for field in right.fields if not fields_by_side[0].of(_identifier(field))]
    sides = []
    for side, side_fields in zip((left, right), fields_by_side, strict=True):
        columns: list[tuple[str, Expression]] = []
        for source, source_fields in ((left, left.fields), (right, new)):
            for field in source_fields:
                matches = side_fields.of(_identifier(field))
                if len(matches) > 1:
                    refuse(f"BY NAME: two columns have the name {field.name}", matches[1].origin)
                type_ = source.node.schema[field.column].type
                columns.append((field.column, side.column(matches[0]) if matches else literal(type_, None)))
        names = unique([name for name, _ in columns])
        node = Project(side.node, (*zip(names, [e for _, e in columns], strict=True), *timing(side.node)))
        fields = tuple(
            Field(None, f.name, n, f.origin) for f, n in zip((*left.fields, *new), names, strict=True)
        )
        sides.append(PlannedRelation(node, fields, side.outer))
    return sides


def _identifier(field: Field) -> exp.Expr:
    return exp.to_identifier(field.name)


def _reference(field: Field, star: exp.Expr) -> exp.Expr:
    """The syntax of a column reference for a field of ``*``."""
    node = exp.Column(this=exp.to_identifier(field.name, quoted=True))
    node.meta.update({k: v for k, v in star.meta.items() if k in ("start", "end")})
    node.meta[FIELD] = field
    return node

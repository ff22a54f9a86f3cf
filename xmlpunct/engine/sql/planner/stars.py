"""What SELECT lists: expressions with their names, and what ``*`` stands for."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from xmlpunct.engine.plan import Project, timing
from xmlpunct.engine.sql.planner.scalars import FIELD
from xmlpunct.engine.sql.planner.scope import Field, Fields, Relation, unique
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.functions import literal
from xmlpunct.schema.sql_errors import refuse

Listed = list[tuple[str, exp.Expr]]
"""Output columns: name and syntax."""


def expanded(items: Sequence[exp.Expr], relation: Relation) -> Listed:
    """The output columns, each with its name: the alias, the column's declared name, or ``_1``, ``_2``..."""
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
            listed.append((field.name if field else f"_{len(listed) + 1}", item))
    return listed


def _of_star(star: exp.Expr, item: exp.Expr, fields: Sequence[Field]) -> Listed:
    """What ``*`` stands for: some fields, with its EXCLUDE, REPLACE and RENAME."""
    excluded, replaced, renamed = take(star, "except_", "replace", "rename")
    there = Fields(list(fields))
    left_out = {field for name in excluded or () for field in _named(name, there, "EXCLUDE")}
    other = {f: e.this for e in replaced or () for f in _named(e.args["alias"], there, "REPLACE")}
    names = {f: e.alias for e in renamed or () for f in _named(e.this, there, "RENAME")}
    listed = [
        (names.get(field, field.name), other[field] if field in other else _reference(field, item))
        for field in fields
        if field not in left_out
    ]
    if not listed:
        refuse("* EXCLUDE leaves no column", item)
    return listed


def _named(name: exp.Expr, fields: Fields, what: str) -> list[Field]:
    """The fields of a name, which has to be one of them."""
    found = fields.of(name.this if isinstance(name, exp.Column) else name)
    if not found:
        there = ", ".join(dict.fromkeys(field.name for field in fields.fields))
        refuse(f"* {what}: there is no column {name.name}, but {there}", name)
    return found


def matched(left: Relation, right: Relation) -> list[Relation]:
    """Two queries with the same columns in the same order, by their names. What one has not is null there."""
    places = [Fields(list(side.fields)) for side in (left, right)]
    new = [field for field in right.fields if not places[0].of(_identifier(field))]
    sides = []
    for side, mine in zip((left, right), places, strict=True):
        columns: list[tuple[str, Expression]] = []
        for whole, of in ((left, left.fields), (right, new)):
            for field in of:
                found = mine.of(_identifier(field))
                if len(found) > 1:
                    refuse(f"BY NAME: two columns are named {field.name}", found[1].origin)
                type_ = whole.node.schema[field.column].type
                columns.append((field.column, side.column(found[0]) if found else literal(type_, None)))
        names = unique([name for name, _ in columns])
        node = Project(side.node, (*zip(names, [e for _, e in columns], strict=True), *timing(side.node)))
        fields = tuple(
            Field(None, f.name, n, f.origin) for f, n in zip((*left.fields, *new), names, strict=True)
        )
        sides.append(Relation(node, fields, side.outer))
    return sides


def _identifier(field: Field) -> exp.Expr:
    return exp.to_identifier(field.name)


def _reference(field: Field, star: exp.Expr) -> exp.Expr:
    """The syntax that names a field which ``*`` stands for."""
    node = exp.Column(this=exp.to_identifier(field.name, quoted=True))
    node.meta.update({k: v for k, v in star.meta.items() if k in ("start", "end")})
    node.meta[FIELD] = field
    return node

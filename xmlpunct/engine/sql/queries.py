"""Queries: from syntax to plan nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from xmlpunct.ddl import at, refuse
from xmlpunct.engine.plan import DupElim, Merge, Node, Project, Scan, Select, Stream, Union
from xmlpunct.engine.sql.arguments import only, take
from xmlpunct.engine.sql.grouping import Grouping
from xmlpunct.engine.sql.scalars import Scalars
from xmlpunct.engine.sql.scope import Field, Relation, matches, unique
from xmlpunct.operators import functions as fn
from xmlpunct.operators.expression import Column, Expression


@dataclass(frozen=True)
class Named:
    """A query of WITH: its syntax, its columns' names if given, and what it can refer to itself."""

    query: exp.Expr
    columns: tuple[exp.Expr, ...]
    context: Context


@dataclass(frozen=True)
class Context:
    """What FROM can refer to: queries of WITH, then streams."""

    streams: Mapping[str, Stream]
    named: Mapping[str, Named]


def plan_query(node: exp.Expr, context: Context) -> Relation:
    """The plan of a query and its output columns, which belong to no table."""
    if isinstance(node, exp.Select):
        return _plan_select(node, context)
    if isinstance(node, exp.Union):
        return _plan_union(node, context)
    if isinstance(node, exp.Subquery):
        inner, with_ = take(node, "this", "with_")
        if isinstance(inner, exp.Query):
            return plan_query(inner, _with(with_, context))
    if isinstance(node, exp.SetOperation):
        refuse(f"{node.key.upper()} is not supported yet", node)
    return refuse("this is no query: SELECT ..., UNION, WITH", node)


def _with(node: exp.Expr | None, context: Context) -> Context:
    """The context, and the queries of a WITH clause. Each is planned here once, to find its errors."""
    if node is None:
        return context
    seen: set[str] = set()
    for cte in only(node, "expressions"):
        query, alias = take(cte, "this", "alias")
        name, columns = take(alias, "this", "columns")
        if name.name in seen:
            refuse(f"two queries of WITH are named {name.name}", name)
        seen.add(name.name)
        named = Named(query, tuple(columns or ()), context)
        _relabel(plan_query(query, context), name.name, named.columns)
        context = replace(context, named={**context.named, name.name: named})
    return context


def _plan_union(node: exp.Union, context: Context) -> Relation:
    left, right, with_, distinct = take(node, "this", "expression", "with_", "distinct")
    context = _with(with_, context)
    sides = [plan_query(side, context) for side in (left, right)]
    a, b = (side.fields for side in sides)
    if len(a) != len(b):
        refuse(f"UNION of {len(a)} columns with {len(b)}", node)
    columns: list[tuple[Column, Column]] = [
        (sides[0].column(x), sides[1].column(y)) for x, y in zip(a, b, strict=True)
    ]
    wider = []
    for x, pair in zip(a, columns, strict=True):
        with at(node):
            try:
                wider.append(fn.common_type(pair))
            except ValueError as error:
                raise ValueError(f"column {x.name} of this UNION: {error}") from None
    nodes: list[Node] = []
    for side, read in zip(sides, zip(*columns, strict=True), strict=True):
        if all(column.type == type_ for column, type_ in zip(read, wider, strict=True)):
            nodes.append(side.node)
        else:
            casts = tuple((c.name, fn.cast(c, t)) for c, t in zip(read, wider, strict=True))
            nodes.append(Project(side.node, casts))
    return Relation((Union if distinct else Merge)(tuple(nodes)), a)


def _plan_select(node: exp.Select, context: Context) -> Relation:
    items, from_, where, group, having, distinct, with_ = take(
        node, "expressions", "from_", "where", "group", "having", "distinct", "with_"
    )
    if not items:
        refuse("SELECT wants columns", node)
    if from_ is None:
        refuse("a query reads from a stream: FROM is missing", node)
    relation = _from(only(from_, "this"), _with(with_, context))
    if where is not None:
        predicate = Scalars(relation, "WHERE").condition(only(where, "this"))
        relation = replace(relation, node=Select(relation.node, predicate))
    listed = _expand(items, relation)
    grouping = Grouping(relation)
    for key in _keys(group, listed, relation):
        grouping.add_key(key)
    scalars = Scalars(relation, "SELECT", grouping.add_aggregate)
    columns = [scalars.read(item) for _, item in listed]
    tests = Scalars(relation, "HAVING", grouping.add_aggregate)
    condition = tests.condition(only(having, "this")) if having is not None else None
    below: Node = relation.node
    if grouping.keys or grouping.aggregates or group is not None or having is not None:
        below = grouping.plan()
        columns = [grouping.above(column, scalars.places) for column in columns]
        if condition is not None:
            below = Select(below, grouping.above(condition, tests.places))
    names = unique(name for name, _ in listed)
    found: Node = Project(below, tuple(zip(names, columns, strict=True)))
    if distinct is not None:
        take(distinct)
        found = DupElim(found)
    fields = []
    for (name, item), column in zip(listed, names, strict=True):
        alias = item.parent if isinstance(item.parent, exp.Alias) else item
        fields.append(Field(None, name, column, alias))
    return Relation(found, tuple(fields))


def _expand(items: list[exp.Expr], relation: Relation) -> list[tuple[str, exp.Expr]]:
    """The output columns, each with its name: the alias, the column's declared name, or ``_1``, ``_2``..."""
    listed: list[tuple[str, exp.Expr]] = []
    for item in items:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            table = None
            if isinstance(item, exp.Column):
                star, table = take(item, "this", "table")
                take(star)
            take(item, "this", "table")
            for field in relation.of(table) if table else relation.fields:
                listed.append((field.name, _reference(field, item)))
        elif isinstance(item, exp.Alias):
            expression, alias = take(item, "this", "alias")
            listed.append((alias.name, expression))
        else:
            field_ = None
            if isinstance(item, exp.Column):
                field_ = relation.find(item.this, item.args.get("table"), item)
            listed.append((field_.name if field_ else f"_{len(listed) + 1}", item))
    return listed


def _reference(field: Field, star: exp.Expr) -> exp.Expr:
    """The syntax that names a field which ``*`` stands for."""
    table = exp.to_identifier(field.table, quoted=True) if field.table else None
    node = exp.Column(this=exp.to_identifier(field.name, quoted=True), table=table)
    node.meta.update({k: v for k, v in star.meta.items() if k in ("start", "end")})
    return node


def _keys(group: exp.Expr | None, listed: list[tuple[str, exp.Expr]], relation: Relation) -> list[Expression]:
    """What GROUP BY lists: positions and aliases of SELECT's columns, columns, expressions."""
    scalars = Scalars(relation, "GROUP BY")
    keys = []
    for item in only(group, "expressions") if group is not None else ():
        node = item
        if isinstance(item, exp.Literal):
            if item.is_string or not item.name.isdigit() or not 1 <= int(item.name) <= len(listed):
                refuse(f"GROUP BY {item.sql()}: positions are 1 to {len(listed)}", item)
            node = listed[int(item.name) - 1][1]
        elif isinstance(item, exp.Column) and not item.table and not relation.find(item.this, None, item):
            found = matches(item.this, [name for name, _ in listed])
            node = listed[found[0]][1] if len(found) == 1 else item
        keys.append(scalars.read(node))
    return keys


def _from(node: exp.Expr, context: Context) -> Relation:
    """What FROM reads from: a stream, a query of WITH, a subquery."""
    if isinstance(node, exp.Subquery):
        inner, alias = take(node, "this", "alias")
        relation = _from(inner, context) if isinstance(inner, exp.Table) else plan_query(inner, context)
        if alias is None:
            return relation
        name, columns = take(alias, "this", "columns")
        return _relabel(relation, name.name if name else None, tuple(columns or ()))
    if not isinstance(node, exp.Table):
        refuse("FROM reads a stream, a query of WITH, or a subquery", node)
    table, alias = take(node, "this", "alias")
    if not isinstance(table, exp.Identifier):
        refuse("FROM reads a stream, a query of WITH, or a subquery", node)
    label, columns = take(alias, "this", "columns") if alias else (None, None)
    for names in (context.named, context.streams):
        found = [list(names)[i] for i in matches(table, list(names))]
        if len(found) > 1:
            refuse(f"{table.name} is ambiguous: {', '.join(found)}", table)
        if found:
            shown = label.name if label else found[0]
            if found[0] in context.named and names is context.named:
                named = context.named[found[0]]
                relation = _relabel(plan_query(named.query, named.context), found[0], named.columns)
            else:
                relation = _scan(context.streams[found[0]], shown, table)
            return _relabel(relation, shown, tuple(columns or ()))
    there = ", ".join([*context.named, *context.streams]) or "none"
    return refuse(f"no stream {table.name}: there are {there}", table)


def _scan(stream: Stream, label: str, origin: exp.Expr) -> Relation:
    if stream.source is None:
        refuse(
            f"stream {stream.name} has no source: WITH (source = '...') or -s {stream.name}=SOURCE", origin
        )
    columns = stream.schema.names
    names = tuple(f"{label}.{column}" for column in columns)
    fields = (Field(label, column, name, origin) for column, name in zip(columns, names, strict=True))
    return Relation(Scan(stream, columns, names), tuple(fields))


def _relabel(relation: Relation, table: str | None, columns: tuple[exp.Expr, ...]) -> Relation:
    """The relation under an alias, perhaps with other names for its columns."""
    fields = [replace(field, table=table) for field in relation.fields]
    if columns:
        if len(columns) != len(fields):
            refuse(f"{len(columns)} names for {len(fields)} columns", columns[0])
        fields = [replace(f, name=c.name, origin=c) for f, c in zip(fields, columns, strict=True)]
    return replace(relation, fields=tuple(fields))

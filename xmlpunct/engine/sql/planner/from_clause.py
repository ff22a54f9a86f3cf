"""FROM: streams, queries of WITH, subqueries, and their joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.inference import Inference
from xmlpunct.engine.plan import DropOverlap, Key, Node, Punctuate, Scan, Stream, is_changing
from xmlpunct.engine.sql.planner.declaration import string_literal
from xmlpunct.engine.sql.planner.file_tables import READ_XML, FileTables
from xmlpunct.engine.sql.planner.join_planner import (
    SubqueryValues,
    conditions,
    join_on,
    join_using,
    joined,
    side_by_side,
)
from xmlpunct.engine.sql.planner.promises import punctuate_relation
from xmlpunct.engine.sql.planner.relation_planner import (
    check_alike,
    constant_relation,
    declared_relation,
    has_timestamp,
    windowed,
)
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Field, Namespace, PlannedRelation
from xmlpunct.engine.sql.planner.unnesting import unnested
from xmlpunct.engine.sql.planner.values_clause import constant_stream, is_constant, with_nulls
from xmlpunct.engine.sql.planner.windowing import with_windows
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.promise_syntax import MISPLACED, ORDER_OF
from xmlpunct.engine.sql.syntax.window_syntax import WINDOW, StreamOf, WindowSpec
from xmlpunct.engine.sql.syntax.window_tables import WindowTable
from xmlpunct.expressions.expression import Expression
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.schema.provenance import is_attribute
from xmlpunct.schema.sql_errors import refuse
from xmlpunct.types import INT


@dataclass(frozen=True)
class Named:
    """A query of WITH: its syntax, its declared column names, and its context."""

    query: exp.Expr
    columns: tuple[exp.Expr, ...]
    context: Context


@dataclass(frozen=True)
class Context:
    """The names in scope of a query: queries of WITH, then streams, then ``files``.

    ``outer`` is the relation of the enclosing query; ``instants`` are those of the complete query. ``sinks`` are names
    of sinks, which cannot be read. ``unbounded``: the query is converted to a stream, so a stream without a window has
    the window [RANGE UNBOUNDED], as in CQL.
    """

    streams: Namespace[Stream]
    named: Namespace[Named]
    outer: PlannedRelation | None = None
    files: FileTables = field(default_factory=lambda: FileTables(Inference()))
    instants: Instants = field(default_factory=lambda: Instants(INT))
    sinks: frozenset[str] = frozenset()
    unbounded: bool = False


TablePlanner = Callable[[exp.Expr, Context], PlannedRelation]


class FromClause:
    """Plans the FROM clause of one query. ``plan`` plans its subqueries.

    ``correlated``: conditions of WHERE may refer to the enclosing query, so column names must differ from its names.
    ``values_over`` creates the collector of scalar subqueries in ON over a relation.
    """

    def __init__(
        self,
        context: Context,
        plan: TablePlanner,
        correlated: bool,
        values_over: Callable[[PlannedRelation], SubqueryValues] | None = None,
    ) -> None:
        self.context, self._plan, self._correlated, self._values = context, plan, correlated, values_over
        self._around = context.outer.node.schema.names if correlated and context.outer else ()

    def read(
        self, first: exp.Expr, joins: Sequence[exp.Expr], where: list[exp.Expr]
    ) -> tuple[PlannedRelation, list[exp.Expr]]:
        """The relation of FROM, and the remaining conditions of WHERE.

        JOIN binds tighter than a comma. Equalities of WHERE between tables that commas separate become join keys.
        Tables with keys are joined first, independent of their order.
        """
        groups: list[list[exp.Expr]] = [[first]]
        for join in joins:
            if join.meta.get("comma") and not isinstance(join.this, exp.Unnest):
                groups.append([only(join, "this")])
            else:
                groups[-1].append(join)
        groups = [part for group in groups for part in _crossed(group)]
        relations: list[PlannedRelation] = []
        for head, *chained_joins in groups:
            chained = self._chain(self.table(head), chained_joins)
            relations.append(self._rename(relations, chained, head))
        relations = self._align(relations)
        check_alike(zip(relations, [group[0] for group in groups], strict=True))
        relation, where = _pooled(relations, where, self._correlated)
        return relation.apart(self._around), where

    def table(self, node: exp.Expr) -> PlannedRelation:
        """The relation of an item of FROM: a stream, a query of WITH, a subquery, or joins in parentheses."""
        return replace(self._table(node), outer=self.context.outer)

    def _table(self, node: exp.Expr) -> PlannedRelation:
        if isinstance(node, exp.Lateral):
            refuse("LATERAL and APPLY are not supported", node)
        if isinstance(node, exp.Subquery):
            inner, alias, joins, window, order = take(node, "this", "alias", "joins", WINDOW, ORDER_OF)
            within = self._without_windows() if window else self
            relation = within.table(inner) if _is_table(inner) else self._plan(inner, within.context)
            relation = self._windowed(relation, window)
            if alias is not None:
                name, columns = take(alias, "this", "columns")
                relation = relabel(relation, name.name if name else None, tuple(columns or ()))
            if order is not None:
                relation = punctuate_relation(relation, order)
            return self._chain(relation, joins or ())
        if isinstance(node, exp.Unnest):
            refuse("UNNEST must follow the stream with the array: FROM orders CROSS JOIN UNNEST(line)", node)
        if isinstance(node, exp.Values):
            alias, joins = take(node, "alias", "joins", unread=("expressions",))
            name, columns = take(alias, "this", "columns") if alias else (None, None)
            stream, nulls = constant_stream(node)
            relation = with_nulls(_scan(stream, name.name if name else "values", node), nulls)
            relation = relabel(relation, name.name if name else None, tuple(columns or ()))
            return self._chain(relation, joins or ())
        if not isinstance(node, exp.Table):
            refuse("FROM reads a stream, a query of WITH, or a subquery", node)
        words = [part.name for part in node.parts] if isinstance(node.this, exp.Identifier) else []
        if "xml" in words[1:]:
            refuse(f"the name of a file stands in quotes: FROM {string_literal('.'.join(words))}", node)
        table, alias, joins, window, order = take(node, "this", "alias", "joins", WINDOW, ORDER_OF)
        label, columns = take(alias, "this", "columns") if alias else (None, None)
        shown = label.name if label else None
        named: tuple[PlannedRelation, str | None]
        if isinstance(table, exp.Anonymous) and table.name.lower() == READ_XML:
            stream, name = self.context.files.read_xml(table)
            named = _scan(stream, shown or name, table), shown or name
        elif isinstance(table, WindowTable):
            named = self._window_table(table, shown)
        elif isinstance(table, exp.Identifier):
            named = self._named(table, shown)
        elif isinstance(table, StreamOf):
            named = self._plan(table, self.context), shown
        else:
            hint = did_you_mean(table.name, (READ_XML,)) if isinstance(table, exp.Anonymous) else ""
            refuse(f"FROM reads a stream, a query of WITH, or a subquery{hint}", node)
        relation, name = named
        relation = relabel(self._windowed(relation, window), name, tuple(columns or ()))
        if order is not None:
            if (
                not isinstance(relation.node, Scan)
                or relation.node.stream.name not in self.context.files.streams
            ):
                refuse(MISPLACED, order)
            relation = punctuate_relation(relation, order)
        return self._chain(relation, joins or ())

    def _windowed(self, relation: PlannedRelation, window: exp.Expr | None) -> PlannedRelation:
        if window is None and self.context.unbounded and has_timestamp(relation.node):
            window = WindowSpec(kind="RANGE")
        return relation if window is None else windowed(relation, window, self.context.instants)

    def _without_windows(self) -> FromClause:
        """Plans items of FROM whose streams have no window of their own."""
        return FromClause(replace(self.context, unbounded=False), self._plan, self._correlated, self._values)

    def _window_table(self, table: WindowTable, label: str | None) -> tuple[PlannedRelation, str | None]:
        """The relation of a window table function, and its table name: that of its input."""
        relation = with_windows(table, self._without_windows().table(table.this))
        return relation, label or next(iter(relation.tables), None)

    def _named(self, table: exp.Expr, label: str | None) -> tuple[PlannedRelation, str]:
        """The relation of a stream or a query of WITH, and its table name."""
        for names in (self.context.named, self.context.streams):
            declared = names.meant(table)
            if len(declared) > 1:
                refuse(f"{table.name} is ambiguous: {', '.join(declared)}", table)
            if declared:
                shown = label or declared[0]
                if names is self.context.streams:
                    stream = self.context.streams[declared[0]]
                    scanned = _scan(stream, shown, table)
                    if stream.relation:
                        scanned = declared_relation(stream, scanned, self.context.instants)
                    return scanned, shown
                named = self.context.named[declared[0]]
                relation = self._plan(named.query, named.context)
                return relabel(relation, declared[0], named.columns), shown
        if isinstance(table, exp.Identifier) and (file := self.context.files.named(table)) is not None:
            stream, name = file
            return _scan(stream, label or name, table), label or name
        if table.name in self.context.sinks:
            refuse(
                f"{table.name} is a sink, which no query can read: write a CREATE VIEW, which several queries can read",
                table,
            )
        names_in_scope = [*self.context.named, *self.context.streams]
        hint = did_you_mean(table.name, names_in_scope)
        return refuse(f"no stream {table.name}: there are {', '.join(names_in_scope) or 'none'}{hint}", table)

    def _chain(self, left: PlannedRelation, joins: Sequence[exp.Expr]) -> PlannedRelation:
        for join in joins:
            left = self._join(left, join)
        return left

    def _join(self, left: PlannedRelation, join: exp.Expr) -> PlannedRelation:
        if isinstance(join.this, exp.Unnest):
            return unnested(left, join, left.outer or self.context.outer)
        if join.meta.get("comma"):
            right = only(join, "this")
            left, relation = self._align([left, self._rename([left], self.table(right), right)])
            check_alike([(left, right), (relation, right)])
            return joined(left, relation, "inner")
        right, on, using, side, kind, method = take(
            join, "this", "on", "using", "side", "kind", "method", unread=("pivots",)
        )
        if isinstance(right, exp.Lateral):
            refuse("LATERAL and APPLY are not supported", join)
        if method:
            refuse(f"{method} JOIN is not supported: write ON or USING", join)
        join_kind = _KINDS.get((side or "", kind or ""))
        if join_kind is None:
            words = " ".join(filter(None, (side, kind))).removesuffix("_JOIN")
            refuse(f"{words} JOIN is not supported", join)
        left, relation = self._align([left, self._rename([left], self.table(right), right)])
        check_alike([(left, _origin(left, join)), (relation, right)])
        if kind == "CROSS":
            if on or using:
                refuse("CROSS JOIN has no condition", join)
            return joined(left, relation, "inner")
        if using:
            return join_using(left, relation, join_kind, using)
        if on is None:
            refuse("a JOIN needs ON or USING; without a condition it is a CROSS JOIN", join)
        return join_on(left, relation, join_kind, conditions(on), self._values)

    def _align(self, relations: list[PlannedRelation]) -> list[PlannedRelation]:
        """The same list; if some of them are changing relations, VALUES becomes a constant relation."""
        if not any(is_changing(r.node) for r in relations):
            return relations
        return [constant_relation(r, self.context.instants) if is_constant(r.node) else r for r in relations]

    def _rename(
        self, tables: Sequence[PlannedRelation], relation: PlannedRelation, node: exp.Expr
    ) -> PlannedRelation:
        """A further table, with column names that differ from those of the other tables."""
        for other in tables:
            double = set(other.tables) & set(relation.tables)
            if double:
                refuse(f"two tables have the name {min(double)}: give one an alias", node)
        names = (name for other in tables for name in other.node.schema.names)
        return relation.apart([*names, *self._around])


_KINDS = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi",
    ("LEFT", "SEMI"): "semi",
    ("", "ANTI"): "anti",
    ("LEFT", "ANTI"): "anti",
}
"""Join kinds by the words before JOIN."""


def _origin(relation: PlannedRelation, otherwise: exp.Expr) -> exp.Expr:
    """The syntax of a relation's first table."""
    return relation.fields[0].origin if relation.fields else otherwise


def _is_table(node: exp.Expr) -> bool:
    """True if parentheses contain an item of FROM, not a query."""
    if isinstance(node, exp.Subquery):
        return any(node.args.get(name) for name in ("alias", "joins", ORDER_OF)) or _is_table(node.this)
    return isinstance(node, exp.Table)


def _crossed(group: list[exp.Expr]) -> list[list[exp.Expr]]:
    """Split a chain of only CROSS JOINs, which are equivalent to commas, into separate tables."""
    first, *joins = group
    plain = not any(isinstance(j.this, exp.Unnest) for j in joins)
    plain = plain and all({k for k, v in j.args.items() if v} == {"this", "kind"} for j in joins)
    if plain and all(j.args["kind"] == "CROSS" for j in joins):
        return [[first], *([j.this] for j in joins)]
    return [group]


def _pooled(
    relations: list[PlannedRelation], where: list[exp.Expr], correlated: bool
) -> tuple[PlannedRelation, list[exp.Expr]]:
    """Join tables that commas separate, by equalities of WHERE between two of them."""
    if len(relations) == 1:
        return relations[0], where
    all_columns = relations[0]
    for relation in relations[1:]:
        all_columns = side_by_side(all_columns, relation)
    links: list[tuple[exp.Expr, set[int]]] = []
    scalars = Scalars(all_columns, "WHERE", outer=correlated)
    for node in where:
        if isinstance(node, exp.EQ) and not node.find(exp.Query) and _is_seen(node, all_columns):
            ends = [_owners(scalars.read(e), relations) for e in (node.this, node.expression)]
            if len(ends[0]) == len(ends[1]) == 1 and ends[0] != ends[1]:
                links.append((node, ends[0] | ends[1]))
    order, result = [0], relations[0]
    waiting = list(range(1, len(relations)))
    while waiting:
        reached = [i for i in waiting if any(i in two and two & set(order) for _, two in links)]
        chosen = (reached or waiting)[0]
        waiting.remove(chosen)
        new_conditions = [node for node, two in links if chosen in two and two <= {*order, chosen}]
        result = join_on(result, relations[chosen].apart(result.node.schema.names), "inner", new_conditions)
        order.append(chosen)
    # SELECT * lists the tables as FROM does
    blocks, other_fields = {}, list(result.fields)
    for i in order:
        count = len(relations[i].fields)
        blocks[i], other_fields = other_fields[:count], other_fields[count:]
    fields = tuple(field for i in sorted(blocks) for field in blocks[i])
    used = [node for node, _ in links]
    return replace(result, fields=fields), [n for n in where if not any(n is u for u in used)]


def _is_seen(condition: exp.Expr, relation: PlannedRelation) -> bool:
    """True if all columns of a condition are in scope, or in the enclosing query, and none is an alias."""
    in_scope = [r for r in (relation, relation.outer) if r is not None]
    columns = [(c.this, c.args.get("table"), c) for c in condition.find_all(exp.Column)]
    return all(any(r.sees(*c) for r in in_scope) for c in columns)


def _owners(expression: Expression, relations: Sequence[PlannedRelation]) -> set[int]:
    """Indices of the relations whose columns an expression reads."""
    names = set(expression.columns())
    return {i for i, r in enumerate(relations) if names & set(r.node.schema.names)}


def _scan(stream: Stream, label: str, origin: exp.Expr) -> PlannedRelation:
    if stream.source is None:
        refuse(
            f"stream {stream.name} has no source: WITH (source = '...') or -s {stream.name}=SOURCE", origin
        )
    columns = stream.schema.names
    names = tuple(f"{label}.{column}" for column in columns)
    fields = (
        Field(label, column, name, origin, implicit=not is_attribute(column))
        for column, name in zip(columns, names, strict=True)
    )
    node: Node = Scan(stream, columns, names)
    if (overlap := stream.overlap) is not None:
        column = overlap.column and f"{label}.{overlap.column}"
        node = DropOverlap(
            node, replace(overlap, column=column, key=tuple(f"{label}.{k}" for k in overlap.key))
        )
    if stream.keys:
        node = Key(node, tuple(tuple(f"{label}.{name}" for name in key) for key in stream.keys))
    if stream.order is not None:
        sender_column = stream.order.sender_column and f"{label}.{stream.order.sender_column}"
        order = replace(
            stream.order, attribute=f"{label}.{stream.order.attribute}", sender_column=sender_column
        )
        node = Punctuate(node, order)
    return PlannedRelation(node, tuple(fields))


def relabel(relation: PlannedRelation, table: str | None, columns: tuple[exp.Expr, ...]) -> PlannedRelation:
    """The relation under an alias, optionally with new column names."""
    fields = [replace(field, table=table) for field in relation.listed()]
    if columns:
        if len(columns) != len(fields):
            refuse(f"{len(columns)} names for {len(fields)} columns", columns[0])
        fields = [replace(f, name=c.name, origin=c) for f, c in zip(fields, columns, strict=True)]
    implicit = [replace(field, table=table) for field in relation.fields if field.implicit]
    return replace(relation, fields=(*fields, *implicit))

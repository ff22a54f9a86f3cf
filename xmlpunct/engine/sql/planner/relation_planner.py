"""Relations in SQL: windows over streams, declared relations, joins of relations, ISTREAM, DSTREAM, RSTREAM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

from sqlglot import exp

from xmlpunct.engine.plan import (
    Again,
    Declared,
    EquiKeys,
    Join,
    Key,
    Lasting,
    Merge,
    Node,
    Pointwise,
    Project,
    Punctuate,
    RowsWindow,
    Scan,
    Select,
    Stream,
    ToStream,
    Unnest,
    Window,
    attributes,
    instants_of,
    is_changing,
    node_column,
    plain,
    timestamp_name,
    timing,
)
from xmlpunct.engine.sql.planner.scope import Field, Names, Namespace, PlannedRelation, Unused
from xmlpunct.engine.sql.planner.window_lengths import LONGEST, length_of, origin_of
from xmlpunct.engine.sql.syntax.arguments import take
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Absent, Expression, Literal, NullIf
from xmlpunct.expressions.functions.conditions import IS_NULL, NOT
from xmlpunct.operators.join.join_keys import LEFT, RIGHT
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.schema.sql_errors import at, check_comparable, refuse
from xmlpunct.types import INT, TIMESTAMP, Type

NO_WINDOW = (
    "is a stream without a window, but the query has windows or relations: write [NOW], [RANGE n] or "
    "[RANGE UNBOUNDED] after it"
)

NO_ORDER = "a relation has no order: ORDER BY and LIMIT make no sense here"

NO_STREAMS: Mapping[str, exp.Expr] = {}

# Instants


def streams_read(
    queries: Iterable[exp.Expr], streams: Namespace[Stream], before: Mapping[str, exp.Expr] = NO_STREAMS
) -> dict[str, exp.Expr]:
    """The streams read ``before`` and by these queries, each with the node that names it first."""
    read = dict(before)
    for query in queries:
        has_with = query.find(exp.With) is not None
        for table in query.find_all(exp.Table):
            name = table.this
            if isinstance(name, exp.Identifier) and not (has_with and _is_named(table)):
                for stream in streams.meant(name):
                    read.setdefault(stream, name)
    return read


def instants_read(read: Mapping[str, exp.Expr], streams: Mapping[str, Stream]) -> Instants:
    """The instants T of `streams_read`: the type of all timestamps, with bounds that all inputs declare."""
    timed = {name: stamp for name in read if (stamp := _attribute(streams[name])) is not None}
    types = {name: attribute.type for name, attribute in timed.items()}
    for name, type_ in types.items():
        if type_ != (first := next(iter(types.values()))):
            other = next(iter(types))
            refuse(
                f"the timestamps of a query must have one type: that of {other} is {first}, that of {name} {type_}",
                read[name],
            )
    type_ = next(iter(types.values()), INT)
    ends = [_ends(attribute) for attribute in timed.values()]
    least, greatest = (values.pop() if len(values := {e[i] for e in ends}) == 1 else None for i in (0, 1))
    return Instants(type_, least, greatest)


def _attribute(stream: Stream) -> Attribute | None:
    return None if stream.timestamp is None else stream.schema[stream.timestamp]


def _is_named(table: exp.Expr) -> bool:
    """True if an item of FROM refers to a query of WITH."""
    node: exp.Expr = table
    while node.parent is not None:
        inside, node = node, node.parent
        queries = (
            [] if inside is node.args.get("with_") else getattr(node.args.get("with_"), "expressions", [])
        )
        if isinstance(node, exp.With):
            queries = node.expressions[: next(i for i, q in enumerate(node.expressions) if q is inside)]
        if Names([query.alias for query in queries]).indices(table.this):
            return True
    return False


def _ends(timestamp: Attribute) -> tuple[int | None, int | None]:
    """The smallest and largest declared instant; None for the limits of the type."""
    type_, (low, high) = timestamp.type, timestamp.ends
    is_low, is_high = low > type_.ordinal(type_.lowest), high < type_.ordinal(type_.highest)
    return low if is_low else None, high if is_high else None


# Streams to relations


def declared_relation(stream: Stream, relation: PlannedRelation, instants: Instants) -> PlannedRelation:
    """The relation of CREATE RELATION, from the stream of its tuples or changes."""
    columns = {f.name: f.column for f in relation.fields}
    time = {name: columns.get(name or "") for name in (stream.timestamp, stream.change)}
    node = Declared(
        relation.node, instants, time[stream.timestamp], time[stream.change], stream.timestamp or "at"
    )
    return _over_node(relation, node)


def constant_relation(relation: PlannedRelation, instants: Instants) -> PlannedRelation:
    """A constant relation with the tuples of a stream."""
    return replace(relation, node=Declared(relation.node, instants, None, None, "at"))


def windowed(relation: PlannedRelation, window: exp.Expr, instants: Instants) -> PlannedRelation:
    """The relation of a window over a stream."""
    kind, size, slide, start, partition = take(window, "kind", "size", "slide", "origin", "by")
    if is_changing(relation.node):
        refuse("a window needs a stream, and this is a relation: leave the window out", window)
    stamp = _timestamp(relation, window)
    shown = next(f.name for f in relation.fields if f.column == stamp)
    if all(f.column == stamp for f in relation.listed()):
        refuse(
            f"no column is left: the timestamp is not a column of the relation. Copy it first, in (SELECT "
            f"{shown} AS t0, {shown} FROM ...)",
            window,
        )
    type_ = instants.type
    if kind == "ROWS":
        with at(size):
            count = length_of(INT, size, "the number of rows of a window")
        names = []
        for item in partition or ():
            field = (
                relation.find(item.this, item.args.get("table"), item)
                if isinstance(item, exp.Column)
                else None
            )
            if field is None or field.column == stamp:
                refuse(f"PARTITION BY takes columns of the stream before it: there is no {item.sql()}", item)
            check_comparable(relation.column(field).type, "PARTITION BY", item)
            names.append(field.column)
        node: Node = RowsWindow(relation.node, stamp, instants, shown, count, tuple(dict.fromkeys(names)))
        return _over_node(relation, node)
    length: int | None = 0
    if kind == "RANGE":
        length = None
        if size is not None:
            with at(size):
                length = length_of(type_, size, "the length of a window", 0, inf)
    every, first = None, 0
    if slide is not None:
        every, first = _slide(type_, slide, start, "the slide of a window", inf)
    return _over_node(relation, Window(relation.node, stamp, instants, shown, length, every, first))


def _slide(
    type_: Type, slide: exp.Expr, start: exp.Expr | None, description: str, maximum: float = LONGEST
) -> tuple[int, int]:
    """The length of a slide in instants, and its origin."""
    with at(slide):
        every = length_of(type_, slide, description, most=maximum)
    with at(start or slide):
        return every, origin_of(type_, start)


def _over_node(relation: PlannedRelation, node: Node) -> PlannedRelation:
    """The relation over a new node, with the fields whose columns the node has."""
    return replace(relation, node=node, fields=tuple(f for f in relation.fields if f.column in node.schema))


def _timestamp(relation: PlannedRelation, window: exp.Expr) -> str:
    """The timestamp column of a stream."""
    candidates = _timestamps(relation.node)
    shown = {f.column: f.name for f in relation.fields}
    visible = {column: name for column, name in candidates.items() if column in shown}
    same_name = [column for column, name in visible.items() if shown[column] == name]
    chosen = same_name if len(visible) > 1 else list(visible)
    if len(chosen) == 1:
        return chosen[0]
    if visible:
        copies = ", ".join(shown[column] for column in visible)
        refuse(f"the timestamp is ambiguous: {copies}. Keep its name for one of them", window)
    below = next((f for node in relation.node.inputs if (f := _timestamps(node))), candidates)
    if below and isinstance(relation.node, Project):
        name = next(iter(below.values()))
        refuse(f"a window needs the timestamp: the query before it does not select {name}", window)
    if isinstance(relation.node, Scan | Key | Punctuate):
        name = next(relation.node.find(Scan)).stream.declared
        refuse(f"a window needs a timestamp: CREATE STREAM {name} (...) WITH (timestamp = '...')", window)
    return refuse(
        "a window needs a stream with a timestamp: a declared stream, ISTREAM, DSTREAM or RSTREAM of a query, or a "
        "query that selects the timestamp of one of these tuple by tuple",
        window,
    )


def has_timestamp(node: Node) -> bool:
    """True for a stream with one timestamp column, over which a window is possible."""
    return not is_changing(node) and len(_timestamps(node)) == 1


def _timestamps(node: Node) -> dict[str, str]:
    """The copies of a stream's timestamp, each with the original name of the timestamp."""
    if isinstance(node, Scan):
        stamp = node.stream.timestamp
        return {
            n: stamp
            for c, n in zip(node.columns, node.names, strict=True)
            if stamp is not None and c == stamp
        }
    if isinstance(node, ToStream):
        return {node.timestamp: node.timestamp}
    if not isinstance(node, Select | Project | Unnest | Key | Punctuate | Merge):
        return {}
    below = [_timestamps(side) for side in node.inputs]
    copies: dict[str, str] = {}
    for name in node.schema.names:
        carried = [below[port].get(source) for port, source in node.carries(name)]
        if len(carried) == len(below) and carried[0] is not None and None not in carried:
            copies[name] = carried[0]
    return copies


# Relations to streams


def to_stream(node: exp.Expr, kind: str, relation: PlannedRelation, instants: Instants) -> PlannedRelation:
    """ISTREAM, DSTREAM or RSTREAM of a relation: its columns, and the timestamp."""
    every, start = node.args.get("every"), node.args.get("origin")
    if not is_changing(relation.node):
        refuse(
            f"{kind} needs a relation, and this is a stream: write [NOW], [RANGE n] or [RANGE UNBOUNDED] after the "
            "stream in FROM",
            _table(relation, node),
        )
    scans = [*relation.node.find(Scan)]
    if scans and all(scan.stream.relation and scan.stream.timestamp is None for scan in scans):
        refuse(
            f"{kind} needs instants, and this relation is constant: leave out {kind}, or join it with a window of a "
            "stream",
            _table(relation, node),
        )
    lasting, type_ = relation.node.lasting, instants.type
    if kind == "RSTREAM" and every is None and type_ is TIMESTAMP and lasting is not Lasting.AN_INSTANT:
        refuse(
            "RSTREAM without EVERY would emit the whole relation again each microsecond: write RSTREAM(... EVERY "
            "INTERVAL '1' MINUTE), or [NOW] on a side of a join",
            node,
        )
    step, first = (None, 0) if every is None else _slide(type_, every, start, "EVERY")
    name = timestamp_name(relation.node)
    _refuse_double(relation, [name], "the timestamp of its leftmost input")
    stamp = Unused(attributes(relation.node)).take(name)
    transient = lasting is not Lasting.FOR_EVER
    below = _listed(relation)
    above = ToStream(below, kind.lower(), stamp, instants, step, first, transient)
    return PlannedRelation(above, (*relation.fields, Field(None, name, stamp, node)), relation.outer)


def canonical_changes(relation: PlannedRelation, query: exp.Expr) -> PlannedRelation:
    """The output of a query whose result is a relation: its canonical changes, with null for a formal LO."""
    _refuse_double(relation, ["at", "diff"], "a relation's changes")
    instants = instants_of(relation.node)
    below = Pointwise((_listed(relation),), "changes", instants)
    instant: Expression = node_column(below, AT)
    if not instants.declared_below:
        instant = NullIf(instants.type, True, AT, instants.type.at(instants.lo))
    columns = (
        *((f.name, node_column(below, f.column)) for f in relation.fields),
        *(("at", instant), ("diff", node_column(below, DIFF))),
    )
    added = (Field(None, shown, shown, query) for shown in ("at", "diff"))
    return PlannedRelation(
        Project(below, columns), (*(replace(f, column=f.name) for f in relation.fields), *added)
    )


def _listed(relation: PlannedRelation) -> Node:
    """The node with only the columns that the query lists."""
    names = [f.column for f in relation.fields]
    if names == attributes(relation.node):
        return relation.node
    return Project(relation.node, (*plain(relation.node, names), *timing(relation.node)))


def _refuse_double(relation: PlannedRelation, names: Iterable[str], origin: str) -> None:
    names_so_far: set[str] = set()
    for field in relation.fields:
        if field.name in names:
            refuse(
                f"two outputs have the name {field.name}, one of them from {origin}: give this an alias",
                field.origin,
            )
        if field.name in names_so_far:
            refuse(f"two output columns have the name {field.name}: give one an alias", field.origin)
        names_so_far.add(field.name)


def _table(relation: PlannedRelation, otherwise: exp.Expr) -> exp.Expr:
    """The syntax of the first table in FROM, if there is one."""
    query = otherwise.this
    from_ = query.args.get("from_") if isinstance(query, exp.Select) else None
    return from_.this if from_ is not None else otherwise


def check_alike(relations: Iterable[tuple[PlannedRelation, exp.Expr]]) -> None:
    """Refuse a mix of streams and relations."""
    pairs = list(relations)
    kinds = [is_changing(relation.node) for relation, _ in pairs]
    if any(kinds) and not all(kinds):
        relation, node = pairs[kinds.index(False)]
        refuse(f"{' and '.join(relation.tables) or 'this'} {NO_WINDOW}", node)


# Joins of relations


def joined_relations(
    left: PlannedRelation,
    right: PlannedRelation,
    kind: str,
    inputs: tuple[Node, Node],
    keys: EquiKeys,
    residual: Expression | None,
) -> PlannedRelation:
    """Join two relations at each instant; for semi and anti, the left tuples with or without a partner."""
    instants = instants_of(inputs[LEFT])
    if kind in ("semi", "anti"):
        return replace(left, node=_with_partner(inputs, keys, residual, kind, instants))
    inner = Join(*inputs, keys, "inner", residual, instants=instants)
    if kind == "inner":
        node: Node = inner
        shared = {r: le for le, r in keys}
    else:
        shared, sides = {}, [_side_by_side(inner)]
        for side in (LEFT, RIGHT):
            if kind in ("full", ("left", "right")[side]):
                pairs = keys if side == LEFT else tuple((r, le) for le, r in keys)
                single = _with_partner((inputs[side], inputs[1 - side]), pairs, residual, "anti", instants)
                sides.append(_null_supplied(Again(single), inputs, side, [right for _, right in pairs]))
        node = Merge(tuple(sides))
    fields = (*left.fields, *(replace(f, column=shared.get(f.column, f.column)) for f in right.fields))
    return PlannedRelation(node, fields, left.outer)


def _with_partner(
    inputs: tuple[Node, Node], keys: EquiKeys, residual: Expression | None, kind: str, instants: Instants
) -> Node:
    """A semijoin or antijoin; without a residual, a semijoin is a join with distinct keys."""
    left, right = inputs
    if kind == "anti" or residual is not None:
        return Join(left, right, keys, kind, residual, instants=instants)
    names = [r for _, r in keys]
    constant_name = Unused([*left.schema.names, *right.schema.names]).take("(some)")
    columns = plain(right, names) or ((constant_name, fn.literal(INT, 1)),)
    once = Pointwise((Project(right, (*columns, *timing(right))),), "distinct", instants)
    join = Join(left, once, keys, instants=instants)
    return join if names else Project(join, (*plain(join, attributes(left)), *timing(join)))


def _side_by_side(join: Join) -> Node:
    """The pairs of an inner join, with all columns of both sides."""
    copied = {right: left for left, right in join.keys}
    names = [*attributes(join.left), *attributes(join.right)]
    return Project(join, (*((n, node_column(join, copied.get(n, n))) for n in names), *timing(join)))


def _null_supplied(without_partner: Node, inputs: tuple[Node, Node], side: int, keys: Sequence[str]) -> Node:
    """The tuples of one side, null-filled for the other side, whose ``keys`` are never null in a pair."""
    columns: list[tuple[str, Expression]] = []
    other = inputs[1 - side]
    names = attributes(other)
    absent_names = keys or [name for name in names if not other.schema[name].nullable][:1] or names
    for side_index, node in enumerate(inputs):
        for name in attributes(node):
            null = (Absent if name in absent_names else Literal)(node.schema[name].type, True, None)
            columns.append((name, node_column(without_partner, name) if side_index == side else null))
    return Project(without_partner, (*columns, *timing(without_partner)))


def not_in(
    relation: PlannedRelation, inputs: tuple[Node, Node], pair: tuple[str, str], keys: EquiKeys
) -> PlannedRelation:
    """The left tuples whose x is NOT IN the y of right tuples that agree on ``keys``, with nulls.

    For a null x there must be no such right tuple; otherwise none with a null y, and none with y = x.
    """
    left, right = inputs
    instants = instants_of(left)
    x, y = node_column(left, pair[LEFT]), node_column(right, pair[RIGHT])

    def anti(a: Node, b: Node, on: EquiKeys, residual: Expression | None = None) -> Node:
        return Join(a, b, on, "anti", residual, instants=instants)

    is_key = any(pair[side] in (key[side] for key in keys) for side in (LEFT, RIGHT))
    nulls = anti(Select(left, IS_NULL(x)), right, keys)
    non_nulls = anti(Select(Again(left), NOT(IS_NULL(x))), Select(Again(right), IS_NULL(y)), keys)
    non_nulls = anti(
        non_nulls, Again(right), keys if is_key else (*keys, pair), fn.call("=", x, y) if is_key else None
    )
    return replace(relation, node=Merge((nulls, non_nulls)))

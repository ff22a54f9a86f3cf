"""OVER: calls of window functions, collected from SELECT, QUALIFY and ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import Node, Over, Project, plain
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Names, PlannedRelation, Unused
from xmlpunct.engine.sql.planner.window_lengths import TIMES, length_of
from xmlpunct.engine.sql.syntax.aggregate_syntax import AggregateParts, aggregate_parts
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.engine.sql.syntax.dialect import AggregateCall
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.operators.group.aggregate import EXTREMES
from xmlpunct.operators.time.over.calls import AGGREGATES, END, FRAMED, OFFSETS
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.change_columns import AT
from xmlpunct.schema.sql_errors import at, check_comparable, refuse
from xmlpunct.types import BOOLEAN, INT, Type
from xmlpunct.types.ordinals import is_numbered

FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.FirstValue: "FIRST_VALUE",
    exp.LastValue: "LAST_VALUE",
    exp.NthValue: "NTH_VALUE",
    exp.Lag: "LAG",
    exp.Lead: "LEAD",
    exp.RowNumber: "ROW_NUMBER",
    exp.Rank: "RANK",
    exp.DenseRank: "DENSE_RANK",
    exp.CumeDist: "CUME_DIST",
    exp.PercentRank: "PERCENT_RANK",
    exp.Ntile: "NTILE",
}
WITHOUT_ARGUMENT = ("ROW_NUMBER", "RANK", "DENSE_RANK", "CUME_DIST", "PERCENT_RANK")


@dataclass(frozen=True)
class Specification:
    """The contents of OVER (...), with column names for computed expressions.

    ``type`` is that of the first column in ORDER BY if a stream can advance along it, else None.
    """

    keys: tuple[str, ...]
    order: tuple[ops.SortKey, ...]
    type: Type | None
    frame: exp.Expr | None


class Overs:
    """The OVER calls of one query, over the relation that it reads. ``windows`` are its WINDOW clauses.

    Calls with the same specification whose results become final at the same time share a node.
    """

    def __init__(
        self, relation: PlannedRelation, windows: Sequence[exp.Expr], aliases: Aliases | None = None
    ) -> None:
        self._relation, self._scalars = relation, Scalars(relation, "OVER", aliases=aliases)
        self._windows = {only(w, "this", tuple(w.args)).name: w for w in windows}
        if len(self._windows) < len(windows):
            refuse("two windows have the same name", windows[-1])
        self._used = set[str]()
        self._names = Unused(relation.node.schema.names)
        self._inputs: dict[Expression, str] = {}
        self._calls: dict[tuple[Specification, ops.OverCall], tuple[Column, exp.Expr]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, node: exp.Expr) -> Expression:
        """The result of an OVER call: a column, or an expression over it."""
        if AT in self._relation.node.schema:
            refuse("OVER needs a stream: a relation has no order", node)
        spec = self._specification(node)
        function = only(node, "this", ("partition_by", "order", "spec", "alias", "over"))
        condition = None
        if isinstance(function, exp.Filter):
            function, where = take(function, "this", "expression")
            condition = self._scalars.condition(only(where, "this"))
        if isinstance(function, exp.RespectNulls):
            function = only(function, "this")
        parts = aggregate_parts(function) if isinstance(function, AggregateCall) else None
        call = self._call(function, parts, condition, spec)
        call_key = replace(spec, frame=None), call
        if call_key not in self._calls:
            schema = Schema.of(Attribute(n, e.type, e.nullable) for e, n in self._inputs.items())
            name = self._names.take(f"{call} OVER")
            with at(node):
                attribute = replace(call, name=name).attribute(schema)
            self._calls[call_key] = Column(attribute.type, attribute.nullable, name), node
        column = self._calls[call_key][0]
        return column if parts is None or parts.record.after is None else parts.record.after(column)

    @property
    def first(self) -> exp.Expr:
        """The first call."""
        return next(iter(self._calls.values()))[1]

    def check(self) -> None:
        """Refuse a WINDOW that no call uses, because it would not be checked otherwise."""
        for name, window in self._windows.items():
            if name not in self._used:
                refuse(f"no function is computed OVER {name}", window)

    def plan(self) -> Node:
        """The node that the query reads, with the result columns of all calls."""
        below = self._relation.node
        computed = tuple((name, e) for e, name in self._inputs.items() if name not in below.schema)
        if computed:
            below = Project(below, (*plain(below, below.schema.names), *computed))
        by_spec: dict[Specification, dict[ops.OverRelease, list[ops.OverCall]]] = {}
        for (spec, call), (column, origin) in self._calls.items():
            if call.goes_by_ties and any(isinstance(a.type, ArrayType) for a in below.schema):
                refuse(
                    "rows that differ only in an array have no order: SELECT the other columns in a subquery",
                    origin,
                )
            release = END if spec.type is None else call.release
            by_spec.setdefault(spec, {}).setdefault(release, []).append(replace(call, name=column.name))
        for spec, nodes in by_spec.items():
            if len(nodes) > 1:  # row numbers give equal rows the same order in all nodes
                row_number = ops.OverCall("ROW_NUMBER", self._names.take("ROW_NUMBER() OVER"))
                nodes = {row_number.release: [row_number, *nodes.pop(row_number.release, [])], **nodes}
            for calls in nodes.values():
                below = Over(below, spec.keys, spec.order, tuple(calls), spec.type is not None)
        return below

    def _input(self, expression: Expression) -> str:
        if expression not in self._inputs:
            name = expression.name if isinstance(expression, Column) else self._names.take(f"({expression})")
            self._inputs[expression] = name
        return self._inputs[expression]

    # OVER (...)

    def _specification(self, node: exp.Expr) -> Specification:
        partition, order, frame, alias = take(
            node, "partition_by", "order", "spec", "alias", unread=("this", "over")
        )
        visited = set[str]()
        while alias is not None:
            name = alias.name
            indices = Names(list(self._windows)).indices(alias)
            if not indices or name in visited:
                refuse(f"no window {name} here: define it by WINDOW {name} AS (...)", alias)
            visited.add(name)
            window_name, base = list(self._windows.items())[indices[0]]
            self._used.add(window_name)
            base_partition, base_order, base_frame, alias = take(
                base, "partition_by", "order", "spec", "alias", unread=("this", "over")
            )
            partition, order, frame = partition or base_partition, order or base_order, frame or base_frame
        keys = [self._compared(item, "PARTITION BY") for item in partition or ()]
        items = only(order, "expressions") if order is not None else []
        sort_keys = [self._sort_key(item) for item in items]
        type_ = None
        if sort_keys:
            key, expression = sort_keys[0]
            if is_numbered(expression.type) and not (expression.nullable or key.descending):
                type_ = expression.type
        by_column: dict[str, ops.SortKey] = {}
        for key, _ in sort_keys:
            by_column.setdefault(key.column, key)
        return Specification(tuple(dict.fromkeys(keys)), tuple(by_column.values()), type_, frame)

    def _compared(self, item: exp.Expr, clause: str) -> str:
        expression = self._scalars.read(item)
        check_comparable(expression.type, clause, item)
        return self._input(expression)

    def _sort_key(self, item: exp.Expr) -> tuple[ops.SortKey, Expression]:
        """An item of ORDER BY, and its expression."""
        node, desc, nulls_first = take(item, "this", "desc", "nulls_first")
        if isinstance(node, exp.Literal):
            refuse(f"ORDER BY {node.sql()} inside OVER is a constant: name a column to sort by", node)
        name = self._compared(node, "ORDER BY")
        return ops.SortKey(name, bool(desc), bool(nulls_first)), self._scalars.read(node)

    def _frame(self, spec: Specification) -> ops.OverFrame:
        """ROWS or RANGE BETWEEN start AND end."""
        node = spec.frame
        if node is None:
            return ops.OverFrame()
        kind, start, start_side, end, end_side, exclude = take(
            node, "kind", "start", "start_side", "end", "end_side", "exclude"
        )
        unit = str(kind).upper()
        if unit not in ("ROWS", "RANGE"):
            refuse(f"a frame must have ROWS or RANGE, not {unit}", node)
        if exclude is not None and str(exclude.name).upper() != "NO OTHERS":
            refuse("EXCLUDE is not supported", node)
        low = self._bound(start, start_side, unit, spec, node)
        high = 0 if end is None else self._bound(end, end_side, unit, spec, node)
        if (low is None and str(start_side).upper() == "FOLLOWING") or (
            high is None and str(end_side).upper() == "PRECEDING"
        ):
            refuse("UNBOUNDED PRECEDING can only begin a frame, and UNBOUNDED FOLLOWING only end it", node)
        if low is not None and high is not None and low > high:
            refuse("the frame ends before it begins", node)
        return ops.OverFrame(unit, low, high)

    def _bound(
        self, bound: exp.Expr | str, side: str | None, unit: str, spec: Specification, frame: exp.Expr
    ) -> int | None:
        """A frame bound as an offset from the current row; None: UNBOUNDED."""
        if isinstance(bound, str):
            return None if bound.upper() == "UNBOUNDED" else 0
        if unit == "RANGE" and len(spec.order) > 1:
            refuse("RANGE with an offset needs a single column in ORDER BY", bound)
        type_ = INT if unit == "ROWS" else spec.type
        if type_ not in TIMES:
            refuse(
                "RANGE with an offset needs ORDER BY an INT, DATE or TIMESTAMP that is NOT NULL, ascending",
                bound,
            )
        with at(bound):
            offset = length_of(type_, bound, f"an offset of {unit}", 0)
        return -offset if str(side).upper() == "PRECEDING" else offset

    # Functions

    def _call(
        self,
        node: exp.Expr,
        parts: AggregateParts | None,
        condition: Expression | None,
        spec: Specification,
    ) -> ops.OverCall:
        """A call with FILTER's ``condition``; ``parts`` are those of an `AggregateCall`."""
        if isinstance(node, exp.IgnoreNulls):
            refuse("IGNORE NULLS is not supported", node)
        function = FUNCTIONS.get(type(node))
        if parts is not None:
            function = parts.record.stands_for or parts.record.name
            if function not in AGGREGATES:
                refuse(
                    f"{parts.record.name} with OVER is not supported: GROUP BY TUMBLE, HOP or SESSION", node
                )
            if parts.distinct and function not in EXTREMES:
                refuse("DISTINCT is not supported with OVER", node)
        if function is None:
            *all_but_last, last = FUNCTIONS.values()
            refuse(f"functions with OVER: {', '.join(all_but_last)} and {last}", node)
        if condition is not None and function not in AGGREGATES:
            refuse("FILTER needs an aggregate", node)
        frame = self._frame(spec) if function in FRAMED else ops.OverFrame()
        if function in WITHOUT_ARGUMENT:
            take(node, unread=("expressions",) if not node.expressions else ())
            return ops.OverCall(function, "")
        operand, count, default = None, None, None
        if parts is not None:
            (operand,) = parts.operands
        else:
            operand, count, default = take(node, "this", "offset", "default", unread=("big_int",))
        if function == "NTILE":
            return ops.OverCall(function, "", count=_number(operand, node, 1))
        if operand is None:
            refuse(f"{function} needs an argument", node)
        if isinstance(operand, exp.Distinct):
            operands = only(operand, "expressions")
            if function not in ("MIN", "MAX") or len(operands) != 1:
                refuse("DISTINCT is not supported with OVER", operand)
            (operand,) = operands
        if isinstance(operand, exp.Star):
            take(operand)
            if function != "COUNT":
                refuse(f"{function}(*) makes no sense", node)
            if condition is None:
                return ops.OverCall(function, "", frame=frame)
            expression: Expression = fn.literal(BOOLEAN, True)
        else:
            expression = self._scalars.read(operand)
            if parts is not None:
                with at(node):
                    expression = parts.record.before(parts.record.name, expression)
        if function in AGGREGATES and function != "COUNT":
            check_comparable(expression.type, function, node)
        if condition is not None:
            with at(node):
                expression = fn.call("CASE", condition, expression, fn.NULL)
        least = 0 if function in OFFSETS else 1
        offset_rows = 1 if count is None else _number(count, node, least)
        other = None
        if default is not None:
            with at(default):
                value = self._scalars.read(default)
                type_ = fn.common_type((expression, value))
                expression, value = fn.cast(expression, type_), fn.cast(value, type_)
            other = self._input(value)
        return ops.OverCall(function, "", self._input(expression), offset_rows, other, frame)


def _number(node: exp.Expr | None, call: exp.Expr, least: int) -> int:
    """A literal integer argument of a call."""
    if (
        isinstance(node, exp.Literal)
        and not node.is_string
        and node.name.isdigit()
        and int(node.name) >= least
    ):
        return int(node.name)
    return refuse(f"{FUNCTIONS[type(call)]} needs a whole number here, {least} or more", node or call)

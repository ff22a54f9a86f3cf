"""ORDER BY and LIMIT of the outermost query."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import Limit, Node, Project, Sort, node_column
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Names, PlannedRelation, unique
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import check_comparable, refuse


@dataclass
class Ordering:
    """ORDER BY and LIMIT of a query.

    ``key_indices``, after `resolve`, are the indices of the sort keys among the computed columns.
    """

    items: list[exp.Expr]
    limit: int | None
    key_indices: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, node: exp.Expr) -> Ordering:
        """Remove ORDER BY and LIMIT from a query's syntax, and read them."""
        order, limit, offset = (node.args.get(name) for name in ("order", "limit", "offset"))
        if offset is not None:
            refuse("OFFSET is not supported here", offset)
        if isinstance(limit, exp.Fetch):
            refuse("FETCH is not supported: write LIMIT", limit)
        node.set("order", None)
        node.set("limit", None)
        items = take(order, "expressions")[0] if order is not None else []
        return cls(items, None if limit is None else _count(limit))

    def resolve(
        self, listed: list[tuple[str, exp.Expr]], columns: list[Expression], scalars: Scalars
    ) -> list[Expression]:
        """Find each item among a query's columns; return the additional expressions to compute.

        A position or the name of an output column refers to that column. Any other item is an expression over the
        relation that the query reads.
        """
        hidden: list[Expression] = []
        names = Names([name for name, _ in listed])
        index_by_expression: dict[Expression, int] = {}
        for i, e in enumerate(columns):
            index_by_expression.setdefault(e, i)
        if len(self.items) == 1 and _is_all(self.items[0]):
            self.items *= len(columns)
            self.key_indices += range(len(columns))
            return hidden
        for item in self.items:
            index = _listed(_expression(item), names)
            if index is None:
                expression = scalars.read(_expression(item))
                index = index_by_expression.setdefault(expression, len(columns) + len(hidden))
                if index == len(columns) + len(hidden):
                    hidden.append(expression)
            self.key_indices.append(index)
        return hidden

    def over(self, relation: PlannedRelation) -> PlannedRelation:
        """A query with the columns that ORDER BY computes from its output only."""
        names = list(relation.node.schema.names)
        output_columns = [node_column(relation.node, name) for name in names]
        reader = Scalars(relation, "ORDER BY")
        hidden = self.resolve([(f.name, f.origin) for f in relation.fields], list(output_columns), reader)
        if not hidden:
            return relation
        hidden_names = unique([f"({e})" for e in hidden], names)
        columns = [*zip(names, output_columns, strict=True), *zip(hidden_names, hidden, strict=True)]
        return PlannedRelation(Project(relation.node, tuple(columns)), relation.fields)


def arranged(relation: PlannedRelation, ordering: Ordering) -> PlannedRelation:
    """A query's output, sorted and limited, without the columns that only ORDER BY needs."""
    node: Node = relation.node
    names = node.schema.names
    if ordering.items:
        keys = []
        for item, index in zip(ordering.items, ordering.key_indices, strict=True):
            _, desc, nulls_first = take(item, "this", "desc", "nulls_first")
            check_comparable(node.schema[names[index]].type, "ORDER BY", item)
            keys.append(ops.SortKey(names[index], bool(desc), bool(nulls_first)))
        node = Sort(node, tuple(keys))
    if ordering.limit is not None:
        node = Limit(node, ordering.limit)
    shown = [f.column for f in relation.fields]
    if list(names) != shown:
        node = Project(node, tuple((name, node_column(node, name)) for name in shown))
    return PlannedRelation(node, relation.fields)


def _expression(item: exp.Expr) -> exp.Expr:
    expression = take(item, "this", "desc", "nulls_first")[0]
    while isinstance(expression, exp.Paren):
        expression = only(expression, "this")
    assert isinstance(expression, exp.Expr)
    return expression


def _is_all(item: exp.Expr) -> bool:
    """True if an item is ALL, for all columns."""
    node = _expression(item)
    return isinstance(node, exp.Column) and not node.this.args.get("quoted") and node.sql().upper() == "ALL"


def _listed(node: exp.Expr, names: Names) -> int | None:
    """The index of the output column that an item of ORDER BY refers to, by position or name."""
    if isinstance(node, exp.Literal):
        if node.is_string or not node.name.isdigit() or not 1 <= int(node.name) <= len(names.names):
            refuse(f"ORDER BY {node.sql()}: positions are 1 to {len(names.names)}", node)
        return int(node.name) - 1
    if isinstance(node, exp.Column) and not node.table:
        indices = names.indices(node.this)
        return indices[0] if len(indices) == 1 else None
    return None


def _count(limit: exp.Expr) -> int:
    """The number in LIMIT."""
    (number,) = take(limit, "expression")
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        refuse("LIMIT needs a whole number", number if isinstance(number, exp.Expr) else limit)
    return int(number.name)

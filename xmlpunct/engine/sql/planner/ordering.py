"""ORDER BY and LIMIT of the outermost query."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import Limit, Node, Project, Sort, column
from xmlpunct.engine.sql.planner.scalars import Scalars
from xmlpunct.engine.sql.planner.scope import Names, Relation, unique
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import check_comparable, refuse


@dataclass
class Ordering:
    """What a query's ORDER BY and LIMIT say.

    ``places``, once resolved, are those of the sort keys among the columns that the query computes.
    """

    items: list[exp.Expr]
    limit: int | None
    places: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, node: exp.Expr) -> Ordering:
        """Take ORDER BY and LIMIT out of a query's syntax."""
        order, limit, offset = (node.args.get(name) for name in ("order", "limit", "offset"))
        if offset is not None:
            refuse("OFFSET is not supported here", offset)
        if isinstance(limit, exp.Fetch):
            refuse("FETCH is not supported: say LIMIT", limit)
        node.set("order", None)
        node.set("limit", None)
        items = take(order, "expressions")[0] if order is not None else []
        return cls(items, None if limit is None else _count(limit))

    def resolve(
        self, listed: list[tuple[str, exp.Expr]], columns: list[Expression], scalars: Scalars
    ) -> list[Expression]:
        """Find each item among a query's columns; return the further expressions that it has to compute.

        A position or the name of an output column means that column. Anything else is an expression over what the
        query reads.
        """
        hidden: list[Expression] = []
        names = Names([name for name, _ in listed])
        there: dict[Expression, int] = {}
        for i, e in enumerate(columns):
            there.setdefault(e, i)
        if len(self.items) == 1 and _is_all(self.items[0]):
            self.items *= len(columns)
            self.places += range(len(columns))
            return hidden
        for item in self.items:
            place = _listed(_expression(item), names)
            if place is None:
                expression = scalars.read(_expression(item))
                place = there.setdefault(expression, len(columns) + len(hidden))
                if place == len(columns) + len(hidden):
                    hidden.append(expression)
            self.places.append(place)
        return hidden

    def over(self, relation: Relation) -> Relation:
        """A query whose output alone ORDER BY can refer to, with the columns that it computes from it."""
        names = list(relation.node.schema.names)
        own = [column(relation.node, name) for name in names]
        reader = Scalars(relation, "ORDER BY")
        hidden = self.resolve([(f.name, f.origin) for f in relation.fields], list(own), reader)
        if not hidden:
            return relation
        more = unique([f"({e})" for e in hidden], names)
        columns = [*zip(names, own, strict=True), *zip(more, hidden, strict=True)]
        return Relation(Project(relation.node, tuple(columns)), relation.fields)


def arranged(relation: Relation, ordering: Ordering) -> Relation:
    """A query's output, sorted and limited, without the columns that only ORDER BY needs."""
    node: Node = relation.node
    names = node.schema.names
    if ordering.items:
        keys = []
        for item, place in zip(ordering.items, ordering.places, strict=True):
            _, desc, nulls_first = take(item, "this", "desc", "nulls_first")
            check_comparable(node.schema[names[place]].type, "ORDER BY", item)
            keys.append(ops.SortKey(names[place], bool(desc), bool(nulls_first)))
        node = Sort(node, tuple(keys))
    if ordering.limit is not None:
        node = Limit(node, ordering.limit)
    shown = [f.column for f in relation.fields]
    if list(names) != shown:
        node = Project(node, tuple((name, column(node, name)) for name in shown))
    return Relation(node, relation.fields)


def _expression(item: exp.Expr) -> exp.Expr:
    expression = take(item, "this", "desc", "nulls_first")[0]
    while isinstance(expression, exp.Paren):
        expression = only(expression, "this")
    assert isinstance(expression, exp.Expr)
    return expression


def _is_all(item: exp.Expr) -> bool:
    """Whether an item is ALL, which stands for all columns."""
    node = _expression(item)
    return isinstance(node, exp.Column) and not node.this.args.get("quoted") and node.sql().upper() == "ALL"


def _listed(node: exp.Expr, names: Names) -> int | None:
    """The place of the output column that an item of ORDER BY names, by position or by name."""
    if isinstance(node, exp.Literal):
        if node.is_string or not node.name.isdigit() or not 1 <= int(node.name) <= len(names.names):
            refuse(f"ORDER BY {node.sql()}: positions are 1 to {len(names.names)}", node)
        return int(node.name) - 1
    if isinstance(node, exp.Column) and not node.table:
        places = names.places(node.this)
        return places[0] if len(places) == 1 else None
    return None


def _count(limit: exp.Expr) -> int:
    """The number that LIMIT gives."""
    (number,) = take(limit, "expression")
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        refuse("LIMIT wants a whole number", number if isinstance(number, exp.Expr) else limit)
    return int(number.name)

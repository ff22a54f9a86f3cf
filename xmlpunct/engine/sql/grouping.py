"""GROUP BY: its keys and aggregates, and SELECT and HAVING rewritten over their results."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import ChangeGroupBy, GroupBy, Project, instants_of, is_changing, timing
from xmlpunct.engine.sql.aliases import Aliases
from xmlpunct.engine.sql.arguments import only, take
from xmlpunct.engine.sql.dialect import at, check_comparable, refuse
from xmlpunct.engine.sql.grouping_sets import KeySet
from xmlpunct.engine.sql.scalars import AGGREGATES, Scalars
from xmlpunct.engine.sql.scope import Relation, Unused
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Absent, Column, Expression, Literal, replaced
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import INT


class Grouping:
    """Collects what a grouped query groups by and aggregates.

    Below the group-by a project computes ``inputs``: keys and aggregates' arguments, each once. ``sets`` are the sets
    of keys to group by, each by itself; a result has nulls for the keys that its set leaves out.
    """

    def __init__(self, relation: Relation, sets: Sequence[KeySet], aliases: Aliases | None = None) -> None:
        self.relation, self.sets = relation, sets
        self.inputs: dict[Expression, str] = {}
        self.keys: dict[Expression, Column] = {}
        self.aggregates: list[ops.Aggregate] = []
        self._results: dict[tuple[str, str | None, bool, tuple[ops.SortKey, ...]], Column] = {}
        self._result_columns = set[Expression]()
        self._input_names, self._result_names = Unused(), Unused(relation.node.schema.names)
        self._arguments = Scalars(relation, "an aggregate", aliases=aliases)
        self._groupings: dict[Expression, list[Expression]] = {}
        for key in dict.fromkeys(key for keys in sets for key in keys):
            self.keys[key] = Column(key.type, key.nullable, self._input(key))

    def add_aggregate(self, node: exp.Expr) -> Column:
        """The column of results of an aggregate, or of GROUPING."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        function = AGGREGATES[type(node)]
        if function == "XMLAGG" and is_changing(self.relation.node):
            refuse("XMLAGG over a relation is not supported: it would be made anew at each instant", node)
        operand = only(node, "this", unread=("big_int",))
        items: list[exp.Expr] = []
        if function == "XMLAGG" and isinstance(operand, exp.Order):
            operand, items = take(operand, "this", "expressions")
        if operand is None:
            refuse(f"{function} wants an argument", node)
        distinct = isinstance(operand, exp.Distinct)
        if distinct:
            operands = only(operand, "expressions")
            if len(operands) != 1:
                refuse(f"{function}(DISTINCT ...) takes one argument", node)
            operand = operands[0]
        argument, label, schema = None, "*", Schema.of(())
        if isinstance(operand, exp.Star):
            take(operand)
            if distinct:
                refuse("DISTINCT * makes no sense", node)
        else:
            expression = self._arguments.read(operand)
            if function != "XMLAGG" and (distinct or function != "COUNT"):
                check_comparable(expression.type, function, node)
            argument, label = self._input(expression), str(expression)
            schema = Schema.of([Attribute(argument, expression.type, expression.nullable)])
        order = tuple(map(self._sort_key, items))
        same = (function, argument, distinct, order)
        if same not in self._results:
            sorted_by = f" ORDER BY {', '.join(map(str, order))}" if order else ""
            name = self._result_names.take(f"{function}({'DISTINCT ' * distinct}{label}{sorted_by})")
            aggregate = ops.Aggregate(function, argument, distinct, name, order)
            with at(node):
                attribute = aggregate.attribute(schema, all(self.sets))
            self.aggregates.append(aggregate)
            self._results[same] = Column(attribute.type, attribute.nullable, name)
            self._result_columns.add(self._results[same])
        return self._results[same]

    def plan(self, chosen: KeySet) -> GroupBy | ChangeGroupBy:
        """The group-by of one of its sets, over the project of its inputs."""
        below = self.relation.node
        if self.inputs:  # COUNT(*) alone needs no column, but a data frame does
            columns = ((name, e) for e, name in self.inputs.items())
            below = Project(below, (*columns, *timing(below)))
        keys = tuple(self.keys[key].name for key in chosen)
        if not (keys or self.aggregates):  # a data frame counts no rows without columns
            self.aggregates.append(ops.Aggregate("COUNT", None, False, self._result_names.take("COUNT(*)")))
        if is_changing(below):
            return ChangeGroupBy(below, keys, tuple(self.aggregates), instants_of(below))
        return GroupBy(below, keys, tuple(self.aggregates))

    def above(self, expression: Expression, places: dict[str, exp.Expr], chosen: KeySet) -> Expression:
        """An expression of SELECT or HAVING, rewritten over the output of the group-by of one of its sets.

        Refuses a column that is neither a key nor inside an aggregate.
        """

        def change(e: Expression) -> Expression | None:
            # A constant may be a function's own, such as LIKE's pattern, which must be one.
            if e in self.keys and (e is expression or not isinstance(e, Literal)):
                return self.keys[e]
            if e in self._groupings:
                bits = "".join("01"[key not in chosen] for key in self._groupings[e])
                return fn.literal(INT, int(bits, 2))
            if isinstance(e, Column) and e not in self._result_columns and e.name in places:
                refuse(f"column {e.name} is neither in GROUP BY nor inside an aggregate", places[e.name])
            return None

        if (missing := self.keys.get(expression)) is not None and expression not in chosen:
            return Absent(missing.type, True, None)
        absent = [self.keys[key] for key in self.keys if key not in chosen]
        return replaced(expression.rewrite(change), {key: Literal(key.type, True, None) for key in absent})

    def _grouping(self, node: exp.Expr) -> Column:
        """GROUPING of some keys: a bit for each, set where the result's set leaves the key out."""
        keys = [self._arguments.read(key) for key in only(node, "expressions")]
        for key, item in zip(keys, node.expressions, strict=True):
            if key not in self.keys:
                refuse(f"GROUPING goes by what GROUP BY lists, and {item.sql()} is not there", item)
        if not 1 <= len(keys) < 64:
            refuse("GROUPING goes by 1 to 63 of what GROUP BY lists", node)
        column = Column(INT, False, f"GROUPING({', '.join(map(str, keys))})")
        self._groupings[column] = keys
        return column

    def _sort_key(self, item: exp.Expr) -> ops.SortKey:
        """An item of an aggregate's ORDER BY, over what the query reads."""
        node, desc, nulls_first = take(item, "this", "desc", "nulls_first")
        if isinstance(node, exp.Literal):
            refuse(f"ORDER BY {node.sql()} inside an aggregate sorts nothing: name what to sort by", node)
        expression = self._arguments.read(node)
        check_comparable(expression.type, "ORDER BY", node)
        return ops.SortKey(self._input(expression), bool(desc), bool(nulls_first))

    def _input(self, expression: Expression) -> str:
        if expression not in self.inputs:
            name = expression.name if isinstance(expression, Column) else f"({expression})"
            self.inputs[expression] = self._input_names.take(name)
            self._result_names.reserve(self.inputs[expression])
        return self.inputs[expression]

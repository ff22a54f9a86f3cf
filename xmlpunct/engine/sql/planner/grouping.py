"""GROUP BY: collects keys and aggregates, and rewrites SELECT and HAVING over their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from xmlpunct import operators as ops
from xmlpunct.engine.plan import GroupBy, Project, instants_of, is_changing, timing
from xmlpunct.engine.sql.planner.aliases import Aliases
from xmlpunct.engine.sql.planner.grouping_sets import KeySet
from xmlpunct.engine.sql.planner.scalars import Scalars, SubqueryHandler
from xmlpunct.engine.sql.planner.scope import PlannedRelation, Unused
from xmlpunct.engine.sql.syntax.aggregate_syntax import AggregateParts, aggregate_parts
from xmlpunct.engine.sql.syntax.arguments import only, take
from xmlpunct.expressions import functions as fn
from xmlpunct.expressions.expression import Absent, Column, Expression, Literal, replaced
from xmlpunct.expressions.functions.conditions import CASE
from xmlpunct.operators.group.aggregate import FUNCTIONS
from xmlpunct.operators.group.collecting_aggregates import has_between, quantile
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.schema.sql_errors import at, check_comparable, refuse
from xmlpunct.types import BOOLEAN, INT


class Grouping:
    """Collects the keys and aggregates of a grouped query.

    A project below the group-by computes ``inputs``: keys and aggregate arguments, each once. ``sets`` are the grouping
    sets, with one group-by each; keys outside of its set are null. ``subquery`` reads a scalar subquery in an argument;
    its columns are added to the ``relation`` before `plan`.
    """

    def __init__(
        self,
        relation: PlannedRelation,
        sets: Sequence[KeySet],
        aliases: Aliases | None = None,
        subquery: SubqueryHandler | None = None,
    ) -> None:
        self.relation, self.sets = relation, sets
        self.inputs: dict[Expression, str] = {}
        self.keys: dict[Expression, Column] = {}
        self.aggregates: list[ops.Aggregate] = []
        self._results: dict[ops.Aggregate, Column] = {}  # keys are aggregates without a name
        self._result_columns = set[Expression]()
        self._input_names, self._result_names = Unused(), Unused(relation.node.schema.names)
        self._arguments = Scalars(relation, "an aggregate", aliases=aliases, subquery=subquery)
        self._groupings: dict[Expression, list[Expression]] = {}
        for key in dict.fromkeys(key for keys in sets for key in keys):
            self.keys[key] = Column(key.type, key.nullable, self._input(key))

    def add_aggregate(self, node: exp.Expr) -> Expression:
        """The result of an aggregate or of GROUPING: a column, or an expression over it."""
        if isinstance(node, exp.Grouping | exp.GroupingId):
            return self._grouping(node)
        parts = aggregate_parts(node)
        record, function = parts.record, parts.record.stands_for or parts.record.name
        target = FUNCTIONS[function]
        if is_changing(self.relation.node) and function != "XMLAGG" and not target.can_retract:
            refuse(
                f"{record.name} over a relation is not supported: GROUP BY TUMBLE, HOP or SESSION of its stream",
                node,
            )
        if function == "XMLAGG" and is_changing(self.relation.node):
            refuse(
                "XMLAGG over a relation is not supported: it would be computed again at each instant", node
            )
        operand, distinct = parts.operands[0], parts.distinct
        condition = None if parts.condition is None else self._arguments.condition(parts.condition)
        expression: Expression | None = None
        if isinstance(operand, exp.Star):
            take(operand)
            if distinct:
                refuse("DISTINCT * makes no sense", node)
            if condition is not None and function == "COUNT":
                expression = fn.literal(BOOLEAN, True)
        else:
            with at(node):
                expression = record.before(record.name, self._arguments.read(operand))
            if function != "XMLAGG" and (distinct or function != "COUNT"):
                check_comparable(expression.type, record.name, node)
            if record.name == "MEDIAN" and not has_between(expression.type):
                function, target = "QUANTILE_DISC", FUNCTIONS["QUANTILE_DISC"]
        where = None
        if condition is not None and expression is not None:
            if target.gathers:
                where = self._input(condition)
            else:
                with at(node):
                    expression = CASE(condition, expression, fn.NULL)
        order = tuple(map(self._sort_key, parts.items))
        argument = None if expression is None else self._input(expression)
        if distinct and any(key.column != argument for key in order):
            refuse(f"ORDER BY in {record.name}(DISTINCT ...) must be its argument", parts.items[0])
        parameter = self._parameter(parts)
        if target.best:
            ordering = self._arguments.read(parts.operands[1])
            check_comparable(ordering.type, record.name, node)
            order = (ops.SortKey(self._input(ordering), function == "ARG_MAX"),)
        aggregate = ops.Aggregate(function, argument, distinct, "", order, parameter, where)
        if aggregate not in self._results:
            label = "*" if expression is None else str(expression)
            sorted_by = f" ORDER BY {', '.join(map(str, order))}" if order else ""
            only_where = f" WHERE {condition}" if where else ""
            parameter_text = f", {parameter!r}" if parameter else ""
            name = f"{function}({'DISTINCT ' * distinct}{label}{parameter_text}{sorted_by}{only_where})"
            aggregate, unnamed = replace(aggregate, name=self._result_names.take(name)), aggregate
            schema = Schema.of(Attribute(n, e.type, e.nullable) for e, n in self.inputs.items())
            with at(node):
                attribute = aggregate.attribute(schema, all(self.sets))
            self.aggregates.append(aggregate)
            self._results[unnamed] = Column(attribute.type, attribute.nullable, aggregate.name)
            self._result_columns.add(self._results[unnamed])
            aggregate = unnamed
        result = self._results[aggregate]
        return result if record.after is None else record.after(result)

    def _parameter(self, parts: AggregateParts) -> str:
        """The separator of STRING_AGG, or the fraction of a quantile."""
        name, operands = parts.record.name, parts.operands
        if name == "MEDIAN":
            return "0.5"
        if name == "STRING_AGG":
            if len(operands) == 1:
                return ","
            if not isinstance(operands[1], exp.Literal) or not operands[1].is_string:
                refuse("the separator of STRING_AGG must be a literal: STRING_AGG(x, ', ')", operands[1])
            return operands[1].name
        if name in ("QUANTILE_CONT", "QUANTILE_DISC"):
            if not isinstance(operands[1], exp.Literal):
                refuse(f"{name} needs a literal from 0 to 1: {name}(x, 0.9)", operands[1])
            with at(operands[1]):
                return quantile(operands[1].name)
        return ""

    def plan(self, chosen: KeySet) -> GroupBy:
        """The group-by of one grouping set, over the project of inputs."""
        below = self.relation.node
        if self.inputs:  # COUNT(*) alone needs no column, but a data frame does
            columns = ((name, e) for e, name in self.inputs.items())
            below = Project(below, (*columns, *timing(below)))
        keys = tuple(self.keys[key].name for key in chosen)
        if not (keys or self.aggregates):  # a data frame counts no rows without columns
            self.aggregates.append(ops.Aggregate("COUNT", None, False, self._result_names.take("COUNT(*)")))
        instants = instants_of(below) if is_changing(below) else None
        return GroupBy(below, keys, tuple(self.aggregates), instants=instants)

    def above(self, expression: Expression, origins: Mapping[str, exp.Expr], chosen: KeySet) -> Expression:
        """Rewrite an expression of SELECT or HAVING over the output of the group-by of one grouping set.

        Refuses a column that is neither a key nor inside an aggregate. ``origins`` has the syntax of columns.
        """

        def change(e: Expression) -> Expression | None:
            # Literals inside functions stay literals, because some arguments, such as LIKE's pattern, must be constant.
            if e in self.keys and (e is expression or not isinstance(e, Literal)):
                return self.keys[e]
            if e in self._groupings:
                bits = "".join("01"[key not in chosen] for key in self._groupings[e])
                return fn.literal(INT, int(bits, 2))
            if isinstance(e, Column) and e not in self._result_columns and e.name in origins:
                refuse(f"column {e.name} is neither in GROUP BY nor inside an aggregate", origins[e.name])
            return None

        if (missing := self.keys.get(expression)) is not None and expression not in chosen:
            return Absent(missing.type, True, None)
        absent = [self.keys[key] for key in self.keys if key not in chosen]
        return replaced(expression.rewrite(change), {key: Literal(key.type, True, None) for key in absent})

    def _grouping(self, node: exp.Expr) -> Column:
        """GROUPING: one bit per key, which is set if the grouping set of the result lacks the key."""
        keys = [self._arguments.read(key) for key in only(node, "expressions")]
        for key, item in zip(keys, node.expressions, strict=True):
            if key not in self.keys:
                refuse(f"GROUPING takes expressions of GROUP BY, and {item.sql()} is none of them", item)
        if not 1 <= len(keys) < 64:
            refuse("GROUPING takes 1 to 63 expressions of GROUP BY", node)
        column = Column(INT, False, f"GROUPING({', '.join(map(str, keys))})")
        self._groupings[column] = keys
        return column

    def _sort_key(self, item: exp.Expr) -> ops.SortKey:
        """The sort key of an item of an aggregate's ORDER BY."""
        node, desc, nulls_first = take(item, "this", "desc", "nulls_first")
        if isinstance(node, exp.Literal):
            refuse(f"ORDER BY {node.sql()} inside an aggregate is a constant: name a column to sort by", node)
        expression = self._arguments.read(node)
        check_comparable(expression.type, "ORDER BY", node)
        return ops.SortKey(self._input(expression), bool(desc), bool(nulls_first))

    def _input(self, expression: Expression) -> str:
        if expression not in self.inputs:
            name = expression.name if isinstance(expression, Column) else f"({expression})"
            self.inputs[expression] = self._input_names.take(name)
            self._result_names.reserve(self.inputs[expression])
        return self.inputs[expression]

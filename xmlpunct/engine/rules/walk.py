"""Helpers of rules: rewriting every node of a plan, and splitting conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps

from xmlpunct.engine.plan import Join, Node, Select, node_column
from xmlpunct.expressions.conjunctions import conjunction, conjuncts
from xmlpunct.expressions.expression import Column, Expression, NullIf
from xmlpunct.expressions.program import can_fail


def everywhere(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with ``change`` applied to every node, inputs first."""
    inputs = [everywhere(node, change) for node in root.inputs]
    return change(root.over(inputs) if list(root.inputs) != inputs else root)


def rule(change: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """A rule that applies ``change`` to every node. ``change`` returns a node unchanged if it does not match."""

    @wraps(change)
    def apply(root: Node) -> Node:
        return everywhere(root, change)

    return apply


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with its columns replaced by ``columns``."""

    def replacement(e: Expression) -> Expression | None:
        if not isinstance(e, Column):
            return None
        new = columns[e.name]
        return replace(e, name=new.name) if isinstance(e, NullIf) and isinstance(new, Column) else new

    return expression.rewrite(replacement)


def select(node: Node, parts: Sequence[Expression]) -> Node:
    """A selection with all conditions; the node itself without conditions."""
    return Select(node, conjunction(parts)) if parts else node


def movable(predicate: Expression) -> list[Expression]:
    """The conjuncts that cannot fail, which may therefore be tested earlier."""
    return [part for part in conjuncts(predicate) if not can_fail(part)]


def on_side(part: Expression, join: Join, side: int) -> Expression | None:
    """A condition on a join's pairs, rewritten to one side by replacing the other side's keys; None if not possible.

    It is not possible for a constant. It is not possible if a nullable key would replace a NOT NULL key, unless all
    columns of the condition are keys.
    """
    side_schema, other_schema = join.inputs[side].schema, join.inputs[1 - side].schema
    keys = {pair[1 - side]: pair[side] for pair in join.keys}
    names, columns = (
        set(part.columns()),
        {name: node_column(join.inputs[side], name) for name in side_schema.names},
    )
    on_keys = names <= {*keys.keys(), *keys.values()}
    for other_key, key in keys.items():
        if on_keys or other_schema[other_key].nullable or not side_schema[key].nullable:
            columns[other_key] = node_column(join.inputs[side], key)
    return substitute(part, columns) if names and names <= columns.keys() else None


def renamed(expression: Expression, node: Node, side: Node) -> Expression:
    """An expression over the output of a node with positional inputs, rewritten to the columns of one input."""
    names = zip(node.schema.names, side.schema.names, strict=True)
    return substitute(expression, {name: node_column(side, side_name) for name, side_name in names})

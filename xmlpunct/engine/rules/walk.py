"""What rules share: applying a change everywhere, and taking conditions apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce, wraps

from xmlpunct.engine.plan import Join, Node, Select, SemiJoin, column
from xmlpunct.expressions.expression import Call, Column, Expression
from xmlpunct.expressions.functions.conditions import AND
from xmlpunct.expressions.program import can_fail
from xmlpunct.types import BOOLEAN


def everywhere(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with ``change`` applied to every node, inputs first."""
    inputs = [everywhere(node, change) for node in root.inputs]
    return change(root.over(inputs) if list(root.inputs) != inputs else root)


def rule(change: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """The rule that makes a change everywhere. The change returns a node that it does not match."""

    @wraps(change)
    def apply(root: Node) -> Node:
        return everywhere(root, change)

    return apply


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with ``columns`` in place of its columns."""
    return expression.rewrite(lambda e: columns[e.name] if isinstance(e, Column) else None)


def conjuncts(predicate: Expression | None) -> list[Expression]:
    """The parts that AND joins (None: no part)."""
    if isinstance(predicate, Call) and predicate.record is AND:
        return list(predicate.operands)
    return [] if predicate is None else [predicate]


def conjunction(parts: Iterable[Expression]) -> Expression:
    """The parts, at least one, joined by AND."""
    return reduce(lambda a, b: AND.call(BOOLEAN, a, b), parts)


def select(node: Node, parts: Sequence[Expression]) -> Node:
    """The tuples of a node for which all conditions hold (none: the node itself)."""
    return Select(node, conjunction(parts)) if parts else node


def movable(predicate: Expression) -> list[Expression]:
    """The parts of a condition that may be tested earlier, so that the others still reject the same tuples.

    AND evaluates its right operand unless its left one is false.
    """
    parts = conjuncts(predicate)
    fails = [can_fail(part) for part in parts]
    return [
        part
        for i, part in enumerate(parts)
        if not any(fails[: i + 1]) and not (part.nullable and any(fails[i + 1 :]))
    ]


def on_side(part: Expression, join: Join | SemiJoin, side: int) -> Expression | None:
    """A condition on a join's pairs as one on a single side, whose keys equal the other's; None if it is not.

    A constant is not. Nor is a condition that would read a nullable key in the place of one that is NOT NULL, unless it
    is on keys alone.
    """
    mine, other = join.inputs[side].schema, join.inputs[1 - side].schema
    keys = {pair[1 - side]: pair[side] for pair in join.keys}
    names, columns = set(part.columns()), {name: column(join.inputs[side], name) for name in mine.names}
    on_keys = names <= {*keys.keys(), *keys.values()}
    for theirs, own in keys.items():
        if on_keys or other[theirs].nullable or not mine[own].nullable:
            columns[theirs] = column(join.inputs[side], own)
    return substitute(part, columns) if names and names <= columns.keys() else None


def renamed(expression: Expression, node: Node, side: Node) -> Expression:
    """An expression over the output of a node whose inputs match by position as one over an input."""
    names = zip(node.schema.names, side.schema.names, strict=True)
    return substitute(expression, {name: column(side, its) for name, its in names})

"""What rules share: how to apply them everywhere, and what can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, reduce

from xmlpunct.engine.plan import GroupBy, Node
from xmlpunct.operators import Aggregate, evaluate
from xmlpunct.operators.expression import Call, Column, Expression
from xmlpunct.types import BOOLEAN, DOUBLE


def everywhere(root: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with ``change`` applied to every node, inputs first."""
    inputs = [everywhere(node, change) for node in root.inputs]
    return change(root.over(inputs) if list(root.inputs) != inputs else root)


@lru_cache(maxsize=1024)
def can_fail(expression: Expression) -> bool:
    """Whether an expression can reject a tuple."""
    return evaluate.can_fail(expression)


def none_fails(expressions: Iterable[Expression]) -> bool:
    """Whether none of them can reject a tuple."""
    return not any(map(can_fail, expressions))


def aggregate_can_fail(aggregate: Aggregate, group: GroupBy) -> bool:
    """Whether a group can be rejected because a result does not fit its type."""
    if aggregate.function not in ("SUM", "AVG") or aggregate.argument is None:
        return False
    return group.input.schema[aggregate.argument].type is not DOUBLE


def substitute(expression: Expression, columns: Mapping[str, Expression]) -> Expression:
    """The expression with what stands for its columns in their place."""
    return expression.rewrite(lambda e: columns[e.name] if isinstance(e, Column) else None)


def conjuncts(predicate: Expression | None) -> list[Expression]:
    """The parts that AND joins (None: no part)."""
    if isinstance(predicate, Call) and predicate.function == "AND":
        return [part for argument in predicate.args for part in conjuncts(argument)]
    return [] if predicate is None else [predicate]


def conjunction(parts: Iterable[Expression]) -> Expression:
    """The parts, at least one, joined by AND."""
    return reduce(lambda a, b: Call(BOOLEAN, a.nullable or b.nullable, "AND", (a, b)), parts)


def plain(node: Node, names: Iterable[str]) -> tuple[tuple[str, Expression], ...]:
    """The columns of a project that passes some attributes of a node on."""
    return tuple((n, Column(node.schema[n].type, node.schema[n].nullable, n)) for n in names)

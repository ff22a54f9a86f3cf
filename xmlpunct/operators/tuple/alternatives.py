"""COALESCE as alternatives: one for each argument that can be the value. An alternative has plain columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from xmlpunct.expressions.expression import Call, Column, Expression, Literal
from xmlpunct.expressions.functions.conditions import COALESCE
from xmlpunct.expressions.non_null import ColumnNames, union
from xmlpunct.expressions.program import non_null

MOST = 16
"""With more alternatives, columns computed by COALESCE carry no punctuations. It bounds memory, not time."""

NamedExpressions = Sequence[tuple[str, Expression]]


class Alternative(NamedTuple):
    """The output columns without COALESCE, for the tuples in which ``non_null`` are not null and ``null`` are null."""

    columns: NamedExpressions
    non_null: ColumnNames
    null: frozenset[str]


class CoalesceChoice(NamedTuple):
    """The argument that each COALESCE takes in the tuples in which ``non_null`` are not null and ``null`` are."""

    values: Mapping[Expression, Expression]
    non_null: ColumnNames
    null: frozenset[str]


def coalesce_in(e: Expression) -> Call | None:
    """The COALESCE at the root of an expression, or below monotone functions."""
    while isinstance(e, Call):
        if e.record is COALESCE:
            return e
        step = e.record.monotone(e)
        if step is None:
            return None
        e = e.args[step[0]]
    return None


def alternatives(
    columns: NamedExpressions, derived: Mapping[str, Expression], together: Iterable[Sequence[str]] = ()
) -> list[Alternative]:
    """The alternatives of columns with COALESCE; empty without COALESCE, and for more than `MOST` alternatives.

    ``derived`` are the expressions of computed input columns. Each list of ``together`` has the keys of a full join: a
    tuple takes all of them from the left side, or all from the right side.

    >>> from xmlpunct.expressions.functions import call
    >>> from xmlpunct.types import INT
    >>> a, b = Column(INT, True, "a"), Column(INT, True, "b")
    >>> for way in alternatives([("x", call("COALESCE", a, b))], {}):
    ...     print(*way.columns[0], *way.non_null)
    x a a
    x b
    """
    computed = {name: derived.get(e.name, e) if isinstance(e, Column) else e for name, e in columns}
    calls = {name: call for name, e in computed.items() if (call := coalesce_in(e)) is not None}
    if not calls:
        return []
    groups = [list(dict.fromkeys(calls[name] for name in names if name in calls)) for names in together]
    grouped = {call for group in groups for call in group}
    groups += [[call] for call in dict.fromkeys(calls.values()) if call not in grouped]
    choices = [_of_full_join(group) if len(group) > 1 else [*_choices_of(*group)] for group in groups]
    if prod(map(len, choices)) > MOST:
        return []
    ways = []
    for chosen in product(*choices):
        arguments = {call: e for choice in chosen for call, e in choice.values.items()}
        plain = [(n, computed[n].rewrite(arguments.get) if n in calls else e) for n, e in columns]
        names = union(choice.non_null for choice in chosen)
        ways.append(Alternative(plain, names, frozenset[str]().union(*(choice.null for choice in chosen))))
    return ways


def _choices_of(call: Call) -> Iterator[CoalesceChoice]:
    """The arguments of one COALESCE: each is the value where all arguments before it are null."""
    args = list(_possible_values(call.args))
    for i, e in enumerate(args):
        names = non_null(e).value if i < len(args) - 1 else frozenset[str]()
        yield CoalesceChoice({call: e}, names, _columns(args[:i]))


def _of_full_join(calls: Sequence[Call]) -> list[CoalesceChoice]:
    """The two sides of a full join. A key can be null on the side that has a tuple."""
    left, right = zip(*(call.args for call in calls), strict=True)
    return [
        CoalesceChoice(dict(zip(calls, left, strict=True)), frozenset(), frozenset()),
        CoalesceChoice(dict(zip(calls, right, strict=True)), frozenset(), _columns(left)),
    ]


def _columns(args: Iterable[Expression]) -> frozenset[str]:
    return frozenset(e.name for e in args if isinstance(e, Column))


def _possible_values(args: Iterable[Expression]) -> Iterable[Expression]:
    """The arguments that can be the value of a COALESCE. The last one is always among them."""
    args = list(args)
    for i, e in enumerate(args):
        if i == len(args) - 1 or not (isinstance(e, Literal) and e.value is None):
            yield e
        if not e.nullable:
            return

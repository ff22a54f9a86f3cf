"""The grouping sets of GROUP BY, GROUPING SETS, ROLLUP and CUBE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod

from sqlglot import exp

from xmlpunct.engine.sql.syntax.arguments import only
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import refuse

MOST = 64
"""Maximal number of grouping sets: each becomes a group-by. CUBE of six columns has this number."""

KeySet = tuple[Expression, ...]
ReadKey = Callable[[exp.Expr], Expression]


def key_sets(group: exp.Expr | None, read: ReadKey) -> list[KeySet]:
    """The grouping sets of a GROUP BY: one, unless it has GROUPING SETS, ROLLUP or CUBE.

    The sets of several items are combined: ``a, ROLLUP (b)`` is ``(a, b)`` and ``(a)``. ``read`` reads a key. Raises
    `SqlError` for more than `MOST` sets.
    """
    if group is None:
        return [()]
    for name in ("rollup", "cube"):
        for modifier in group.args.get(name) or ():
            refuse(f"say GROUP BY {name.upper()} (a, b)", modifier)
    parts = [_sets(item, read) for item in only(group, "expressions") or ()]
    _check_count(prod(map(len, parts)), group)
    return [_distinct(key for part in parts_ for key in part) for parts_ in product(*parts)]


def _sets(item: exp.Expr, read: ReadKey) -> list[KeySet]:
    """The grouping sets of one item of GROUP BY or of GROUPING SETS."""
    if isinstance(item, exp.GroupingSets):
        return [keys for inner in only(item, "expressions") for keys in _sets(inner, read)]
    if not isinstance(item, exp.Rollup | exp.Cube):
        return [_keys(item, read)]
    parts = [_keys(inner, read) for inner in only(item, "expressions")]
    if isinstance(item, exp.Rollup):
        return [
            _distinct(key for part in parts[:count] for key in part) for count in range(len(parts), -1, -1)
        ]
    _check_count(2 ** len(parts), item)
    return [
        _distinct(key for part, is_included in zip(parts, mask, strict=True) if is_included for key in part)
        for mask in product((True, False), repeat=len(parts))
    ]


def _keys(item: exp.Expr, read: ReadKey) -> KeySet:
    """The keys of one set: ``a``, ``(a)``, ``(a, b)`` or ``()``."""
    while isinstance(item, exp.Paren):
        item = only(item, "this")
    items: Sequence[exp.Expr] = (only(item, "expressions") or ()) if isinstance(item, exp.Tuple) else [item]
    return _distinct(read(inner) for inner in items)


def _distinct(keys: Iterable[Expression]) -> KeySet:
    return tuple(dict.fromkeys(keys))


def _check_count(count: int, node: exp.Expr) -> None:
    if count > MOST:
        refuse(
            f"GROUP BY has {count} grouping sets, and at most {MOST} are possible: list fewer in GROUPING SETS",
            node,
        )

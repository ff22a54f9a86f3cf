"""Taking a syntax node apart, so that nothing in it goes unread."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp

from xmlpunct.schema.sql_errors import refuse

_SPELLING = {
    "joins": "JOIN",
    "order": "ORDER BY",
    "group": "GROUP BY",
    "sort": "SORT BY",
    "laterals": "LATERAL VIEW",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
    "with_": "WITH",
    "on": "ON",
    "all": "ALL",
    "cluster": "CLUSTER BY",
    "connect": "CONNECT BY",
    "distribute": "DISTRIBUTE BY",
    "pivots": "PIVOT",
    "version": "a version of a table",
    "expressions": "a further argument",
    "position": "LEADING, TRAILING or BOTH",
    "db": "a name with a dot",
    "catalog": "a name with dots",
    "except_": "* EXCEPT",
    "replace": "* REPLACE",
    "rename": "* RENAME",
    "punctuate": "PUNCTUATE",
    "query": "IN (subquery)",
    "operation_modifiers": "a modifier of SELECT",
    "kind": "a modifier of SELECT",
}


def take(node: exp.Expr, *names: str, unread: Collection[str] = ()) -> list[Any]:
    """The arguments of those names (None where one is missing).

    Any other argument that is set is refused by name, so that nothing sqlglot reads is ignored. ``unread`` are
    arguments that change nothing, or that the caller reads elsewhere.
    """
    for name, value in node.args.items():
        if name not in names and name not in unread and value not in (None, False, [], ""):
            first = value[0] if isinstance(value, list) else value
            where = first if isinstance(first, exp.Expr) else node
            refuse(f"{_spelling(name)} is not supported here", where)
    return [node.args.get(name) for name in names]


def only(node: exp.Expr, name: str, unread: Collection[str] = ()) -> Any:
    """The one argument that a node has."""
    return take(node, name, unread=unread)[0]


def _spelling(name: str) -> str:
    return _SPELLING.get(name) or name.strip("_").replace("_", " ").upper()

"""Errors about a node of an SQL tree, with its position in the text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from sqlglot import exp

from xmlpunct.base.errors import SqlError
from xmlpunct.types import Type


def offsets(node: exp.Expr) -> tuple[int | None, int | None]:
    """The character offsets of a node in its SQL, end exclusive; (None, None) if they are unknown."""
    ancestor: exp.Expr | None = node
    while ancestor is not None:
        metas = [n.meta for n in ancestor.walk() if n.meta.get("end")]  # a * without a position is at 0
        if metas:
            return min(m["start"] for m in metas), max(m["end"] for m in metas) + 1
        ancestor = ancestor.parent
    return None, None


def refuse(reason: str, node: exp.Expr) -> NoReturn:
    """Raise `SqlError` about a node; `about` adds the text."""
    raise SqlError(reason, "", *offsets(node))


def check_comparable(type_: Type, clause: str, node: exp.Expr) -> None:
    """Refuse to compare, group or order values of a type that is not comparable."""
    if not type_.comparable:
        refuse(f"{clause} does not take {type_.kind}: its values cannot be compared", node)


@contextmanager
def at(node: exp.Expr) -> Iterator[None]:
    """Turn a ValueError raised inside into a `SqlError` about a node."""
    try:
        yield
    except ValueError as error:
        refuse(str(error), node)


@contextmanager
def about(sql: str) -> Iterator[None]:
    """Add the text to a `SqlError` that is raised inside."""
    try:
        yield
    except SqlError as error:
        if error.sql:
            raise
        raise SqlError(error.reason, sql, error.start, error.end) from None

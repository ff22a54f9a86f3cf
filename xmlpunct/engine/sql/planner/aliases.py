"""Aliases of SELECT in other expressions of the same query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from xmlpunct.engine.sql.planner.scope import Names
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import refuse


class Aliases:
    """The items of SELECT by alias. A column of the same name takes precedence, so callers look up columns first.

    ``visible``: the number of items, from the left, that can be referenced; in SELECT, those before the current item.
    """

    def __init__(self, listed: Sequence[tuple[str, exp.Expr]]) -> None:
        self._listed = listed
        self._names = Names([name for name, _ in listed])
        self.visible = len(listed)

    def index(self, name: exp.Expr) -> int | None:
        """The index of the item with an alias, or None.

        Refuses an ambiguous alias, and one of a later item.
        """
        indices = self._names.indices(name)
        before = [position for position in indices if position < self.visible]
        if len(before) > 1:
            refuse(f"{name.name} is ambiguous: SELECT defines it twice", name)
        if indices and not before:
            refuse(f"{name.name} is defined later in SELECT: use it after its definition", name)
        return before[0] if before else None

    def syntax(self, index: int) -> exp.Expr:
        """The syntax of the item at an index."""
        return self._listed[index][1]

    def read(self, read: Callable[[exp.Expr], Expression]) -> list[Expression]:
        """Read all items; each may refer to the aliases of earlier items."""
        columns = []
        for index, (_, item) in enumerate(self._listed):
            self.visible = index
            columns.append(read(item))
        self.visible = len(self._listed)
        return columns

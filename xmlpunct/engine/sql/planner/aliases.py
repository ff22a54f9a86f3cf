"""The names that SELECT gives its expressions, in other expressions of the same query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from xmlpunct.engine.sql.planner.scope import Names
from xmlpunct.expressions.expression import Expression
from xmlpunct.schema.sql_errors import refuse


class Aliases:
    """What SELECT lists, by name. A column of that name hides it: whoever asks has looked for one before.

    ``visible``: only so many, from the left, can be named now. In SELECT, these are the ones before.
    """

    def __init__(self, listed: Sequence[tuple[str, exp.Expr]]) -> None:
        self._listed = listed
        self._names = Names([name for name, _ in listed])
        self.visible = len(listed)

    def place(self, name: exp.Expr) -> int | None:
        """The place in SELECT of what a name stands for; None if nothing there has it.

        Refuses a name of several, and one that comes later.
        """
        places = self._names.places(name)
        before = [place for place in places if place < self.visible]
        if len(before) > 1:
            refuse(f"{name.name} is ambiguous: SELECT gives that name twice", name)
        if places and not before:
            refuse(f"{name.name} is a name that SELECT gives later: use it behind that", name)
        return before[0] if before else None

    def syntax(self, place: int) -> exp.Expr:
        """What stands in a place of SELECT."""
        return self._listed[place][1]

    def read(self, read: Callable[[exp.Expr], Expression]) -> list[Expression]:
        """What SELECT lists, each ``read`` where those before it can be named."""
        columns = []
        for place, (_, item) in enumerate(self._listed):
            self.visible = place
            columns.append(read(item))
        self.visible = len(self._listed)
        return columns

"""What names mean: the columns that a query can see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from sqlglot import exp

from xmlpunct.engine.plan import Node, Project, attributes, column, timing
from xmlpunct.engine.sql.dialect import refuse
from xmlpunct.expressions.expression import Column


@dataclass(frozen=True)
class Field:
    """A column of a relation: ``table.name`` to the query, ``column`` in the schema of the relation's node.

    ``origin`` is where the query defines it. A ``hidden`` one has only the name ``table.name``, for USING has put
    another in its place. An ``implicit`` one is no part of ``*``.
    """

    table: str | None
    name: str
    column: str
    origin: exp.Expr
    hidden: bool = False
    implicit: bool = False


@dataclass(frozen=True)
class Relation:
    """A part of the plan, and the names that the query gives its columns.

    ``outer`` is the relation that the query around a subquery reads.
    """

    node: Node
    fields: tuple[Field, ...]
    outer: Relation | None = None

    def column(self, field: Field) -> Column:
        """The expression that reads a field."""
        return column(self.node, field.column)

    def find(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> Field | None:
        """The field that a name refers to, or None. Refuses ``node`` if it could be one of several columns."""
        fields = (self._tables[self._table(table)] if table else self._visible).of(name)
        if len({f.column for f in fields}) > 1:
            spelled = ", ".join(".".join(filter(None, (f.table, f.name))) for f in fields)
            refuse(f"column {name.name} is ambiguous: {spelled}", node)
        return fields[0] if fields else None

    def sees(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> bool:
        """Whether a name refers to a field here."""
        there = table is None or self._table_names.places(table)
        return bool(there) and self.find(name, table, node) is not None

    def listed(self) -> list[Field]:
        """What ``*`` stands for: every column once, even if an inner join gave it two names."""
        by_column: dict[str, Field] = {}
        for field in self.fields:
            if not (field.hidden or field.implicit):
                by_column.setdefault(field.column, field)
        return list(by_column.values())

    def apart(self, taken: Iterable[str]) -> Relation:
        """The same relation, none of whose columns in the plan has a name in ``taken``."""
        names = attributes(self.node)
        there = set(taken)
        if there.isdisjoint(names):
            return self
        table = {f.column: f.table for f in self.fields}
        wanted = [
            f"{t}.{n}" if n in there and (t := table.get(n)) and not n.startswith(f"{t}.") else n
            for n in names
        ]
        new = dict(zip(names, unique(wanted, [*there, *names]), strict=True))
        new |= {n: n for n in names if n not in there}
        columns = ((new[n], column(self.node, n)) for n in names)
        node = Project(self.node, (*columns, *timing(self.node)))
        return replace(self, node=node, fields=tuple(replace(f, column=new[f.column]) for f in self.fields))

    @property
    def tables(self) -> list[str]:
        """The names of tables here."""
        return self._table_names.names

    def of(self, table: exp.Expr) -> list[Field]:
        """The fields of a table. Refuses a table that is not there."""
        return self._tables[self._table(table)].fields

    def _table(self, table: exp.Expr) -> str:
        """The name of a table that is here."""
        found = self._table_names.places(table)
        if len(found) != 1:
            refuse(f"{'no' if not found else 'more than one'} table {table.name} here", table)
        return self.tables[found[0]]

    @cached_property
    def _visible(self) -> Fields:
        return Fields([f for f in self.fields if not f.hidden])

    @cached_property
    def _tables(self) -> dict[str, Fields]:
        by_table: dict[str, list[Field]] = {}
        for field in self.fields:
            if field.table:
                by_table.setdefault(field.table, []).append(field)
        return {name: Fields(fields) for name, fields in by_table.items()}

    @cached_property
    def _table_names(self) -> Names:
        return Names(list(self._tables))


class Names:
    """Names by which identifiers are resolved, in their own spelling and in small letters."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._exact: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            self._exact.setdefault(name, []).append(place)
            self._folded.setdefault(name.lower(), []).append(place)

    def places(self, name: exp.Expr) -> list[int]:
        """The places of the names that an identifier means.

        A quoted one means its own spelling alone. An unquoted one means any letter case if its own is not there.
        """
        text = name.name
        if text in self._exact or name.args.get("quoted"):
            return self._exact.get(text, [])
        return self._folded.get(text.lower(), [])


V = TypeVar("V")


class Namespace(dict[str, V]):
    """What names mean. It does not change."""

    @cached_property
    def _names(self) -> Names:
        return Names(list(self))

    def meant(self, name: exp.Expr) -> list[str]:
        """The names in it that an identifier means."""
        return [self._names.names[i] for i in self._names.places(name)]


class Fields:
    """Fields, looked up by name."""

    def __init__(self, fields: list[Field]) -> None:
        self.fields, self._names = fields, Names([f.name for f in fields])

    def of(self, name: exp.Expr) -> list[Field]:
        """The fields that an identifier means."""
        return [self.fields[i] for i in self._names.places(name)]


class Unused:
    """Gives names that are not taken: the one wanted, or that with ``#2``, ``#3``... behind it.

    It gives no name that polars would read as a pattern of several columns, and none that operators use.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {"*", "$id", "$id0", "$id1", "$matched", *taken}
        self._last: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Note that a name is taken."""
        self._taken.add(name)

    def take(self, name: str) -> str:
        """A name, which is taken from now on."""
        fresh, number = name, self._last.get(name, 1)
        while fresh in self._taken or (fresh.startswith("^") and fresh.endswith("$")):
            number += 1
            fresh = f"{name}#{number}"
        self._last[name] = number
        self._taken.add(fresh)
        return fresh


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """An `Unused` name for each of some names.

    >>> unique(["a", "b", "a", "*"])
    ['a', 'b', 'a#2', '*#2']
    """
    unused = Unused(taken)
    return [unused.take(name) for name in names]

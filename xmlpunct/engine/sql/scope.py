"""What names mean: the columns that a query can see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from xmlpunct.engine.plan import Node, Project, column
from xmlpunct.engine.sql.dialect import refuse
from xmlpunct.expressions.expression import Column


@dataclass(frozen=True)
class Field:
    """A column of a relation: ``table.name`` to the query, ``column`` in the schema of the relation's node.

    ``origin`` is where the query defines it. A ``hidden`` one goes by ``table.name`` only, because USING has
    put another in its place.
    """

    table: str | None
    name: str
    column: str
    origin: exp.Expr
    hidden: bool = False


@dataclass(frozen=True)
class Relation:
    """A part of the plan and what its columns are called.

    ``outer`` is what the query around a subquery reads, for the conditions that may refer to it.
    """

    node: Node
    fields: tuple[Field, ...]
    outer: Relation | None = None

    def column(self, field: Field) -> Column:
        """The expression that reads a field."""
        return column(self.node, field.column)

    def find(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> Field | None:
        """The field that a name refers to, or None. Refuses ``node`` if it could be one of several columns."""
        fields = self.of(table) if table else [f for f in self.fields if not f.hidden]
        found = [fields[i] for i in matches(name, [f.name for f in fields])]
        if len({f.column for f in found}) > 1:
            spelled = ", ".join(".".join(filter(None, (f.table, f.name))) for f in found)
            refuse(f"column {name.name} is ambiguous: {spelled}", node)
        return found[0] if found else None

    def sees(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> bool:
        """Whether a name refers to a field here."""
        there = table is None or matches(table, self.tables)
        return bool(there) and self.find(name, table, node) is not None

    def listed(self) -> list[Field]:
        """What ``*`` stands for: every column once, though an inner join's equated ones have two names."""
        found: dict[str, Field] = {}
        for field in self.fields:
            if not field.hidden:
                found.setdefault(field.column, field)
        return list(found.values())

    def apart(self, taken: Iterable[str]) -> Relation:
        """The same with no column in the plan called as one of ``taken``."""
        names = self.node.schema.names
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
        node = Project(self.node, tuple((new[n], column(self.node, n)) for n in names))
        return replace(self, node=node, fields=tuple(replace(f, column=new[f.column]) for f in self.fields))

    @property
    def tables(self) -> list[str]:
        """The names of tables here."""
        return list(dict.fromkeys(f.table for f in self.fields if f.table))

    def of(self, table: exp.Expr) -> list[Field]:
        """The fields of a table. Refuses a table that is not there."""
        tables = self.tables
        found = [tables[i] for i in matches(table, tables)]
        if len(found) != 1:
            refuse(f"{'no' if not found else 'more than one'} table {table.name} here", table)
        return [f for f in self.fields if f.table == found[0]]


def matches(name: exp.Expr, names: Sequence[str]) -> list[int]:
    """The places of the names that an identifier means.

    A quoted one means its own spelling alone; an unquoted one that too, and failing that any letter case.
    """
    exact = [i for i, n in enumerate(names) if n == name.name]
    if exact or name.args.get("quoted"):
        return exact
    return [i for i, n in enumerate(names) if n.lower() == name.name.lower()]


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The names, with ``#2``, ``#3``... after those that were there before.

    Also after those in which polars would see a pattern of several columns, and those that operators use.

    >>> unique(["a", "b", "a", "*"])
    ['a', 'b', 'a#2', '*#2']
    """
    used, found = {"*", "$id", "$id0", "$id1", "$matched", *taken}, []
    for name in names:
        fresh, number = name, 1
        while fresh in used or (fresh.startswith("^") and fresh.endswith("$")):
            number += 1
            fresh = f"{name}#{number}"
        used.add(fresh)
        found.append(fresh)
    return found

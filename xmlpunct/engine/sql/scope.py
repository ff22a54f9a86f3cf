"""What names mean: the columns that a query can see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from xmlpunct.ddl import refuse
from xmlpunct.engine.plan import Node
from xmlpunct.operators.expression import Column


@dataclass(frozen=True)
class Field:
    """A column of a relation: ``table.name`` to the query, ``column`` in the schema of the relation's node.

    ``origin`` is where the query defines it.
    """

    table: str | None
    name: str
    column: str
    origin: exp.Expr


@dataclass(frozen=True)
class Relation:
    """A part of the plan and what its columns are called."""

    node: Node
    fields: tuple[Field, ...]

    def column(self, field: Field) -> Column:
        """The expression that reads a field."""
        attribute = self.node.schema[field.column]
        return Column(attribute.type, attribute.nullable, field.column)

    def find(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> Field | None:
        """The field that a name refers to, or None. Refuses ``node`` if there are several."""
        fields = self.of(table) if table else self.fields
        found = [fields[i] for i in matches(name, [f.name for f in fields])]
        if len(found) > 1:
            spelled = ", ".join(".".join(filter(None, (f.table, f.name))) for f in found)
            refuse(f"column {name.name} is ambiguous: {spelled}", node)
        return found[0] if found else None

    def of(self, table: exp.Expr) -> list[Field]:
        """The fields of a table. Refuses a table that is not there."""
        tables = list(dict.fromkeys(f.table for f in self.fields if f.table))
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

    Also after those in which polars would see a pattern of several columns.

    >>> unique(["a", "b", "a", "*"])
    ['a', 'b', 'a#2', '*#2']
    """
    used, found = {"*", *taken}, []
    for name in names:
        fresh, number = name, 1
        while fresh in used or (fresh.startswith("^") and fresh.endswith("$")):
            number += 1
            fresh = f"{name}#{number}"
        used.add(fresh)
        found.append(fresh)
    return found

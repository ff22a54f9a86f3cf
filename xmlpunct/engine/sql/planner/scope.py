"""Name resolution: the columns in scope of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from sqlglot import exp

from xmlpunct.base.suggestions import did_you_mean
from xmlpunct.engine.plan import Node, Project, attributes, node_column, timing
from xmlpunct.expressions.expression import Column
from xmlpunct.schema.sql_errors import refuse


@dataclass(frozen=True)
class Field:
    """A column of a relation: ``table.name`` to the query, ``column`` in the schema of the relation's node.

    ``origin`` is its definition in the query. A ``hidden`` field has only the name ``table.name``, because a column of
    USING replaces it. An ``implicit`` field is not part of ``*``.
    """

    table: str | None
    name: str
    column: str
    origin: exp.Expr
    hidden: bool = False
    implicit: bool = False


@dataclass(frozen=True)
class PlannedRelation:
    """A part of the plan, and the names that the query gives its columns.

    ``outer`` is the relation that the enclosing query reads.
    """

    node: Node
    fields: tuple[Field, ...]
    outer: PlannedRelation | None = None

    def column(self, field: Field) -> Column:
        """The expression of a field."""
        return node_column(self.node, field.column)

    def find(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> Field | None:
        """The field that a name refers to, or None. Refuses an ambiguous name, at ``node``."""
        fields = (self._tables[self._table(table)] if table else self._visible).of(name)
        if len({f.column for f in fields}) > 1:
            spelled = ", ".join(".".join(filter(None, (f.table, f.name))) for f in fields)
            refuse(f"column {name.name} is ambiguous: {spelled}", node)
        return fields[0] if fields else None

    def sees(self, name: exp.Expr, table: exp.Expr | None, node: exp.Expr) -> bool:
        """True if a name refers to a field in scope."""
        has_table = table is None or self._table_names.indices(table)
        return bool(has_table) and self.find(name, table, node) is not None

    def listed(self) -> list[Field]:
        """The fields of ``*``: every column once, even if an inner join gave it two names."""
        by_column: dict[str, Field] = {}
        for field in self.fields:
            if not (field.hidden or field.implicit):
                by_column.setdefault(field.column, field)
        return list(by_column.values())

    def apart(self, used_names: Iterable[str]) -> PlannedRelation:
        """The same relation, with plan columns renamed that are in ``used_names``."""
        names = attributes(self.node)
        used = set(used_names)
        if used.isdisjoint(names):
            return self
        table = {f.column: f.table for f in self.fields}
        new_names = [
            f"{t}.{n}" if n in used and (t := table.get(n)) and not n.startswith(f"{t}.") else n
            for n in names
        ]
        new = dict(zip(names, unique(new_names, [*used, *names]), strict=True))
        new |= {n: n for n in names if n not in used}
        columns = ((new[n], node_column(self.node, n)) for n in names)
        node = Project(self.node, (*columns, *timing(self.node)))
        return replace(self, node=node, fields=tuple(replace(f, column=new[f.column]) for f in self.fields))

    @property
    def tables(self) -> list[str]:
        """The names of tables in scope."""
        return self._table_names.names

    def of(self, table: exp.Expr) -> list[Field]:
        """The fields of a table. Refuses an unknown table."""
        return self._tables[self._table(table)].fields

    def _table(self, table: exp.Expr) -> str:
        """The name of the table that an identifier refers to."""
        indices = self._table_names.indices(table)
        if len(indices) != 1:
            hint = "" if indices else did_you_mean(table.name, self.tables)
            refuse(f"{'more than one' if indices else 'no'} table {table.name} here{hint}", table)
        return self.tables[indices[0]]

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
    """Resolves identifiers to names, by exact spelling or case-insensitively."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._exact: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            self._exact.setdefault(name, []).append(index)
            self._folded.setdefault(name.lower(), []).append(index)

    def indices(self, name: exp.Expr) -> list[int]:
        """The indices of the names that an identifier refers to.

        A quoted identifier matches the exact spelling only. An unquoted one matches any letter case if the exact
        spelling does not exist.
        """
        text = name.name
        if text in self._exact or name.args.get("quoted"):
            return self._exact.get(text, [])
        return self._folded.get(text.lower(), [])


V = TypeVar("V")


class Namespace(dict[str, V]):
    """The meaning of names; immutable. Identifiers are resolved as by `Names`."""

    @cached_property
    def _folded(self) -> dict[str, tuple[str, ...]]:
        """The names in small letters, each with its spellings."""
        folded: dict[str, tuple[str, ...]] = {}
        for name in self:
            folded[name.lower()] = (*folded.get(name.lower(), ()), name)
        return folded

    def extended(self, name: str, value: V) -> Namespace[V]:
        """A copy with one more name."""
        copy = Namespace({**self, name: value})
        if name not in self:
            folded = self._folded
            copy._folded = {**folded, name.lower(): (*folded.get(name.lower(), ()), name)}
        return copy

    def meant(self, name: exp.Expr) -> Sequence[str]:
        """The names that an identifier can mean."""
        if name.name in self:
            return (name.name,)
        return () if name.args.get("quoted") else self._folded.get(name.name.lower(), ())


class Fields:
    """Fields, looked up by name."""

    def __init__(self, fields: list[Field]) -> None:
        self.fields, self._names = fields, Names([f.name for f in fields])

    def of(self, name: exp.Expr) -> list[Field]:
        """The fields that an identifier refers to."""
        return [self.fields[i] for i in self._names.indices(name)]


class Unused:
    """Creates unused names: the requested name, or the name followed by ``#2``, ``#3``...

    It avoids names that polars reads as patterns of columns, and names that operators use.
    """

    def __init__(self, used_names: Iterable[str] = ()) -> None:
        self._used = {"*", "$id", "$id0", "$id1", "$matched", *used_names}
        self._last: dict[str, int] = {}

    def reserve(self, name: str) -> None:
        """Mark a name as used."""
        self._used.add(name)

    def take(self, name: str) -> str:
        """Return an unused name, and mark it as used."""
        candidate, number = name, self._last.get(name, 1)
        while candidate in self._used or (candidate.startswith("^") and candidate.endswith("$")):
            number += 1
            candidate = f"{name}#{number}"
        self._last[name] = number
        self._used.add(candidate)
        return candidate


def unique(names: Iterable[str], used_names: Iterable[str] = ()) -> list[str]:
    """An unused name for each name (see `Unused`).

    >>> unique(["a", "b", "a", "*"])
    ['a', 'b', 'a#2', '*#2']
    """
    unused = Unused(used_names)
    return [unused.take(name) for name in names]

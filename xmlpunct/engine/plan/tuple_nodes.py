"""Selection, projection and unnesting; ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import (
    Constraint,
    Holders,
    Lasting,
    Node,
    PartitionChoice,
    Unary,
    constraints,
    lost_domains,
    node_column,
)
from xmlpunct.engine.plan.operator_text import closed, closing_attributes, every_stream, only_at_end
from xmlpunct.engine.plan.schemes import (
    THE_END,
    Fate,
    Need,
    Outlook,
    Scheme,
    combined,
    either,
    has_few_values,
    is_finite,
    nullable,
    reduced,
)
from xmlpunct.expressions.exclusions import never, open_values
from xmlpunct.expressions.expression import Column, Expression
from xmlpunct.expressions.monotone import Monotone
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.tuple.alternatives import alternatives, coalesce_in
from xmlpunct.punctuations.grid import whole
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.types.cut_points import hull
from xmlpunct.types.interval_set import IntervalSet
from xmlpunct.types.pattern import EMPTY


@dataclass(frozen=True)
class Select(Unary):
    """Keeps the tuples for which ``predicate`` is true."""

    keeps_order = True

    predicate: Expression

    def operator(self) -> ops.Operator:
        return ops.Select(self.input.schema, self.predicate)

    @property
    def parameters(self) -> str:
        return str(self.predicate)

    @property
    def can_fail(self) -> bool:
        return can_fail(self.predicate)

    @property
    def lasting(self) -> Lasting:
        return self.input.lasting

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.input.distinct_key

    @property
    def repeats(self) -> bool:
        return not self.can_fail

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[*used, *self.predicate.columns()]]

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """If few values of a column remain, they are closed jointly. An upper bound on a prefix ends the stream."""
        schema, left = self.schema, self._remaining
        finite = {n for n, values in left.items() if all(is_finite(values.type, v) for v in values)}
        offers, closes = (reduced(s, schema, finite) for s in (below[0].offers, below[0].closes))
        if any(self._is_passed(name, values) for name, values in left.items() if below[0].has_prefix(name)):
            offers = closes = THE_END
        return replace(below[0], offers=offers, closes=closes)

    @cached_property
    def _remaining(self) -> dict[str, IntervalSet]:
        """The remaining values of columns; cached, because verdicts read them often."""
        return open_values(self.schema, never(self.schema, self.predicate))

    @cached_property
    def narrow_schema(self) -> Schema:
        """The schema, with the range of the remaining values of each NOT NULL column as its domain."""
        domains = {
            name: domain
            for name, values in self._remaining.items()
            if not (a := self.schema[name]).nullable
            and (domain := a.reach(hull(values.type, values))) is not EMPTY
        }
        return Schema.of(replace(a, domain=domains.get(a.name, a.domain)) for a in self.schema)

    def _is_passed(self, name: str, values: IntervalSet) -> bool:
        """True if the column's domain has a value above all remaining values."""
        attribute, ends = self.schema[name], values.ends
        if attribute.nullable or ends is None:
            return False
        return ends[1] < whole(attribute).intervals[-1][1]

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [columns]

    def partition_choices(self) -> None:
        return None


@dataclass(frozen=True)
class Unnest(Unary):
    """One tuple for each item of an array: see the operator."""

    keeps_order = True

    array: str
    fields: tuple[tuple[str, str], ...]
    number_column: str | None = None
    outer: bool = False
    keeps: bool = True

    def operator(self) -> ops.Operator:
        return ops.Unnest(
            self.input.schema, self.array, self.fields, self.number_column, self.outer, self.keeps
        )

    @property
    def parameters(self) -> str:
        names = [name for name, _ in self.fields] + [self.number_column] * (self.number_column is not None)
        return f"{self.array}: {', '.join(map(str, names))}{', or nulls' if self.outer else ''}"

    @property
    def lasting(self) -> Lasting:
        return self.input.lasting

    @property
    def repeats(self) -> bool:
        return True

    def narrowed(self, used: Collection[str]) -> Node:
        fields = tuple(field for field in self.fields if field[0] in used)
        number = self.number_column if self.number_column in used else None
        keeps = self.keeps and self.array in used
        has_own = any(name in used for name in self.input.schema.names if name != self.array)
        if not (has_own or fields or number or keeps):  # tuples without columns could not be counted
            fields = self.fields[:1]
            keeps = not fields
        return replace(self, fields=fields, number_column=number, keeps=keeps)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[*(name for name in self.input.schema.names if name in used or name == self.array)]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name in self.input.schema else []

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [None if columns is None else {name for name in columns if name in self.input.schema}]

    def partition_choices(self) -> None:
        return None


@dataclass(frozen=True)
class Project(Unary):
    """Computes new tuples: for each column its name and its expression.

    ``derived`` maps columns of the input to expressions over other columns: monotone ones and COALESCEs. COALESCEs in
    one group of ``together`` take their values from the same side of a full join. A project with ``derived`` is the
    upper half of a split project, and has state, unless ``memory`` is False.
    """

    keeps_order = True

    columns: tuple[tuple[str, Expression], ...]
    derived: tuple[tuple[str, Expression], ...] = ()
    memory: bool = True
    together: tuple[tuple[str, ...], ...] = ()

    by_name = True

    def operator(self) -> ops.Operator:
        below = self.input
        within = None if self.memory else below.narrow_schema if isinstance(below, Select) else below.schema
        return ops.Project(below.schema, self.columns, self.derived, within, self.together)

    @cached_property
    def alternatives(self) -> tuple[Project, ...]:
        """One project for each combination of choices of its COALESCEs; empty without COALESCE."""
        ways = alternatives(self.columns, dict(self.derived), self.together) if self.memory else []
        return tuple(replace(self, columns=tuple(way.columns), together=()) for way in ways)

    @cached_property
    def copies(self) -> dict[str, str]:
        """Copied columns, with their input names."""
        return {name: e.name for name, e in self.columns if isinstance(e, Column)}

    @property
    def parameters(self) -> str:
        columns = ", ".join(name if str(e) == name else f"{name} = {e}" for name, e in self.columns)
        return columns + "".join(f"; {name} follows {e}" for name, e in self.derived)

    @property
    def unblocked_by(self) -> str:
        texts = []
        for name, e in self.derived:
            closing_by_column = [closing_attributes(self.input, [c]) for c in dict.fromkeys(e.columns())]
            if all(closing_by_column):
                ways = " and ".join(closed(self.input, closing) for closing in closing_by_column)
                texts.append(f"a value of {name} is closed once {ways}, by fused ranges")
        return "; ".join(texts)

    @property
    def can_fail(self) -> bool:
        return any(can_fail(e) for _, e in self.columns)

    @property
    def lasting(self) -> Lasting:
        return self.input.lasting

    @property
    def distinct_key(self) -> frozenset[str] | None:
        below, carried = self.input.distinct_key, {source: name for name, source in self.copies.items()}
        if below is None or not below <= carried.keys():
            return None
        return frozenset(carried[name] for name in below)

    @property
    def repeats(self) -> bool:
        return not self.can_fail

    def narrowed(self, used: Collection[str]) -> Node:
        columns = tuple(c for c in self.columns if c[0] in used or can_fail(c[1]))
        return replace(self, columns=columns or self.columns[:1])

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[name for _, e in self.columns for name in e.columns()]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, self.copies[name])] if name in self.copies else []

    def adds_up(self, below: Sequence[Holders]) -> bool:
        """True if a dropped partition column is closed jointly, or punctuations of a followed column are fused."""
        derived, carried = dict(self.derived), set(self.copies.values())
        followed = {
            monotone.source
            for _, e in self.columns
            for computed in [derived.get(e.name) if isinstance(e, Column) else e]
            if computed is not None and (monotone := Monotone.of(computed)) is not None
        }
        computed = (derived.get(e.name, e) if isinstance(e, Column) else e for _, e in self.columns)
        followed.update(c for e in computed if (call := coalesce_in(e)) is not None for c in call.columns())
        return any(
            name in followed or (name not in carried and has_few_values(self.input.schema[name]))
            for names in below[0]
            for name in names
        )

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """The schemes that columns carry; COALESCE carries the schemes that all its alternatives carry."""
        if self.alternatives:
            return combined([way.translated(port, below) for way in self.alternatives])
        derived, sets, prefixes = dict(self.derived), dict[str, list[str]](), dict[str, list[str]]()
        for name, e in self.columns:
            e = derived.get(e.name, e) if isinstance(e, Column) else e
            monotone = Monotone.of(e)
            if isinstance(e, Column):
                sets.setdefault(e.name, []).append(name)
                prefixes.setdefault(e.name, []).append(name)
            elif monotone is not None:
                attribute = self.input.schema[monotone.source]
                if monotone.rises and monotone.goes_on(attribute):
                    prefixes.setdefault(monotone.source, []).append(name)
                if monotone.is_finite_to_one(attribute):
                    sets.setdefault(monotone.source, []).append(name)
        carried_outlook = below[0].renamed(sets)
        ordered = Scheme(new for name in below[0].prefixes for new in prefixes.get(name, ()))
        rising = Outlook(frozenset(map(Scheme, zip(ordered))), frozenset(map(Scheme, zip(ordered))), ordered)
        return either([carried_outlook, rising])

    def follows(self, name: str) -> list[tuple[int, str]]:
        derived = dict(self.derived)
        return [
            (port, followed)
            for port, source in self.carries(name)
            for followed in dict.fromkeys(derived[source].columns() if source in derived else [source])
        ]

    def asks(self, requested: Punctuation) -> list[list[Punctuation]]:
        return [ask for way in self.alternatives for ask in way.asks(requested)] or super().asks(requested)

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        read = {c for name, e in self.columns if columns is None or name in columns for c in e.columns()}
        return [read.union(c for name, e in self.derived if name in read for c in e.columns())]

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        for way in self.alternatives:
            yield from way.sources(requested)
        derived, columns = dict(self.derived), {} if self.alternatives else dict(self.columns)
        for name, pattern in constraints(requested if columns else Punctuation.everything(self.schema)):
            expression = columns[name]
            if isinstance(expression, Column) and expression.name in derived:
                expression = derived[expression.name]
            if isinstance(expression, Column):
                yield 0, expression.name, pattern
            elif (monotone := Monotone.of(expression)) is not None:
                source = monotone.source
                yield 0, source, monotone.preimage(self.input.schema[source], pattern)

    def partition_choices(self) -> list[PartitionChoice] | None:
        if not self.derived:
            return None
        # Not by a source of `derived`: its values are fused, so each shard needs all of them.
        fused = {source for _, e in self.derived for source in e.columns()}
        return [
            PartitionChoice((source,), name) for name, source in self.copies.items() if source not in fused
        ]

    def forgetful(self) -> Node:
        return replace(self, memory=False)

    def with_domains(self) -> Node:
        lost = lost_domains(self.input.schema, self.copies.values(), [name for name, _ in self.columns])
        return replace(
            self, columns=(*self.columns, *((new, node_column(self.input, name)) for name, new in lost))
        )


@dataclass(frozen=True)
class Sort(Unary):
    """All tuples in order of ``keys``; ties in order of the other columns."""

    withholds = True
    waiting = "waiting"

    keys: tuple[ops.SortKey, ...]

    ordered = True

    def operator(self) -> ops.Operator:
        return ops.Sort(self.input.schema, self.keys)

    @property
    def parameters(self) -> str:
        return f"by {', '.join(map(str, self.keys))}"

    @property
    def awaits(self) -> tuple[Need, ...]:
        key = self.keys[0]
        nulls = nullable(self.schema)
        rises = not key.descending and not (key.nulls_first and key.column in nulls)
        return (Need(Fate.BLOCKS, 0, (), nulls, prefixes=(key.column,) if rises else ()),)

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        key = self.keys[0]
        attribute, pattern = self.schema[key.column], dict(constraints(requested)).get(key.column)
        if pattern is not None and not (key.nulls_first and attribute.nullable):
            below, above = not key.descending, key.descending
            yield 0, key.column, hull(attribute.type, [pattern], below=below, above=above)

    @property
    def unblocked_by(self) -> str:
        """A prefix of the output is released once the values of its first key are closed, from the first value on."""
        key, end = self.keys[0], every_stream(self)
        nullable = self.schema[key.column].nullable
        if key.nulls_first and nullable:
            return f"nulls come first, so nothing is released before the end of {end}, on one shard"
        closing = closing_attributes(self.input, [key.column])
        if not closing:
            return only_at_end(self)
        first = "highest" if key.descending else "lowest"
        nulls = f"; nulls, at the end of {end}" if nullable else ""
        return f"a tuple is released once {closed(self.input, closing)}, from the {first} value on; on one shard{nulls}"


@dataclass(frozen=True)
class Limit(Unary):
    """The first ``count`` tuples."""

    keeps_order = True

    count: int

    def operator(self) -> ops.Operator:
        return ops.Limit(self.input.schema, self.count)

    @property
    def parameters(self) -> str:
        return str(self.count)

    @property
    def unblocked_by(self) -> str:
        return f"after {self.count} {'tuple' if self.count == 1 else 'tuples'} reading stops"

"""Grouping and duplicate elimination, and their partial forms before an exchange."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Lasting, Node, Unary, lost_domains
from xmlpunct.engine.plan.operator_text import (
    closed,
    closing_attributes,
    completion_text,
    every_stream,
)
from xmlpunct.engine.plan.schemes import Fate, Need, nullable
from xmlpunct.operators.group.finality import final_attributes
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.retained_outline import EVERYTHING
from xmlpunct.schema import Schema
from xmlpunct.schema.change_columns import AT, DIFF
from xmlpunct.types import DOUBLE


@dataclass(frozen=True)
class GroupBy(Unary):
    """Groups by the columns ``keys`` (none: one group) and aggregates.

    ``whole``: the input has partial aggregates, of tuples with this schema. With ``instants``, the input is a relation,
    and the output has one row for each group and instant.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    whole: Schema | None = None
    instants: Instants | None = None

    @property
    def by_name(self) -> bool:  # type: ignore[override]
        return self.instants is None

    @property
    def waiting(self) -> str:  # type: ignore[override]
        return "groups" if self.instants is None else EVERYTHING

    def operator(self) -> ops.Operator:
        if self.instants is not None:
            return ops.ChangeGroupBy(self.input.schema, self.keys, self.aggregates, self.instants)
        return ops.GroupBy(self.input.schema, self.keys, self.aggregates, self.whole)

    @property
    def parameters(self) -> str:
        aggregates = ", ".join(map(_described, self.aggregates))
        return f"{', '.join(self.keys) or 'nothing'}: {aggregates}".removesuffix(": ")

    @property
    def is_settled(self) -> bool:
        """True if a group is final with its first tuple, because its results depend on grouping attributes only."""
        return final_attributes(self.aggregates, self.keys) == []

    @property
    def unblocked_by(self) -> str:
        if self.instants is not None:
            when = f"{completion_text(self.input, self.keys)}{'' if self.keys else '; on one shard'}"
            return f"a group's row is released at an instant once {when}"
        end = every_stream(self)
        if not self.keys:
            return f"its one result is released at the end of {end}{self._final}"
        closing = closing_attributes(self.input, self.keys)
        effect = "released with its first tuple, and forgotten" if self.is_settled else "released"
        text = f"a group is {effect} once {closed(self.input, closing)}"
        computed = [key for key in self.keys if key not in closing]
        if computed and closing:
            text += f"; punctuations cannot constrain {', '.join(computed)}, which is computed"
        nulls = [key for key in closing if self.schema[key].nullable]
        if nulls:
            when = "by punctuations with * there" if len(self.keys) > 1 else f"at the end of {end}"
            text += f"; where {' or '.join(nulls)} is null, {when}"
        return text + self._final

    @property
    def _final(self) -> str:
        """Text of the punctuations that make an open group final; empty if there are none."""
        changes: dict[str, None] = {}
        for name in final_attributes(self.aggregates, self.keys) or ():
            closing = closing_attributes(self.input, [name])
            if not closing:
                return ""
            for a in self.aggregates:
                if a.argument == name:
                    which = _CHANGES.get(a.function, "{} of it" + " that it has not counted" * a.distinct)
                    changes[closed(self.input, closing, f"closed every {which}")] = None
        has = ", if it has a tuple," if self.keys else ""
        return f"; or{has} once {' and '.join(changes)}" if changes else ""

    def rejects_by(self, aggregate: ops.Aggregate) -> bool:
        """True if this aggregate can overflow, which rejects the group."""
        if aggregate.function not in ("SUM", "AVG") or aggregate.argument is None:
            return False
        return self.input.schema[aggregate.argument].type is not DOUBLE

    @property
    def can_fail(self) -> bool:
        return any(map(self.rejects_by, self.aggregates))

    @property
    def lasting(self) -> Lasting:
        return self.input.lasting if self.keys and self.instants is not None else Lasting.FOR_EVER

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return frozenset(self.keys) if self.instants is None else None

    def ignores_duplicates(self, port: int) -> bool:
        return self.instants is None and all(a.ignores_duplicates for a in self.aggregates)

    def narrowed(self, used: Collection[str]) -> Node:
        aggregates = tuple(a for a in self.aggregates if a.name in used or self.rejects_by(a))
        return replace(self, aggregates=aggregates or (() if self.keys else self.aggregates[:1]))

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        needed = [*self.keys, *(name for a in self.aggregates for name in a.columns)]
        if self.instants is None:
            return [needed]
        return [[name for name in self.input.schema.names if name in {*needed, AT, DIFF}]]

    @property
    def _closing_columns(self) -> tuple[str, ...]:
        """The columns of punctuations that close groups."""
        return self.keys if self.instants is None else (*self.keys, AT)

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name in self._closing_columns else []

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [self._closing_columns]

    @property
    def least(self) -> str | None:
        """The column whose closed prefix makes all results final, because every aggregate is its MIN."""
        names = {a.argument for a in self.aggregates if a.function == "MIN"}
        has_other_aggregates = len(names) != 1 or any(a.function != "MIN" for a in self.aggregates)
        (name,) = names if not has_other_aggregates else (None,)
        return None if name is None or self.input.schema[name].nullable else name

    @property
    def awaits(self) -> tuple[Need, ...]:
        nulls, least = nullable(self.input.schema), self.least
        forgotten = Need(Fate.GROWS, 0, self._closing_columns, nulls, self._closing_columns)
        if self.instants is not None:
            return (replace(forgotten, fate=Fate.BLOCKS),)
        if self.is_settled:
            return (forgotten,)
        released = replace(forgotten, fate=Fate.BLOCKS, prefixes=() if least is None else (least,))
        return (released, forgotten) if least is not None and self.keys else (released,)

    @property
    def closing_keys(self) -> Iterable[Sequence[str]]:
        has_nulls = any(self.input.schema[key].nullable for key in self.keys)
        follows_none = self.instants is not None or (self.is_settled and has_nulls)
        return [] if follows_none else [self.keys]


@dataclass(frozen=True)
class PartialGroupBy(Unary):
    """Aggregates slice by slice, for a `GroupBy` after an exchange.

    Punctuations may also constrain the columns ``kept``, which its tuples lack.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    kept: tuple[str, ...]

    before_exchange = "aggregates slice by slice"

    def operator(self) -> ops.Operator:
        return ops.PartialGroupBy(self.input.schema, self.keys, self.aggregates, self.kept)

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name in (*self.keys, *self.kept) else []

    def partition_choices(self) -> None:
        return None

    def with_domains(self) -> Node:
        lost = lost_domains(self.input.schema, (*self.keys, *self.kept), ())
        return replace(self, kept=(*self.kept, *(name for name, _ in lost)))


@dataclass(frozen=True)
class DupElim(Unary):
    """Drops duplicates of earlier tuples."""

    keeps_order = True
    repeats = True

    def operator(self) -> ops.Operator:
        return ops.Pointwise([self.input.schema], "distinct")

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def ignores_duplicates(self, port: int) -> bool:
        return True

    @property
    def awaits(self) -> tuple[Need, ...]:
        names = tuple(self.schema.names)
        return (Need(Fate.GROWS, 0, names, nullable(self.schema), names, effect="forgotten"),)


@dataclass(frozen=True)
class PartialDupElim(Unary):
    """Drops duplicates within a slice."""

    before_exchange = "each tuple once a slice"

    def operator(self) -> ops.Operator:
        return ops.PartialDupElim(self.input.schema)

    def partition_choices(self) -> None:
        return None


_CHANGES = {"MAX": "{} of it above its MAX", "MIN": "{} of it below its MIN"}
"""Text for the values that change an aggregate; default: all values."""


def _described(a: ops.Aggregate) -> str:
    text = f"{a.function}({'DISTINCT ' * a.distinct}{'*' if a.argument is None else a.argument})"
    return text if a.name == text else a.name

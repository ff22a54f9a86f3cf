"""Grouping and duplicate elimination, and the parts of both that run ahead of an exchange."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Choice, Node, Unary, lost_domains
from xmlpunct.engine.plan.operator_text import closed, closes_tuple, every_stream, places
from xmlpunct.engine.plan.schemes import Fate, Outlook, smallest, within
from xmlpunct.operators.group.finality import asked
from xmlpunct.schema import Schema
from xmlpunct.types import DOUBLE


@dataclass(frozen=True)
class GroupBy(Unary):
    """Groups by the columns ``keys`` (none: one group) and aggregates.

    ``whole``: the input has partial aggregates of tuples of that schema.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    whole: Schema | None = None

    by_name = True
    waiting = "groups"

    def operator(self) -> ops.Operator:
        return ops.GroupBy(self.input.schema, self.keys, self.aggregates, self.whole)

    @property
    def parameters(self) -> str:
        aggregates = ", ".join(map(_described, self.aggregates))
        return f"{', '.join(self.keys) or 'nothing'}: {aggregates}".removesuffix(": ")

    @property
    def is_settled(self) -> bool:
        """Whether a group is final with its first tuple: nothing but grouping attributes is asked of it."""
        return asked(self.aggregates, self.keys) == []

    @property
    def unblocked_by(self) -> str:
        end = every_stream(self)
        if not self.keys:
            return f"its one result is released at the end of {end}{self._final}"
        by = places(self.input, self.keys)
        what = "released with its first tuple, and forgotten" if self.is_settled else "released"
        text = f"a group is {what} once {closed(self.input, by)}"
        computed = [key for key in self.keys if key not in by]
        if computed and by:
            text += f"; no punctuation speaks about {', '.join(computed)}, which is computed"
        nulls = [key for key in by if self.schema[key].nullable]
        if nulls:
            by_what = "by punctuations with * there" if len(self.keys) > 1 else f"at the end of {end}"
            text += f"; where {' or '.join(nulls)} is null, {by_what}"
        return text + self._final

    @property
    def _final(self) -> str:
        """In words, which punctuations make a group final that is not closed; empty if none do."""
        changes: dict[str, None] = {}
        for name in asked(self.aggregates, self.keys) or ():
            by = places(self.input, [name])
            if not by:
                return ""
            for a in self.aggregates:
                if a.argument == name:
                    which = _CHANGES.get(a.function, "{} of it" + " that it has not counted" * a.distinct)
                    changes[closed(self.input, by, f"closed every {which}")] = None
        has = ", if it has a tuple," if self.keys else ""
        return f"; or{has} once {' and '.join(changes)}" if changes else ""

    def rejects_by(self, aggregate: ops.Aggregate) -> bool:
        """Whether a group can be rejected because this result does not fit its type."""
        if aggregate.function not in ("SUM", "AVG") or aggregate.argument is None:
            return False
        return self.input.schema[aggregate.argument].type is not DOUBLE

    @property
    def can_fail(self) -> bool:
        return any(map(self.rejects_by, self.aggregates))

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.keys)

    def ignores_duplicates(self, port: int) -> bool:
        return all(a.ignores_duplicates for a in self.aggregates)

    def narrowed(self, used: Collection[str]) -> Node:
        aggregates = tuple(a for a in self.aggregates if a.name in used or self.rejects_by(a))
        return replace(self, aggregates=aggregates or (() if self.keys else self.aggregates[:1]))

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[*self.keys, *(name for a in self.aggregates for name in a.columns)]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [(0, name)] if name in self.keys else []

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [self.keys]

    @property
    def least(self) -> str | None:
        """The column whose closed beginning makes every result final: all of them are its MIN."""
        names = {a.argument for a in self.aggregates if a.function == "MIN"}
        others = len(names) != 1 or any(a.function != "MIN" for a in self.aggregates)
        (name,) = names if not others else (None,)
        return None if name is None or self.input.schema[name].nullable else name

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        (given,) = below
        schema = self.input.schema
        released = given.need(Fate.BLOCKS, 0, self.keys, schema, prefix=self.least, closed=True)
        forgotten = given.need(Fate.GROWS, 0, self.keys, schema, closed=True)
        needs = (released, forgotten) if self.least is not None and self.keys else (released,)
        is_said = bool(released.by)
        if self.is_settled:
            needs, is_said = (forgotten,), not any(schema[key].nullable for key in self.keys)
        closes = smallest([*within(given.closes, self.keys), *([self.keys] if is_said else [])])
        return replace(
            given,
            offers=within(given.offers, self.keys),
            closes=closes,
            needs=needs,
            told="",
            prefixes=given.prefixes & set(self.keys),
        )

    def partition_choices(self) -> list[Choice]:
        return [Choice((key,), key) for key in self.keys]


@dataclass(frozen=True)
class PartialGroupBy(Unary):
    """Aggregates slice by slice, for a `GroupBy` behind an exchange.

    Punctuations may speak about the columns ``kept`` too, though its tuples no longer have them.
    """

    keys: tuple[str, ...]
    aggregates: tuple[ops.Aggregate, ...]
    kept: tuple[str, ...]

    ahead = "aggregates slice by slice"

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
    """Drops tuples that came before."""

    repeats = True

    def operator(self) -> ops.Operator:
        return ops.DupElim(self.input.schema)

    @property
    def unblocked_by(self) -> str:
        return f"a tuple is forgotten once {closes_tuple(self)}"

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def ignores_duplicates(self, port: int) -> bool:
        return True

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        need = below[0].need(Fate.GROWS, 0, self.schema.names, self.schema, closed=True)
        return replace(below[0], needs=(need,), told="")

    def partition_choices(self) -> list[Choice]:
        return [Choice((name,), name) for name in self.schema.names]


@dataclass(frozen=True)
class PartialDupElim(Unary):
    """Drops tuples that came before in the same slice."""

    ahead = "each tuple once a slice"

    def operator(self) -> ops.Operator:
        return ops.PartialDupElim(self.input.schema)

    def partition_choices(self) -> None:
        return None


_CHANGES = {"MAX": "{} of it above its MAX", "MIN": "{} of it below its MIN"}
"""The values that change an aggregate, in words, if not all do."""


def _described(a: ops.Aggregate) -> str:
    text = f"{a.function}({'DISTINCT ' * a.distinct}{'*' if a.argument is None else a.argument})"
    return text if a.name == text else a.name

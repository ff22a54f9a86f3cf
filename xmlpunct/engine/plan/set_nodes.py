"""Operators whose inputs' columns match by position; names are the first input's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Binary, Choice, Holders, Lasting, Node, attributes
from xmlpunct.engine.plan.operator_text import closes_tuple, which_side
from xmlpunct.engine.plan.schemes import Fate, Need, Outlook, combined, either, has_few_values
from xmlpunct.operators.merge.merge import widens


@dataclass(frozen=True)
class Matched(Node):
    """A node whose inputs' columns match by position."""

    by_position = True
    of_every: ClassVar[bool] = False
    """Whether a tuple of the output is in every input; otherwise it is in one of them."""

    def carries(self, name: str) -> list[tuple[int, str]]:
        place = self.schema.index(name)
        return [(port, below.schema.names[place]) for port, below in enumerate(self.inputs)]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        return combined(self.named_alike(below))

    def whole_tuples(self, given: Outlook, fate: Fate = Fate.GROWS) -> tuple[Need, ...]:
        """The needs that all inputs close whole tuples, as together they do if ``given`` has schemes."""
        return tuple(
            replace(given.need(fate, port, self.schema.names, self.schema), within=side.schema.names)
            for port, side in enumerate(self.inputs)
        )

    def named_alike(self, below: Sequence[Outlook]) -> list[Outlook]:
        """What is said of each input, in the names of the output."""
        return [given.renamed(self.carriers(port)) for port, given in enumerate(below)]

    def partition_choices(self) -> list[Choice]:
        columns = zip(*(attributes(side) for side in self.inputs), strict=True)
        return [Choice(c, name) for c, name in zip(columns, attributes(self), strict=True)]

    def holders(self, below: Sequence[Holders]) -> Holders:
        places = [
            [{side.schema.index(name) for name in of_one} for of_one in holders]
            for side, holders in zip(self.inputs, below, strict=True)
        ]
        meet = set.union if self.of_every else set.intersection
        return [{self.schema.names[i] for i in meet(*known)} for known in zip(*places, strict=True)]

    def adds_up(self, below: Sequence[Holders]) -> bool:
        """What an input has few values of is closed jointly where others may have null, or more values."""
        return any(
            has_few_values(mine) and widens(mine, self.schema.attributes[side.schema.index(name)])
            for side, holders in zip(self.inputs, below, strict=True)
            for names in holders
            for name in names
            for mine in [side.schema[name]]
        )


@dataclass(frozen=True)
class Distinct(Matched):
    """A `Matched` node that gives each tuple once."""

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def ignores_duplicates(self, port: int) -> bool:
        return True


@dataclass(frozen=True)
class Poured(Matched):
    """A `Matched` node that gives the tuples of all its inputs, of which there may be any number."""

    sides: tuple[Node, ...]

    repeats = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sides

    def over(self, inputs: Sequence[Node]) -> Node:
        return replace(self, sides=tuple(inputs))


@dataclass(frozen=True)
class Merge(Poured):
    """All tuples of all inputs."""

    unblocked_by = "tuples go through at once; a punctuation once every input has one that overlaps it"

    @property
    def lasting(self) -> Lasting:
        return max(side.lasting for side in self.sides)

    def operator(self) -> ops.Operator:
        return ops.Merge(tuple(side.schema for side in self.sides))

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        places = [i for i, name in enumerate(self.schema.names) if name in used] or [0]
        return [[side.schema.names[i] for i in places] for side in self.sides]

    def of_use(self, wanted: Collection[str] | None) -> Sequence[Collection[str] | None]:
        if wanted is None:
            return [None] * len(self.sides)
        places = [self.schema.index(name) for name in wanted]
        return [[side.schema.names[i] for i in places] for side in self.sides]


@dataclass(frozen=True)
class Union(Distinct, Poured):
    """Each tuple of all inputs once."""

    def operator(self) -> ops.Operator:
        return ops.Union(tuple(side.schema for side in self.sides))

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        given = super().outlook(below)
        return replace(given, needs=self.whole_tuples(given))

    @property
    def unblocked_by(self) -> str:
        return f"a tuple is forgotten once {closes_tuple(self)}"


@dataclass(frozen=True)
class Compared(Distinct, Binary):
    """A `Distinct` node that compares the tuples of two sides."""

    sifts = True
    releases: ClassVar[str] = "forgotten"
    """What becomes of a left tuple once the right side has closed it."""

    def other_closes(self, below: Sequence[Outlook], side: int, fate: Fate) -> Need:
        """The need that the tuples of a side are closed by the other one."""
        other = self.inputs[1 - side]
        need = below[1 - side].need(fate, 1 - side, other.schema.names, other.schema)
        return replace(need, finite=side if below[side].ends else None)

    @property
    def unblocked_by(self) -> str:
        """Each side's tuples are forgotten once the other side has closed them."""
        return "; ".join(
            f"a tuple {which_side(self, side)} is {then} once {closes_tuple(self.inputs[1 - side])}"
            for side, then in enumerate((self.releases, "forgotten"))
        )


@dataclass(frozen=True)
class Intersect(Compared):
    """Each tuple that both sides have, once."""

    of_every = True

    def operator(self) -> ops.Operator:
        return ops.Intersect(self.left.schema, self.right.schema)

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        needs, sides = (
            tuple(self.other_closes(below, side, Fate.GROWS) for side in (0, 1)),
            self.named_alike(below),
        )
        alone = (sides[side] for side, need in enumerate(needs) if need.by)
        return replace(either([combined(sides), *alone]), needs=needs)


@dataclass(frozen=True)
class Difference(Compared):
    """Each tuple that the left side has and the right side has not, once."""

    releases = "released, if the right side did not have it,"

    def operator(self) -> ops.Operator:
        return ops.Difference(self.left.schema, self.right.schema)

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        released, forgotten = (
            self.other_closes(below, 0, Fate.BLOCKS),
            self.other_closes(below, 1, Fate.GROWS),
        )
        sides = self.named_alike(below)
        left = [sides[0]] if released.by and not released.nulls_left else []
        return replace(either([combined(sides), *left]), needs=(released, forgotten))

    def holders(self, below: Sequence[Holders]) -> Holders:
        return below[0]  # a tuple is the left input's

"""Operators whose inputs' columns match by position; names are the first input's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Binary, Holders, Lasting, Node, PartitionChoice, attributes
from xmlpunct.engine.plan.operator_text import closes_tuple, which_side
from xmlpunct.engine.plan.schemes import Fate, Need, Outlook, combined, either, has_few_values
from xmlpunct.operators.merge.merge import widens


@dataclass(frozen=True)
class Matched(Node):
    """A node whose inputs' columns match by position."""

    by_position = True
    of_every: ClassVar[bool] = False
    """True if a tuple of the output is in every input; otherwise it is in at least one."""

    def carries(self, name: str) -> list[tuple[int, str]]:
        index = self.schema.index(name)
        return [(port, below.schema.names[index]) for port, below in enumerate(self.inputs)]

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        return combined(self.named_alike(below))

    def whole_tuples(self, common: Outlook, fate: Fate = Fate.GROWS) -> tuple[Need, ...]:
        """The needs that all inputs close whole tuples; ``common`` has the schemes of all inputs."""
        return tuple(
            replace(common.need(fate, port, self.schema.names, self.schema), within=side.schema.names)
            for port, side in enumerate(self.inputs)
        )

    def named_alike(self, below: Sequence[Outlook]) -> list[Outlook]:
        """The outlook of each input, in the names of the output."""
        return [side_outlook.renamed(self.carriers(port)) for port, side_outlook in enumerate(below)]

    def partition_choices(self) -> list[PartitionChoice]:
        columns = zip(*(attributes(side) for side in self.inputs), strict=True)
        return [PartitionChoice(c, name) for c, name in zip(columns, attributes(self), strict=True)]

    def holders(self, below: Sequence[Holders]) -> Holders:
        indices = [
            [{side.schema.index(name) for name in held_names} for held_names in holders]
            for side, holders in zip(self.inputs, below, strict=True)
        ]
        meet = set.union if self.of_every else set.intersection
        return [{self.schema.names[i] for i in meet(*by_side)} for by_side in zip(*indices, strict=True)]

    def adds_up(self, below: Sequence[Holders]) -> bool:
        """True if an input closes a finite domain jointly, while another input allows null or more values."""
        return any(
            has_few_values(attribute) and widens(attribute, self.schema.attributes[side.schema.index(name)])
            for side, holders in zip(self.inputs, below, strict=True)
            for names in holders
            for name in names
            for attribute in [side.schema[name]]
        )


@dataclass(frozen=True)
class Distinct(Matched):
    """A `Matched` node without duplicates in its output."""

    @property
    def distinct_key(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def ignores_duplicates(self, port: int) -> bool:
        return True


@dataclass(frozen=True)
class Poured(Matched):
    """A `Matched` node with any number of inputs, whose output has the tuples of all of them."""

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
        indices = [i for i, name in enumerate(self.schema.names) if name in used] or [0]
        return [[side.schema.names[i] for i in indices] for side in self.sides]

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        if columns is None:
            return [None] * len(self.sides)
        indices = [self.schema.index(name) for name in columns]
        return [[side.schema.names[i] for i in indices] for side in self.sides]


@dataclass(frozen=True)
class Union(Distinct, Poured):
    """The distinct tuples of all inputs."""

    def operator(self) -> ops.Operator:
        return ops.Pointwise([side.schema for side in self.sides], "union")

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        result = super().outlook(below)
        return replace(result, needs=self.whole_tuples(result))

    @property
    def unblocked_by(self) -> str:
        return f"a tuple is forgotten once {closes_tuple(self)}"


@dataclass(frozen=True)
class Compared(Distinct, Binary):
    """A `Distinct` node that compares the tuples of two sides."""

    sifts = True
    releases: ClassVar[str] = "forgotten"
    """Text: the fate of a left tuple once the right side has closed it."""

    def other_closes(self, below: Sequence[Outlook], side: int, fate: Fate) -> Need:
        """The need that the other side closes the tuples of ``side``."""
        other = self.inputs[1 - side]
        need = below[1 - side].need(fate, 1 - side, other.schema.names, other.schema)
        return replace(need, finite=side if below[side].ends else None)

    @property
    def unblocked_by(self) -> str:
        """Each side's tuples are purged once the other side has closed them."""
        return "; ".join(
            f"a tuple {which_side(self, side)} is {then} once {closes_tuple(self.inputs[1 - side])}"
            for side, then in enumerate((self.releases, "forgotten"))
        )


@dataclass(frozen=True)
class Intersect(Compared):
    """The distinct tuples that are in both inputs."""

    of_every = True

    def operator(self) -> ops.Operator:
        return ops.Pointwise([self.left.schema, self.right.schema], "intersect")

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        needs, sides = (
            tuple(self.other_closes(below, side, Fate.GROWS) for side in (0, 1)),
            self.named_alike(below),
        )
        one_sided = (sides[side] for side, need in enumerate(needs) if need.by)
        return replace(either([combined(sides), *one_sided]), needs=needs)


@dataclass(frozen=True)
class Difference(Compared):
    """The distinct tuples that are in the left input and not in the right one."""

    releases = "released, if the right side did not have it,"

    def operator(self) -> ops.Operator:
        return ops.Pointwise([self.left.schema, self.right.schema], "except")

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        released, forgotten = (
            self.other_closes(below, 0, Fate.BLOCKS),
            self.other_closes(below, 1, Fate.GROWS),
        )
        sides = self.named_alike(below)
        left = [sides[0]] if released.by and not released.nulls_left else []
        return replace(either([combined(sides), *left]), needs=(released, forgotten))

    def holders(self, below: Sequence[Holders]) -> Holders:
        return below[0]  # all output tuples come from the left input

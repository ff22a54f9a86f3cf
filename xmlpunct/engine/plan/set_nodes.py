"""Operators whose inputs' columns match by position; names are the first input's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Binary, Holders, Lasting, Node, PartitionChoice, attributes
from xmlpunct.engine.plan.schemes import Fate, Need, has_few_values, nullable
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
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

    def whole_tuples(self, fate: Fate, effect: str = "") -> tuple[Need, ...]:
        """The needs that all inputs close whole tuples."""
        nulls = nullable(self.schema)
        return tuple(
            Need(fate, port, side.schema.names, nulls, jointly=True, effect=effect)
            for port, side in enumerate(self.inputs)
        )

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

    @property
    def awaits(self) -> tuple[Need, ...]:
        return self.whole_tuples(Fate.GROWS, "forgotten")


@dataclass(frozen=True)
class Compared(Distinct, Binary):
    """A `Distinct` node that compares the tuples of two sides."""

    withholds = True

    def other_closes(self, side: int, fate: Fate, passes: int | None, effect: str = "forgotten") -> Need:
        """The need that the other side closes the tuples of ``side``."""
        schema, port = self.inputs[1 - side].schema, 1 - side
        pairs = tuple(zip(self.inputs[side].schema.names, schema.names, strict=True))
        return Need(
            fate,
            port,
            schema.names,
            nullable(schema),
            retained=side,
            passes=passes,
            pairs=pairs,
            effect=effect,
        )


@dataclass(frozen=True)
class Intersect(Compared):
    """The distinct tuples that are in both inputs."""

    of_every = True

    def operator(self) -> ops.Operator:
        return ops.Pointwise([self.left.schema, self.right.schema], "intersect")

    @property
    def awaits(self) -> tuple[Need, ...]:
        return tuple(self.other_closes(side, Fate.GROWS, side) for side in SIDES)


@dataclass(frozen=True)
class Difference(Compared):
    """The distinct tuples that are in the left input and not in the right one."""

    def operator(self) -> ops.Operator:
        return ops.Pointwise([self.left.schema, self.right.schema], "except")

    @property
    def awaits(self) -> tuple[Need, ...]:
        effect = "released, if the right side did not have it,"
        left = self.other_closes(LEFT, Fate.BLOCKS, LEFT, effect)
        return left, self.other_closes(RIGHT, Fate.GROWS, None)

    def holders(self, below: Sequence[Holders]) -> Holders:
        return below[0]  # all output tuples come from the left input

"""Joins, semijoins and antijoins, also for IN, EXISTS and their negations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import (
    Binary,
    Constraint,
    Holders,
    PartitionChoice,
    StreamAttribute,
    all_attributes,
)
from xmlpunct.engine.plan.operator_text import closed, closing_attributes, every_stream, which_side
from xmlpunct.engine.plan.schemes import (
    NONE,
    NOTHING,
    Fate,
    Need,
    Outlook,
    Scheme,
    joint,
    smallest,
)
from xmlpunct.engine.plan.time_bounds import bounded_by
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
from xmlpunct.operators.join.join_output import PRESERVED
from xmlpunct.punctuations.punctuation import Punctuation

EquiKeys = tuple[tuple[str, str], ...]
"""Equality attributes of a join: pairs of a left and a right attribute, of the same type."""


@dataclass(frozen=True)
class Keyed(Binary):
    """A node that compares left tuples with the right ones that agree on ``keys`` and satisfy its residual."""

    keys: EquiKeys

    sifts = True

    @property
    def residual(self) -> Expression | None:
        return None

    @property
    def parameters(self) -> str:
        tests = [f"{left} = {right}" for left, right in self.keys]
        tests += [] if self.residual is None else [str(self.residual)]
        return f"on {' AND '.join(tests)}" if tests else "of all pairs"

    @property
    def can_fail(self) -> bool:
        return self.residual is not None and can_fail(self.residual)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        tested = () if self.residual is None else self.residual.columns()
        return _needed_by_side(self, {*used, *tested}.union(*self.keys))

    always: ClassVar[tuple[str, ...]] = ()
    """Columns of both sides that count as equated."""

    def side_closed(self, side: int, fate: Fate, passes: int | None) -> Need:
        """The need that the other side closes all possible partners of the tuples of ``side``."""
        port = 1 - side
        around, above = bounded_by(self.residual, self.inputs[port].schema, self.inputs[side].schema)
        pairs = tuple((pair[side], pair[port]) for pair in self.keys)
        columns = (*(closing for _, closing in pairs), *self.always, *around)
        return Need(fate, port, columns, prefixes=tuple(above), retained=side, passes=passes, pairs=pairs)

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        right = dict(self.keys) if self.right_is_equal else {}
        for port, name, pattern in super().sources(requested):
            yield port, name, pattern
            if port == LEFT and name in right:
                yield RIGHT, right[name], pattern

    @property
    def right_is_equal(self) -> bool:
        """True if the right keys of an output tuple equal its left keys."""
        return True

    def forgotten(self, then: Sequence[str]) -> str:
        """Text: when each side's tuples are purged; ``then`` has their fate by side."""
        texts = []
        for side in (LEFT, RIGHT):
            other = self.inputs[1 - side]
            keys = [pair[1 - side] for pair in self.keys]
            around, above = bounded_by(self.residual, other.schema, self.inputs[side].schema)
            met = closing_attributes(
                other, [name for name in other.schema.names if name in {*around, *above}]
            )
            ways = [closed(other, closing_attributes(other, keys))] if keys else []
            ways += [closed(other, met, "closed every {} that it could meet")] if met else []
            when = ", or once ".join(ways) or f"{every_stream(other)} has ended"
            texts.append(f"a tuple {which_side(self, side)} is {then[side]} once {when}")
        if not self.keys:
            texts.append("without an equality it runs on one shard and compares all pairs")
        return "; ".join(texts)


@dataclass(frozen=True)
class Join(Keyed):
    """Pairs that agree on ``keys`` and satisfy ``residual``. ``kind`` is inner, left, right or full.

    ``reordered``: it is the last of several joins that were reordered to stay bounded. ``combines``: it combines
    punctuations of both inputs.

    Attribute names of the two sides differ. An inner join's output has each key once, under its left name.
    """

    kind: str = "inner"
    residual: Expression | None = None
    combines: bool = False
    reordered: bool = False

    @property
    def inner(self) -> bool:
        return self.kind == "inner"

    @property
    def right_is_equal(self) -> bool:
        return self.inner

    @property
    def preserved(self) -> tuple[int, ...]:
        """The sides whose tuples are results even without a partner."""
        return PRESERVED[self.kind]

    @property
    def only_with_partner(self) -> tuple[int, ...]:
        """The sides whose tuples affect the result only with a partner."""
        return tuple(side for side in (LEFT, RIGHT) if side not in self.preserved)

    @property
    def without_nulls(self) -> tuple[int, ...]:
        """The sides that are never null-filled."""
        return tuple(side for side in (LEFT, RIGHT) if 1 - side not in self.preserved)

    def operator(self) -> ops.Operator:
        schemas = self.left.schema, self.right.schema
        return ops.Join(*schemas, self.keys, self.kind, self.residual, self.combines)

    def describe(self) -> str:
        return f"{self.kind} {super().describe()}"

    @property
    def unblocked_by(self) -> str:
        lonely = "forgotten, and released with nulls if it had no partner,"
        return self.forgotten([lonely if side in self.preserved else "forgotten" for side in (LEFT, RIGHT)])

    @property
    def distinct_key(self) -> frozenset[str] | None:
        left, right = self.left.distinct_key, self.right.distinct_key
        if left is None or right is None or self.kind == "full":  # full: nulls may fill either side
            return None
        return left | {self._shared.get(name, name) for name in right}

    @property
    def awaits(self) -> tuple[Need, ...]:
        """A preserved side waits for the other side, with its tuples without partner and its punctuations."""
        needs = []
        for side in SIDES:
            is_preserved = side in self.preserved
            need = self.side_closed(side, Fate.BLOCKS if is_preserved else Fate.GROWS, side)
            null_filled, whole = side not in self.without_nulls, not (self.combines or is_preserved)
            needs.append(replace(need, null_filled=null_filled, whole=whole))
        return tuple(needs)

    @property
    def note(self) -> str:
        text = "the joins below it are in an order in which all stay bounded, not in the query's order"
        return text if self.reordered else ""

    def carriers(self, port: int) -> dict[str, list[str]]:
        shared = {right: [left] for right, left in self._shared.items()} if port == RIGHT else {}
        return super().carriers(port) | shared | {name: [name] for name in self.always}

    @property
    def _shared(self) -> dict[str, str]:
        """Right columns whose output name is their left name."""
        return {right: left for left, right in self.keys} if self.inner else {}

    def stream_attributes(self, name: str) -> list[StreamAttribute]:
        for left, right in self.keys:
            if self.inner and name == left:  # punctuations of either side constrain it
                return all_attributes(
                    [self.left.stream_attributes(left), self.right.stream_attributes(right)]
                )
        return super().stream_attributes(name)

    def partition_choices(self) -> list[PartitionChoice]:
        key_side = {"inner": LEFT, "left": LEFT, "right": RIGHT}.get(
            self.kind
        )  # the side whose key is never null-filled
        return [PartitionChoice(pair, None if key_side is None else pair[key_side]) for pair in self.keys]

    def holders(self, below: Sequence[Holders]) -> Holders:
        by_partition_value = (
            left | {self._shared.get(name, name) for name in right}
            for left, right in zip(*below, strict=True)
        )
        return [names & set(self.schema.names) for names in by_partition_value]


@dataclass(frozen=True)
class SemiJoin(Keyed):
    """Left tuples with a partner on the right; ``anti``: without a partner (NOT EXISTS)."""

    anti: bool = False
    residual: Expression | None = None
    inner = False
    without_nulls = (LEFT,)

    @property
    def only_with_partner(self) -> tuple[int, ...]:
        """The sides whose tuples affect the result only with a partner."""
        return (RIGHT,) if self.anti else (LEFT, RIGHT)

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        return (
            self.side_closed(LEFT, Fate.BLOCKS if self.anti else Fate.GROWS, LEFT),
            self.side_closed(RIGHT, Fate.GROWS, None if self.anti else RIGHT),
        )

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        if port == LEFT:
            return super().translated(port, below)
        return replace(below[RIGHT].renamed({right: [left] for left, right in self.keys}), closes=NOTHING)

    def operator(self) -> ops.Operator:
        kind = "anti" if self.anti else "semi"
        return ops.Join(self.left.schema, self.right.schema, self.keys, kind, self.residual)

    @property
    def name(self) -> str:
        return "antijoin" if self.anti else "semijoin"

    @property
    def unblocked_by(self) -> str:
        then = "released" if self.anti else "dropped"
        return self.forgotten([f"{then}, if it has no partner,", "forgotten"])

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.left.distinct_key

    def ignores_duplicates(self, port: int) -> bool:
        return port == RIGHT and not self.can_fail

    def partition_choices(self) -> list[PartitionChoice]:
        return [PartitionChoice(pair, pair[LEFT]) for pair in self.keys]


@dataclass(frozen=True)
class NotIn(Binary):
    """Left tuples whose ``left_column`` is NOT IN the values of ``right_column``, with nulls.

    Without nulls on the right, left tuples without a null behave as in an antijoin.
    """

    sifts = True

    left_column: str
    right_column: str

    @property
    def ends_only(self) -> bool:
        return self.right.schema[self.right_column].nullable

    @property
    def keys(self) -> EquiKeys:
        """The pair of columns by which the right side closes left tuples."""
        return () if self.ends_only else ((self.left_column, self.right_column),)

    def operator(self) -> ops.Operator:
        return ops.NotIn(self.left.schema, self.right.schema, self.left_column, self.right_column)

    @property
    def parameters(self) -> str:
        return f"{self.left_column} NOT IN {self.right_column}"

    @property
    def unblocked_by(self) -> str:
        end, left, right = every_stream(self.right), self.left, self.right
        if self.ends_only:
            return f"nothing is released before the end of {end}, on one shard; a null there leaves nothing"
        lets_go = closed(right, closing_attributes(right, [self.right_column]))
        forgets = closed(left, closing_attributes(left, [self.left_column]))
        nulls = f"; where {self.left_column} is null, at the end of {end}, if that had no tuple"
        return (
            f"a tuple {which_side(self, LEFT)} is released, if it has no partner, once {lets_go}"
            f"{nulls if left.schema[self.left_column].nullable else ''}"
            f"; a tuple {which_side(self, RIGHT)} is forgotten once {forgets}; on one shard"
        )

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.left.distinct_key

    def ignores_duplicates(self, port: int) -> bool:
        return port == RIGHT

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        columns = tuple(right for _, right in self.keys)
        released = Need(
            Fate.BLOCKS, RIGHT, columns, retained=LEFT, passes=LEFT, whole=self.ends_only, pairs=self.keys
        )
        if self.ends_only:
            return (released,)
        forgotten = Need(Fate.GROWS, LEFT, (self.left_column,), retained=RIGHT)
        nulls = Scheme([self.left_column]) if self.left.schema[self.left_column].nullable else NONE
        null = Need(Fate.BLOCKS, LEFT, (), nulls=nulls, nulls_until=RIGHT, by=frozenset([nulls]))
        return (released, forgotten, null) if nulls else (released, forgotten)

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        result, column = super().translated(port, below), self.left_column
        if port == LEFT and self.left.schema[column].nullable and not (self.ends_only or below[RIGHT].ends):
            nulls = smallest([[column]])  # other punctuations stay pending with a retained null
            offers, closes = joint(result.offers, nulls), joint(result.closes, nulls)
            result = Outlook(offers, closes, result.prefixes & {column})
        return result

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return _needed_by_side(self, {*used, self.left_column, self.right_column})


def _needed_by_side(node: Binary, needed: Collection[str]) -> list[Sequence[str]]:
    """The needed columns of each input; column names are unique across inputs."""
    return [[name for name in side.schema.names if name in needed] for side in node.inputs]

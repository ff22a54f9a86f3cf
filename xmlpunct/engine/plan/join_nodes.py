"""Joins, and the conditions that are joins: IN, EXISTS and their negations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Binary, Choice, Constraint, Holders, Place, together
from xmlpunct.engine.plan.operator_text import closed, every_stream, places, which_side
from xmlpunct.engine.plan.schemes import (
    NOTHING,
    THE_END,
    Fate,
    Need,
    Outlook,
    Scheme,
    combined,
    either,
    joint,
    smallest,
)
from xmlpunct.engine.plan.time_bounds import bounded_by
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join.join_keys import LEFT, RIGHT
from xmlpunct.operators.join.join_output import PRESERVED
from xmlpunct.punctuations.punctuation import Punctuation

Keys = tuple[tuple[str, str], ...]
"""Equality attributes of a join: pairs of a left and a right one, of one type."""


@dataclass(frozen=True)
class Keyed(Binary):
    """A node that compares left tuples with the right ones that agree on ``keys`` and satisfy its residual."""

    keys: Keys

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
        return _of_sides(self, {*used, *tested}.union(*self.keys))

    always: ClassVar[tuple[str, ...]] = ()
    """Columns of both sides that count as equated."""

    def side_closed(self, below: Sequence[Outlook], side: int, fate: Fate) -> Need:
        """The need that the tuples of a side are closed by the other one: all that they could still meet."""
        port, given = 1 - side, below[1 - side]
        keys = [*(pair[port] for pair in self.keys), *self.always]
        around, above = bounded_by(self.residual, self.inputs[port].schema, self.inputs[side].schema)
        ordered = smallest([name] for name in above if given.has_prefix(name))
        need = given.need(fate, port, [*keys, *around], None, more=ordered)
        return replace(need, finite=side if below[side].ends else None)

    def sources(self, wanted: Punctuation) -> Iterable[Constraint]:
        right = dict(self.keys) if self.right_is_equal else {}
        for port, name, pattern in super().sources(wanted):
            yield port, name, pattern
            if port == LEFT and name in right:
                yield RIGHT, right[name], pattern

    @property
    def right_is_equal(self) -> bool:
        """Whether the keys of the right tuples that an output tuple is made for are equal to its own."""
        return True

    def forgotten(self, then: Sequence[str]) -> str:
        """In words, when each side's tuples go; ``then`` says what becomes of them."""
        texts = []
        for side in (LEFT, RIGHT):
            other = self.inputs[1 - side]
            keys = [pair[1 - side] for pair in self.keys]
            around, above = bounded_by(self.residual, other.schema, self.inputs[side].schema)
            met = places(other, [name for name in other.schema.names if name in {*around, *above}])
            ways = [closed(other, places(other, keys))] if keys else []
            ways += [closed(other, met, "closed every {} that it could meet")] if met else []
            when = ", or once ".join(ways) or f"{every_stream(other)} has ended"
            texts.append(f"a tuple {which_side(self, side)} is {then[side]} once {when}")
        if not self.keys:
            texts.append("without an equality it runs on one shard and compares everything with everything")
        return "; ".join(texts)


@dataclass(frozen=True)
class Join(Keyed):
    """Pairs that agree on ``keys`` and satisfy ``residual``. ``kind`` is inner, left, right or full.

    ``reordered``: it is the last of several joins in another order than the query's, which stays bounded. With
    ``combines`` it says what both inputs have promised together.

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
        """The sides whose tuples come out without a partner too."""
        return PRESERVED[self.kind]

    @property
    def only_with_partner(self) -> tuple[int, ...]:
        """The sides whose tuples count with a partner only."""
        return tuple(side for side in (LEFT, RIGHT) if side not in self.preserved)

    @property
    def without_nulls(self) -> tuple[int, ...]:
        """The sides that no row of nulls stands for."""
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
        if left is None or right is None or self.kind == "full":  # where rows of nulls come from both sides
            return None
        return left | {self._shared.get(name, name) for name in right}

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        """A side whose lonely tuples come out too waits for the other; so does what it says."""
        fates = [Fate.BLOCKS if side in self.preserved else Fate.GROWS for side in (LEFT, RIGHT)]
        needs = tuple(self.side_closed(below, side, fate) for side, fate in enumerate(fates))
        sides = [given.renamed(self.carriers(port)) for port, given in enumerate(below)]
        alone = [given if need.by else Outlook() for given, need in zip(sides, needs, strict=True)]
        # rows of nulls come until the preserved side ends
        alone = [
            replace(given, offers=given.offers - THE_END, closes=given.closes - THE_END)
            if 1 - side in self.preserved
            else given
            for side, given in enumerate(alone)
        ]
        told = "the joins below it are in another order than the query's, in which all stay bounded"
        return replace(either([combined(sides), *alone]), needs=needs, told=told if self.reordered else "")

    def carriers(self, port: int) -> dict[str, list[str]]:
        shared = {right: [left] for right, left in self._shared.items()} if port == RIGHT else {}
        return super().carriers(port) | shared | {name: [name] for name in self.always}

    @property
    def _shared(self) -> dict[str, str]:
        """The right columns that the output has under their left name."""
        return {right: left for left, right in self.keys} if self.inner else {}

    def places(self, name: str) -> list[Place]:
        for left, right in self.keys:
            if self.inner and name == left:  # either side speaks about it
                return together([self.left.places(left), self.right.places(right)])
        return super().places(name)

    def partition_choices(self) -> list[Choice]:
        kept = {"inner": LEFT, "left": LEFT, "right": RIGHT}.get(
            self.kind
        )  # the side whose key is never null-filled
        return [Choice(pair, None if kept is None else pair[kept]) for pair in self.keys]

    def holders(self, below: Sequence[Holders]) -> Holders:
        both = (
            left | {self._shared.get(name, name) for name in right}
            for left, right in zip(*below, strict=True)
        )
        return [known & set(self.schema.names) for known in both]


@dataclass(frozen=True)
class SemiJoin(Keyed):
    """Left tuples that have a partner on the right; ``anti``: that have none (NOT EXISTS)."""

    anti: bool = False
    residual: Expression | None = None
    inner = False
    without_nulls = (LEFT,)

    @property
    def only_with_partner(self) -> tuple[int, ...]:
        """The sides whose tuples count with a partner only."""
        return (RIGHT,) if self.anti else (LEFT, RIGHT)

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        left = self.side_closed(below, LEFT, Fate.BLOCKS if self.anti else Fate.GROWS)
        right = self.side_closed(below, RIGHT, Fate.GROWS)
        said = below[LEFT] if left.by else Outlook()
        if right.by and not self.anti:
            moved = below[RIGHT].renamed({pair[RIGHT]: [pair[LEFT]] for pair in self.keys})
            said = either([said, replace(moved, closes=NOTHING)])
        return replace(said, needs=(left, right), told="")

    def operator(self) -> ops.Operator:
        return ops.SemiJoin(self.left.schema, self.right.schema, self.keys, self.anti, self.residual)

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

    def partition_choices(self) -> list[Choice]:
        return [Choice(pair, pair[LEFT]) for pair in self.keys]


@dataclass(frozen=True)
class NotIn(Binary):
    """Left tuples whose ``left_column`` is NOT IN the values of ``right_column``, where nulls can occur.

    If none can occur on the right, left tuples without a null are those of an antijoin.
    """

    sifts = True

    left_column: str
    right_column: str

    @property
    def ends_only(self) -> bool:
        return self.right.schema[self.right_column].nullable

    @property
    def keys(self) -> Keys:
        """The columns by which the right side closes left tuples."""
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
        lets_go = closed(right, places(right, [self.right_column]))
        forgets = closed(left, places(left, [self.left_column]))
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

    def outlook(self, below: Sequence[Outlook]) -> Outlook:
        within = [] if self.ends_only else [self.right_column]
        need = below[RIGHT].need(Fate.BLOCKS, RIGHT, within, None)
        if self.ends_only:
            return replace(below[LEFT] if need.by else Outlook(), needs=(need,), told="")
        ends = below[LEFT].ends, below[RIGHT].ends
        kept = below[LEFT].need(Fate.GROWS, LEFT, [self.left_column], None)
        needs = [replace(need, finite=LEFT if ends[LEFT] else None)]
        needs += [replace(kept, finite=RIGHT if ends[RIGHT] else None)]
        said = below[LEFT] if need.by else Outlook()
        if self.left.schema[self.left_column].nullable and not ends[RIGHT]:
            alone = smallest([[self.left_column]])  # what else matches a null is held back with it
            needs.append(Need(Fate.BLOCKS, LEFT, (), alone, Scheme([self.left_column])))
            said = Outlook(
                joint(said.offers, alone), joint(said.closes, alone), said.prefixes & {self.left_column}
            )
        return replace(said, needs=tuple(needs), told="")

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return _of_sides(self, {*used, self.left_column, self.right_column})


def _of_sides(node: Binary, needed: Collection[str]) -> list[Sequence[str]]:
    """What is needed of the two inputs, which name their columns differently."""
    return [[name for name in side.schema.names if name in needed] for side in node.inputs]

"""Joins, semijoins and antijoins, also for IN, EXISTS and their negations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import (
    Binary,
    Constraint,
    Holders,
    Lasting,
    PartitionChoice,
    StreamAttribute,
    all_attributes,
)
from xmlpunct.engine.plan.operator_text import completion_text, every_stream, purging
from xmlpunct.engine.plan.schemes import (
    NOTHING,
    Fate,
    Need,
    Outlook,
    joint,
    nullable,
    smallest,
)
from xmlpunct.engine.plan.time_bounds import bounded_by
from xmlpunct.expressions.expression import Expression
from xmlpunct.expressions.program import can_fail
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
from xmlpunct.operators.join.join_output import LEFT_ONLY, PRESERVED
from xmlpunct.operators.relations.instants import Instants
from xmlpunct.operators.retained_outline import EVERYTHING
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.change_columns import AT

EquiKeys = tuple[tuple[str, str], ...]
"""Equality attributes of a join: pairs of a left and a right attribute, of the same type."""


@dataclass(frozen=True)
class Join(Binary):
    """Pairs of tuples that agree on ``keys`` and satisfy ``residual``; or the left tuples with, or without, a partner.

    ``kind`` is inner, left, right, full, semi (with a partner) or anti (without one: NOT EXISTS). ``reordered``: it is
    the last of several joins that were reordered to stay bounded. ``combines``: it combines punctuations of both
    inputs. With ``instants``, it joins relations at each instant, and ``kind`` is inner, semi or anti.

    Attribute names of the two sides differ. An inner join's output has each key once, under its left name.
    """

    withholds = True

    keys: EquiKeys
    kind: str = "inner"
    residual: Expression | None = None
    combines: bool = False
    reordered: bool = False
    instants: Instants | None = None

    @property
    def inner(self) -> bool:
        return self.kind == "inner"

    @property
    def left_only(self) -> bool:
        """True if its output is left tuples and not pairs."""
        return self.kind in LEFT_ONLY

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
        """The sides that are in the output and never null-filled."""
        sides = (LEFT,) if self.left_only else (LEFT, RIGHT)
        return tuple(side for side in sides if 1 - side not in self.preserved)

    def operator(self) -> ops.Operator:
        schemas = self.left.schema, self.right.schema
        if self.instants is None:
            return ops.Join(*schemas, self.keys, self.kind, self.residual, self.combines)
        if self.left_only:
            return ops.ChangeSemi(*schemas, self.keys, self.instants, self.residual, self.kind)
        return ops.ChangeJoin(*schemas, self.keys, self.instants, self.residual)

    # Descriptions

    @property
    def name(self) -> str:
        return f"{self.kind}join" if self.left_only else "join"

    @property
    def parameters(self) -> str:
        tests = [f"{left} = {right}" for left, right in self.keys]
        tests += [] if self.residual is None else [str(self.residual)]
        return f"on {' AND '.join(tests)}" if tests else "of all pairs"

    def describe(self) -> str:
        return super().describe() if self.left_only else f"{self.kind} {super().describe()}"

    @property
    def unblocked_by(self) -> str:
        if self.instants is not None:
            then = "pairs go through at once; they are complete"
            then = "a tuple is released" if self.left_only else then
            return f"{then} at an instant once {self._complete_pair()}"
        alone = "" if self.keys else "; without an equality it runs on one shard and compares all pairs"
        return purging(self) + alone

    def _complete_pair(self) -> str:
        """Text: when the pairs of an instant are complete."""
        sides: list[str] = []
        for side in (LEFT, RIGHT):
            text = completion_text(self.inputs[side], [pair[side] for pair in self.keys])
            sides.extend(part for part in text.split(" and ") if part not in sides)
        where = "" if self.keys else "; without an equality it runs on one shard"
        return f"{' and '.join(sides)}; then what is retained of the past is what still holds{where}"

    # Tuples

    @property
    def can_fail(self) -> bool:
        return self.residual is not None and can_fail(self.residual)

    @property
    def lasting(self) -> Lasting:
        if self.instants is None:
            return Lasting.FOR_EVER
        return min(self.inputs[side].lasting for side in (self.preserved or (LEFT, RIGHT)))

    @property
    def distinct_key(self) -> frozenset[str] | None:
        left, right = self.left.distinct_key, self.right.distinct_key
        if self.instants is not None or self.kind == "full":  # full: nulls may fill either side
            return None
        if self.left_only or left is None or right is None:
            return left if self.left_only else None
        return left | {self._shared.get(name, name) for name in right}

    def ignores_duplicates(self, port: int) -> bool:
        return self.left_only and port == RIGHT and self.instants is None and not self.can_fail

    # Columns and punctuations

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        tested = () if self.residual is None else self.residual.columns()
        return _needed_by_side(self, {*used, *tested}.union(*self.keys))

    @property
    def waiting(self) -> str:  # type: ignore[override]
        return EVERYTHING if self.left_only and self.instants is not None else ""

    @property
    def _always(self) -> tuple[str, ...]:
        """Columns of both sides that count as equated."""
        return () if self.instants is None else (AT,)

    @property
    def _shared(self) -> dict[str, str]:
        """Right columns whose output name is their left name."""
        return {right: left for left, right in self.keys} if self.inner else {}

    def carriers(self, port: int) -> dict[str, list[str]]:
        shared = {right: [left] for right, left in self._shared.items()} if port == RIGHT else {}
        always = () if self.left_only else self._always
        return super().carriers(port) | shared | {name: [name] for name in always}

    def follows(self, name: str) -> list[tuple[int, str]]:
        return [(LEFT, name), (RIGHT, name)] if name in self._always else self.carries(name)

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        # the right keys of an output tuple equal its left keys
        right = dict(self.keys) if self.inner or self.left_only else {}
        for port, name, pattern in super().sources(requested):
            yield port, name, pattern
            if port == LEFT and name in right:
                yield RIGHT, right[name], pattern

    def stream_attributes(self, name: str) -> list[StreamAttribute]:
        for left, right in self.keys:
            if self.inner and name == left:  # punctuations of either side constrain it
                return all_attributes(
                    [self.left.stream_attributes(left), self.right.stream_attributes(right)]
                )
        return super().stream_attributes(name)

    # Predictions before a run

    @property
    def passes_by_needs(self) -> bool:  # type: ignore[override]
        return self.left_only

    @property
    def awaits(self) -> tuple[Need, ...]:
        """A preserved side waits for the other side, with its tuples without partner and its punctuations.

        The left tuples of a relation are released at an instant once both sides have closed the instant.
        """
        left_waits = self.left_only and self.instants is not None
        waiting = {*self.preserved, LEFT} if left_waits else self.preserved
        passing = (LEFT,) if left_waits or self.kind == "anti" else SIDES
        needs = [self._side_closed(s, s in waiting, s in passing) for s in SIDES]
        if left_waits:
            schema = self.left.schema
            needs.insert(0, Need(Fate.BLOCKS, LEFT, schema.names, nullable(schema)))
        return tuple(needs)

    def _side_closed(self, side: int, is_waiting: bool, is_passing: bool) -> Need:
        """The need that the other side closes all possible partners of the tuples of ``side``."""
        port = 1 - side
        around, above = bounded_by(self.residual, self.inputs[port].schema, self.inputs[side].schema)
        pairs = tuple((pair[side], pair[port]) for pair in self.keys)
        return Need(
            Fate.BLOCKS if is_waiting else Fate.GROWS,
            port,
            (*(closing for _, closing in pairs), *self._always, *around),
            prefixes=tuple(above),
            retained=side,
            passes=side if is_passing else None,
            null_filled=port in self.preserved and not self.left_only,
            whole=not (self.combines or self.left_only or side in self.preserved),
            pairs=pairs,
            effect=self._effect(side),
        )

    def _effect(self, side: int) -> str:
        """Text: the effect on a tuple of ``side`` when all its possible partners are closed."""
        if self.left_only and side == LEFT:
            return f"{'released' if self.preserved else 'dropped'}, if it has no partner,"
        lonely = ", and released with nulls if it had no partner," if side in self.preserved else ""
        return f"forgotten{lonely}"

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        if port == LEFT or not self.left_only:
            return super().translated(port, below)
        return replace(below[RIGHT].renamed({right: [left] for left, right in self.keys}), closes=NOTHING)

    @property
    def note(self) -> str:
        text = "the joins below it are in an order in which all stay bounded, not in the query's order"
        return text if self.reordered else ""

    # Partitions

    def partition_choices(self) -> list[PartitionChoice]:
        sides = {"full": None, "right": RIGHT}  # the side whose key is never null-filled
        key_side = sides.get(self.kind, LEFT)
        return [PartitionChoice(pair, None if key_side is None else pair[key_side]) for pair in self.keys]

    def holders(self, below: Sequence[Holders]) -> Holders:
        by_partition_value = (
            left | {self._shared.get(name, name) for name in right}
            for left, right in zip(*below, strict=True)
        )
        return [names & set(self.schema.names) for names in by_partition_value]


@dataclass(frozen=True)
class NotIn(Binary):
    """Left tuples whose ``left_column`` is NOT IN the values of ``right_column``, with nulls.

    Without nulls on the right, left tuples without a null behave as in an antijoin.
    """

    withholds = True

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
        if self.ends_only:
            end = every_stream(self.right)
            return f"nothing is released before the end of {end}, on one shard; a null there leaves nothing"
        return f"{purging(self)}; on one shard"

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.left.distinct_key

    def ignores_duplicates(self, port: int) -> bool:
        return port == RIGHT

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        effect = "released, if it has no partner,"
        columns = tuple(right for _, right in self.keys)
        released = Need(
            Fate.BLOCKS, RIGHT, columns, retained=LEFT, passes=LEFT, pairs=self.keys, effect=effect
        )
        if self.ends_only:
            return (replace(released, whole=True),)
        name, swapped = self.left_column, ((self.right_column, self.left_column),)
        forgotten = Need(Fate.GROWS, LEFT, (name,), retained=RIGHT, pairs=swapped, effect="forgotten")
        nulls = frozenset([name])
        null = Need(Fate.BLOCKS, LEFT, (), nulls=nulls, nulls_until=RIGHT, by=frozenset([nulls]))
        return (released, null, forgotten) if self.left.schema[name].nullable else (released, forgotten)

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

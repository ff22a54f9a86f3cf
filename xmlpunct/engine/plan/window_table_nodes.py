"""Windows as columns of a table: TUMBLE, HOP and SESSION."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from xmlpunct import operators as ops
from xmlpunct.engine.plan.node import Constraint, Node, PartitionChoice, Unary, constraints
from xmlpunct.engine.plan.operator_text import closed, closing_attributes, only_at_end
from xmlpunct.engine.plan.schemes import Fate, Need, Outlook, either, nullable
from xmlpunct.operators.time.windows.frame import HoppingWindows
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.types.cut_points import cuts
from xmlpunct.types.durations import in_words
from xmlpunct.types.pattern import Pattern, ordinals


@dataclass(frozen=True)
class Hop(Unary):
    """Each tuple with each of its windows. ``start`` and ``end`` name the window's columns, or are None."""

    keeps_order = True

    timestamp: str
    frame: HoppingWindows
    start: str | None
    end: str | None

    def operator(self) -> ops.Operator:
        return ops.Hop(self.input.schema, self.timestamp, self.frame, self.start, self.end)

    @property
    def name(self) -> str:
        return "tumble" if self.frame.slide == self.frame.size else "hop"

    @property
    def parameters(self) -> str:
        return f"{self.timestamp} {self.frame}"

    @property
    def can_fail(self) -> bool:
        """True if a window may exceed the range of the type; CHECK on the timestamp can exclude that."""
        return not self.frame.fits(*self.input.schema[self.timestamp].ends)

    @property
    def distinct_key(self) -> frozenset[str] | None:
        below, bound = self.input.distinct_key, self.start or self.end
        return None if below is None or bound is None else below | {bound}

    def narrowed(self, used: Collection[str]) -> Node:
        start, end = (name if name in used else None for name in (self.start, self.end))
        return replace(self, start=start, end=end)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[name for name in self.input.schema.names if name in used or name == self.timestamp]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [] if name in (self.start, self.end) else [(0, name)]

    def follows(self, name: str) -> list[tuple[int, str]]:
        return [(0, self.timestamp if name in (self.start, self.end) else name)]

    def sources(self, requested: Punctuation) -> Iterable[Constraint]:
        for name, pattern in constraints(requested):
            if name in (self.start, self.end):
                yield 0, self.timestamp, self._instants(pattern, 0 if name == self.start else self.frame.size)
            else:
                yield 0, name, pattern

    def _instants(self, pattern: Pattern, shift: int) -> Pattern:
        """The instants of windows that begin ``shift`` before a value of the pattern."""
        pieces = cuts(pattern)
        if not pieces:
            return pattern
        first, last = pieces[0][0][1] - shift, pieces[-1][1][1] - 1 - shift
        return ordinals(self.frame.type, first, last + self.frame.size - 1)

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [None if columns is None else {name for name in columns if name in self.input.schema}]

    def partition_choices(self) -> None:
        return None


@dataclass(frozen=True)
class WindowPromises(Unary):
    """Derives punctuations of windows, which a `Hop` below has added, from those of the timestamp.

    It is a separate node because it retains closed instants, while `Hop` runs in the reader. ``keeps``: the output has
    the timestamp.
    """

    keeps_order = True

    timestamp: str
    frame: HoppingWindows
    start: str | None
    end: str | None
    keeps: bool = True

    def operator(self) -> ops.Operator:
        return ops.WindowPromises(
            self.input.schema, self.timestamp, self.frame, self.start, self.end, self.keeps
        )

    @property
    def _bounds(self) -> list[str]:
        return [name for name in (self.start, self.end) if name is not None]

    @property
    def parameters(self) -> str:
        return ", ".join(self._bounds)

    @property
    def unblocked_by(self) -> str:
        closing = closing_attributes(self.input, [self.timestamp])
        if not closing or not self._bounds:
            return ""
        return f"a value of {' or '.join(self._bounds)} is closed once {closed(self.input, closing)}, by fused ranges"

    @property
    def distinct_key(self) -> frozenset[str] | None:
        below = self.input.distinct_key
        return below if below is not None and below <= set(self.schema.names) else None

    @property
    def repeats(self) -> bool:
        return True

    def narrowed(self, used: Collection[str]) -> Node:
        start, end = (name if name in used else None for name in (self.start, self.end))
        if start is None and end is None:
            return self.input
        return replace(self, start=start, end=end, keeps=self.keeps and self.timestamp in used)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        return [[name for name in self.input.schema.names if name in used or name == self.timestamp]]

    def of_use(self, columns: Collection[str] | None) -> Sequence[Collection[str] | None]:
        return [None if columns is None else {*columns, self.timestamp}]  # which closes windows

    def carriers(self, port: int) -> dict[str, list[str]]:
        names = {name: [name] for name in self.schema.names if name not in self._bounds}
        return names | {self.timestamp: [*names.get(self.timestamp, []), *self._bounds]}

    def partition_choices(self) -> list[PartitionChoice]:
        # Not by the timestamp: its values are fused, so each shard needs all of them.
        return [PartitionChoice((name,), name) for name in self.schema.names if name != self.timestamp]


@dataclass(frozen=True)
class Session(Unary):
    """Each tuple with its session among the tuples with the same key ``by`` (none: all tuples)."""

    withholds = True
    waiting = "waiting"

    timestamp: str
    gap: int
    by: tuple[str, ...]
    start: str | None
    end: str | None

    def operator(self) -> ops.Operator:
        return ops.Session(self.input.schema, self.timestamp, self.gap, self.by, self.start, self.end)

    @property
    def parameters(self) -> str:
        gap = in_words(self.input.schema[self.timestamp].type, self.gap)
        partition = f" of each {', '.join(self.by)}" if self.by else ""
        return f"{self.timestamp}{partition}, gap {gap}"

    @property
    def unblocked_by(self) -> str:
        closing = closing_attributes(self.input, [self.timestamp, *self.by])
        if self.timestamp not in closing:
            return only_at_end(self)
        nulls = [name for name in self.by if self.input.schema[name].nullable]
        return (
            f"a session is released once {closed(self.input, closing)}, from a gap before it to a gap behind it"
            + (f"; where {' or '.join(nulls)} is null, with * for that" if nulls else "")
        )

    @property
    def can_fail(self) -> bool:
        """True if a session may end beyond the range of the type; CHECK on the timestamp can exclude that."""
        timestamp = self.input.schema[self.timestamp]
        return timestamp.ends[1] + self.gap > timestamp.type.ordinal(timestamp.type.highest)

    @property
    def distinct_key(self) -> frozenset[str] | None:
        return self.input.distinct_key

    def narrowed(self, used: Collection[str]) -> Node:
        start, end = (name if name in used else None for name in (self.start, self.end))
        return replace(self, start=start, end=end)

    def needs(self, used: Collection[str]) -> list[Sequence[str]]:
        needed = {*used, *self.by, self.timestamp}
        return [[name for name in self.input.schema.names if name in needed]]

    def carries(self, name: str) -> list[tuple[int, str]]:
        return [] if name in (self.start, self.end) else [(0, name)]

    def follows(self, name: str) -> list[tuple[int, str]]:
        return [(0, self.timestamp if name in (self.start, self.end) else name)]

    passes_by_needs = True

    @property
    def awaits(self) -> tuple[Need, ...]:
        columns, nulls = (*self.by, self.timestamp), nullable(self.input.schema)
        return (Need(Fate.BLOCKS, 0, columns, nulls, self.by, passes=0),)

    def translated(self, port: int, below: Sequence[Outlook]) -> Outlook:
        """Sessions are closed in any order of instants, but their start and end only in ascending order."""
        ends = {self.timestamp: [name for name in (self.start, self.end) if name is not None]}
        ended = below[0].in_order(self.timestamp).renamed(self.carriers(0) | ends)
        return either([super().translated(port, below), ended])

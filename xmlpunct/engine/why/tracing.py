"""From a result that is waited for down to what the streams have to say.

Two questions go down the plan. *Release*: what do retained tuples that match a pattern wait for? *Promise*: what is
missing until a node promises a pattern? What the streams have said already is missing no more. Where an input's tuples
are retained until the other one closes them, what is retained says which values those are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xmlpunct.engine.plan import (
    ChangeGroupBy,
    Compared,
    Difference,
    GroupBy,
    Join,
    Keyed,
    Node,
    NotIn,
    Scan,
    SemiJoin,
    Stream,
    constraints,
    is_changing,
)
from xmlpunct.engine.why.holding import Holding, RetainedBoxes
from xmlpunct.operators.join.join_keys import LEFT, RIGHT, SIDES
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.types.pattern import WILDCARD, Pattern

TwoSided = Keyed | Compared | NotIn
"""Nodes that retain an input's tuples until the other input closes them."""


@dataclass(frozen=True)
class Held:
    """Which operator retains something, and since when."""

    operator: str
    since: float


@dataclass(frozen=True)
class Missing:
    """A punctuation that a stream has to say for what is held somewhere. None: it has said it."""

    stream: Stream
    punctuation: Punctuation | None
    held: Held
    begun: bool = False
    """Whether a larger punctuation may say it, or a part of it."""


class Tracing:
    """Asks a plan, of which ``holding`` says what was said to it and what it retains.

    Each question is asked once: there are two ways down from a join, and from that below it two more. ``said`` has what
    streams will say, if that is known: it may be more than what is asked for in one place.
    """

    def __init__(self, holding: Holding, said: Mapping[str, Punctuation] | None = None) -> None:
        self._holding, self._said = holding, said or {}
        self._known: dict[tuple[int, Punctuation, Held | None], list[Missing]] = {}

    def release(self, node: Node, wanted: Punctuation) -> list[Missing]:
        """What is missing until the retained results of a node, and of all below it, that match are out."""
        key = node.number, wanted, None
        if key not in self._known:
            self._known[key] = [] if wanted.is_empty else self._release(node, wanted)
        return self._known[key]

    def promise(self, node: Node, wanted: Punctuation, held: Held) -> list[Missing]:
        """What is missing until a node promises ``wanted``, for what is held above it, and what is not any more."""
        key = node.number, wanted, held
        if key not in self._known:
            self._known[key] = [] if wanted.is_empty else self._promise(node, wanted, held)
        return self._known[key]

    def _release(self, node: Node, wanted: Punctuation) -> list[Missing]:
        asks, *others = node.every_ask(wanted)
        below = [self.release(child, ask) for child, ask in zip(node.inputs, asks, strict=True)]
        below += [[m for more in others for m in self.release(node.inputs[0], more[0])]] if others else []
        if isinstance(node, TwoSided) and not is_changing(node):
            coming = [missing for side in _giving(node) for missing in below[side]]
            return _still(coming + self._partnerless(node, wanted, asks, below))
        first = next((missing.held for of in below for missing in of), None)
        if not node.waiting:
            return [missing for of in below for missing in of]
        kept = self._holding.kept(node.number, node.waiting).meeting(wanted)
        if kept and first is None:
            asks = node.asks(_within(wanted, kept))
        if kept or (isinstance(node, GroupBy | ChangeGroupBy) and not node.keys):  # a group from the start
            first = self._held(node, kept)
        return [] if first is None else _still(self._of_all(node, asks, first))

    def _promise(self, node: Node, wanted: Punctuation, held: Held) -> list[Missing]:
        if isinstance(node, Scan):
            stream, origins = node.stream, dict(zip(node.columns, node.names, strict=True))
            names = [origins.get(name) for name in stream.sent.names]
            p = wanted.rebase(stream.sent, [None if n is None else wanted.schema.index(n) for n in names])
            missing = self._holding.missing(stream.name, p)
            return [Missing(stream, missing, held, missing != p or self._said.get(stream.name, p) != p)]
        asks, *others = node.every_ask(wanted)
        if isinstance(node, TwoSided) and not is_changing(node):
            ways = [self._of_all(node, asks, held)] if isinstance(node, Join) and node.combines else []
            ways += [self._by_side(node, side, asks[side], held) for side in _promising(node, wanted)]
            if ways:
                return min(ways, key=_size)
        return [missing for of in (asks, *others) for missing in self._of_all(node, of, held)]

    def _of_all(self, node: Node, asks: Sequence[Punctuation], held: Held) -> list[Missing]:
        """What is missing until each input promises what it is asked."""
        pairs = zip(node.inputs, asks, strict=True)
        return [missing for below, ask in pairs for missing in self.promise(below, ask, held)]

    def _by_side(self, node: TwoSided, side: int, mine: Punctuation, held: Held) -> list[Missing]:
        """What is missing until one input's promise goes through: that, and that nothing retained matches it."""
        mine = _speakable(node.inputs[side], mine)
        missing = self.promise(node.inputs[side], mine, held)
        retained = RetainedBoxes.together(
            self._holding.kept(node.number, f"retained{side}_{i}") for i in (0, 1)
        )
        kept = retained.meeting(mine, _stored(node, side))
        coming = held if self.release(node.inputs[side], mine) else None
        if _combines(node, side) and kept.count < retained.count and any(m.begun for m in missing):
            coming = held  # a larger punctuation may say it, which what is retained elsewhere holds back
        return missing + self._closing(node, side, mine, kept, coming)

    def _partnerless(
        self, node: TwoSided, wanted: Punctuation, asks: Sequence[Punctuation], below: Sequence[list[Missing]]
    ) -> list[Missing]:
        """What is missing until the tuples are out that go out for having no partner."""
        found: list[Missing] = []
        for side in _releasing(node, wanted):
            kept = self._holding.kept(node.number, f"retained{side}_0")
            coming = below[side][0].held if below[side] else None
            kept = kept.meeting(asks[side], _stored(node, side))
            found += self._closing(node, side, asks[side], kept, coming)
        return found

    def _closing(
        self, node: TwoSided, side: int, mine: Punctuation, kept: RetainedBoxes, coming: Held | None
    ) -> list[Missing]:
        """What is missing until the other input has closed all tuples of ``mine`` that are kept, or are coming."""
        if not kept and coming is None:
            return []
        known = mine if coming is not None else _within(mine, kept, _stored(node, side))
        other, given = node.inputs[1 - side], dict(constraints(known))
        patterns: list[Pattern] = [WILDCARD] * len(other.schema)
        for pair in _pairs(node):
            patterns[other.schema.index(pair[1 - side])] = given.get(pair[side], WILDCARD)
        held = self._held(node, kept) if kept else coming
        assert held is not None
        return self.promise(other, Punctuation(other.schema, patterns), held)

    def _held(self, node: Node, kept: RetainedBoxes) -> Held:
        return Held(f"{node.name} #{node.number}", kept.since if kept else self._holding.started)


def _size(found: list[Missing]) -> tuple[int, int]:
    """How many streams have to say something, and how often one of them has to end."""
    still = _still(found)
    ends = sum(m.punctuation is not None and m.punctuation.is_everything for m in still)
    return len({m.stream.name for m in still}), ends


def _still(found: list[Missing]) -> list[Missing]:
    """Those that have not been said."""
    return [missing for missing in found if missing.punctuation is not None]


def _speakable(node: Node, p: Punctuation) -> Punctuation:
    """The part of a punctuation that a node's own can have; ``*`` where it can promise nothing smaller."""
    places = [place if _speaks(node, name, pattern) else None for place, (name, pattern) in _all(p)]
    return p.rebase(p.schema, places)


def _all(p: Punctuation) -> Iterator[tuple[int, tuple[str, Pattern]]]:
    return enumerate(zip(p.schema.names, p.patterns, strict=True))


def _speaks(node: Node, name: str, pattern: Pattern) -> bool:
    """Whether a node's punctuations can have a pattern for one of its columns."""
    if pattern is WILDCARD or isinstance(node, Scan):
        return True
    below = list(node.sources(Punctuation.of(node.schema, **{name: pattern})))
    return bool(below) and all(q is not WILDCARD and _speaks(node.inputs[i], n, q) for i, n, q in below)


def _within(p: Punctuation, kept: RetainedBoxes, names: Mapping[str, str] | None = None) -> Punctuation:
    """What a punctuation says of the tuples that are kept."""
    of = {a.name: (names or {}).get(a.name, a.name) for a in p.schema}
    around = Punctuation(p.schema, [kept.pattern(a.type, of[a.name]) for a in p.schema])
    return combine(p, around) or p


def _pairs(node: TwoSided) -> Sequence[tuple[str, str]]:
    """The columns of both inputs by which one closes the other's tuples. Without any, only its end does."""
    if isinstance(node, Keyed | NotIn):
        return node.keys
    if isinstance(node, Compared):
        return [*zip(node.left.schema.names, node.right.schema.names, strict=True)]
    return ()


def _stored(node: TwoSided, side: int) -> Mapping[str, str]:
    """The names under which a side's tuples are retained, where they are others."""
    if not isinstance(node, Compared):
        return {}
    return dict(zip(node.inputs[side].schema.names, node.schema.names, strict=True))


def _promising(node: TwoSided, wanted: Punctuation) -> list[int]:
    """The inputs whose promises can give ``wanted``, once nothing matches them that is retained of their tuples."""
    names = {name for name, _ in constraints(wanted)}
    if isinstance(node, Join):
        return [s for s in SIDES if s in node.without_nulls or names & {*node.inputs[s].schema.names}]
    if isinstance(node, SemiJoin):
        return [LEFT] if node.anti or not names & {left for left, _ in node.keys} else [LEFT, RIGHT]
    return [LEFT] if isinstance(node, Difference | NotIn) else [*SIDES]


def _combines(node: TwoSided, side: int) -> bool:
    """Whether a side's promises go through, in part, as far as the other side closes what they are about."""
    if isinstance(node, Join):
        return node.combines or side in node.preserved
    return not node.ends_only


def _giving(node: TwoSided) -> Sequence[int]:
    """The inputs whose tuples can give results. Those of the others only take results away."""
    takes_away = isinstance(node, Difference | NotIn) or (isinstance(node, SemiJoin) and node.anti)
    return [LEFT] if takes_away else SIDES


def _releasing(node: TwoSided, wanted: Punctuation) -> Sequence[int]:
    """The inputs whose tuples wait to go out without a partner, if they may match ``wanted``."""
    if isinstance(node, Join):
        names = {name for name, _ in constraints(wanted)}
        return [s for s in node.preserved if not names & {*node.inputs[1 - s].schema.names}]
    if isinstance(node, SemiJoin):
        return [LEFT] if node.anti else []
    return [LEFT] if isinstance(node, Difference | NotIn) else []

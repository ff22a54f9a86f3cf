"""From a pending result down the plan to the missing punctuations of the streams.

Two questions go down the plan. *Release*: which punctuations do retained tuples that match a pattern wait for?
*Promise*: which punctuations are missing until a node emits a pattern? Punctuations that streams have emitted are not
missing. Where one input closes retained tuples of another, the values of these tuples restrict the question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xmlpunct.engine.plan import GroupBy, Node, Scan, Stream, constraints, is_changing
from xmlpunct.engine.plan.schemes import Fate, Need
from xmlpunct.engine.why.holding import Holding, RetainedBoxes
from xmlpunct.punctuations.punctuation import Punctuation, combine
from xmlpunct.types.pattern import WILDCARD, Pattern


@dataclass(frozen=True)
class Held:
    """An operator that retains tuples, and the time since when, in seconds since 1970."""

    operator: str
    since: float


@dataclass(frozen=True)
class Missing:
    """A punctuation of a stream that retained tuples wait for. None: the stream has emitted it."""

    stream: Stream
    punctuation: Punctuation | None
    held: Held
    begun: bool = False
    """True if the stream has emitted a part of it, or may emit a larger one."""


class Tracing:
    """Traces a plan, of which ``holding`` has the received punctuations and an outline of the retained tuples.

    Each answer is computed once: two ways lead down from a join, and two more from a join below it. ``covering`` has
    for each stream the punctuation of an earlier trace, which may cover more than one operator waits for.
    """

    def __init__(self, holding: Holding, covering: Mapping[str, Punctuation] | None = None) -> None:
        self._holding, self._covering = holding, covering or {}
        self._answers: dict[tuple[int, Punctuation, Held | None], list[Missing]] = {}

    def release(self, node: Node, wanted: Punctuation) -> list[Missing]:
        """The missing punctuations until matching tuples, retained by a node or below it, are released."""
        key = node.number, wanted, None
        if key not in self._answers:
            self._answers[key] = [] if wanted.is_empty else self._release(node, wanted)
        return self._answers[key]

    def promise(self, node: Node, wanted: Punctuation, held: Held) -> list[Missing]:
        """The punctuations until a node emits ``wanted``, for tuples ``held`` above it, and those already emitted."""
        key = node.number, wanted, held
        if key not in self._answers:
            self._answers[key] = [] if wanted.is_empty else self._promise(node, wanted, held)
        return self._answers[key]

    def _release(self, node: Node, wanted: Punctuation) -> list[Missing]:
        asks, *others = node.every_ask(wanted)
        below = [self.release(child, ask) for child, ask in zip(node.inputs, asks, strict=True)]
        below += [[m for more in others for m in self.release(node.inputs[0], more[0])]] if others else []
        if needs := _two_sided(node):
            giving = [side for side, need in needs.items() if need.passes is not None]
            coming = [missing for side in giving for missing in below[side]]
            return _still(coming + self._partnerless(node, needs, asks, below))
        first = next((missing.held for of in below for missing in of), None)
        if not node.waiting:
            return [missing for of in below for missing in of]
        kept = self._holding.kept(node.number, node.waiting).meeting(wanted)
        if kept and first is None:
            asks = node.asks(_within(wanted, kept))
        if kept or (isinstance(node, GroupBy) and not node.keys):  # a group from the start
            first = self._held(node, kept)
        return [] if first is None else _still(self._of_all(node, asks, first))

    def _promise(self, node: Node, wanted: Punctuation, held: Held) -> list[Missing]:
        if isinstance(node, Scan):
            stream, origins = node.stream, dict(zip(node.columns, node.names, strict=True))
            names = [origins.get(name) for name in stream.sent.names]
            p = wanted.rebase(stream.sent, [None if n is None else wanted.schema.index(n) for n in names])
            missing = self._holding.missing(stream.name, p)
            return [Missing(stream, missing, held, missing != p or self._covering.get(stream.name, p) != p)]
        asks, *others = node.every_ask(wanted)
        needs = _two_sided(node).items()
        ways = [self._of_all(node, asks, held)] if node.combines else []
        ways += [
            self._by_side(node, need, asks[side], held) for side, need in needs if _passes(node, need, asks)
        ]
        if ways:
            return min(ways, key=_size)
        return [missing for of in (asks, *others) for missing in self._of_all(node, of, held)]

    def _of_all(self, node: Node, asks: Sequence[Punctuation], held: Held) -> list[Missing]:
        """The missing punctuations until each input emits its one of ``asks``."""
        pairs = zip(node.inputs, asks, strict=True)
        return [missing for below, ask in pairs for missing in self.promise(below, ask, held)]

    def _by_side(self, node: Node, need: Need, mine: Punctuation, held: Held) -> list[Missing]:
        """The missing punctuations until a punctuation of one input passes, which no retained tuple may match."""
        assert need.retained is not None
        side = need.retained
        mine = _speakable(node.inputs[side], mine)
        missing = self.promise(node.inputs[side], mine, held)
        retained = RetainedBoxes.together(
            self._holding.kept(node.number, f"retained{side}_{i}") for i in (0, 1)
        )
        kept = retained.meeting(mine, _stored(node, side))
        coming = held if self.release(node.inputs[side], mine) else None
        if not need.whole and kept.count < retained.count and any(m.begun for m in missing):
            coming = held  # it may come in a larger punctuation, which other retained tuples block
        return missing + self._closing(node, need, mine, kept, coming)

    def _partnerless(
        self,
        node: Node,
        needs: Mapping[int, Need],
        asks: Sequence[Punctuation],
        below: Sequence[list[Missing]],
    ) -> list[Missing]:
        """The missing punctuations until tuples without a partner are released, if they may match."""
        found: list[Missing] = []
        for side, need in needs.items():
            other = needs.get(need.port)
            if need.fate is Fate.BLOCKS and not (other and other.null_filled and asks[need.port].constrained):
                kept = self._holding.kept(node.number, f"retained{side}_0")
                coming = below[side][0].held if below[side] else None
                kept = kept.meeting(asks[side], _stored(node, side))
                found += self._closing(node, need, asks[side], kept, coming)
        return found

    def _closing(
        self, node: Node, need: Need, mine: Punctuation, kept: RetainedBoxes, coming: Held | None
    ) -> list[Missing]:
        """The missing punctuations until the other input has closed all tuples of ``mine``, retained or coming."""
        if not kept and coming is None:
            return []
        assert need.retained is not None
        known = mine if coming is not None else _within(mine, kept, _stored(node, need.retained))
        other, given = node.inputs[need.port], dict(constraints(known))
        patterns: list[Pattern] = [WILDCARD] * len(other.schema)
        for column, closing_column in need.pairs:
            patterns[other.schema.index(closing_column)] = given.get(column, WILDCARD)
        held = self._held(node, kept) if kept else coming
        assert held is not None
        return self.promise(other, Punctuation(other.schema, patterns), held)

    def _held(self, node: Node, kept: RetainedBoxes) -> Held:
        return Held(f"{node.name} #{node.number}", kept.since if kept else self._holding.started)


def _size(found: list[Missing]) -> tuple[int, int]:
    """The number of streams that punctuations are missing of, and how many of these are ends."""
    still = _still(found)
    ends = sum(m.punctuation is not None and m.punctuation.is_everything for m in still)
    return len({m.stream.name for m in still}), ends


def _still(found: list[Missing]) -> list[Missing]:
    """The ones that the streams have not emitted."""
    return [missing for missing in found if missing.punctuation is not None]


def _speakable(node: Node, p: Punctuation) -> Punctuation:
    """A punctuation without patterns for columns that the node's punctuations cannot constrain."""
    places = [place if _speaks(node, name, pattern) else None for place, (name, pattern) in _all(p)]
    return p.rebase(p.schema, places)


def _all(p: Punctuation) -> Iterator[tuple[int, tuple[str, Pattern]]]:
    return enumerate(zip(p.schema.names, p.patterns, strict=True))


def _speaks(node: Node, name: str, pattern: Pattern) -> bool:
    """True if a node's punctuations can have a pattern for one of its columns."""
    if pattern is WILDCARD or isinstance(node, Scan):
        return True
    below = list(node.sources(Punctuation.of(node.schema, **{name: pattern})))
    return bool(below) and all(q is not WILDCARD and _speaks(node.inputs[i], n, q) for i, n, q in below)


def _within(p: Punctuation, kept: RetainedBoxes, names: Mapping[str, str] | None = None) -> Punctuation:
    """A punctuation, restricted to the values of retained tuples."""
    of = {a.name: (names or {}).get(a.name, a.name) for a in p.schema}
    around = Punctuation(p.schema, [kept.pattern(a.type, of[a.name]) for a in p.schema])
    return combine(p, around) or p


def _two_sided(node: Node) -> dict[int, Need]:
    """The needs by which one input closes the retained tuples of another, by the latter; none for changes."""
    needs = () if is_changing(node) else node.awaits
    return {need.retained: need for need in needs if need.retained is not None}


def _passes(node: Node, need: Need, asks: Sequence[Punctuation]) -> bool:
    """True if an input's punctuation can pass; one without constraints, only if the output has the input's columns."""
    side = need.passes
    return side is not None and bool(asks[side].constrained or (not need.null_filled and node.carriers(side)))


def _stored(node: Node, side: int) -> Mapping[str, str]:
    """The names under which tuples of an input are retained, if these are not the input's names."""
    if not node.by_position:
        return {}
    return dict(zip(node.inputs[side].schema.names, node.schema.names, strict=True))

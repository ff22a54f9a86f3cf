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
    """Traces a plan. ``holding`` has the punctuations that the plan received and outlines of its retained tuples.

    Each answer is computed once: two paths lead down from a join, and two more from a join below it. ``covering`` maps
    each stream to the punctuation of an earlier trace, which may cover more than an operator waits for.
    """

    def __init__(self, holding: Holding, covering: Mapping[str, Punctuation] | None = None) -> None:
        self._holding, self._covering = holding, covering or {}
        self._answers: dict[tuple[int, Punctuation, Held | None], list[Missing]] = {}

    def release(self, node: Node, requested: Punctuation) -> list[Missing]:
        """The missing punctuations until matching tuples, retained by a node or below it, are released."""
        key = node.number, requested, None
        if key not in self._answers:
            self._answers[key] = [] if requested.is_empty else self._release(node, requested)
        return self._answers[key]

    def promise(self, node: Node, requested: Punctuation, holder: Held) -> list[Missing]:
        """The punctuations, emitted or not, until a node emits ``requested``; ``holder`` retains tuples above it."""
        key = node.number, requested, holder
        if key not in self._answers:
            self._answers[key] = [] if requested.is_empty else self._promise(node, requested, holder)
        return self._answers[key]

    def _release(self, node: Node, requested: Punctuation) -> list[Missing]:
        asks, *more_asks = node.asks(requested)
        below = [self.release(child, ask) for child, ask in zip(node.inputs, asks, strict=True)]
        below += [self.release(node.inputs[0], input_asks[0]) for input_asks in more_asks]
        if needs := _two_sided(node):
            passing_sides = [side for side, need in needs.items() if need.passes is not None]
            incoming = [missing for side in passing_sides for missing in below[side]]
            return _still(incoming + self._partnerless(node, needs, asks, below))
        first_holder = next((missing.held for input_missing in below for missing in input_missing), None)
        if not node.waiting:
            return [missing for input_missing in below for missing in input_missing]
        boxes = self._holding.kept(node.number, node.waiting).meeting(requested)
        if boxes and first_holder is None:
            (asks,) = node.asks(_within(requested, boxes))
        if boxes or (isinstance(node, GroupBy) and not node.keys):  # a group from the start
            first_holder = self._holder(node, boxes)
        return [] if first_holder is None else _still(self._of_all(node, asks, first_holder))

    def _promise(self, node: Node, requested: Punctuation, holder: Held) -> list[Missing]:
        if isinstance(node, Scan):
            stream, origins = node.stream, dict(zip(node.columns, node.names, strict=True))
            names = [origins.get(name) for name in stream.sent.names]
            positions = [None if n is None else requested.schema.index(n) for n in names]
            p = requested.rebase(stream.sent, positions)
            missing = self._holding.missing(stream.name, p)
            return [Missing(stream, missing, holder, missing != p or self._covering.get(stream.name, p) != p)]
        asks, *more_asks = node.asks(requested)
        needs = _two_sided(node).items()
        ways = [self._of_all(node, asks, holder)] if node.combines else []
        ways += [
            self._by_side(node, need, asks[side], holder) for side, need in needs if _passes(node, need, asks)
        ]
        if ways:
            return min(ways, key=_size)
        return [m for input_asks in (asks, *more_asks) for m in self._of_all(node, input_asks, holder)]

    def _of_all(self, node: Node, asks: Sequence[Punctuation], holder: Held) -> list[Missing]:
        """The missing punctuations until each input emits its punctuation in ``asks``."""
        pairs = zip(node.inputs, asks, strict=True)
        return [missing for below, ask in pairs for missing in self.promise(below, ask, holder)]

    def _by_side(self, node: Node, need: Need, ask: Punctuation, holder: Held) -> list[Missing]:
        """The missing punctuations until ``ask`` passes from one input; retained tuples that match it block it."""
        assert need.retained is not None
        side = need.retained
        ask = _speakable(node.inputs[side], ask)
        missing = self.promise(node.inputs[side], ask, holder)
        retained = RetainedBoxes.together(
            self._holding.kept(node.number, f"retained{side}_{i}") for i in (0, 1)
        )
        boxes = retained.meeting(ask, _stored(node, side))
        incoming_holder = holder if self.release(node.inputs[side], ask) else None
        if not need.whole and boxes.count < retained.count and any(m.begun for m in missing):
            incoming_holder = holder  # other retained tuples may block a larger punctuation that includes it
        return missing + self._closing(node, need, ask, boxes, incoming_holder)

    def _partnerless(
        self,
        node: Node,
        needs: Mapping[int, Need],
        asks: Sequence[Punctuation],
        below: Sequence[list[Missing]],
    ) -> list[Missing]:
        """The missing punctuations until tuples without a partner are released, if they may match."""
        missing: list[Missing] = []
        for side, need in needs.items():
            other = needs.get(need.port)
            if need.fate is Fate.BLOCKS and not (other and other.null_filled and asks[need.port].constrained):
                boxes = self._holding.kept(node.number, f"retained{side}_0")
                incoming_holder = below[side][0].held if below[side] else None
                boxes = boxes.meeting(asks[side], _stored(node, side))
                missing += self._closing(node, need, asks[side], boxes, incoming_holder)
        return missing

    def _closing(
        self, node: Node, need: Need, ask: Punctuation, boxes: RetainedBoxes, incoming_holder: Held | None
    ) -> list[Missing]:
        """The missing punctuations until the other input closes all tuples that match ``ask``, retained or incoming."""
        if not boxes and incoming_holder is None:
            return []
        assert need.retained is not None
        closed = ask if incoming_holder is not None else _within(ask, boxes, _stored(node, need.retained))
        other, pattern_by_column = node.inputs[need.port], dict(constraints(closed))
        patterns: list[Pattern] = [WILDCARD] * len(other.schema)
        for column, closing_column in need.pairs:
            patterns[other.schema.index(closing_column)] = pattern_by_column.get(column, WILDCARD)
        holder = self._holder(node, boxes) if boxes else incoming_holder
        assert holder is not None
        return self.promise(other, Punctuation(other.schema, patterns), holder)

    def _holder(self, node: Node, boxes: RetainedBoxes) -> Held:
        return Held(f"{node.name} #{node.number}", boxes.since if boxes else self._holding.started)


def _size(missing: list[Missing]) -> tuple[int, int]:
    """The number of streams with missing punctuations, and the number of missing ends."""
    unemitted = _still(missing)
    ends = sum(m.punctuation is not None and m.punctuation.is_everything for m in unemitted)
    return len({m.stream.name for m in unemitted}), ends


def _still(missing: list[Missing]) -> list[Missing]:
    """The punctuations that their streams have not emitted."""
    return [m for m in missing if m.punctuation is not None]


def _speakable(node: Node, p: Punctuation) -> Punctuation:
    """A punctuation without patterns for columns that the node's punctuations cannot constrain."""
    positions = [position if _speaks(node, name, pattern) else None for position, (name, pattern) in _all(p)]
    return p.rebase(p.schema, positions)


def _all(p: Punctuation) -> Iterator[tuple[int, tuple[str, Pattern]]]:
    return enumerate(zip(p.schema.names, p.patterns, strict=True))


def _speaks(node: Node, name: str, pattern: Pattern) -> bool:
    """True if a node's punctuations can have a pattern for one of its columns."""
    if pattern is WILDCARD or isinstance(node, Scan):
        return True
    below = list(node.sources(Punctuation.of(node.schema, **{name: pattern})))
    return bool(below) and all(q is not WILDCARD and _speaks(node.inputs[i], n, q) for i, n, q in below)


def _within(p: Punctuation, boxes: RetainedBoxes, names: Mapping[str, str] | None = None) -> Punctuation:
    """A punctuation, restricted to the values of retained tuples."""
    box_columns = {a.name: (names or {}).get(a.name, a.name) for a in p.schema}
    bounds = Punctuation(p.schema, [boxes.pattern(a.type, box_columns[a.name]) for a in p.schema])
    return combine(p, bounds) or p


def _two_sided(node: Node) -> dict[int, Need]:
    """For each input, the need by which another input closes its retained tuples; empty for changes."""
    needs = () if is_changing(node) else node.awaits
    return {need.retained: need for need in needs if need.retained is not None}


def _passes(node: Node, need: Need, asks: Sequence[Punctuation]) -> bool:
    """True if an input's punctuation can pass; without constraints, it needs the input's columns in the output."""
    side = need.passes
    return side is not None and bool(asks[side].constrained or (not need.null_filled and node.carriers(side)))


def _stored(node: Node, side: int) -> Mapping[str, str]:
    """The names under which tuples of an input are retained, if these are not the input's names."""
    if not node.by_position:
        return {}
    return dict(zip(node.inputs[side].schema.names, node.schema.names, strict=True))

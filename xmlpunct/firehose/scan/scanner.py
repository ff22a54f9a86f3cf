"""From a split to rows: what templates prove, and the odd rest for the conforming parser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from xmlpunct.firehose import loops
from xmlpunct.firehose.cells import PAD, Cells, Ints
from xmlpunct.firehose.markup import Element, Tokens, element, elements, exact_tokens, follow, nesting, tokens
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.scan import vectors, walk
from xmlpunct.firehose.scan.chunk import Chunk, is_sound
from xmlpunct.firehose.scan.regions import Group
from xmlpunct.firehose.scan.template import Template, Tree, learn, skeleton
from xmlpunct.firehose.spec import ElementName, Limits
from xmlpunct.firehose.target import Found
from xmlpunct.overlooked import Overlooked, add, times

LEAST = 2048
"""Smaller splits are not worth the effort, in bytes."""
WORTH = 0.5
"""The most that may be odd of a split, lest it were better parsed as a whole."""
MOST = 32
"""How many templates there may be in one place, lest all are tried on all."""
_SAMPLE, _LESSONS, _ROUNDS, _LONGEST = 2**16, 8, 6, 4096
"""What is learnt from: so many bytes, for so many templates at a time, so many times; elements of so many tags."""
_VAIN, _VAIN_AT_FIRST = 64, 8
"""After so many of known kinds, nothing new is looked for any more. At first few are enough: what no template fits
is looked at again."""
_STRETCHES = 16
"""So many stretches are learnt from at a time, from all over a split."""
_LITTLE, _EFFORT = 16, 1024
"""What is unproven is little up to a 16th of a split, where each stretch counts as this many bytes more."""
_REST, _MOST_VAIN = 2**20, 7
"""How many bytes to let pass after an attempt in vain; then twice as many, so many times."""
_SHORT, _MOST_TRIED = 4096, 4

Scope = tuple[int, tuple[tuple[str, str], ...]]
"""How many declarations of namespaces there are, and what they come to, by prefix."""

Trial = Callable[[Split], Sequence[Found] | None]
"""What the conforming parser finds in a split, by stream; None for an error."""


@dataclass(frozen=True, slots=True)
class ProvenPunctuations:
    """Punctuations of one form: their offsets in the split, their tree, and the values in it."""

    at: Ints
    tree: Tree
    values: list[Cells]

    def texts(self) -> list[list[str]]:
        """By value its texts."""
        return [cells.listed() for cells in self.values]


@dataclass(slots=True)
class Proven:
    """What was proven to be of one stream, and what was ``overlooked``. Each tuple, in order, is from ``at`` to ``end``
    in the split.
    """

    at: Ints
    end: Ints
    cells: list[Cells]
    punctuations: list[ProvenPunctuations] = field(default_factory=list)
    overlooked: Overlooked = field(default_factory=dict)


@dataclass(slots=True)
class Scanned:
    """``odd`` is a split with all that is not proven; its stretches begin at ``odd_at`` and are from ``from_at``
    of the split on. ``proven`` is by stream. The first ``sound`` bytes of the split, up to the last of the stretches,
    leave open what was open before.
    """

    proven: list[Proven]
    odd: Split
    odd_at: Ints
    from_at: Ints
    sound: int

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to be read."""
        return not self.odd.final and not self.odd.data.strip(b" \t\r\n")

    def offset(self, odd: int) -> int:
        """Where in the split a byte of ``odd`` is from."""
        i = int(np.searchsorted(self.odd_at, odd, "right")) - 1
        return int(self.from_at[i]) + odd - int(self.odd_at[i])


class Scanner:
    """Scans the splits of a source, or of several alike, and learns how their tuples look. It is its reader's own.

    ``trial`` is how the conforming parser reads for the same streams, whose tuple and punctuation elements are
    ``kept`` and whose tuples have ``widths`` slots.
    """

    def __init__(
        self, kept: frozenset[ElementName], widths: Sequence[int], limits: Limits, trial: Trial
    ) -> None:
        self.kept, self.widths, self.limits, self._trial = kept, list(widths), limits, trial
        self._elements = lru_cache(maxsize=4)(elements)
        self._places: dict[Scope, Place] = {}
        self._failures = self._rest = 0
        self._tried: dict[tuple[str, Position], tuple[bytes, Scanned | None]] = {}

    def scan(self, split: Split) -> Scanned | None:
        """Prove what can be proven. None if that is too little to be worth it."""
        start = (split.source, split.start)
        if start not in self._tried:
            return self._attempt(split)
        data, found = self._tried.pop(start)
        return found and (_cut(found, data, split) or self._attempt(split))

    def prove(self, split: Split) -> int:
        """How many bytes of a split, from its beginning, open nothing that they do not close, as far as is proven.

        What is found is remembered until these bytes, and maybe white space behind them, are scanned.
        """
        found = self._attempt(split)
        if len(self._tried) >= _MOST_TRIED:
            self._tried.clear()
        self._tried[split.source, split.start] = split.data, found
        return found.sound if found else 0

    def _attempt(self, split: Split) -> Scanned | None:
        if len(split.data) < LEAST:
            return None
        if self._rest > 0:
            self._rest -= len(split.data)
            return None
        found = self._scan(split)
        if found is None:
            self._rest = (_REST << self._failures) - _REST
            self._failures = min(self._failures + 1, _MOST_VAIN)
        else:
            self._failures = 0
        return found

    def _scan(self, split: Split) -> Scanned | None:
        data = split.data
        outside = stack = [*self._elements(split.start.open)]
        if not stack:
            stack = self._prologue(data[:_SAMPLE])
        if not stack:
            return None
        place = self._place(stack)
        if not place.templates:
            self._learn(place, data[:_SAMPLE], outside, _VAIN_AT_FIRST)
        chunk = self._chunk(place, data, stack)
        if chunk is None:
            return None
        most = min(self.limits.text, self.limits.attribute, self.limits.tag)
        if chunk.size > most:
            chunk.plain &= chunk.end - chunk.start <= most
        loose = chunk.loose()
        if sum(end - begin + _EFFORT for begin, end in loose) > WORTH * max(len(data), LEAST):
            return None
        inside = self._hold(place, chunk, outside)
        odd = [*chunk.stretches(~chunk.plain), chunk.behind]
        if sum(end - begin for begin, end in odd) > WORTH * len(data):
            return None
        begins, ends = np.array(odd, np.int64).T
        rest = b"".join([chunk.buffer[begin:end] for begin, end in odd])
        behind = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - begins)[:-1]))
        proven = [self._proven(chunk, stream, width) for stream, width in enumerate(self.widths)]
        sound = chunk.behind[0] - PAD if split.start.open and inside == outside else 0
        odd_split = Split(split.source, split.start, rest, split.final)
        return Scanned(proven, odd_split, behind, begins - PAD, sound)

    def _chunk(self, place: Place, data: bytes, stack: list[Element]) -> Chunk | None:
        """The regions of some XML, by templates of a place and such as are learnt from them."""
        if not place.templates or not is_sound(data):
            return None
        before = 0
        for _ in range(_ROUNDS):
            chunk = Chunk(data, place.templates, place.find)
            place.prefer(chunk.groups)
            loose = [*chunk.loose(), chunk.behind]
            left = sum(end - begin + _EFFORT for begin, end in loose)
            if _LITTLE * left < len(data):
                new = len(loose) > 1 or _is_whole(chunk, stack[-1])
                if new and not place.tired() and not self._learn_from(place, chunk, loose, stack):
                    place.tire()  # what is learnt now is for the next one
                return chunk
            if before and _LITTLE * (before - left) < len(data):
                place.tire()
            before = left
            if place.tired() or not self._learn_from(place, chunk, loose, stack):
                return chunk
        return chunk

    def _place(self, stack: list[Element]) -> Place:
        key = _scope(stack)
        if key not in self._places:
            if len(self._places) >= MOST:
                self._places.clear()
            self._places[key] = Place(key)
        return self._places[key]

    def _prologue(self, sample: bytes) -> list[Element]:
        """What is open where the first tuple or punctuation begins."""
        found = tokens(sample)
        stack: list[Element] = []
        for i in range(len(found)):
            if found.delta[i] > 0:
                opened = _element(sample, found, i, stack)
                if opened.name in self.kept:
                    return stack
                stack.append(opened)
            elif found.delta[i] < 0:
                del stack[-1:]
        return stack

    def _learn_from(
        self, place: Place, chunk: Chunk, loose: list[tuple[int, int]], stack: list[Element]
    ) -> bool:
        """Learn from what no template fits; whether there is something new now."""
        count = 0
        for begin, end in loose[:: -(-len(loose) // _STRETCHES)]:
            if count < _LESSONS:
                count += self._learn(place, chunk.buffer[begin : min(end, begin + _SAMPLE)], stack)
        return count > 0

    def _learn(self, place: Place, data: bytes, stack: list[Element], most_vain: int = _VAIN) -> int:
        """Make templates of the tuples and punctuations in some XML; how many are new."""
        found = _tokens(data)
        stack, i, end, count = list(stack), 0, 0, 0
        depth = np.cumsum(found.delta)
        vain = 0
        while i < len(found) and count < _LESSONS and vain < most_vain:
            last = i
            if found.element[i] and found.delta[i] >= 0:
                opened = _element(data, found, i, stack)
                if opened.name in self.kept:
                    if found.delta[i]:
                        closed = np.flatnonzero(depth[i + 1 : i + _LONGEST] < depth[i])
                        if not len(closed):
                            break
                        last = i + 1 + int(closed[0])
                    if stack and _scope(stack) == place.key:
                        new = place.learn(data, found, end, i, last, stack, self._trial)
                        count, vain = count + new, 0 if new else vain + 1
                elif found.delta[i]:
                    stack.append(opened)
            elif found.delta[i] < 0:
                del stack[-1:]
            end, i = int(found.end[last]), last + 1
        return count

    def _hold(self, place: Place, chunk: Chunk, stack: list[Element]) -> list[Element]:
        """Go through what is not proven, and void the proofs of what stands in another place than they assume.

        Gives what is open behind the last region; nothing, if that is not known.
        """
        loose = chunk.loose()
        if not self._fits(stack, place) and not (loose and loose[0][0] == PAD):
            loose.insert(0, (PAD, PAD))
        i = 0
        while i < len(loose):
            begin, end = loose[i]
            data, step = chunk.buffer[begin:end], 1
            found = _tokens(data)
            while found.tail < len(data) and i + 1 < len(loose):  # what looked proven is in a comment, say
                i, step = min(i + step, len(loose) - 1), 2 * step
                end = loose[i][1]
                data = chunk.buffer[begin:end]
                found = _tokens(data)
            stack = follow(stack, data, found)
            if found.tail < len(data) or not self._fits(stack, place):
                chunk.void(begin, PAD + chunk.size)
                return []
            chunk.void(begin, end)
            i += 1
        return stack

    def _fits(self, stack: list[Element], place: Place) -> bool:
        """Whether the templates of a place hold for what stands inside these elements."""
        if not stack or any(e.name in self.kept for e in stack):
            return False
        deepest = len(stack) + max(t.form.height for t in place.templates)
        return _scope(stack) == place.key and deepest < self.limits.depth

    def _proven(self, chunk: Chunk, stream: int, width: int) -> Proven:
        """What was proven of a stream."""
        good = [chunk.readable(g) for g in chunk.groups if stream in g.template.tuples]
        none = np.empty(0, np.int64)
        found = Proven(none, none, [])
        if len(good) == 1:
            (group,) = good
            found.at, found.end = chunk.offsets(group), chunk.end[group.regions] - PAD
            found.cells = [group.cells(chunk.buffer, n) for n in group.template.tuples[stream]]
        else:
            at = np.concatenate([none, *(chunk.offsets(g) for g in good)])
            order = np.argsort(at, kind="stable")  # which makes use of what is in order already
            found.at = at[order]
            found.end = np.concatenate([none, *(chunk.end[g.regions] for g in good)])[order] - PAD
            for slot in range(width):
                cells = [g.cells(chunk.buffer, g.template.tuples[stream][slot]) for g in good]
                start = np.concatenate([none, *(c.start for c in cells)])[order]
                size = np.concatenate([none, *(c.size for c in cells)])[order]
                found.cells.append(Cells(chunk.buffer, start, size))
        for group in chunk.groups:
            if stream in group.template.overlooked:
                number = int(np.count_nonzero(chunk.plain[group.regions]))
                add(found.overlooked, times(group.template.overlooked[stream], number))
            if stream in group.template.punctuations:
                group, tree = chunk.readable(group), group.template.punctuations[stream]
                values = [group.cells(chunk.buffer, n) for n in range(len(group.template.form.quoted))]
                found.punctuations.append(ProvenPunctuations(chunk.offsets(group), tree, values))
        return found


class Place:
    """Templates for one set of namespaces in scope, those met most often first."""

    def __init__(self, key: Scope) -> None:
        self.key = key
        self.templates: list[Template] = []
        self.find = walk.finder() if loops.COMPILED else vectors.finder()
        self._known: set[tuple[bytes, ...]] = set()
        self._vain = self._pause = 0

    def learn(
        self,
        data: bytes,
        found: Tokens,
        begin: int,
        first: int,
        last: int,
        stack: list[Element],
        trial: Trial,
    ) -> bool:
        """Make a template of some tokens and the text before them from ``begin`` on, if it is of a new kind."""
        part = slice(first, last + 1)
        inside = Tokens(
            found.start[part] - begin,
            found.end[part] - begin,
            found.delta[part],
            found.element[part],
            0,
            False,
        )
        form = skeleton(data[begin : int(found.end[last])], inside)
        if form is None or form.pieces in self._known:
            return False
        if len(self._known) >= 8 * MOST:
            self._known = {t.form.pieces for t in self.templates}
        self._known.add(form.pieces)
        start = Position(0, 1, tuple(e.raw for e in stack), True)
        template = learn(form, lambda data: trial(Split("", start, data, False)))
        if template is not None:
            del self.templates[MOST - 1 :]
            self.templates.append(template)
        return template is not None

    def tire(self) -> None:
        """Learning has been in vain: learn from less and less."""
        self._vain = min(self._vain + 1, _MOST_VAIN)
        self._pause = 1 << self._vain

    def tired(self) -> bool:
        """Whether not to learn this time."""
        self._pause = max(self._pause - 1, 0)
        return self._pause > 0

    def prefer(self, groups: list[Group]) -> None:
        """Put those first that fit most regions."""
        if len(self.templates) > 1:
            met = {id(g.template): len(g.regions) for g in groups}
            self.templates.sort(key=lambda t: -met.get(id(t), 0))


def _is_whole(chunk: Chunk, outer: Element) -> bool:
    """Whether behind the last region are whole elements, as far as counting tells."""
    begin, end = chunk.behind
    stop = chunk.buffer.rfind(b">", begin, end) + 1
    return stop > begin and nesting(chunk.buffer, begin, stop, outer.raw) == 0


def _cut(found: Scanned, data: bytes, split: Split) -> Scanned | None:
    """What was found in ``data``, for a split that holds its sound part and little more; None if it does not."""
    sound, more = split.data[: found.sound], len(split.data) - found.sound
    if (
        not found.sound
        or more < 0
        or _LITTLE * (more - LEAST) > len(split.data)
        or not data.startswith(sound)
    ):
        return None
    known = found.odd.data[: int(found.odd_at[-1])]
    return replace(found, odd=replace(split, data=known + split.data[found.sound :]))


def _scope(stack: list[Element]) -> Scope:
    return stack[-1].declared, tuple(sorted(stack[-1].namespaces.items()))


def _tokens(data: bytes) -> Tokens:
    """`tokens` of what no template fits: in so odd a piece, looking for tags alone is mostly in vain."""
    return tokens(data) if len(data) > _SHORT else exact_tokens(data)


def _element(data: bytes, found: Tokens, i: int, stack: list[Element]) -> Element:
    raw = data[int(found.start[i]) : int(found.end[i])].decode("utf-8", "surrogateescape")
    return element(raw, stack[-1] if stack else None)

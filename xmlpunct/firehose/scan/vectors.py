"""The regions of a chunk, found by numpy: what `walk` finds, where its loop could not be compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from xmlpunct.firehose.cells import Flags, Ints, gather
from xmlpunct.firehose.scan.regions import Find, Group, Regions
from xmlpunct.firehose.scan.template import Template

_ENOUGH = 16
_WORD = 8


def finder() -> Find:
    """Finds the regions of buffers, and remembers for whoever owns it how templates are laid out."""
    return partial(_find, lru_cache(maxsize=256)(_Layout))


def _find(
    laid_out: Callable[[Template, bool], _Layout],
    buffer: bytes,
    begin: int,
    stop: int,
    templates: Sequence[Template],
) -> Regions:
    finder = _Finder(laid_out, buffer, begin, stop, templates)
    return Regions(finder.end, finder.proven, finder.sifted(), finder.groups)


@dataclass(frozen=True, slots=True)
class _Check:
    """How to compare a piece: by words from ``lead`` bytes before it on, of ``width`` bytes."""

    lead: int
    width: int
    words: tuple[tuple[int, np.uint64, np.uint64 | None], ...]


def _check(piece: bytes, last: bool) -> _Check:
    lead = -len(piece) % _WORD
    size = lead + len(piece)
    padded, mask = bytes(lead) + piece, bytes(lead) + b"\xff" * len(piece)
    values, masks = np.frombuffer(padded, "<u8"), np.frombuffer(mask, "<u8")
    every = np.uint64(2**64 - 1)
    words = tuple(
        (i, v, None if m == every else m) for i, (v, m) in enumerate(zip(values, masks, strict=True))
    )
    return _Check(lead, size if last else size + 2 * _WORD, words)


class _Layout:
    """A template by anchors: ``</``, and with ``marks`` quotation marks too.

    ``anchors`` is how many a region has, ``ends`` by value the number of the one behind it.
    """

    def __init__(self, template: Template, marks: bool) -> None:
        pieces = template.form.pieces
        counts = [piece.count(b"</") + (piece.count(b'"') if marks else 0) for piece in pieces]
        before = np.cumsum(counts).tolist()
        self.anchors, self.ends = before[-1], before[:-1]
        self._pieces = pieces
        self._checks = [_check(piece, i == len(pieces) - 1) for i, piece in enumerate(pieces)]

    def match(
        self, buffer: bytes, start: Ints, end: Ints, anchor: Callable[[int], Ints], into: Group
    ) -> Flags:
        """Look at regions with this number of anchors, of which ``anchor`` gives the place of the n-th of each.

        Which ones are of the template; the values of all go ``into`` a group.
        """
        at, wrong, good = start, np.zeros(len(start), np.uint64), np.ones(len(start), np.bool_)
        for i, (piece, check) in enumerate(zip(self._pieces, self._checks, strict=True)):
            last = len(buffer) - check.width
            if last < 0:
                return np.zeros(len(start), np.bool_)
            at_word = at - check.lead
            words = gather(buffer, at_word if at_word[-1] <= last else np.minimum(at_word, last), check.width)
            for place, value, mask in check.words:
                difference = words[:, place] ^ value
                wrong |= difference if mask is None else difference & mask
            at = at + len(piece)
            if i < len(self.ends):
                after = anchor(self.ends[i])
                size = after - at
                good &= size >= 0
                into.begin.append(at)
                into.size.append(size)
                into.head.append((words[:, -2], words[:, -1]))
                at = after
        good &= (wrong == 0) & (at == end)
        return good


class _Finder:
    """Finds regions, and says what they are."""

    def __init__(
        self,
        laid_out: Callable[[Template, bool], _Layout],
        buffer: bytes,
        begin: int,
        stop: int,
        templates: Sequence[Template],
    ) -> None:
        self.buffer, self.stop, self._laid_out = buffer, stop, laid_out
        self.chars = np.frombuffer(buffer, np.uint8)
        self.marks = any(any(t.form.quoted) for t in templates)
        self.groups: list[Group] = []
        opening = self.chars == ord("<")
        tags = int(np.count_nonzero(opening)) - 1  # less the one behind it all
        places = opening[:-1] & (self.chars[1:] == ord("/"))
        if self.marks:
            places |= self.chars[:-1] == ord('"')
        self._anchors = np.flatnonzero(places)
        self._ends = [*dict.fromkeys(t.end for t in templates)]
        last, kind = self._last(laid_out(templates[0], self.marks).anchors)
        sizes = np.array([len(end) for end in self._ends], np.int64)
        self.end = self._anchors[last] + (sizes[kind] if len(sizes) > 1 else sizes[0])
        self.start = np.concatenate((np.array([begin], np.int64), self.end))[: len(last)]
        self._first = np.concatenate((np.zeros(1, np.int64), last + 1))[: len(last)]
        self.proven = np.zeros(len(last), np.bool_)
        self._match(templates, last + 1 - self._first, kind)
        self.proven &= ~self._crowded(ord("<"), b"<", tags)

    def _last(self, period: int) -> tuple[Ints, Ints]:
        """Which anchors are the last ones of regions, and which of the ends each of them begins."""
        anchors = self._anchors
        regular = np.arange(period - 1, len(anchors), period)
        rest = anchors[len(regular) * period :]
        for some in (regular[:_ENOUGH], regular):
            kind = self._kind(anchors[some])
            if (kind < 0).any() or (len(rest) and (self._kind(rest) >= 0).any()):
                break
        else:
            return regular, kind
        third = self.chars.take(anchors + 2)
        likely = np.zeros(len(anchors), np.bool_)
        for letter in {end[2] for end in self._ends}:
            likely |= third == letter
        last = np.flatnonzero(likely)
        kind = self._kind(anchors[last])
        return last[kind >= 0], kind[kind >= 0]

    def _kind(self, at: Ints) -> Ints:
        """Which of the ends stands at each place; -1 for none."""
        width = -(-max(map(len, self._ends)) // _WORD) * _WORD
        words = gather(self.buffer, np.minimum(at, len(self.buffer) - width), width)
        kind = np.full(len(at), -1, np.int64)
        for number, end in enumerate(self._ends):
            wanted = np.frombuffer(end.ljust(width, b"\0"), "<u8")
            mask = np.frombuffer((b"\xff" * len(end)).ljust(width, b"\0"), "<u8")
            other = (words[:, 0] & mask[0]) ^ wanted[0]
            for i in range(1, -(-len(end) // _WORD)):
                other |= (words[:, i] & mask[i]) ^ wanted[i]
            same = other == 0
            if same.all():
                return np.full(len(at), number)
            kind[same] = number
        return kind

    def _match(self, templates: Sequence[Template], count: Ints, kind: Ints) -> None:
        """Find the regions of each template."""
        for template in templates:
            layout = self._laid_out(template, self.marks)
            same = (count == layout.anchors) & (kind == self._ends.index(template.end))
            if self.groups:
                same &= ~self.proven
            regular = bool(same.all())
            if regular:
                regions = np.arange(len(self.end))
                start, end, first = self.start, self.end, self._first
            else:
                regions = np.flatnonzero(same)
                start, end, first = self.start[regions], self.end[regions], self._first[regions]
            if not len(regions):
                continue

            anchor = partial(self._anchor, first, layout.anchors if regular else 0)
            group = Group(template, regions)
            proven = layout.match(self.buffer, start, end, anchor, group)
            if not proven.all():
                group = group.of(proven)
            self.proven[group.regions] = True
            if len(group.regions):
                self.groups.append(group)
            if self.proven.all():
                break

    def _anchor(self, first: Ints, every: int, n: int) -> Ints:
        """The place of the n-th anchor of regions, given the number of the first; ``every``: they are so far apart."""
        if every:
            return np.ascontiguousarray(self._anchors[n::every][: len(first)])
        return self._anchors.take(first + n)

    def _crowded(self, char: int, text: bytes, total: int) -> Flags:
        """Which regions hold more of a character than their template, in a value that is."""
        count = len(self.end)
        edges = np.flatnonzero(np.diff(~self.proven, prepend=False, append=False)).reshape(-1, 2)
        between = [(int(self.start[first]), int(self.end[behind - 1])) for first, behind in edges]
        behind = int(self.end[-1]) if count else 0
        found = sum(
            int(np.count_nonzero(self.proven[g.regions])) * g.template.literals.count(text)
            for g in self.groups
        ) + sum(self.buffer.count(text, begin, end) for begin, end in [*between, (behind, self.stop)])
        if found == total:
            return np.zeros(count, np.bool_)
        own = np.zeros(count, np.int64)
        for group in self.groups:
            own[group.regions] = group.template.literals.count(text)
        at = np.flatnonzero(self.chars[: self.stop] == char)
        there = np.bincount(np.searchsorted(self.end, at, "right"), minlength=count + 1)
        crowded: Flags = there[:count] != own
        return crowded

    def sifted(self) -> Flags:
        """Which proven regions have values that mean what they say."""
        chars, data, plain = self.chars, self.buffer, self.proven.copy()
        if b"&" in data:
            self._spoil(plain, chars == ord("&"))
        if b"]" in data:
            self._spoil(plain, (chars[:-1] == ord("]")) & (chars[1:] == ord("]")))
        returns = data.count(b"\r") if b"\r" in data else 0
        if returns:
            plain &= ~self._crowded(ord("\r"), b"\r", returns)
        controls = int(np.count_nonzero(chars < 32))
        lines = int(np.count_nonzero(chars == ord("\n")))
        if controls != lines + returns:
            self._spoil(plain, (chars < 32) & (chars != 10) & (chars != 9) & (chars != 13))
        if self.marks and controls:
            self._spoil_attributes(plain)
        return plain

    def _spoil(self, plain: Flags, flags: Flags) -> None:
        at = np.flatnonzero(flags)
        if len(at):
            hit = np.searchsorted(self.end, at, "right")
            plain[hit[hit < len(plain)]] = False

    def _spoil_attributes(self, plain: Flags) -> None:
        """White space is read as it stands in texts, but not in attributes."""
        at = np.flatnonzero(self.chars < 32)
        for group in self.groups:
            for i, quoted in enumerate(group.template.form.quoted):
                if quoted:
                    begin = group.begin[i]
                    before = np.searchsorted(at, begin)
                    after = np.searchsorted(at, begin + group.size[i])
                    plain[group.regions[before != after]] = False

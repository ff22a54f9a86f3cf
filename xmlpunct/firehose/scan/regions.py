"""The regions of a chunk, by template, and what in them cannot be taken as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from xmlpunct.firehose.cells import PAD, Cells, Flags, Ints, gather
from xmlpunct.firehose.scan.template import Matched, Template

_ENOUGH = 16
_PADDING = b" " * PAD


@dataclass(slots=True)
class Group:
    """Regions of one template: their numbers, and what it sees there. All places are in the chunk's buffer."""

    template: Template
    regions: Ints
    matched: Matched

    def of(self, which: Flags) -> Group:
        """Some of its regions."""
        return Group(self.template, self.regions[which], self.matched.of(which))

    def cells(self, buffer: bytes, value: int | None) -> Cells:
        """The texts of a value, in each region."""
        if value is None:
            count = len(self.regions)
            return Cells(buffer, np.zeros(count, np.int64), np.full(count, -1, np.int64))
        found = self.matched
        return Cells(buffer, found.begin[value], found.size[value], found.head[value])


class Chunk:
    """A piece of XML with its regions, as some templates see them.

    Of each region, ``start`` and ``end`` are places in ``buffer`` (`PAD` more than in the piece). ``proven`` says
    which regions are of the template in whose group they are and hold no other markup, ``plain`` which of them
    have values that mean what they say.
    """

    def __init__(self, data: bytes, templates: Sequence[Template]) -> None:
        self.size = len(data)
        # A split may begin behind the white space that belongs to its first region.
        lead = templates[0].gap if data.startswith(b"<") else b""
        lead = lead if len(lead) <= PAD // 2 else b""
        self.buffer = b"".join((_PADDING[len(lead) :], lead, data, _PADDING))
        self.chars = np.frombuffer(self.buffer, np.uint8)
        self.marks = any(t.marks for t in templates)
        for template in templates:
            template.lay_out(self.marks)
        self.groups: list[Group] = []
        opening = self.chars == ord("<")
        self._tags = int(np.count_nonzero(opening))
        places = opening[:-1] & (self.chars[1:] == ord("/"))
        if self.marks:
            places |= self.chars[:-1] == ord('"')
        self._anchors = np.flatnonzero(places)
        self._ends = [*dict.fromkeys(t.end for t in templates)]
        last, kind = self._last(templates)
        sizes = np.array([len(end) for end in self._ends], np.int64)
        self.end = self._anchors[last] + (sizes[kind] if len(sizes) > 1 else sizes[0])
        self.start = np.concatenate((np.array([PAD - len(lead)], np.int64), self.end))[: len(last)]
        self._first = np.concatenate((np.zeros(1, np.int64), last + 1))[: len(last)]
        self.proven = np.zeros(len(last), np.bool_)
        self._match(templates, last + 1 - self._first, kind)
        self.proven &= ~self._crowded(ord("<"), b"<", self._tags)
        self.plain = self.proven.copy()

    def __len__(self) -> int:
        return len(self.end)

    def _last(self, templates: Sequence[Template]) -> tuple[Ints, Ints]:
        """Which anchors are the last ones of regions, and which of the ends each of them begins."""
        anchors, period = self._anchors, templates[0].anchors
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
        width = -(-max(map(len, self._ends)) // 8) * 8
        words = gather(self.buffer, np.minimum(at, len(self.buffer) - width), width)
        kind = np.full(len(at), -1, np.int64)
        for number, end in enumerate(self._ends):
            wanted = np.frombuffer(end.ljust(width, b"\0"), "<u8")
            mask = np.frombuffer((b"\xff" * len(end)).ljust(width, b"\0"), "<u8")
            other = (words[:, 0] & mask[0]) ^ wanted[0]
            for i in range(1, -(-len(end) // 8)):
                other |= (words[:, i] & mask[i]) ^ wanted[i]
            same = other == 0
            if same.all():
                return np.full(len(at), number)
            kind[same] = number
        return kind

    def _match(self, templates: Sequence[Template], count: Ints, kind: Ints) -> None:
        """Find the regions of each template."""
        for template in templates:
            same = (count == template.anchors) & (kind == self._ends.index(template.end))
            if self.groups:
                same &= ~self.proven
            regular = bool(same.all())
            if regular:
                regions = np.arange(len(self))
                start, end, first = self.start, self.end, self._first
            else:
                regions = np.flatnonzero(same)
                start, end, first = self.start[regions], self.end[regions], self._first[regions]
            if not len(regions):
                continue

            every = template.anchors if regular else 0
            matched = template.match(self.buffer, start, end, partial(self._anchor, first, every))
            if not matched.proven.all():
                regions = regions[matched.proven]
                matched = matched.of(matched.proven)
            self.proven[regions] = True
            if len(regions):
                self.groups.append(Group(template, regions, matched))
            if self.proven.all():
                break

    @property
    def behind(self) -> tuple[int, int]:
        """What is behind the last region."""
        return int(self.end[-1]) if len(self) else PAD, PAD + self.size

    def offsets(self, group: Group) -> Ints:
        """Where in the piece the elements of a group's regions begin."""
        found: Ints = self.start[group.regions] + (len(group.template.gap) - PAD)
        return found

    def void(self, begin: int, end: int) -> None:
        """Nothing is proven from ``begin`` to ``end``."""
        first, last = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.start, end)
        self.proven[first:last] = self.plain[first:last] = False

    def _anchor(self, first: Ints, every: int, n: int) -> Ints:
        """The place of the n-th anchor of regions, given the number of the first; ``every``: they are so far apart."""
        if every:
            return np.ascontiguousarray(self._anchors[n::every][: len(first)])
        return self._anchors.take(first + n)

    def stretches(self, flags: Flags) -> Iterator[tuple[int, int]]:
        """The stretches of consecutive regions with a flag, each from where to where."""
        if not flags.any():
            return
        edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
        for first, behind in edges.reshape(-1, 2).tolist():
            yield max(int(self.start[first]), PAD), int(self.end[behind - 1])

    def loose(self) -> list[tuple[int, int]]:
        """The stretches of regions that are not proven."""
        return [*self.stretches(~self.proven)]

    def _crowded(self, char: int, text: bytes, total: int) -> Flags:
        """Which regions hold more of a character than their template, in a value that is."""
        expected = sum(
            int(np.count_nonzero(self.proven[g.regions])) * g.template.literals.count(text)
            for g in self.groups
        )
        found = expected + sum(
            self.buffer.count(text, begin, end) for begin, end in [*self.loose(), self.behind]
        )
        if found == total:
            return np.zeros(len(self), np.bool_)
        own = np.zeros(len(self), np.int64)
        for group in self.groups:
            own[group.regions] = group.template.literals.count(text)
        at = np.flatnonzero(self.chars[: PAD + self.size] == char)
        there = np.bincount(np.searchsorted(self.end, at, "right"), minlength=len(self) + 1)
        crowded: Flags = there[: len(self)] != own
        return crowded

    def sift(self) -> bool:
        """Find out which values mean what they say; False if bytes are wrong that can be anywhere."""
        chars, data = self.chars, self.buffer
        if chars.max(initial=0) >= 0x80:
            try:
                data.decode()
            except UnicodeDecodeError:
                return False
            if b"\xef\xbf\xbe" in data or b"\xef\xbf\xbf" in data:
                return False
        if b"&" in data:
            self._spoil(chars == ord("&"))
        if b"]" in data:
            pairs = (chars[:-1] == ord("]")) & (chars[1:] == ord("]"))
            self._spoil(pairs)
        returns = data.count(b"\r") if b"\r" in data else 0
        if returns:
            self.plain &= ~self._crowded(ord("\r"), b"\r", returns)
        controls = int(np.count_nonzero(chars < 32))
        lines = int(np.count_nonzero(chars == ord("\n")))
        if controls != lines + returns:
            self._spoil((chars < 32) & (chars != 10) & (chars != 9) & (chars != 13))
        if self.marks and controls:
            self._spoil_attributes(controls)
        return True

    def _spoil(self, flags: Flags) -> None:
        at = np.flatnonzero(flags)
        if len(at):
            hit = np.searchsorted(self.end, at, "right")
            self.plain[hit[hit < len(self)]] = False

    def _spoil_attributes(self, controls: int) -> None:
        """White space is read as it stands in texts, but not in attributes."""
        at = np.flatnonzero(self.chars < 32)
        for group in self.groups:
            for i, quoted in enumerate(group.template.form.quoted):
                if quoted:
                    begin = group.matched.begin[i]
                    before = np.searchsorted(at, begin)
                    after = np.searchsorted(at, begin + group.matched.size[i])
                    self.plain[group.regions[before != after]] = False

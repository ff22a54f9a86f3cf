"""A piece of XML as templates see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xmlpunct.firehose.cells import PAD, Flags, Ints
from xmlpunct.firehose.scan.regions import Find, Group
from xmlpunct.firehose.scan.template import Template

_BEFORE, _BEHIND = b" " * PAD, b"<".ljust(PAD)


class Chunk:
    """A piece of XML with its regions: see `Regions`. All places are in ``buffer``, `PAD` more than in the piece."""

    def __init__(self, data: bytes, templates: Sequence[Template], find: Find) -> None:
        self.size = len(data)
        # A split may begin behind the white space that belongs to its first region.
        lead = templates[0].gap if data.startswith(b"<") else b""
        lead = lead if len(lead) <= PAD // 2 else b""
        self.buffer = b"".join((_BEFORE[len(lead) :], lead, data, _BEHIND))
        begin = PAD - len(lead)
        found = find(self.buffer, begin, PAD + self.size, templates)
        self.end, self.proven, self.plain, self.groups = found.end, found.proven, found.plain, found.groups
        self.start = np.concatenate((np.array([begin], np.int64), self.end))[: len(self)]

    def __len__(self) -> int:
        return len(self.end)

    @property
    def behind(self) -> tuple[int, int]:
        """What is behind the last region."""
        return int(self.end[-1]) if len(self) else PAD, PAD + self.size

    def offsets(self, group: Group) -> Ints:
        """Where in the piece the elements of a group's regions begin."""
        found: Ints = self.start[group.regions] + (len(group.template.gap) - PAD)
        return found

    def readable(self, group: Group) -> Group:
        """Those of a group's regions whose values mean what they say: mostly all."""
        plain = self.plain[group.regions]
        return group if plain.all() else group.of(plain)

    def void(self, begin: int, end: int) -> None:
        """Nothing is proven from ``begin`` to ``end``."""
        first, last = np.searchsorted(self.end, begin, "right"), np.searchsorted(self.start, end)
        self.proven[first:last] = self.plain[first:last] = False

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


def is_sound(data: bytes) -> bool:
    """Whether no bytes are wrong that can be anywhere: it is UTF-8, without the two characters XML may not hold."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\xef\xbf\xbe" not in data and b"\xef\xbf\xbf" not in data

"""Cutting a byte stream into pieces that can be parsed apart from each other.

A boundary stands right after a tag (or comment, ...) or right before a tuple or punctuation element, at a
place where no such element is open; and where a document's root closes there is always one. A piece is
parsed behind the start tags open at its beginning, so that all pieces together get the verdict that the
document would get in one piece, wherever they were cut. Malformed markup never stops the splitter: it goes
into a piece, whose parser reports it, and nothing follows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from xmlpunct.firehose.markup import Element, Tokens, element, terminator, tokens
from xmlpunct.firehose.markup import elements as opened_by
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.spec import ElementName, Limits

_STEP = 8192
"""How much to look at first; then twice as much each time, lest small documents be looked at again."""


class Splitter:
    """Cuts the bytes of one source (UTF-8, from ``position`` on) at safe element boundaries.

    ``elements`` are the tuple and punctuation elements (see `elements_of`), which are never cut.

    >>> splitter = Splitter("doc", {"t"})
    >>> splitter.feed(b"<r><t>1</t><t>2")
    >>> splitter.cut().data
    b'<r><t>1</t>'
    >>> splitter.position.open
    ('<r>',)
    """

    def __init__(
        self,
        source: str,
        elements: Collection[ElementName],
        position: Position = Position(),  # noqa: B008 - immutable
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        self.source, self.limits = source, limits
        self._kept = frozenset(elements)
        self._position = position
        self._data = bytearray()
        self._stack: list[Element] = opened_by(position.open)  # open at _scanned
        self._scanned = 0  # everything before this is understood
        self._tail = 0  # where the token begins that is not complete yet...
        self._looked = 0  # ...and up to where its end has been looked for
        self._safe = 0  # the boundary found, if not 0,
        self._safe_open: tuple[str, ...] = ()  # and what is open there
        self._root_closed = self._broken = self._ended = self._finished = False

    @property
    def position(self) -> Position:
        """Where the next split begins."""
        return self._position

    @property
    def pending(self) -> int:
        """How many bytes are waiting."""
        return len(self._data)

    @property
    def finished(self) -> bool:
        """Whether no split will come any more."""
        return self._finished

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        if not self._finished:
            self._data += data

    def end(self) -> None:
        """No more bytes will come, and that is how the source ends."""
        self._ended = True

    def cut(self, limit: int | None = None) -> Split | None:
        """The next split: as large as can be up to ``limit`` bytes, or larger where nothing allows a cut.

        None if more bytes are needed, or if everything has been cut (`finished`).
        """
        if self._finished:
            return None
        self._look(len(self._data) if limit is None else max(limit, 1))
        if self._broken:
            return self._last(final=False)
        if self._safe:
            return self._last(final=True) if self._nothing_after() else self._take(self._safe, final=False)
        if self._ended:
            return self._last(final=True)
        if len(self._data) > self.limits.element:
            return self._last(final=False)
        return None

    def _nothing_after(self) -> bool:
        """Whether the boundary found is a root's end with nothing but (a little) white space behind it."""
        rest = len(self._data) - self._safe
        return (
            self._ended
            and self._root_closed
            and rest < _STEP
            and not self._data[self._safe :].strip(b" \t\r\n")
        )

    def _look(self, target: int) -> None:
        """Go on until a boundary is known and ``target`` reached, or there is no more to see."""
        step = _STEP
        while not (self._root_closed or self._broken):
            stop = min(target, self._scanned + step, len(self._data))
            before = self._scanned
            if stop > before:
                self._scan(stop)
            if self._scanned > before:
                step *= 2
            elif stop == len(self._data):
                return
            elif stop == target:
                if self._safe:
                    return
                target += max(_STEP, target)
            else:
                step *= 2

    def _scan(self, stop: int) -> None:
        """Understand the data up to ``stop``, as far as it is complete."""
        begin = max(self._tail, self._looked - 2)
        head = bytes(self._data[self._tail : self._tail + 9])
        if self._data.find(terminator(head), begin, stop) < 0:
            self._looked = max(self._looked, stop)
            return
        chunk = bytes(memoryview(self._data)[self._scanned : stop])
        found = tokens(chunk)
        self._tail, self._looked = self._scanned + found.tail, stop
        if found.broken:
            # Show the parser the whole of what is wrong, so that it says the same however data arrives.
            wrong = self._data.find(b">", self._tail)
            self._broken = wrong >= 0 or self._ended
        if len(found):
            self._nest(chunk, found)

    def _nest(self, chunk: bytes, found: Tokens) -> None:
        """Follow the nesting through some tokens."""
        depth = len(self._stack) + np.cumsum(found.delta)
        special = np.flatnonzero((found.element & (depth <= 0)) | (depth > self.limits.depth))
        count = int(special[0]) + 1 if len(special) else len(found)
        depth, delta = depth[:count], found.delta[:count]
        base, end = self._scanned, int(found.end[count - 1])
        self._scanned += end
        if count < len(found) or len(special):
            self._tail = self._looked = self._scanned
            self._root_closed = depth[-1] == 0
            self._broken = not self._root_closed
            if self._root_closed:
                self._stack, self._safe, self._safe_open = [], self._scanned, ()
            return
        kept = min(len(self._stack), int(depth.min()))
        lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
        opened = np.flatnonzero((delta == 1) & (depth <= lowest_after))
        stack = self._stack[:kept]
        for i in opened:
            raw = chunk[found.start[i] : found.end[i]].decode("utf-8", "surrogateescape")
            stack.append(element(raw, stack[-1] if stack else None))
        self._stack = stack
        level = next((n for n, e in enumerate(stack) if e.name in self._kept), len(stack))
        if level == len(stack):
            safe = self._scanned
        elif level >= kept:
            safe = base + int(found.start[opened[level - kept]])
        else:  # inside the element since before this chunk
            return
        if level > 0:  # what comes before a root belongs to it
            self._safe, self._safe_open = safe, tuple(e.raw for e in stack[:level])

    def _take(self, size: int, final: bool) -> Split:
        data = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        split = Split(self.source, self._position, data, final)
        self._position = self._position.after(data, self._safe_open)
        self._scanned, self._tail = max(self._scanned - size, 0), max(self._tail - size, 0)
        self._looked = max(self._looked - size, 0)
        self._safe, self._root_closed = 0, False
        return split

    def _last(self, final: bool) -> Split:
        self._finished = True
        self._safe_open = ()
        return self._take(len(self._data), final)

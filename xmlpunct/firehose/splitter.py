"""Cutting a byte stream into pieces that can be parsed apart from each other.

A boundary stands right after a tag (or comment, ...) or right before a tuple or punctuation element, at a
place where no such element is open; and where a document's root closes there is always one. A piece is
parsed behind the start tags open at its beginning, so that all pieces together get the verdict that the
document would get in one piece, wherever they were cut. Malformed markup never stops the splitter: it goes
into a piece, whose parser reports it, and nothing follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np

from xmlpunct.base.errors import SourceError
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.native.tags import IN_DOCTYPE, Tokens, element, terminator, tokens
from xmlpunct.firehose.native.tags import elements as opened_by
from xmlpunct.firehose.native.walker import Walk, boundaries
from xmlpunct.firehose.parser import said_after
from xmlpunct.firehose.position import Position, Said, Split
from xmlpunct.firehose.spec import ElementName, Elements, Limits

_STEP = 8192
"""How much to look at first behind a small document; then twice as much, lest many of them be looked at again."""
_DEEPEST = 300
"""Where nothing is followed any more: libxml2 refuses what is nested 256 deep."""
_AGAIN = 8
"""What is understood already is read ahead all the same, with so many times as much."""
_LONG = 2**16
"""For how many bytes to wait for the end of a token before looking whether it can have one at all."""
_TAG = re.compile(rb"""<[^!?<>"']""")
_PLAIN = re.compile(rb"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+""")
"""What a tag may hold up to its end."""
_UNQUOTE = {b"'": re.compile(rb"[<']"), b'"': re.compile(rb'[<"]')}
"""What ends a quoted value, in good order or not."""
_DOCTYPE = b"<!DOCTYPE"
_PLAIN_IN_DOCTYPE = re.compile(IN_DOCTYPE)
_UNQUOTE_IN_DOCTYPE = {b"'": re.compile(rb"'"), b'"': re.compile(rb'"')}


def malformed(split: Split) -> SourceError:
    """The error of a split behind which nothing can follow, though its parser has found nothing wrong."""
    return SourceError(split.source, "malformed or too large", split.start.line, split.start.byte)


class Splitter:
    """Cuts the bytes of one source (UTF-8, from ``position`` on) at safe element boundaries.

    ``elements`` are the tuple and punctuation elements (see `elements_of`), which are never cut. ``ahead`` reads
    what is to become the next split, from its beginning on, and remembers what it has found; with what open elements
    have said of tuples by then, if that is known.

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
        ahead: Callable[[Split], tuple[Walk, Said | None] | None] | None = None,
    ) -> None:
        self.source, self.limits, self._ahead = source, limits, ahead
        self._kept = frozenset(elements)
        self._reaching = elements if isinstance(elements, Elements) and elements.specs else None
        self._position = position
        self._data: bytes | bytearray = b""  # the latter while little comes at a time
        self._stack = [*opened_by(position.open, self._whole)]  # open at _scanned
        self._step = limits.element  # how much to look at first
        self._scanned = 0  # everything before this is understood
        self._tail = 0  # where the token begins that is not complete yet,
        self._looked = 0  # up to where its end has been looked for,
        self._quote = b""  # the quote that is open there,
        self._wrong = False  # and whether it is known to be no token
        self._judged = 0  # up to where all characters are such as XML may hold
        self._safe = 0  # the boundary found, if not 0,
        self._safe_open: tuple[str, ...] = ()  # and what is open there,
        self._safe_said: Said | None = None  # and has said something of tuples, if that is known
        self._root_closed = self._broken = self._ended = self._finished = False

    @property
    def position(self) -> Position:
        """Where the next split begins."""
        return self._position

    @property
    def _whole(self) -> bool:
        """Whether tuples may have something of what start tags around them say."""
        return self._reaching is not None

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
        if self._finished:
            return
        if len(data) > len(self._data):
            self._data = bytes(self._data) + data
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += data

    def _bytes(self, begin: int, end: int) -> bytes:
        """Some of the data, without a copy where it is all of them."""
        return (
            bytes(memoryview(self._data)[begin:end]) if begin or end < len(self._data) else bytes(self._data)
        )

    def end(self) -> None:
        """No more bytes will come, and that is how the source ends."""
        self._ended = True

    def fail(self) -> None:
        """No more bytes will come, and who knows how the source ends.

        What is waiting is cut if it holds what no XML may: that comes first, and has perhaps been seen before.
        """
        self._broken = self._broken or self._is_hopeless(len(self._data))

    def cut(self, limit: int | None = None) -> Split | None:
        """The next split: as large as can be up to ``limit`` bytes, or larger where nothing allows a cut.

        None if more bytes are needed, or if everything has been cut (`finished`). It has no more bytes than
        ``limits.element``, or one more: then nothing allowed a cut, and nothing follows.
        """
        if self._finished:
            return None
        most = self.limits.element
        self._look(most if limit is None else max(limit, 1))
        if self._broken:
            return self._last(most, final=False)
        if self._safe:
            if self._nothing_after():
                return self._last(len(self._data), final=True)
            return self._take(self._safe, final=False)
        if len(self._data) > most or self._is_long_tag():
            return self._last(most + 1, final=False)
        return self._last(most, final=not self._is_hopeless(len(self._data))) if self._ended else None

    def rest(self) -> Split | None:
        """What is waiting, as the last split: text, behind which an element begins. None if nothing is."""
        return self._last(len(self._data), final=False) if self._data else None

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
        step, reach = self._step, min(len(self._data), self.limits.element)
        while not (self._root_closed or self._broken):
            stop = min(target, self._scanned + step, reach)
            before = self._scanned
            if stop > before:
                self._scan(stop)
            if self._scanned > before:
                step *= 2
            elif stop == reach:
                return
            elif stop == target:
                if self._safe:
                    return
                target += max(_STEP, target)
            else:
                step *= 2

    def _scan(self, stop: int) -> None:
        """Understand the data up to ``stop``, as far as it is complete. Nothing is looked at over and over."""
        at = self._end_of_token(stop)
        if at < 0:
            self._broken = not self._wrong and stop - self._tail > _LONG and self._is_hopeless(stop)
            return
        if not self._wrong:
            if self._walk(stop):
                return
            chunk = self._bytes(self._scanned, stop)
            found = tokens(chunk)
            if found.tail:
                self._look_from(self._scanned + found.tail)
                at = self._end_of_token(stop) if found.broken else 0
            self._wrong = found.broken
            if len(found):
                self._nest(chunk, found)
            if self._root_closed or self._broken:
                return
            self._scanned = self._tail
        if self._wrong:
            # Show the parser the whole of what is wrong, so that it says the same however data arrives.
            self._broken = self._ended or (at >= 0 and self._data.find(b">", at, stop) >= 0)

    def _walk(self, stop: int) -> bool:
        """Have the native reader understand the data up to ``stop``; whether it does."""
        if self._ahead is not None and _AGAIN * self._scanned <= stop:
            data = self._bytes(0, stop)
            found = self._ahead(Split(self.source, self._position, data, False))
            if found is not None:
                self._scanned, self._stack = 0, [*opened_by(self._position.open, self._whole)]
                self._follow(data, *found)
                return True
        data = self._bytes(self._scanned, stop)
        walk = boundaries(
            Split(self.source, self._position, data, False), self._stack, self._kept, self.limits
        )
        if walk is not None:
            self._follow(data, walk)
        return walk is not None

    def _follow(self, chunk: bytes, walk: Walk, said: Said | None = None) -> None:
        """Go to where a walk has ended."""
        base, size = self._scanned, walk.size
        stack = self._stack[: walk.kept]
        for start, length in walk.opened:
            raw = chunk[start : start + length].decode("utf-8", "surrogateescape")
            stack.append(element(raw, stack[-1] if stack else None, self._whole))
        self._stack = stack
        self._root_closed = walk.rooted and not stack
        if size and (walk.outside or self._root_closed):  # what comes before a root belongs to it
            is_outside = walk.outside == len(stack)
            if is_outside or walk.outer >= 0:
                self._safe = base + (size if is_outside else walk.outer)
                self._safe_open = tuple(e.raw for e in stack[: walk.outside])
                self._safe_said = said
        if not self._root_closed:
            tail = chunk.find(b"<", size)
            size = tail if tail >= 0 else len(chunk)
        self._scanned = base + size
        self._look_from(self._scanned)

    def _is_hopeless(self, stop: int) -> bool:
        """Whether there is before ``stop`` what no XML may hold, so that there is nothing to wait for."""
        wrong, end = forbidden(self._bytes(self._judged, stop))
        self._judged += end
        return wrong >= 0

    def _is_long_tag(self) -> bool:
        """Whether the token at the tail is a tag, and longer than it may be."""
        is_long = self._looked - self._tail > self.limits.tag and not self._wrong
        return is_long and _TAG.match(self._data, self._tail) is not None

    def _look_from(self, tail: int) -> None:
        self._tail = self._looked = tail
        self._quote, self._wrong = b"", False

    def _end_of_token(self, stop: int) -> int:
        """Where, before ``stop``, the token at the tail ends or is seen to be none; -1 if that is not known."""
        data = self._data
        if data[self._tail : self._tail + 1] != b"<":  # text
            begin = data.find(b"<", max(self._tail, self._looked), stop)
            if begin < 0:
                self._looked = max(self._looked, stop)
                return -1
            self._look_from(begin)
        at = max(self._tail, self._looked - 2)
        head = bytes(data[self._tail : self._tail + 9])
        looked, self._looked = max(self._tail + 1, self._looked), max(self._looked, stop)
        if self._wrong:
            return data.find(b">", looked, stop)
        if head == _DOCTYPE:
            plain_in, unquote = _PLAIN_IN_DOCTYPE, _UNQUOTE_IN_DOCTYPE
        elif _TAG.match(head):
            plain_in, unquote = _PLAIN, _UNQUOTE
        else:
            size, end = terminator(head)
            return data.find(end, max(at, self._tail + size), stop)
        at = looked
        while at < stop:
            if self._quote:
                found = unquote[self._quote].search(data, at, stop)
                if found is None or found[0] == b"<":
                    return found.start() if found else -1
                self._quote, at = b"", found.end()
            plain = plain_in.match(data, at, stop)
            at = plain.end() if plain else at
            char = bytes(data[at : min(at + 1, stop)])
            if char in (b"<", b">", b"["):  # [ begins the internal subset of a DOCTYPE
                return at
            self._quote, at = char, at + 1
        return -1

    def _nest(self, chunk: bytes, found: Tokens) -> None:
        """Follow the nesting through some tokens."""
        depth = len(self._stack) + np.cumsum(found.delta)
        special = np.flatnonzero((found.element & (depth <= 0)) | (depth > _DEEPEST))
        count = int(special[0]) + 1 if len(special) else len(found)
        depth, delta = depth[:count], found.delta[:count]
        base, end = self._scanned, int(found.end[count - 1])
        self._scanned += end
        if count < len(found) or len(special):
            self._look_from(self._scanned)
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
            stack.append(element(raw, stack[-1] if stack else None, self._whole))
        self._stack = stack
        level = next((n for n, e in enumerate(stack) if e.name in self._kept), len(stack))
        if level == len(stack):
            safe = self._scanned
        elif level >= kept:
            safe = base + int(found.start[opened[level - kept]])
        else:  # inside the element since before this chunk
            return
        if level > 0:  # what comes before a root belongs to it
            self._safe, self._safe_open, self._safe_said = safe, tuple(e.raw for e in stack[:level]), None

    def _take(self, size: int, final: bool) -> Split:
        data = self._bytes(0, size)
        if size < len(self._data) / 2:
            self._data = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            del self._data[:size]
        else:
            self._data = self._bytes(size, len(self._data))
        split = Split(self.source, self._position, data, final)
        said: Said = ()
        if self._reaching is not None and self._safe_open and any(s.said for s in self._reaching.specs):
            known = self._safe_said
            said = said_after(split, self._reaching, self.limits) if known is None else known
        self._safe_said = None
        self._position = self._position.after(data, self._safe_open, said)
        self._scanned, self._tail = max(self._scanned - size, 0), max(self._tail - size, 0)
        self._looked, self._judged = max(self._looked - size, 0), max(self._judged - size, 0)
        self._step = max(2 * size, _STEP) if self._root_closed else self.limits.element
        self._safe, self._root_closed = 0, False
        return split

    def _last(self, size: int, final: bool) -> Split:
        self._finished = True
        self._safe_open = ()
        split = self._take(min(size, len(self._data)), final)
        self._data = b""
        return split

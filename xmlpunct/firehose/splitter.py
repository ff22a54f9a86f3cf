"""Divides a byte stream into splits that can be parsed independently.

A boundary is directly after a tag (or comment, ...) or directly before a tuple or punctuation element, at a position
where no tuple or punctuation is open. The end of a document's root is always a boundary. A split is parsed after the
start tags that are open at its beginning. So all splits together have the same result as the whole document, wherever
the boundaries are. Malformed markup does not stop the splitter: it is in the last split, whose parser reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

import numpy as np

from xmlpunct.base.errors import SourceError
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.native.tags import (
    DOCTYPE,
    IN_DOCTYPE,
    LONG_TAG,
    Tokens,
    is_partial_doctype,
    names_only,
    terminator,
    tokens,
)
from xmlpunct.firehose.native.tags import elements as opened_by
from xmlpunct.firehose.native.walker import Walk, boundaries
from xmlpunct.firehose.parser import said_after
from xmlpunct.firehose.position import AncestorValues, Position, Split
from xmlpunct.firehose.spec import ElementName, ElementNames, Limits

_STEP = 8192
"""Bytes to scan first after a small document; doubled later, so that small documents are not scanned repeatedly."""
_DEEPEST = 300
"""The depth at which the scan stops. libxml2 refuses elements that are nested 256 deep."""
_REWALK_FACTOR = 8
"""Scanned data is walked again in advance if there is this many times as much data."""
_LONG = 2**16
"""Bytes of an incomplete token after which the data is checked for forbidden characters."""
_TAG = re.compile(rb"""<[^!?<>"']""")
_PLAIN = re.compile(rb"""(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+""")
"""Matches the content of a tag up to its end."""
_UNQUOTE = {b"'": re.compile(rb"[<']"), b'"': re.compile(rb'[<"]')}
"""Matches the end of a quoted value, or the character that makes it malformed."""
_DOCTYPE = b"<!DOCTYPE"
_WHOLE_DOCTYPE = re.compile(DOCTYPE, re.DOTALL)
_PLAIN_IN_DOCTYPE = re.compile(IN_DOCTYPE)
_UNQUOTE_IN_DOCTYPE = {b"'": re.compile(rb"'"), b'"': re.compile(rb'"')}


def malformed(split: Split) -> SourceError:
    """The error of a last split that ends too early, if its parser has not reported an error."""
    return SourceError(split.source, "malformed or too large", split.start.line, split.start.byte)


class Splitter:
    """Divides the bytes of one source (UTF-8, from ``position`` on) at safe element boundaries.

    ``elements`` are the tuple and punctuation elements (see `elements_of`), which are never divided. ``ahead`` walks
    the next split in advance, from its beginning on, and stores the results (see `Parser.ahead`). It also returns the
    open elements' values for tuples, if they are known.

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
        ahead: Callable[[Split], tuple[Walk, AncestorValues | None] | None] | None = None,
    ) -> None:
        self.source, self.limits, self._ahead = source, limits, ahead
        self._unsplit_elements = frozenset(elements)
        self._ancestor_readers = elements if isinstance(elements, ElementNames) and elements.specs else None
        self._dtd = elements.dtd if isinstance(elements, ElementNames) else ""
        self._position = position
        self._data: bytes | bytearray = b""  # bytearray while little data is added at a time
        self._stack = [*position.open]  # the start tags of the elements that are open at _scanned
        self._step = limits.element  # bytes to scan first
        self._scanned = 0  # the end of the scanned data
        self._tail = 0  # the start of the incomplete token,
        self._searched = 0  # the end of the search for its end,
        self._subset_size = 0  # the number of its bytes at the last search for the end of an internal subset,
        self._quote = b""  # the quote that is open there, if any,
        self._is_malformed = False  # and whether it is malformed
        self._checked = 0  # the end of the data without forbidden characters
        self._boundary = 0  # the last boundary, 0 if there is none,
        self._open_at_boundary: tuple[str, ...] = ()  # the elements that are open there,
        self._values_at_boundary: AncestorValues | None = None  # and their values for tuples, if known
        self._root_closed = self._broken = self._ended = self._finished = False

    @property
    def position(self) -> Position:
        """The position at which the next split begins."""
        return self._position

    @property
    def _needs_attributes(self) -> bool:
        """Whether attributes of open elements are needed, because tuples have values from ancestors."""
        return self._ancestor_readers is not None

    @property
    def pending(self) -> int:
        """The number of buffered bytes."""
        return len(self._data)

    @property
    def finished(self) -> bool:
        """Whether there are no more splits."""
        return self._finished

    @property
    def cut_short(self) -> bool:
        """Whether there are no more splits, and the root element is not closed."""
        return self._finished and not self._root_closed

    def feed(self, data: bytes) -> None:
        """Add more bytes."""
        if self._finished:
            return
        if len(data) > len(self._data):
            self._data = bytes(self._data) + data
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += data

    def _bytes(self, begin: int, end: int) -> bytes:
        """A section of the data; all of the data is not copied."""
        return (
            bytes(memoryview(self._data)[begin:end]) if begin or end < len(self._data) else bytes(self._data)
        )

    def end(self) -> None:
        """Record that the source has ended."""
        self._ended = True

    def fail(self) -> None:
        """Record that reading the source has failed.

        If the buffered bytes have a forbidden character, they are a last split: that error comes before the failure.
        """
        self._broken = self._broken or self._has_forbidden_character(len(self._data))

    def cut(self, limit: int | None = None) -> Split | None:
        """The next split: the largest one up to ``limit`` bytes, or a larger one if there is no boundary before.

        None if more bytes are needed, or after the last split (`finished`). It has at most ``limits.element`` bytes.
        With one byte more, it has no boundary and is the last split.
        """
        if self._finished:
            return None
        max_size = self.limits.element
        self._advance(max_size if limit is None else max(limit, 1))
        if self._broken:
            return self._emit_last_split(max_size, final=False)
        if self._boundary:
            if self._only_space_after():
                return self._emit_last_split(len(self._data), final=True)
            return self._emit_split(self._boundary, final=False)
        if len(self._data) > max_size or self._is_long_tag():
            return self._emit_last_split(max_size + 1, final=False)
        return (
            self._emit_last_split(max_size, final=not self._has_forbidden_character(len(self._data)))
            if self._ended
            else None
        )

    def rest(self) -> Split | None:
        """The buffered bytes as the last split: text before the start of an element. None without buffered bytes."""
        return self._emit_last_split(len(self._data), final=False) if self._data else None

    def _only_space_after(self) -> bool:
        """Whether the boundary is the end of a root, followed only by (a little) white space."""
        remaining = len(self._data) - self._boundary
        return (
            self._ended
            and self._root_closed
            and remaining < _STEP
            and not self._data[self._boundary :].strip(b" \t\r\n")
        )

    def _advance(self, target: int) -> None:
        """Scan until there is a boundary and ``target`` is reached, or until the end of the data."""
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
                if self._boundary:
                    return
                target += max(_STEP, target)
            else:
                step *= 2

    def _scan(self, stop: int) -> None:
        """Scan the complete tokens up to ``stop``. Each byte is scanned a bounded number of times."""
        token_end = self._end_of_token(stop)
        if token_end < 0:
            self._broken = (
                not self._is_malformed and stop - self._tail > _LONG and self._has_forbidden_character(stop)
            )
            return
        if not self._is_malformed:
            if self._walk(stop):
                return
            chunk = self._bytes(self._scanned, stop)
            chunk_tokens = tokens(chunk)
            if chunk_tokens.tail:
                self._reset_tail(self._scanned + chunk_tokens.tail)
                token_end = self._end_of_token(stop) if chunk_tokens.broken else 0
            self._is_malformed = chunk_tokens.broken
            if len(chunk_tokens):
                self._apply_tokens(chunk, chunk_tokens)
            if self._root_closed or self._broken:
                return
            self._scanned = self._tail
        if self._is_malformed:
            # Wait for the complete malformed tag, so that the parser's message does not depend on how data arrives.
            self._broken = self._ended or (token_end >= 0 and self._data.find(b">", token_end, stop) >= 0)

    def _walk(self, stop: int) -> bool:
        """Scan up to ``stop`` with the native reader; False if it cannot proceed."""
        if self._ahead is not None and _REWALK_FACTOR * self._scanned <= stop:
            data = self._bytes(0, stop)
            result = self._ahead(Split(self.source, self._position, data, False, dtd=self._dtd))
            if result is not None:
                self._scanned, self._stack = 0, [*self._position.open]
                self._apply_walk(data, *result)
                return True
        data = self._bytes(self._scanned, stop)
        split = Split(self.source, self._position, data, False, dtd=self._dtd)
        walk = boundaries(split, self._stack, self._unsplit_elements, self.limits)
        if walk is not None:
            self._apply_walk(data, walk)
        return walk is not None

    def _apply_walk(self, chunk: bytes, walk: Walk, values: AncestorValues | None = None) -> None:
        """Update the state to the end of a walk."""
        base, size = self._scanned, walk.size
        stack = self._stack[: walk.kept]
        for start, length in walk.opened:
            stack.append(self._start_tag(chunk[start : start + length]))
        self._stack = stack
        self._root_closed = walk.rooted and not stack
        if size and (walk.outside or self._root_closed):  # data before a root belongs to its document
            is_outside = walk.outside == len(stack)
            if is_outside or walk.outer >= 0:
                self._boundary = base + (size if is_outside else walk.outer)
                self._open_at_boundary = tuple(stack[: walk.outside])
                self._values_at_boundary = values
        if not self._root_closed:
            tail = chunk.find(b"<", size)
            size = tail if tail >= 0 else len(chunk)
        self._scanned = base + size
        self._reset_tail(self._scanned)

    def _start_tag(self, data: bytes) -> str:
        """A start tag as the stack has it: a long one is reduced, unless its attributes are needed."""
        raw = data.decode("utf-8", "surrogateescape")
        return raw if len(raw) <= LONG_TAG or self._needs_attributes else names_only(raw)

    def _has_forbidden_character(self, stop: int) -> bool:
        """Whether there is a forbidden character before ``stop``, so that more data cannot help."""
        if self._checked >= stop:
            return False
        wrong, end = forbidden(self._bytes(self._checked, stop))
        self._checked += end
        return wrong >= 0

    def _is_long_tag(self) -> bool:
        """Whether the token at the tail is a tag that exceeds its limit."""
        is_long = self._searched - self._tail > self.limits.tag and not self._is_malformed
        return is_long and _TAG.match(self._data, self._tail) is not None

    def _reset_tail(self, tail: int) -> None:
        self._tail = self._searched = tail
        self._quote, self._is_malformed, self._subset_size = b"", False, 0

    def _end_of_token(self, stop: int) -> int:
        """The index before ``stop`` at which the token at the tail ends or turns out to be malformed; -1 if unknown."""
        data = self._data
        if data[self._tail : self._tail + 1] != b"<":  # text
            begin = data.find(b"<", max(self._tail, self._searched), stop)
            if begin < 0:
                self._searched = max(self._searched, stop)
                return -1
            self._reset_tail(begin)
        if len(data) == self._tail + 1:
            return -1
        index = max(self._tail, self._searched - 2)
        head = bytes(data[self._tail : self._tail + 9])
        search_start, self._searched = max(self._tail + 1, self._searched), max(self._searched, stop)
        if self._is_malformed:
            return data.find(b">", search_start, stop)
        if head == _DOCTYPE:
            plain_in, unquote = _PLAIN_IN_DOCTYPE, _UNQUOTE_IN_DOCTYPE
        elif _TAG.match(head):
            plain_in, unquote = _PLAIN, _UNQUOTE
        else:
            size, end = terminator(head)
            return data.find(end, max(index, self._tail + size), stop)
        index = search_start
        while index < stop:
            if self._quote:
                quote_end = unquote[self._quote].search(data, index, stop)
                if quote_end is None or quote_end[0] == b"<":
                    return quote_end.start() if quote_end else -1
                self._quote, index = b"", quote_end.end()
            plain = plain_in.match(data, index, stop)
            index = plain.end() if plain else index
            char = bytes(data[index : min(index + 1, stop)])
            if head == _DOCTYPE and char == b"[":
                return self._end_of_doctype(index, stop)
            if char in (b"<", b">"):
                return index
            self._quote, index = char, index + 1
        return -1

    def _end_of_doctype(self, subset: int, stop: int) -> int:
        """`_end_of_token` for a DOCTYPE with an internal subset. It is searched again when it is a quarter longer."""
        size, self._searched = stop - self._tail, subset
        if size < self._subset_size * 5 // 4 and not self._ended:
            return -1
        whole = _WHOLE_DOCTYPE.match(self._data, self._tail, stop)
        if whole is not None:
            return whole.end() - 1
        self._subset_size = size
        return -1 if is_partial_doctype(self._data, self._tail, stop) else subset

    def _apply_tokens(self, chunk: bytes, chunk_tokens: Tokens) -> None:
        """Update the stack of open elements and the boundary from tokens."""
        depth = len(self._stack) + np.cumsum(chunk_tokens.delta)
        special = np.flatnonzero((chunk_tokens.element & (depth <= 0)) | (depth > _DEEPEST))
        count = int(special[0]) + 1 if len(special) else len(chunk_tokens)
        depth, delta = depth[:count], chunk_tokens.delta[:count]
        base, end = self._scanned, int(chunk_tokens.end[count - 1])
        self._scanned += end
        if count < len(chunk_tokens) or len(special):
            self._reset_tail(self._scanned)
            self._root_closed = depth[-1] == 0
            self._broken = not self._root_closed
            if self._root_closed:
                self._stack, self._boundary, self._open_at_boundary = [], self._scanned, ()
            return
        unchanged = min(len(self._stack), int(depth.min()))
        lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
        opened = np.flatnonzero((delta == 1) & (depth <= lowest_after))
        stack = self._stack[:unchanged]
        for i in opened:
            stack.append(self._start_tag(chunk[chunk_tokens.start[i] : chunk_tokens.end[i]]))
        self._stack = stack
        elements = enumerate(opened_by(tuple(stack)))
        level = next((n for n, e in elements if e.name in self._unsplit_elements), len(stack))
        if level == len(stack):
            safe = self._scanned
        elif level >= unchanged:
            safe = base + int(chunk_tokens.start[opened[level - unchanged]])
        else:  # inside the element since before this chunk
            return
        if level > 0:  # data before a root belongs to its document
            self._boundary, self._open_at_boundary, self._values_at_boundary = (
                safe,
                tuple(stack[:level]),
                None,
            )

    def _emit_split(self, size: int, final: bool) -> Split:
        data = self._bytes(0, size)
        if size < len(self._data) / 2:
            self._data = bytearray(self._data) if isinstance(self._data, bytes) else self._data
            del self._data[:size]
        else:
            self._data = self._bytes(size, len(self._data))
        split = Split(self.source, self._position, data, final, dtd=self._dtd)
        values: AncestorValues = ()
        if (
            self._ancestor_readers is not None
            and self._open_at_boundary
            and any(s.said for s in self._ancestor_readers.specs)
        ):
            safe_values = self._values_at_boundary
            values = (
                said_after(split, self._ancestor_readers, self.limits) if safe_values is None else safe_values
            )
        self._values_at_boundary = None
        doctype = split.ready.doctype.effective.decode() if self._open_at_boundary else ""
        self._position = self._position.after(data, self._open_at_boundary, values, doctype)
        self._scanned, self._tail = max(self._scanned - size, 0), max(self._tail - size, 0)
        self._searched, self._checked = max(self._searched - size, 0), max(self._checked - size, 0)
        self._step = max(2 * size, _STEP) if self._root_closed else self.limits.element
        self._boundary, self._root_closed = 0, False
        return split

    def _emit_last_split(self, size: int, final: bool) -> Split:
        self._finished = True
        self._open_at_boundary = ()
        split = self._emit_split(min(size, len(self._data)), final)
        self._data = b""
        return split

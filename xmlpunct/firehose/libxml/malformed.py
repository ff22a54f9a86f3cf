"""Locates the error in a malformed split by a second pass, so that it does not depend on how the data arrived.

The parser that reads splits detects an error, but reports a position that depends on the pieces it was fed.
Here libexpat locates the error, and libxml2 confirms it: it accepts everything before the token, and rejects the
token. Where the two disagree about details of XML, libxml2 decides.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from string import ascii_letters
from xml.parsers import expat

import numpy as np
from lxml import etree

from xmlpunct.base.errors import MOST_TEXT, SourceError, XmlPunctError, cut_short
from xmlpunct.base.library_guard import guarded
from xmlpunct.firehose.cells import CellInts
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.libxml.parser_target import END
from xmlpunct.firehose.native.tags import Tokens, tokens
from xmlpunct.firehose.position import Split

PIECE = 64 * 1024
"""Bytes fed at once: libxml2 refuses pieces of more than 10 MB."""

TAIL = f"<?{END}?>".encode()
"""Fed last: libxml2 parses a text only when markup follows."""

_TRUNCATED = {3, 5, 6, 20}  # expat: no element found, unclosed token, partial character, unclosed CDATA
_EXACT = {2, 4, 11, 14}  # expat: syntax error, invalid token, undefined entity, bad character reference


_LETTERS = bytes(c if c < 0x80 else ascii_letters.encode()[c % len(ascii_letters)] for c in range(256))
"""Maps bytes beyond ASCII to ASCII letters: libexpat accepts fewer letters in names than XML."""


class SplitPositions:
    """Converts between numbers of start tags, bytes and lines of a split. Computed only for error reports."""

    def __init__(self, split: Split) -> None:
        self.split = split

    @cached_property
    def _split_tokens(self) -> Tokens:
        return tokens(self.split.data)

    @cached_property
    def _tokens(self) -> tuple[memoryview, memoryview, memoryview]:
        """Starts, ends and depth changes of the tokens, as memory views: lists would be five times as large."""
        return self._split_tokens.start.data, self._split_tokens.end.data, self._split_tokens.delta.data

    @cached_property
    def _starts(self) -> memoryview:
        """The indices of the tokens that are start tags."""
        return np.flatnonzero(self._split_tokens.element & (self._split_tokens.delta >= 0)).data

    @cached_property
    def _lines(self) -> memoryview:
        return np.flatnonzero(np.frombuffer(self.split.data, np.uint8) == 10).data

    @property
    def count(self) -> int:
        """The number of start tags."""
        return len(self._starts)

    def offset(self, number: int) -> int:
        """The offset in the split of its n-th start tag (from 1)."""
        if number > len(self._starts):  # the parser counted a malformed start tag that `tokens` did not
            return self._split_tokens.tail
        return self._tokens[0][self._starts[number - 1]]

    def line(self, offset: int) -> int:
        """The line in the source of an offset in the split."""
        return self.split.start.line + bisect_right(self._lines, offset - 1)

    def byte(self, offset: int) -> int:
        """The byte in the source of an offset in the split."""
        return self.split.start.byte + offset

    def offsets(self, numbers: CellInts) -> CellInts:
        """The offsets of start tags that are in the split."""
        starts: CellInts = self._split_tokens.start[np.asarray(self._starts)[numbers - 1]]
        return starts

    def lines(self, offsets: CellInts) -> CellInts:
        """The lines of several offsets."""
        return self.split.start.line + np.searchsorted(np.asarray(self._lines), offsets)

    def text(self, number: int) -> str:
        """The element of the n-th start tag as it stands in the source, cut as `errors.cut_short` does."""
        return shown_xml(self.split.data, *self.extent(number, MOST_TEXT))

    def extent(self, number: int, max_size: float = float("inf")) -> tuple[int, int]:
        """The start and end of the n-th start tag's element, or of its beginning if it is longer than ``max_size``."""
        begins, ends, deltas = self._tokens
        at = self._starts[number - 1]
        begin, depth = begins[at], deltas[at]
        while depth > 0 and ends[at] - begin <= max_size and at + 1 < len(begins):
            at += 1
            depth += deltas[at]
        return begin, ends[at]

    def token(self, offset: int) -> tuple[int, int]:
        """The start and end of the token, or of the text between two tokens, that contains an offset."""
        begins, ends, _ = self._tokens
        i = bisect_right(begins, offset) - 1
        if i >= 0 and offset < ends[i]:
            return begins[i], ends[i]
        begin = ends[i] if i >= 0 else 0
        data = self.split.data
        if i + 1 < len(begins):
            return begin, begins[i + 1]
        tail = data.find(b"<", begin)
        if tail < 0:
            return begin, len(data)
        if offset < tail:
            return begin, tail
        end = data.find(b">", offset) + 1
        return tail, end or len(data)

    def first(self, is_wrong: Callable[[int], bool]) -> tuple[int, int]:
        """The first token, or text between tokens, whose end satisfies ``is_wrong`` (monotone); else 0, 0."""
        begins, ends, _ = self._tokens
        i = bisect_left(ends, True, key=is_wrong)
        if i == len(ends):
            last_end, tail = ends[-1] if len(ends) else 0, self._split_tokens.tail
            return (last_end, tail) if last_end < tail and is_wrong(tail) else (0, 0)
        if is_wrong(begins[i]):
            return ends[i - 1] if i else 0, begins[i]
        return begins[i], ends[i]

    def innermost(self) -> str:
        """The raw name of the innermost element open at the end."""
        stack = [_name(tag.encode("utf-8", "surrogateescape")) for tag in self.split.start.open]
        data, split_tokens = self.split.data, self._split_tokens
        # The last start tag that never closes: after it, the depth never drops below the depth that it opened.
        depth = len(stack) + np.cumsum(split_tokens.delta)
        lowest = np.minimum.accumulate(depth[::-1])[::-1]
        opened = np.flatnonzero((split_tokens.delta > 0) & (depth <= lowest))
        if len(opened):
            return _name(data[int(split_tokens.start[opened[-1]]) : int(split_tokens.end[opened[-1]])])
        left = min(len(stack), int(lowest[0])) if len(split_tokens) else len(stack)
        return stack[left - 1] if left > 0 else ""


def shown_xml(data: bytes, begin: int, end: int) -> str:
    """A piece of XML as text, cut as `errors.cut_short` does."""
    return cut_short(data[begin : min(end, begin + MOST_TEXT + 1)].decode("utf-8", "replace"))


def locate_malformed(split: Split, data: bytes, error: etree._LogEntry | None) -> tuple[int, int, str]:
    """Locate the error in ``data`` (the split's data after `ready`).

    Returns the offset of the error, the offset up to which everything is well formed (the beginning of the malformed
    token), and the reason. ``error`` is libxml2's log entry.
    """
    try:
        with guarded(split.source):
            return _locate(split, data, error)
    except SourceError as failure:  # only libxml2's own position is available
        at = _offset(split.before, data, error) if error is not None else 0
        begin, _ = SplitPositions(split).token(min(at, max(len(data) - 1, 0)))
        return begin, begin, failure.reason if error is None else libxml_reason(error)


def _locate(split: Split, data: bytes, error: etree._LogEntry | None) -> tuple[int, int, str]:
    """`locate_malformed`, with both parsers."""
    wrong, end = forbidden(data if split.final else data + TAIL)
    if wrong >= 0:  # ignore later data, which may or may not have arrived
        split, data, error = replace(split, data=split.data[:end], final=False), data[:end], None
    prologue, positions = split.before, SplitPositions(split)
    plain = data[:wrong].translate(_LETTERS) + data[wrong:] if wrong >= 0 else data.translate(_LETTERS)
    reader = expat.ParserCreate("UTF-8", " ")
    try:
        reader.Parse(prologue.translate(_LETTERS), False)
        reader.Parse(plain if split.final else plain + TAIL, split.final)
    except expat.ExpatError as failure:
        at = max(0, min(reader.ErrorByteIndex - len(prologue), len(data)))
        if split.final and failure.code in _TRUNCATED:
            return truncated(split, positions)
        begin, end = positions.token(at)
        if begin > 0 and _complaint(prologue, data[:begin]) is not None:  # &< : expat points at the <
            begin, end = positions.token(begin - 1)
        if _complaint(prologue, data[:begin]) is None:
            message = _complaint(prologue, data[:end])
            if message is not None:
                error_offset = at if failure.code in _EXACT and begin <= at < end else begin
                return error_offset, begin, message
    begin, end = positions.first(lambda end: _complaint(prologue, data[:end]) is not None)
    if begin < end:
        return begin, begin, _complaint(prologue, data[:end]) or ""
    if wrong >= 0:
        return wrong, positions.token(wrong)[0], _complaint(prologue, data) or "malformed"
    at = _offset(prologue, data, error) if error is not None else len(data)
    if at >= len(data) and split.final:
        return truncated(split, positions)
    begin, _ = positions.token(min(at, max(len(data) - 1, 0)))
    return min(at, len(data)), begin, libxml_reason(error) if error is not None else "malformed"


def truncated(split: Split, positions: SplitPositions) -> tuple[int, int, str]:
    """As `locate_malformed`, for a document that ends too early."""
    name, size = positions.innermost(), len(split.data)
    if name:
        return size, size, f"the document ends inside <{name}>: it is cut short"
    return size, size, "the document ends before its root element: it is cut short"


def libxml_reason(entry: etree._LogEntry) -> str:
    """libxml2's message, in one line and without positions, which are relative to the data it was fed."""
    message = " ".join((entry.message or "malformed").split())
    if entry.type_name == "ERR_CDATA_NOT_FINISHED":
        message = "a CDATA section with a character that XML forbids, or without an end"
    if entry.type_name in ("ERR_UNDECLARED_ENTITY", "WAR_UNDECLARED_ENTITY"):
        message += (
            ": DTDs are not read, so there are only lt, gt, amp, quot, apos and those of WITH (dtd = 'FILE')"
        )
    # libxml2's limits apply: xmlpunct does not offer the option that the message recommends.
    short_message, option, _ = re.sub(r" line \d+", "", message).partition("XML_PARSE_HUGE")
    return f"too large: {re.sub('[,:]? [a-z]+ $', '', short_message)}" if option else short_message


def complaint(parser: etree.XMLParser) -> etree._LogEntry | None:
    """The first error in a parser's log, including errors from which it recovered."""
    return next((entry for entry in parser.feed_error_log if entry.level_name != "WARNING"), None)


def feed_pieces(data: bytes) -> list[bytes]:
    """``data`` in pieces for `feed`, cut before tags where possible."""
    parts, at = [], 0
    while len(data) - at > PIECE:
        end = data.rfind(b"<", at + 1, at + PIECE)
        end = end if end > 0 else at + PIECE
        parts.append(data[at:end])
        at = end
    return [*parts, data[at:]]


def events(split: Split, kinds: tuple[str, ...]) -> Iterator[tuple[str, etree._Element]]:
    """The events of a split's elements, up to the first malformed byte. Elements open at the start have events, too."""
    prepared = split.ready
    parser = etree.XMLPullParser(
        events=kinds,  # type: ignore[arg-type]
        attribute_defaults=prepared.doctype.has_defaults,
        no_network=True,
        resolve_entities="internal",  # type: ignore[arg-type]
    )
    for piece in filter(None, (*feed_pieces(split.before), *feed_pieces(prepared.data))):
        with guarded(split.source, passing=(etree.XMLSyntaxError,)), suppress(etree.XMLSyntaxError):
            parser.feed(piece)
        for kind, element in parser.read_events():
            assert isinstance(element, etree._Element)
            yield kind, element


class _Silent:
    reached = False

    def pi(self, name: str, _: str | None = None) -> None:
        self.reached |= name == END

    def close(self) -> None: ...


@contextmanager
def new_parser(target: object, has_defaults: bool = False) -> Iterator[etree.XMLParser]:
    """A parser that accesses no network, and calls ``target``. has_defaults: a `Doctype` before the data has some.

    It is closed at the end: libxml2 would retain all names of an unclosed parser for ever.
    """
    # Without ``resolve_entities``, libxml2 returns an attribute's &amp; as &#38;. There are no external entities,
    # because a DOCTYPE with one is refused; "internal" prevents lxml from fetching them in all cases.
    parser = etree.XMLParser(
        target=target,  # type: ignore[arg-type]
        encoding="utf-8",
        resolve_entities="internal",  # type: ignore[arg-type]
        attribute_defaults=has_defaults,
        no_network=True,
        huge_tree=False,
    )
    try:
        yield parser
    finally:
        # Elements may still be open; all other errors have been reported.
        with suppress(etree.XMLSyntaxError, XmlPunctError):
            parser.close()


def _complaint(prologue: bytes, data: bytes) -> str | None:
    """libxml2's error message for ``data``; None if it accepts the data."""
    target = _Silent()
    with new_parser(target) as parser:
        try:
            for piece in (*feed_pieces(prologue), *feed_pieces(data), TAIL):
                if piece:
                    parser.feed(piece)
                if (entry := complaint(parser)) is not None:
                    return libxml_reason(entry)
            if target.reached:
                return None
            parser.close()
        except etree.XMLSyntaxError:
            if (entry := complaint(parser)) is not None:
                return libxml_reason(entry)
    return "malformed: a tag is not closed"


def _offset(prologue: bytes, data: bytes, error: etree._LogEntry) -> int:
    """The offset in ``data`` of libxml2's line and column (in characters)."""
    fed, start = prologue + data, 0
    for _ in range(error.line - 1):
        start = fed.find(b"\n", start) + 1
    text = fed[start : start + 4 * max(error.column, 1)].decode("utf-8", "replace")
    return max(0, start + len(text[: max(error.column - 1, 0)].encode()) - len(prologue))


def _name(tag: bytes) -> str:
    match = re.match(rb"<([^\s/>]+)", tag)
    return match[1].decode("utf-8", "replace") if match else ""

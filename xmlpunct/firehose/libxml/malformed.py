"""Where a split is malformed, and why: found again at leisure, so that it never depends on how data arrived.

The parser that reads splits says *that* something is wrong; its idea of the place depends on the pieces it
was fed. Here libexpat finds the place, and libxml2 confirms it: everything before the token is accepted, the
token is not. Where the two disagree about XML's finer points, libxml2 has the last word.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from string import ascii_letters
from xml.parsers import expat

import numpy as np
from lxml import etree

from xmlpunct.base.errors import MOST_TEXT, SourceError, XmlPunctError, cut
from xmlpunct.base.library_guard import guarded
from xmlpunct.firehose.cells import Ints
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.libxml.parser_target import END
from xmlpunct.firehose.libxml.prologue import ready
from xmlpunct.firehose.native.tags import Tokens, tokens
from xmlpunct.firehose.position import Split

PIECE = 64 * 1024
"""How much is fed at once: libxml2 refuses pieces of more than 10 MB."""

TAIL = f"<?{END}?>".encode()
"""Fed last: libxml2 looks at a text only when it sees what follows."""

_TRUNCATED = {3, 5, 6, 20}  # expat: no element found, unclosed token, partial character, unclosed CDATA
_EXACT = {2, 4, 11, 14}  # expat: syntax error, invalid token, undefined entity, bad character reference


_LETTERS = bytes(c if c < 0x80 else ascii_letters.encode()[c % len(ascii_letters)] for c in range(256))
"""For libexpat, which knows fewer letters that a name may have: any will do for all those beyond ASCII."""


class Places:
    """Places in a split: numbers of start tags, bytes, lines. Worked out only if something is wrong."""

    def __init__(self, split: Split) -> None:
        self.split = split

    @cached_property
    def _found(self) -> Tokens:
        return tokens(self.split.data)

    @cached_property
    def _tokens(self) -> tuple[memoryview, memoryview, memoryview]:
        """Beginnings, ends and nesting changes of the tokens; lists of them would be five times as large."""
        return self._found.start.data, self._found.end.data, self._found.delta.data

    @cached_property
    def _starts(self) -> memoryview:
        """Which tokens are start tags."""
        return np.flatnonzero(self._found.element & (self._found.delta >= 0)).data

    @cached_property
    def _lines(self) -> memoryview:
        return np.flatnonzero(np.frombuffer(self.split.data, np.uint8) == 10).data

    def offset(self, number: int) -> int:
        """The offset in the split of its n-th start tag (from 1)."""
        if number > len(self._starts):  # a start tag that the parser saw and we did not: not well formed
            return self._found.tail
        return self._tokens[0][self._starts[number - 1]]

    def line(self, offset: int) -> int:
        """The line in the source of an offset in the split."""
        return self.split.start.line + bisect_right(self._lines, offset - 1)

    def byte(self, offset: int) -> int:
        """The byte in the source of an offset in the split."""
        return self.split.start.byte + offset

    def offsets(self, numbers: Ints) -> Ints:
        """The offsets of several start tags, all of which are there."""
        found: Ints = self._found.start[np.asarray(self._starts)[numbers - 1]]
        return found

    def lines(self, offsets: Ints) -> Ints:
        """The lines of several offsets."""
        return self.split.start.line + np.searchsorted(np.asarray(self._lines), offsets)

    def text(self, number: int) -> str:
        """The element of the n-th start tag as it stands in the source, cut as `errors.cut` does."""
        return shown(self.split.data, *self.extent(number, MOST_TEXT))

    def extent(self, number: int, most: float = float("inf")) -> tuple[int, int]:
        """Where the element of the n-th start tag begins and ends, or what of it is about so long."""
        begins, ends, deltas = self._tokens
        at = self._starts[number - 1]
        begin, depth = begins[at], deltas[at]
        while depth > 0 and ends[at] - begin <= most and at + 1 < len(begins):
            at += 1
            depth += deltas[at]
        return begin, ends[at]

    def token(self, offset: int) -> tuple[int, int]:
        """The beginning and end of the token, or of the text between two, in which an offset lies."""
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
        """The first token, or text between two, behind which ``is_wrong``, as it is from then on; else 0, 0."""
        begins, ends, _ = self._tokens
        i = bisect_left(ends, True, key=is_wrong)
        if i == len(ends):
            behind, tail = ends[-1] if len(ends) else 0, self._found.tail
            return (behind, tail) if behind < tail and is_wrong(tail) else (0, 0)
        if is_wrong(begins[i]):
            return ends[i - 1] if i else 0, begins[i]
        return begins[i], ends[i]

    def innermost(self) -> str:
        """The raw name of the innermost element open at the end."""
        stack = [_name(tag.encode("utf-8", "surrogateescape")) for tag in self.split.start.open]
        data, found = self.split.data, self._found
        # Of the tags that never close, the last one: what follows it never goes below the depth it opened.
        depth = len(stack) + np.cumsum(found.delta)
        lowest = np.minimum.accumulate(depth[::-1])[::-1]
        opened = np.flatnonzero((found.delta > 0) & (depth <= lowest))
        if len(opened):
            return _name(data[int(found.start[opened[-1]]) : int(found.end[opened[-1]])])
        left = min(len(stack), int(lowest[0])) if len(found) else len(stack)
        return stack[left - 1] if left > 0 else ""


def shown(data: bytes, begin: int, end: int) -> str:
    """A piece of XML as text, cut as `errors.cut` does."""
    return cut(data[begin : min(end, begin + MOST_TEXT + 1)].decode("utf-8", "replace"))


def malformed(split: Split, data: bytes, error: etree._LogEntry | None) -> tuple[int, int, str]:
    """Where ``data`` (the split's, made ready for the parser) goes wrong.

    Gives the offset of what is wrong, the offset up to which everything is right (the beginning of the token
    in question), and the reason. ``error`` is what libxml2 said.
    """
    try:
        with guarded(split.source):
            return _confirmed(split, data, error)
    except SourceError as failure:  # then libxml2's own idea of the place is all there is
        at = _offset(split.start.prologue, data, error) if error is not None else 0
        begin, _ = Places(split).token(min(at, max(len(data) - 1, 0)))
        return begin, begin, failure.reason if error is None else reason(error)


def _confirmed(split: Split, data: bytes, error: etree._LogEntry | None) -> tuple[int, int, str]:
    """`malformed`, by both parsers."""
    wrong, end = forbidden(data if split.final else data + TAIL)
    if wrong >= 0:  # what comes behind it may not have come yet
        split, data, error = Split(split.source, split.start, split.data[:end], False), data[:end], None
    prologue, places = split.start.prologue, Places(split)
    plain = data[:wrong].translate(_LETTERS) + data[wrong:] if wrong >= 0 else data.translate(_LETTERS)
    reader = expat.ParserCreate("UTF-8", " ")
    try:
        reader.Parse(prologue.translate(_LETTERS), False)
        reader.Parse(plain if split.final else plain + TAIL, split.final)
    except expat.ExpatError as found:
        at = max(0, min(reader.ErrorByteIndex - len(prologue), len(data)))
        if split.final and found.code in _TRUNCATED:
            return truncated(split, places)
        begin, end = places.token(at)
        if begin > 0 and _complaint(prologue, data[:begin]) is not None:  # &< : expat points at the <
            begin, end = places.token(begin - 1)
        if _complaint(prologue, data[:begin]) is None:
            said = _complaint(prologue, data[:end])
            if said is not None:
                place = at if found.code in _EXACT and begin <= at < end else begin
                return place, begin, said
    begin, end = places.first(lambda end: _complaint(prologue, data[:end]) is not None)
    if begin < end:
        return begin, begin, _complaint(prologue, data[:end]) or ""
    if wrong >= 0:
        return wrong, places.token(wrong)[0], _complaint(prologue, data) or "malformed"
    at = _offset(prologue, data, error) if error is not None else len(data)
    if at >= len(data) and split.final:
        return truncated(split, places)
    begin, _ = places.token(min(at, max(len(data) - 1, 0)))
    return min(at, len(data)), begin, reason(error) if error is not None else "malformed"


def truncated(split: Split, places: Places) -> tuple[int, int, str]:
    """As `malformed`, for a document that ends too early."""
    name, size = places.innermost(), len(split.data)
    if name:
        return size, size, f"the document ends inside <{name}>: it is cut short"
    return size, size, "the document ends before its root element: it is cut short"


def reason(entry: etree._LogEntry) -> str:
    """libxml2's message, in one line and without places relative to what it was fed."""
    message = " ".join((entry.message or "malformed").split())
    if entry.type_name == "ERR_CDATA_NOT_FINISHED":
        message = "a CDATA section with a character that XML forbids, or without an end"
    if entry.type_name in ("ERR_UNDECLARED_ENTITY", "WAR_UNDECLARED_ENTITY"):
        message += ": no DTD is read, and without one there are only lt, gt, amp, quot and apos"
    # What libxml2 takes at most is what we take: there is no such option here.
    kept, option, _ = re.sub(r" line \d+", "", message).partition("XML_PARSE_HUGE")
    return f"too large: {re.sub('[,:]? [a-z]+ $', '', kept)}" if option else kept


def complaint(parser: etree.XMLParser) -> etree._LogEntry | None:
    """The first error that a parser has met, those it recovers from included."""
    return next((entry for entry in parser.feed_error_log if entry.level_name != "WARNING"), None)


def pieces(data: bytes) -> list[bytes]:
    """``data`` in pieces to feed, cut before tags where possible."""
    found, at = [], 0
    while len(data) - at > PIECE:
        end = data.rfind(b"<", at + 1, at + PIECE)
        end = end if end > 0 else at + PIECE
        found.append(data[at:end])
        at = end
    return [*found, data[at:]]


def events(split: Split, kinds: tuple[str, ...]) -> Iterator[tuple[str, etree._Element]]:
    """The events of a split's elements, up to the first malformed byte. Elements open at the start have events, too."""
    parser = etree.XMLPullParser(
        events=kinds,  # type: ignore[arg-type]
        no_network=True,
        resolve_entities="internal",  # type: ignore[arg-type]
    )
    for piece in filter(None, (*pieces(split.start.prologue), *pieces(ready(split).data))):
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
def new_parser(target: object) -> Iterator[etree.XMLParser]:
    """A parser that fetches nothing, and calls ``target``.

    It is closed in the end: of one that is not, libxml2 keeps all names for ever.
    """
    # Without ``resolve_entities``, libxml2 gives an attribute's &amp; as &#38;. There are no entities but the five
    # that XML has: whoever reads refuses a DOCTYPE, and "internal" keeps lxml from fetching any in all cases.
    parser = etree.XMLParser(
        target=target,  # type: ignore[arg-type]
        encoding="utf-8",
        resolve_entities="internal",  # type: ignore[arg-type]
        no_network=True,
        huge_tree=False,
    )
    try:
        yield parser
    finally:
        # Elements may be open still, and all else has been said.
        with suppress(etree.XMLSyntaxError, XmlPunctError):
            parser.close()


def _complaint(prologue: bytes, data: bytes) -> str | None:
    """What libxml2 has against ``data``, if anything."""
    target = _Silent()
    with new_parser(target) as parser:
        try:
            for piece in (*pieces(prologue), *pieces(data), TAIL):
                if piece:
                    parser.feed(piece)
                if (found := complaint(parser)) is not None:
                    return reason(found)
            if target.reached:
                return None
            parser.close()
        except etree.XMLSyntaxError:
            if (found := complaint(parser)) is not None:
                return reason(found)
    return "malformed: a tag that does not end"


def _offset(prologue: bytes, data: bytes, error: etree._LogEntry) -> int:
    """The offset in ``data`` of libxml2's line and column (in characters)."""
    fed, start = prologue + data, 0
    for _ in range(error.line - 1):
        start = fed.find(b"\n", start) + 1
    text = fed[start : start + 4 * max(error.column, 1)].decode("utf-8", "replace")
    return max(0, start + len(text[: max(error.column - 1, 0)].encode()) - len(prologue))


def _name(tag: bytes) -> str:
    found = re.match(rb"<([^\s/>]+)", tag)
    return found[1].decode("utf-8", "replace") if found else ""

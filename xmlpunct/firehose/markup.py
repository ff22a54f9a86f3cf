"""Where the tags of a piece of XML are, at memory speed where the piece is plain.

This is no parser: it finds the ends of things and leaves their correctness to the parser that reads them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import quoteattr

import numpy as np
import numpy.typing as npt

from xmlpunct.firehose import loops
from xmlpunct.firehose.spec import ElementName

Ints = npt.NDArray[np.int64]

_TOKEN = re.compile(
    rb"""<(?: !--.*?-->                                       # a comment
          |   !\[CDATA\[.*?\]\]>
          |   \?.*?\?>                                        # a processing instruction, the declaration
          |   [^!?<>"'][^<>"']*+ (?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+ >   # a tag
          )|<                                                 # unfinished, or wrong""",
    re.DOTALL | re.VERBOSE,
)
_PARTIAL = re.compile(
    rb"""<(?:[^!?<>"'][^<>"']*+(?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+(?:"[^"<]*+|'[^'<]*+)?)?\Z"""
)
_OTHER = re.compile(rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>", re.DOTALL)
_QUOTED = re.compile(rb""""[^"<]*+"|'[^'<]*+'""")  # where it is text, it does no harm
_ENDS = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))


_NO_TAG = np.isin(np.arange(256), list(b"!?<>\"'"))
"""Which characters behind a ``<`` make it no tag."""
_WINDOW = 2**20
_SMALL = 400
"""In so few bytes tokens are found sooner one by one."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The complete tags, comments, CDATA sections and processing instructions of a piece of XML, in order.

    ``start`` and ``end`` (exclusive) are offsets, ``delta`` is 1 for a start tag, -1 for an end tag and 0
    for the others, ``element`` says which ones are tags at all. ``tail`` is the offset of the first ``<``
    that begins none of them (the piece's length if there is no such), and ``broken`` whether no further
    bytes could make it one.
    """

    start: Ints
    end: Ints
    delta: Ints
    element: npt.NDArray[np.bool_]
    tail: int
    broken: bool

    def __len__(self) -> int:
        return len(self.start)


def tokens(data: bytes) -> Tokens:
    """Find the tokens of ``data``, which begins between two of them.

    >>> found = tokens(b"<a>x<b/><!-- <c> --></a")
    >>> found.start.tolist(), found.delta.tolist(), found.tail
    ([0, 4, 8], [1, 0, 0], 20)
    """
    if len(data) < _SMALL:
        return exact_tokens(data)
    return _tags(data, data) or _beside_others(data) or exact_tokens(data)


def complete(data: bytes) -> int:
    """Where the last of the tokens of ``data`` ends; `tokens`, for what is large and may hold a single one."""
    at = end = 0
    step = _WINDOW
    while at < len(data):
        found = tokens(data[at : at + step])
        if len(found):
            end = at + int(found.end[-1])
        if found.broken or (not found.tail and at + step >= len(data)):
            break
        at, step = at + found.tail, _WINDOW if found.tail else 2 * step
    return end


def _tags(data: bytes, plain: bytes) -> Tokens | None:
    """The tags of ``data``, if every ``<`` of ``plain`` begins one; None if it is not so.

    In ``plain``, of the same length, may be blanked what is no tag, and every ``>`` that ends none.
    """
    chars = np.frombuffer(plain, np.uint8)
    begins, stops = chars == ord("<"), chars == ord(">")
    if np.count_nonzero(stops) > 4 * np.count_nonzero(begins) + 1000:  # text full of >: a number each is much
        return None
    start, end = np.flatnonzero(begins), np.flatnonzero(stops)
    if data is not plain and len(end) > len(start):  # a > in text may remain
        end = end[np.searchsorted(end, start[start < end[-1]])]
    count, tail = len(end), len(data)
    if len(start) == count + 1:
        tail, start = int(start[-1]), start[:-1]
    if len(start) != count or not count:
        return None
    if not ((start < end).all() and (end[:-1] < start[1:]).all()) or tail < end[-1]:
        return None
    second = chars[start + 1]
    if _NO_TAG[second].any() or _NO_TAG[chars[tail + 1 : tail + 2]].any():
        return None
    doubtful = [count - 1, *_quoted_oddly(chars, start, end)]  # the data may end inside a quoted >
    if not all(_TOKEN.fullmatch(data, int(start[i]), int(end[i]) + 1) for i in doubtful):
        return None
    delta = np.where(second == ord("/"), -1, np.where(chars[end - 1] == ord("/"), 0, 1))
    return Tokens(start, end + 1, delta, np.ones(count, np.bool_), tail, False)


def _quoted_oddly(chars: npt.NDArray[np.uint8], start: Ints, end: Ints) -> list[int]:
    """The tags whose quotes are not simply of one kind and even in number."""
    double = chars == ord('"')
    quotes = np.flatnonzero(double | (chars == ord("'")))
    tag = np.searchsorted(start, quotes, "right") - 1
    inside = (tag >= 0) & (quotes < end[tag])
    tag, double = tag[inside], double[quotes[inside]]
    found, of_tag = np.unique(tag, return_inverse=True)
    count, doubles = np.bincount(of_tag), np.bincount(of_tag, double)
    return list(found[(count % 2 == 1) | ((doubles != 0) & (doubles != count))].tolist())


def _beside_others(data: bytes) -> Tokens | None:
    """`tokens` where comments and the like, and quoted ``>``, can be told apart from tags."""
    plain, others = bytearray(data), []
    for found in _OTHER.finditer(data):
        begin, stop = found.span()
        plain[begin:stop] = bytes(stop - begin)
        others.append((begin, stop))
    tags = _tags(data, _QUOTED.sub(lambda quoted: quoted[0].replace(b">", b" "), bytes(plain)))
    if tags is None or not others:
        return tags
    starts, ends = np.array(others, np.int64).T
    before = np.searchsorted(tags.start, starts)
    if (starts < np.concatenate((starts[:1], tags.end))[before]).any() or starts[-1] > tags.tail:
        return None  # one is inside a tag
    none, no = np.zeros(len(others), np.int64), np.zeros(len(others), np.bool_)
    order = np.argsort(np.concatenate((tags.start, starts)))
    start, end, delta = (
        np.concatenate(both)[order] for both in ((tags.start, starts), (tags.end, ends), (tags.delta, none))
    )
    return Tokens(start, end, delta, np.concatenate((tags.element, no))[order], tags.tail, False)


def nesting(data: bytes | bytearray, begin: int, stop: int, outer: str) -> int | None:
    """How many elements more are opened than closed in ``data`` from ``begin`` to ``stop``, where a tag ends.

    It is found by counting, if there is nothing but tags and text without ``>``, and no end tag like that
    of ``outer``, a start tag; None if that is not so.

    >>> found = b"<a>1</a><b><c/>", b"<a>1</a></r>", b"<!-- -->"
    >>> [nesting(data, 0, len(data), "<r x='1'>") for data in found]
    [1, None, None]
    """
    name = _NAME.match(outer)
    letters = name[1].encode("utf-8", "surrogateescape") if name else b""
    if loops.COMPILED:
        return loops.nesting(data, begin, stop, letters)
    return _nesting(data[begin:stop], letters)


def _nesting(data: bytes | bytearray, letters: bytes) -> int | None:
    chars = np.frombuffer(data, np.uint8)
    opening, closing, slash = chars == ord("<"), chars == ord(">"), chars == ord("/")
    count = int(np.count_nonzero(opening))
    if count != int(np.count_nonzero(closing)):
        return None
    ends = opening[:-1] & slash[1:]
    if any(mark in data and (opening[:-1] & (chars[1:] == mark)).any() for mark in b"!?"):
        return None
    alike = ends[: max(len(chars) - len(letters) - 1, 0)]
    # Names differ in their last letters more often than in their first.
    for i in reversed(range(len(letters))):
        alike = alike & (chars[i + 2 :][: len(alike)] == letters[i])
        if not alike.any():
            empty = slash[:-1] & closing[1:]
            return count - 2 * int(np.count_nonzero(ends)) - int(np.count_nonzero(empty))
    return None


def is_token(data: bytes | bytearray, start: int, stop: int) -> bool:
    """Whether a token is from ``start`` to ``stop``."""
    found = _TOKEN.match(data, start, stop)
    return found is not None and found.end() == stop


def exact_tokens(data: bytes) -> Tokens:
    """`tokens`, one by one: malformed data too ends them where the first malformed tag begins."""
    starts, ends, deltas, elements = array("q"), array("q"), array("q"), array("q")  # smaller than lists
    for found in _TOKEN.finditer(data):
        start, end = found.span()
        if end == start + 1:
            return _tokens(starts, ends, deltas, elements, start, _is_broken(data, start))
        second = data[start + 1]
        starts.append(start)
        ends.append(end)
        elements.append(second not in b"!?")
        deltas.append(-1 if second == 47 else int(data[end - 2] != 47 and second not in b"!?"))
    return _tokens(starts, ends, deltas, elements, len(data), False)


def _tokens(
    start: array[int], end: array[int], delta: array[int], element: array[int], tail: int, broken: bool
) -> Tokens:
    starts, ends, deltas, elements = (np.frombuffer(x, np.int64) for x in (start, end, delta, element))
    return Tokens(starts, ends, deltas, elements.astype(np.bool_), tail, broken)


def _is_broken(data: bytes, tail: int) -> bool:
    if tail == len(data) or terminator(data[tail : tail + 9]) != b">":
        return False
    head = data[tail : tail + 9]
    return not (b"<!--".startswith(head) or b"<![CDATA[".startswith(head) or _PARTIAL.match(data, tail))


def long_tag(data: bytes, most: int) -> int | None:
    """Where the first tag of more than ``most`` bytes begins, complete or not; None if there is none.

    >>> long_tag(b"<a><!--<bbbbbbbb--><cc d='>", 7), long_tag(b"<a><!--<bbbbbbbb-->", 7)
    (19, None)
    """
    at = data.find(b"<")
    while 0 <= at < len(data) - most:
        after = data.rfind(b"<", at + 1, at + most + 1)
        if after < 0:  # no tag holds a <
            if _PARTIAL.match(data, at, at + most + 1) and tokens(data[:at]).tail == at:
                return at
            after = data.find(b"<", at + most)
        at = after
    return None


def terminator(head: bytes) -> bytes:
    """What must come before the token that begins with ``head`` (9 bytes of it) can be complete."""
    return next((end for begin, end in _ENDS if head.startswith(begin)), b">")


# Names of elements


@dataclass(frozen=True, slots=True)
class Element:
    """An open element: its start tag, its expanded name, the namespaces in scope, by prefix, and how often
    one has been declared for them.

    The start tag is the raw one, unless that is long: then no more of it is kept than what it says of names.
    """

    raw: str
    name: ElementName
    namespaces: dict[str, str] = field(compare=False)
    declared: int = field(compare=False)


_NAME = re.compile(r"<([^\s/>]*)")
_ATTRIBUTE = re.compile(r"""\s([^\s=/>]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(r"&(?:#x0*([0-9a-fA-F]{1,6})|#0*([0-9]{1,7})|(lt|gt|amp|quot|apos));")
_LONG_TAG = 1024
"""In characters: a start tag is read again with each piece that it is open in."""
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def element(raw: str, parent: Element | None) -> Element:
    """The element that a start tag opens inside ``parent``.

    >>> element("<p:a b='1'>", element("<r xmlns:p='urn:x'>", None)).name
    '{urn:x}a'
    """
    namespaces, declared = (parent.namespaces, parent.declared) if parent else ({}, 0)
    own = [*_declarations(raw)] if "xmlns" in raw else []
    if own:
        namespaces, declared = namespaces | dict(own), declared + len(own)
    found = _NAME.match(raw)
    tag = found[1] if found else ""
    if len(raw) > _LONG_TAG:
        said = (f" xmlns{prefix and ':'}{prefix}={quoteattr(uri)}" for prefix, uri in own)
        raw = f"<{tag}{''.join(said)}>"
    prefix, colon, local = tag.partition(":")
    if not colon:
        prefix, local = "", prefix
    uri = namespaces.get(prefix, "")
    return Element(raw, f"{{{uri}}}{local}" if uri else local, namespaces, declared)


def elements(raws: tuple[str, ...]) -> tuple[Element, ...]:
    """The elements that these start tags open, each inside the one before."""
    found: list[Element] = []
    for raw in raws:
        found.append(element(raw, found[-1] if found else None))
    return tuple(found)


def _declarations(raw: str) -> Iterator[tuple[str, str]]:
    for found in _ATTRIBUTE.finditer(raw):
        name, uri = found[1], found[2] if found[2] is not None else found[3]
        if name == "xmlns" or name.startswith("xmlns:"):
            yield name[6:], _REFERENCE.sub(_character, re.sub(r"[\t\r\n]", " ", uri))


def _character(found: re.Match[str]) -> str:
    if found[3]:
        return _ENTITIES[found[3]]
    code = int(found[1], 16) if found[1] else int(found[2])
    return chr(code) if code < 0x110000 else found[0]


def follow(stack: list[Element], data: bytes, found: Tokens) -> list[Element]:
    """What is open behind some tokens of ``data``, of what was open before and of what they open.

    Nothing, if everything was closed in between.
    """
    if not len(found):
        return stack
    depth = len(stack) + np.cumsum(found.delta)
    if (found.element & (depth <= 0)).any():
        return []
    lowest_after = np.minimum.accumulate(depth[::-1])[::-1]
    stack = stack[: int(depth.min())]
    for i in np.flatnonzero((found.delta == 1) & (depth <= lowest_after)).tolist():
        raw = data[int(found.start[i]) : int(found.end[i])].decode("utf-8", "surrogateescape")
        stack.append(element(raw, stack[-1] if stack else None))
    return stack

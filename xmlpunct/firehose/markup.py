"""Where the tags of a piece of XML are, at memory speed where the piece is plain.

This is no parser: it finds the ends of things and leaves their correctness to the parser that reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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
    return _tags(data, data) or _beside_others(data) or exact_tokens(data)


def _tags(data: bytes, plain: bytes) -> Tokens | None:
    """The tags of ``data``, if every ``<`` of ``plain`` begins one; None if it is not so.

    In ``plain``, of the same length, may be blanked what is no tag, and every ``>`` that ends none.
    """
    chars = np.frombuffer(plain, np.uint8)
    start = np.flatnonzero(chars == ord("<"))
    end = np.flatnonzero(chars == ord(">"))
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
    if ((second == ord("!")) | (second == ord("?"))).any() or data[tail + 1 : tail + 2] in (b"!", b"?"):
        return None
    if not _TOKEN.fullmatch(data, int(start[-1]), int(end[-1]) + 1):  # the data may end inside a quoted >
        return None
    delta = np.where(second == ord("/"), -1, np.where(chars[end - 1] == ord("/"), 0, 1))
    return Tokens(start, end + 1, delta, np.ones(count, np.bool_), tail, False)


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
    none, no = np.zeros(len(others), np.int64), np.zeros(len(others), np.bool_)
    order = np.argsort(np.concatenate((tags.start, starts)))
    start, end, delta = (
        np.concatenate(both)[order] for both in ((tags.start, starts), (tags.end, ends), (tags.delta, none))
    )
    return Tokens(start, end, delta, np.concatenate((tags.element, no))[order], tags.tail, False)


def exact_tokens(data: bytes) -> Tokens:
    """`tokens`, one by one: malformed data too ends them where the first malformed tag begins."""
    starts: list[int] = []
    ends: list[int] = []
    deltas: list[int] = []
    elements: list[bool] = []
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
    start: list[int], end: list[int], delta: list[int], element: list[bool], tail: int, broken: bool
) -> Tokens:
    starts, ends, deltas = (np.array(x, np.int64) for x in (start, end, delta))
    return Tokens(starts, ends, deltas, np.array(element, np.bool_), tail, broken)


def _is_broken(data: bytes, tail: int) -> bool:
    if tail == len(data) or terminator(data[tail : tail + 9]) != b">":
        return False
    head = data[tail : tail + 9]
    return not (b"<!--".startswith(head) or b"<![CDATA[".startswith(head) or _PARTIAL.match(data, tail))


def terminator(head: bytes) -> bytes:
    """What must come before the token that begins with ``head`` (9 bytes of it) can be complete."""
    return next((end for begin, end in _ENDS if head.startswith(begin)), b">")


# Names of elements


@dataclass(frozen=True, slots=True)
class Element:
    """An open element: its raw start tag, its expanded name, and the namespaces in scope, by prefix."""

    raw: str
    name: ElementName
    namespaces: dict[str, str] = field(compare=False)


_NAME = re.compile(r"<([^\s/>]*)")
_ATTRIBUTE = re.compile(r"""\s([^\s=/>]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]{1,6})|#([0-9]{1,7})|(lt|gt|amp|quot|apos));")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def element(raw: str, parent: Element | None) -> Element:
    """The element that a start tag opens inside ``parent``.

    >>> element("<p:a b='1'>", element("<r xmlns:p='urn:x'>", None)).name
    '{urn:x}a'
    """
    namespaces = parent.namespaces if parent else {}
    if "xmlns" in raw:
        namespaces = namespaces | dict(_declarations(raw))
    found = _NAME.match(raw)
    prefix, colon, local = (found[1] if found else "").partition(":")
    if not colon:
        prefix, local = "", prefix
    uri = namespaces.get(prefix, "")
    return Element(raw, f"{{{uri}}}{local}" if uri else local, namespaces)


def elements(raws: tuple[str, ...]) -> list[Element]:
    """The elements that these start tags open, each inside the one before."""
    found: list[Element] = []
    for raw in raws:
        found.append(element(raw, found[-1] if found else None))
    return found


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

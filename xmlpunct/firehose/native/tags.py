"""Where the tags of a piece of XML are, and what they open: for what the native reader does not take.

This is no parser: it finds the ends of things and leaves their correctness to the parser that reads them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from xmlpunct.base.escapes import in_attribute
from xmlpunct.firehose import native
from xmlpunct.firehose.spec import ElementName

Ints = npt.NDArray[np.int64]

IN_DOCTYPE = rb"""(?:[^<>"'\[]++|"[^"]*+"|'[^']*+')*+"""
"""What a DOCTYPE may hold up to its end, or to its internal subset."""
_TOKEN = re.compile(
    rb"""<(?: !--.*?-->                                       # a comment
          |   !\[CDATA\[.*?\]\]>
          |   \?.*?\?>                                        # a processing instruction, the declaration
          |   !DOCTYPE %b >                                   # without an internal subset
          |   [^!?<>"'][^<>"']*+ (?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+ >   # a tag
          )|<                                                 # unfinished, or wrong"""
    % IN_DOCTYPE,
    re.DOTALL | re.VERBOSE,
)
_PARTIAL = re.compile(
    rb"""<(?:[^!?<>"'][^<>"']*+(?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+(?:"[^"<]*+|'[^'<]*+)?)?\Z"""
)
_PARTIAL_DOCTYPE = re.compile(rb"""<!DOCTYPE%b(?:"[^"]*+|'[^']*+)?\Z""" % IN_DOCTYPE)
_BEGINNINGS = (b"<!--", b"<![CDATA[", b"<!DOCTYPE")
_ENDS = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_WINDOW = 2**20


@dataclass(frozen=True, slots=True)
class Tokens:
    """The complete tags, comments, CDATA sections, processing instructions and DOCTYPEs of a piece of XML, in order.

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
    """Find the tokens of ``data``, which begins between two of them. A malformed tag ends them.

    >>> found = tokens(b"<a>x<b/><!-- <c> --></a")
    >>> found.start.tolist(), found.delta.tolist(), found.tail
    ([0, 4, 8], [1, 0, 0], 20)
    """
    if native.COMPILED:
        *found, count, tail = native.tokens(data)
        start, end, delta = (np.frombuffer(part, np.int64, count) for part in found[:3])
        element = np.frombuffer(found[3], np.bool_, count)
        return Tokens(start, end, delta, element, tail, _is_broken(data, tail))
    return exact_tokens(data)


def exact_tokens(data: bytes) -> Tokens:
    """`tokens` in plain Python."""
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


def _is_broken(data: bytes, tail: int) -> bool:
    if tail == len(data) or terminator(data[tail : tail + 9])[1] != b">":
        return False
    head = data[tail : tail + 9]
    if any(beginning.startswith(head) for beginning in _BEGINNINGS) or _PARTIAL.match(data, tail):
        return False
    return _PARTIAL_DOCTYPE.match(data, tail) is None


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


def terminator(head: bytes) -> tuple[int, bytes]:
    """What must come before the token that begins with ``head`` (9 bytes of it) can be complete, and from where on:
    the end of ``<!-->`` is not in its beginning.
    """
    return next(((len(begin), end) for begin, end in _ENDS if head.startswith(begin)), (1, b">"))


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


def tag_of(raw: str) -> str:
    """The name of an element as it stands in a start tag."""
    found = _NAME.match(raw)
    return found[1] if found else ""


def bare(raw: str) -> str:
    """A start tag that says of names what another one says, and nothing else.

    >>> bare("<p:a b='1' xmlns:p='urn:x'>")
    '<p:a xmlns:p="urn:x">'
    """
    said = (f' xmlns{prefix and ":"}{prefix}="{in_attribute(uri)}"' for prefix, uri in _declarations(raw))
    return f"<{tag_of(raw)}{''.join(said)}>"


def element(raw: str, parent: Element | None, whole: bool = False) -> Element:
    """The element that a start tag opens inside ``parent``. A long tag is kept ``whole`` or not.

    >>> element("<p:a b='1'>", element("<r xmlns:p='urn:x'>", None)).name
    '{urn:x}a'
    """
    namespaces, declared = (parent.namespaces, parent.declared) if parent else ({}, 0)
    own = [*_declarations(raw)] if "xmlns" in raw else []
    if own:
        namespaces, declared = namespaces | dict(own), declared + len(own)
    prefix, colon, local = tag_of(raw).partition(":")
    if not colon:
        prefix, local = "", prefix
    if len(raw) > _LONG_TAG and not whole:
        raw = bare(raw)
    uri = namespaces.get(prefix, "")
    return Element(raw, f"{{{uri}}}{local}" if uri else local, namespaces, declared)


def elements(raws: tuple[str, ...], whole: bool = False) -> tuple[Element, ...]:
    """The elements that these start tags open, each inside the one before."""
    found: list[Element] = []
    for raw in raws:
        found.append(element(raw, found[-1] if found else None, whole))
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

"""Finds the tags of a piece of XML, and the elements that they open, if the native reader refuses the piece.

It finds only the ends of tags, comments and similar tokens; a parser checks later that they are well formed.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from xmlpunct.base.escapes import in_attribute
from xmlpunct.firehose import native
from xmlpunct.firehose.spec import ElementName

TokenInts = npt.NDArray[np.int64]

IN_DOCTYPE = rb"""(?:[^<>"'\[]++|"[^"]*+"|'[^']*+')*+"""
"""The content of a DOCTYPE up to its end, or to its internal subset."""
_IN_DECLARATION = rb"""(?:[^<>"']++|"[^"]*+"|'[^']*+')*+"""
_IN_SUBSET = rb"(?:[^\]<]++|<!--.*?-->|<\?.*?\?>|<![A-Za-z]%b>)*+" % _IN_DECLARATION
DOCTYPE = rb"<!DOCTYPE%b(?:\[(?P<subset>%b)\][ \t\r\n]*+)?>" % (IN_DOCTYPE, _IN_SUBSET)
"""A DOCTYPE with the declarations of its internal subset."""
_TOKEN = re.compile(
    rb"""<(?: !--.*?-->                                       # a comment
          |   !\[CDATA\[.*?\]\]>
          |   \?.*?\?>                                        # a processing instruction, the declaration
          |   %b
          |   [^!?<>"'][^<>"']*+ (?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+ >   # a tag
          )|<                                                 # unfinished, or wrong"""
    % DOCTYPE.removeprefix(b"<"),
    re.DOTALL | re.VERBOSE,
)
_PARTIAL = re.compile(
    rb"""<(?:[^!?<>"'][^<>"']*+(?:(?:"[^"<]*+"|'[^'<]*+')[^<>"']*+)*+(?:"[^"<]*+|'[^'<]*+)?)?\Z"""
)
_PARTIAL_DOCTYPE = re.compile(
    rb"""<!DOCTYPE%b(?:"[^"]*+|'[^']*+
          |\[%b(?:\][ \t\r\n]*+ | <(?:!(?:-(?:-.*)? | [A-Za-z]%b(?:"[^"]*+|'[^']*+)?)? | \?.*)?)?
          )?\Z"""
    % (IN_DOCTYPE, _IN_SUBSET, _IN_DECLARATION),
    re.DOTALL | re.VERBOSE,
)
_BEGINNINGS = (b"<!--", b"<![CDATA[", b"<!DOCTYPE")
_ENDS = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))
_WINDOW = 2**20


@dataclass(frozen=True, slots=True)
class Tokens:
    """The complete tags, comments, CDATA sections, processing instructions and DOCTYPEs of a piece of XML, in order.

    start, end: offsets (end exclusive). delta: 1 for a start tag, -1 for an end tag, else 0.
    element: true for a tag, an empty-element tag included.
    tail: offset of the first ``<`` that begins no complete token; the piece's length if there is none.
    broken: no further bytes could complete a token at ``tail``.
    """

    start: TokenInts
    end: TokenInts
    delta: TokenInts
    element: npt.NDArray[np.bool_]
    tail: int
    broken: bool

    def __len__(self) -> int:
        return len(self.start)


def tokens(data: bytes) -> Tokens:
    """Find the tokens of ``data``, which begins between two tokens, up to the first malformed tag.

    >>> all_tokens = tokens(b"<a>x<b/><!-- <c> --></a")
    >>> all_tokens.start.tolist(), all_tokens.delta.tolist(), all_tokens.tail
    ([0, 4, 8], [1, 0, 0], 20)
    """
    if native.COMPILED:
        *arrays, count, tail = native.tokens(data)
        start, end, delta = (np.frombuffer(part, np.int64, count) for part in arrays[:3])
        element = np.frombuffer(arrays[3], np.bool_, count)
        return Tokens(start, end, delta, element, tail, _is_broken(data, tail))
    return exact_tokens(data)


def exact_tokens(data: bytes) -> Tokens:
    """`tokens` in plain Python."""
    starts, ends, deltas, elements = array("q"), array("q"), array("q"), array("q")  # smaller than lists
    for token in _TOKEN.finditer(data):
        start, end = token.span()
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


def last_token_end(data: bytes) -> int:
    """The end of the last complete token; for large ``data``, which may be a single token."""
    at = end = 0
    step = _WINDOW
    while at < len(data):
        window_tokens = tokens(data[at : at + step])
        if len(window_tokens):
            end = at + int(window_tokens.end[-1])
        if window_tokens.broken or (not window_tokens.tail and at + step >= len(data)):
            break
        at, step = at + window_tokens.tail, _WINDOW if window_tokens.tail else 2 * step
    return end


def _is_broken(data: bytes, tail: int) -> bool:
    if tail == len(data) or terminator(data[tail : tail + 9])[1] != b">":
        return False
    head = data[tail : tail + 9]
    is_partial = any(beginning.startswith(head) for beginning in _BEGINNINGS) or _PARTIAL.match(data, tail)
    return not is_partial


def is_partial_doctype(data: bytes | bytearray, begin: int, end: int = sys.maxsize) -> bool:
    """Whether a section of the data is a DOCTYPE that more bytes could complete."""
    return _PARTIAL_DOCTYPE.match(data, begin, end) is not None


def long_tag(data: bytes, limit: int) -> int | None:
    """The offset of the first tag of more than ``limit`` bytes, complete or not; None if there is none.

    >>> long_tag(b"<a><!--<bbbbbbbb--><cc d='>", 7), long_tag(b"<a><!--<bbbbbbbb-->", 7)
    (19, None)
    """
    at = data.find(b"<")
    while 0 <= at < len(data) - limit:
        after = data.rfind(b"<", at + 1, at + limit + 1)
        if after < 0:  # no tag holds a <
            if _PARTIAL.match(data, at, at + limit + 1) and tokens(data[:at]).tail == at:
                return at
            after = data.find(b"<", at + limit)
        at = after
    return None


def terminator(head: bytes) -> tuple[int, bytes]:
    """The terminator of the token that begins with ``head`` (its first 9 bytes), and the offset to search from.

    The search starts after the token's opening, because ``<!-->`` does not end the comment that it begins.
    """
    return next(((len(begin), end) for begin, end in _ENDS if head.startswith(begin)), (1, b">"))


# Names of elements


@dataclass(frozen=True, slots=True)
class OpenElement:
    """An open element: its start tag, its expanded name, the namespaces in scope by prefix, and their declarations.

    ``raw`` is the start tag.
    ``declared`` counts the namespace declarations of this element and the elements around it.
    """

    raw: str
    name: ElementName
    namespaces: dict[str, str] = field(compare=False)
    declared: int = field(compare=False)


_NAME = re.compile(r"<([^\s/>]*)")
_ATTRIBUTE = re.compile(r"""\s([^\s=/>]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_REFERENCE = re.compile(r"&(?:#x0*([0-9a-fA-F]{1,6})|#0*([0-9]{1,7})|(lt|gt|amp|quot|apos));")
LONG_TAG = 1024
"""In characters. Longer start tags are reduced: a start tag is parsed again with each split that follows in it."""
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def tag_of(raw: str) -> str:
    """The raw name of an element, with its prefix, in a start tag."""
    match = _NAME.match(raw)
    return match[1] if match else ""


def names_only(raw: str) -> str:
    """A start tag reduced to its name and its namespace declarations.

    >>> names_only("<p:a b='1' xmlns:p='urn:x'>")
    '<p:a xmlns:p="urn:x">'
    """
    declarations = (
        f' xmlns{prefix and ":"}{prefix}="{in_attribute(uri)}"' for prefix, uri in _declarations(raw)
    )
    return f"<{tag_of(raw)}{''.join(declarations)}>"


def opened_element(raw: str, parent: OpenElement | None) -> OpenElement:
    """The element that a start tag opens inside ``parent``.

    >>> opened_element("<p:a b='1'>", opened_element("<r xmlns:p='urn:x'>", None)).name
    '{urn:x}a'
    """
    namespaces, declared = (parent.namespaces, parent.declared) if parent else ({}, 0)
    declarations = [*_declarations(raw)] if "xmlns" in raw else []
    if declarations:
        namespaces, declared = namespaces | dict(declarations), declared + len(declarations)
    prefix, colon, local = tag_of(raw).partition(":")
    if not colon:
        prefix, local = "", prefix
    uri = namespaces.get(prefix, "")
    return OpenElement(raw, f"{{{uri}}}{local}" if uri else local, namespaces, declared)


def elements(raws: tuple[str, ...]) -> tuple[OpenElement, ...]:
    """The elements that these start tags open, each inside the previous one."""
    opened: list[OpenElement] = []
    for raw in raws:
        opened.append(opened_element(raw, opened[-1] if opened else None))
    return tuple(opened)


def _declarations(raw: str) -> Iterator[tuple[str, str]]:
    for attribute in _ATTRIBUTE.finditer(raw):
        name, uri = attribute[1], attribute[2] if attribute[2] is not None else attribute[3]
        if name == "xmlns" or name.startswith("xmlns:"):
            yield name[6:], _REFERENCE.sub(_character, re.sub(r"[\t\r\n]", " ", uri))


def _character(reference: re.Match[str]) -> str:
    if reference[3]:
        return _ENTITIES[reference[3]]
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return chr(code) if code < 0x110000 else reference[0]

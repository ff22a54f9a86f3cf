"""Blanks the XML declaration and the DOCTYPE before a root, so that the parser handles no encodings and no DTDs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xmlpunct.firehose.libxml.doctype import NO_DOCTYPE, Doctype, read_doctype
from xmlpunct.firehose.native.tags import DOCTYPE
from xmlpunct.firehose.position import Split

_SECOND = "a second DOCTYPE is not accepted"
_MISC = re.compile(rb"(?:[ \t\r\n]++|<!--.*?-->|<\?(?!xml[ \t\r\n?]).*?\?>)*+", re.DOTALL)
_ANY_DECLARATION = re.compile(rb"<\?xml[ \t\r\n].*?(?:\?>|[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff])", re.DOTALL)
"""A declaration up to its end, or to the first character that it cannot contain."""
_DECLARATION = re.compile(
    rb"""<\?xml \s+version\s*=\s*(?:"1\.[0-9]+"|'1\.[0-9]+')
       (?:\s+encoding\s*=\s*(?:"[A-Za-z][A-Za-z0-9._-]*"|'[A-Za-z][A-Za-z0-9._-]*'))?
       (?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))? \s*\?>""",
    re.VERBOSE,
)
_ANY_DOCTYPE = re.compile(DOCTYPE, re.DOTALL)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Ready:
    """A split's ``data`` for the parser, of unchanged length.

    declared: it has an XML declaration or a DOCTYPE, so a root must follow.
    refused: offset of a construct that is not accepted (None: there is none), for a ``reason``.
    doctype: the declarations of the document.
    """

    data: bytes
    declared: bool = False
    refused: int | None = None
    reason: str = ""
    doctype: Doctype = NO_DOCTYPE

    @property
    def attribute_room(self) -> int | None:
        """The most characters of attributes, as libxml2 bounds entities; None if the parser needs no bound."""
        return 5 * len(self.data) + 2**20 if self.doctype.effective else None

    @property
    def is_native(self) -> bool:
        """False if the native reader would not see a refused construct, or defaults of attributes."""
        return self.refused is None and not self.doctype.has_defaults


def ready(split: Split) -> Ready:
    """A split without byte order mark, XML declaration and DOCTYPE.

    The declaration may name the source's encoding before its conversion to UTF-8. Comments and processing
    instructions that follow the previous document may precede the declaration. A DOCTYPE whose declarations
    have no effect is ignored; a malformed one is left in the data, so that the parser reports it.
    """
    data, declared = split.data, False
    if split.start.open:
        return Ready(data, doctype=read_doctype(split.start.doctype.encode()) or NO_DOCTYPE)
    at = _end_of_misc(data, 0) if split.start.started else 0
    if data.startswith(_BOM, at):
        data = data[:at] + b"   " + data[at + 3 :]
        at += 3
    declaration = _ANY_DECLARATION.match(data, at)
    if declaration:
        declared = True
        if not _DECLARATION.fullmatch(declaration[0]):
            return Ready(data, declared, at, "malformed XML declaration")
        data = _blank_out(data, at, declaration.end())
    at = _end_of_misc(data, 0)
    if not data.startswith(b"<!DOCTYPE", at):
        return Ready(data, declared)
    doctype = _ANY_DOCTYPE.match(data, at)
    judged = doctype and read_doctype(doctype[0])
    if not doctype or not judged:
        return Ready(data, True)
    if judged.refused:
        return Ready(data, True, at, judged.refused)
    data = _blank_out(data, at, doctype.end())
    at = _end_of_misc(data, at)
    if data.startswith(b"<!DOCTYPE", at):
        return Ready(data, True, at, _SECOND, judged)
    return Ready(data, True, doctype=judged)


def before(split: Split) -> bytes:
    """The XML for libxml2 to read before a split: the declarations of its document, and its open elements."""
    doctype = ready(split).doctype if split.start.doctype or b"<!DOCTYPE" in split.data else NO_DOCTYPE
    return doctype.effective + split.start.prologue


def _end_of_misc(data: bytes, at: int) -> int:
    """The end of the white space, comments and processing instructions that begin at an offset."""
    misc = _MISC.match(data, at)
    return misc.end() if misc else at


def _blank_out(data: bytes, begin: int, end: int) -> bytes:
    """The data with spaces in this range; newlines are preserved."""
    return data[:begin] + re.sub(rb"[^\n]", b" ", data[begin:end]) + data[end:]

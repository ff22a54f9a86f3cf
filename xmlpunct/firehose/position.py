"""Positions in a source, and the splits between them, as the parsers read them.

Parsers handle no encodings and no DTDs: `Split.ready` blanks the XML declaration and the DOCTYPE before a root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from xmlpunct.firehose import native
from xmlpunct.firehose.labels import Label
from xmlpunct.firehose.libxml.doctype import NO_DOCTYPE, Doctype, read_doctype
from xmlpunct.firehose.native.tags import DOCTYPE

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

AncestorValues = tuple[tuple[tuple[int, int, tuple[str, ...], bool], ...], ...]
"""For each open element: (stream, slot, texts, whether tuples have read them) of its values for tuples."""


@dataclass(frozen=True)
class Position:
    """A position between elements, at which a split may begin.

    ``byte`` is a 0-based offset into the source (as UTF-8), ``line`` is 1-based. ``open`` has the raw start tags of the
    open elements, outermost first: they declare the namespaces in scope, and later end tags are checked against them.
    ``started``: the source has had a root element already. ``doctype``: the DOCTYPE of the open elements' document, if
    its declarations have an effect. ``said`` has the values of the open elements for tuples in
    them, if tuples read ancestors: see `Ancestors.said`.
    """

    byte: int = 0
    line: int = 1
    open: tuple[str, ...] = ()
    started: bool = False
    said: AncestorValues = ()
    doctype: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {"byte": self.byte, "line": self.line, "open": list(self.open), "started": self.started}
        values |= {"said": self.said} if self.said else {}
        return values | ({"doctype": self.doctype} if self.doctype else {})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Position:
        """The inverse of `to_json`.

        >>> position = Position(3, 1, ("<a>",), True)
        >>> Position.from_json(position.to_json()) == position
        True
        """
        ancestor_values = tuple(
            tuple((stream, slot, tuple(texts), read) for stream, slot, texts, read in element_values)
            for element_values in values.get("said", ())
        )
        open_, doctype = tuple(values["open"]), values.get("doctype", "")
        return cls(values["byte"], values["line"], open_, values["started"], ancestor_values, doctype)

    @property
    def prologue(self) -> bytes:
        """The start tags of ``open``, exactly as in the source."""
        return "".join(self.open).encode("utf-8", "surrogateescape")

    def after(
        self,
        data: bytes,
        open_: tuple[str, ...],
        ancestor_values: AncestorValues = (),
        doctype: str = "",
    ) -> Position:
        """The position at the end of ``data``, which begins at this position."""
        lines = native.newlines(data) if native.COMPILED else data.count(b"\n")
        return Position(self.byte + len(data), self.line + lines, open_, True, ancestor_values, doctype)


@dataclass(frozen=True)
class Cursor:
    """How far a source is read: a position in one of its parts.

    ``done``: the source has ended. ``failure`` is the failure of the source itself, such as an unreadable file or a
    broken connection. ``trace`` has the checksums of the part up to the position, if a later run must find the same
    file there.
    """

    part: int = 0
    position: Position = field(default_factory=Position)
    done: bool = False
    failure: str | None = None
    trace: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        place = {"part": self.part, "position": self.position.to_json()}
        return {**place, "eos": self.done, "failure": self.failure, "trace": self.trace}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Cursor:
        """The inverse of `to_json`."""
        position = Position.from_json(values["position"])
        return cls(values["part"], position, values["eos"], values["failure"], values["trace"])


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


@dataclass(frozen=True)
class Split:
    """A section of a source that can be parsed independently.

    ``source`` is the source's name. A split contains complete tuple and punctuation elements of one document.
    ``final``: the source ends after it, without a read error. ``labels`` has the values in the source's name for each
    stream; empty without such values. ``dtd`` has the declarations of the source's DTD file: its entities.
    """

    source: str
    start: Position
    data: bytes
    final: bool
    labels: tuple[Label, ...] = ()
    dtd: str = ""

    def declaring(self, dtd: str) -> Split:
        """The split with declarations of entities."""
        return replace(self, dtd=dtd) if dtd and dtd != self.dtd else self

    @cached_property
    def ready(self) -> Ready:
        """The data without byte order mark, XML declaration and DOCTYPE.

        The declaration may name the source's encoding before its conversion to UTF-8. Comments and processing
        instructions that follow the previous document may precede the declaration. A DOCTYPE whose declarations
        have no effect is ignored; a malformed one is left in the data, so that the parser reports it.
        """
        data, declared = self.data, False
        if self.start.open:
            return Ready(data, doctype=read_doctype(self.start.doctype.encode()) or NO_DOCTYPE)
        at = _end_of_misc(data, 0) if self.start.started else 0
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
            return Ready(data, declared, doctype=read_doctype(b"<!DOCTYPE r>", self.dtd) or NO_DOCTYPE)
        doctype = _ANY_DOCTYPE.match(data, at)
        judged = doctype and read_doctype(doctype[0], self.dtd)
        if not doctype or not judged:
            return Ready(data, True)
        if judged.refused:
            return Ready(data, True, at, judged.refused)
        data = _blank_out(data, at, doctype.end())
        at = _end_of_misc(data, at)
        if data.startswith(b"<!DOCTYPE", at):
            return Ready(data, True, at, _SECOND, judged)
        return Ready(data, True, doctype=judged)

    @property
    def before(self) -> bytes:
        """The XML for libxml2 to read before it: the declarations of its document, and its open elements."""
        has_doctype = self.start.doctype or self.dtd or b"<!DOCTYPE" in self.data
        doctype = self.ready.doctype if has_doctype else NO_DOCTYPE
        return doctype.effective + self.start.prologue


def _end_of_misc(data: bytes, at: int) -> int:
    """The end of the white space, comments and processing instructions that begin at an offset."""
    misc = _MISC.match(data, at)
    return misc.end() if misc else at


def _blank_out(data: bytes, begin: int, end: int) -> bytes:
    """The data with spaces in this range; newlines are preserved."""
    return data[:begin] + re.sub(rb"[^\n]", b" ", data[begin:end]) + data[end:]

"""Positions in a source, and the splits between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xmlpunct.firehose import native
from xmlpunct.firehose.labels import Label

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


@dataclass(frozen=True)
class Split:
    """A section of a source that can be parsed independently.

    ``source`` is the source's name. A split contains complete tuple and punctuation elements of one document.
    ``final``: the source ends after it, without a read error. ``labels`` has the values in the source's name for each
    stream; empty without such values.
    """

    source: str
    start: Position
    data: bytes
    final: bool
    labels: tuple[Label, ...] = ()

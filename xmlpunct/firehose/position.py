"""Places in a source, and the pieces between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xmlpunct.firehose import native
from xmlpunct.firehose.labels import Label

Said = tuple[tuple[tuple[int, int, tuple[str, ...], bool], ...], ...]
"""By open element what it has given: to which stream and slot, which texts, and whether tuples have read them."""


@dataclass(frozen=True)
class Position:
    """A place between elements, where a split may begin.

    ``byte`` is a 0-based offset into the source (as UTF-8), ``line`` is 1-based. ``open`` holds the raw
    start tags of the elements open there, outermost first: they carry the namespaces in scope, and let the
    end tags that follow be verified. ``started`` says that the source has had a root element already. ``said`` is
    what the open elements have given to tuples in them so far, where some take anything: see `Ancestors.said`.
    """

    byte: int = 0
    line: int = 1
    open: tuple[str, ...] = ()
    started: bool = False
    said: Said = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        found = {"byte": self.byte, "line": self.line, "open": list(self.open), "started": self.started}
        return found | ({"said": self.said} if self.said else {})

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Position:
        """The inverse of `to_json`.

        >>> here = Position(3, 1, ("<a>",), True)
        >>> Position.from_json(here.to_json()) == here
        True
        """
        said = tuple(
            tuple((stream, slot, tuple(texts), read) for stream, slot, texts, read in one)
            for one in values.get("said", ())
        )
        return cls(values["byte"], values["line"], tuple(values["open"]), values["started"], said)

    @property
    def prologue(self) -> bytes:
        """The start tags of ``open`` as they stood in the source."""
        return "".join(self.open).encode("utf-8", "surrogateescape")

    def after(self, data: bytes, open_: tuple[str, ...], said: Said = ()) -> Position:
        """The place at the end of ``data``, which begins here."""
        lines = native.newlines(data) if native.COMPILED else data.count(b"\n")
        return Position(self.byte + len(data), self.line + lines, open_, True, said)


@dataclass(frozen=True)
class Split:
    """A piece of a source that can be parsed by itself, anywhere.

    ``source`` is the source's name. It holds whole tuple and punctuation elements, of one document only.
    ``final`` says that the source ends after it, in an orderly way as far as bytes go. ``labels`` are what the source's
    name says, for each stream; none if it says nothing.
    """

    source: str
    start: Position
    data: bytes
    final: bool
    labels: tuple[Label, ...] = ()

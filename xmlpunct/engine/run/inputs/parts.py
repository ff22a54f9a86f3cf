"""A query's inputs, as files that can be read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from xmlpunct.connectors.source import Source, Texts


@dataclass(frozen=True)
class Part:
    """A piece of an input: the file at ``path``, of ``size`` bytes, called ``name``.

    A ``spooled`` one stands in for something that cannot be read twice, or is not in UTF-8. It may still
    grow, so its size is None; other machines may not see it, so its bytes travel inside tasks. ``stored`` is the
    size of a file as it is stored, which must stay what it is; None for what is no file, or may grow. ``texts`` are
    what its name carries: see `xmlpunct.firehose.labels`.
    """

    name: str
    path: str
    size: int | None
    spooled: bool = False
    stored: int | None = None
    texts: Texts = ()


@dataclass(frozen=True)
class Input:
    """A source, the numbers of the streams that it carries, and its parts in order.

    Where the source has several senders, each is an input, and ``sender`` its number, counted from 1.
    """

    source: str
    streams: tuple[int, ...]
    parts: tuple[Part, ...]
    sender: int = 0

    @property
    def spooled(self) -> bool:
        """Whether any of it is."""
        return any(part.spooled for part in self.parts)

    def as_source(self) -> Source:
        """The source as it is told of; its bytes are read by other means."""
        parts = tuple((part.name, part.size) for part in self.parts)
        return Source(self.source, parts, _refuse, texts=tuple(part.texts for part in self.parts))

    @property
    def labelled(self) -> tuple[tuple[str, Texts], ...]:
        """The names of its parts, with what they carry."""
        return tuple((part.name, part.texts) for part in self.parts)


def _refuse(_: int) -> tuple[BinaryIO, bool]:
    raise NotImplementedError("an input is read from where it is stored")

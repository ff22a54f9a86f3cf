"""The namespace of the first element with a local name, in bytes that come piece by piece."""

from __future__ import annotations

import re
from contextlib import suppress

from xmlpunct.base.errors import SourceError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.firehose.infer.document import MOST_SAMPLE_BYTES, Sample, first_names
from xmlpunct.firehose.infer.replayed import rereadable
from xmlpunct.firehose.spec import StreamSpec, name_parts
from xmlpunct.schema import Schema

_SMALLEST_PIECE, _LARGEST_PIECE = 2**12, 2**16
_NEEDS_PARSE = re.compile(rb"xmlns|<!|<\?(?!xml\s)")
"""Bytes that can give an element a namespace, or contain what only looks like an element."""
_REST_OF_TAG = rb"""(?:[\s/](?:[^<>"']|"[^"]*"|'[^']*')*)?>"""


class FirstElement:
    """Searches for the first element with the local name of ``element`` that is no punctuation.

    >>> search = FirstElement("t")
    >>> search.feed(b"<r xmlns='urn:x'>"), search.feed(b"<t><a>1</a>")
    (None, '{urn:x}t')
    """

    def __init__(self, element: str, punct_namespace: str = PUNCT_NAMESPACE) -> None:
        names = StreamSpec("", Schema.of([]), element).names  # raises for an invalid name
        self.is_exact = names != (name_parts(element)[1],)
        """Whether ``element`` has a namespace or parents, so that there is nothing to search for."""
        self.data = bytearray()
        self._element, self._punct_namespace = element, punct_namespace
        self._start_tag = re.compile(rb"<(?:([^\s<>/:]+):)?" + re.escape(element.encode()) + _REST_OF_TAG)
        self._searched = 0
        self._prefixes = set[bytes | None]()
        """Of what looked like a start tag, but is a punctuation's or in a comment."""
        self._next_size = 0
        """The size of the data at which a start tag with one of these prefixes is worth another parse."""

    def feed(self, piece: bytes) -> str | None:
        """The expanded name, if it is known after a further piece; the local name after `MOST_SAMPLE_BYTES`."""
        self.data += piece
        if self.is_exact or len(self.data) > MOST_SAMPLE_BYTES:
            return self._element
        for tag in self._start_tag.finditer(self.data, self._searched):
            if tag[1] not in self._prefixes or tag.end() >= self._next_size:
                name = self._name_in(bytes(self.data[: tag.end()]))
                if name is not None:
                    return name
                self._prefixes.add(tag[1])
                self._next_size = 2 * tag.end()
        self._searched = max(self.data.rfind(b"<"), 0)
        return None

    def end(self) -> str:
        """The expanded name after the last piece; the local name if there is no such element."""
        return (self._name_in(bytes(self.data)) if self._prefixes else None) or self._element

    def _name_in(self, head: bytes) -> str | None:
        if _NEEDS_PARSE.search(head) is None:
            return self._element
        sample = Sample("", (("", [head], False),))
        return first_names(sample, self._punct_namespace).get(self._element)


def first_element(source: Source, element: str, punct_namespace: str) -> tuple[str, Source]:
    """The expanded name of the first element with a local name, and a source that reads everything from the beginning.

    If there is none, it is the local name. Raises `SourceError` if the source cannot be opened.
    """
    search = FirstElement(element, punct_namespace)
    if search.is_exact:
        return element, source
    source, replays = (source, []) if source.size is not None else rereadable(source)
    name: str | None = None
    for part in range(len(source.parts)):
        with source.open(part) as reader:
            size = _SMALLEST_PIECE
            with suppress(SourceError):  # raised again by the reader, after the tuples before it
                while name is None and (piece := reader.read(size)):
                    name, size = search.feed(piece), min(2 * size, _LARGEST_PIECE)
        if name is not None:
            break
    for replay in replays:
        replay.remembers = False
    return name or search.end(), source

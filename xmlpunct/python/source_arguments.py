"""The sources that `parse`, `slices`, `scan_xml` and `query` accept."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterable, Iterable
from typing import BinaryIO, TypeVar

from xmlpunct.base.errors import UsageError
from xmlpunct.connectors.chunk_sources import AsyncChunks
from xmlpunct.connectors.contract import open_source
from xmlpunct.connectors.source import Source

Readable = str | os.PathLike[str] | bytes | BinaryIO | Iterable[bytes] | AsyncIterable[bytes] | Source
"""A source: a path or URL that `open_source` accepts, bytes, a binary file, chunks of bytes, or an opened source."""

_ENCODING_OF_TEXT = re.compile(r"""(\ufeff?<\?xml[^>]*?)(\sencoding\s*=\s*["'][^"']*["'])""")


def chosen_source(source: Readable | None, text: str | None) -> Readable:
    """The source, or the document in ``text``. Raises `UsageError` unless exactly one is given."""
    if source is not None and text is None:
        return source
    if source is None and text is not None:
        return of_text(text)
    raise UsageError("write one source: a path, bytes, a binary file or chunks of bytes; or text=...")


def opened(source: Readable) -> Source:
    """An opened source. Raises `SourceError` if it cannot be opened, and `UsageError` for other types."""
    if isinstance(source, str | os.PathLike):
        refuse_document(source)
        return open_source(source)
    return source if isinstance(source, Source) else Source.of(source)


def refuse_document(source: str | os.PathLike[str]) -> None:
    """Raise `UsageError` for a document."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n")[:1] == "<":
        raise UsageError("a source in a str is a path or a URL: write text=... for a document")


T = TypeVar("T")


def adapted(source: T, name: str | None = None) -> T | AsyncChunks:
    """`AsyncChunks` for an iterable that is asynchronous only; other sources are unchanged."""
    if isinstance(source, AsyncIterable) and not isinstance(source, Iterable):
        return AsyncChunks(source, name or "<chunks>")
    return source


def of_text(document: str) -> bytes:
    """The bytes of a document, in UTF-8, which replaces the encoding that it declares.

    >>> of_text("<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>")
    b"<?xml version='1.0'                      ?><a>\\xc3\\xa9</a>"
    """
    if not isinstance(document, str):
        raise UsageError(f"text is a document in a str, not {type(document).__name__}")
    declared = _ENCODING_OF_TEXT.match(document)
    if declared is not None:
        document = declared[1] + " " * len(declared[2]) + document[declared.end() :]
    return document.encode(errors="surrogatepass")

"""A parser to which the caller pushes the bytes of a stream."""

from __future__ import annotations

import io
from collections.abc import Iterator

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.chunk_sources import NoBytesYetError
from xmlpunct.connectors.source import Source, UnopenedPart, assembled, binary
from xmlpunct.connectors.utf8_stream import Utf8Stream
from xmlpunct.firehose.infer.document import SAMPLE_BYTES
from xmlpunct.firehose.slice_reader import SliceReader
from xmlpunct.firehose.spec import StreamSpec, elements_of
from xmlpunct.punctuations.punctuation import Punctuation, Tuple
from xmlpunct.python.first_element import FirstElement
from xmlpunct.python.inferred_stream import stream_of
from xmlpunct.python.parse_api import elements_in_order
from xmlpunct.python.stream_elements import OnReject, read_slices
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice

_STEP = 2**16
_NAME = "<feed>"


class Feed:
    """A push parser: `push` the bytes of a stream as they come, and receive its tuples and punctuations.

    Parameters
    ----------
    schema : Schema or str, optional
        The columns of a tuple, such as ``"title STRING, price DOUBLE"``. Without them, the first MiB, or a shorter
        stream, is held back, and the columns are inferred from it.
    element : str, optional
        The name of the tuples' element, as for `parse`. Without it, it is inferred in the same way.
    punct_namespace, on_reject
        As for `parse`.

    Notes
    -----
    It has no thread and waits for nothing. Chunks can end anywhere, also inside a character. They can be compressed
    with gzip, bzip2 or xz, and in any encoding. One thread at a time may call it.

    Examples
    --------
    >>> feed = Feed("title STRING", element="book")
    >>> feed.push(b"<shelf><book><title>Em"), feed.push(b"ma</title></book><book>")
    ([], [('Emma',)])
    >>> feed.push(b"<title>Ulysses</title></book></shelf>"), feed.close()
    ([('Ulysses',)], [])
    """

    def __init__(
        self,
        schema: Schema | str | None = None,
        *,
        element: str | None = None,
        punct_namespace: str = PUNCT_NAMESPACE,
        on_reject: OnReject | None = None,
    ) -> None:
        self._schema = Schema.parse(schema) if isinstance(schema, str) else schema
        self._element, self._punct_namespace, self._on_reject = element, punct_namespace, on_reject
        if element is not None:  # raises for a wrong name
            elements_of([StreamSpec("", self._schema or Schema.of([]), element)], punct_namespace)
        self._pushed = _PushedBytes()
        part = UnopenedPart(_NAME, None, lambda: binary(self._pushed), once=True)
        self._source = assembled(_NAME, [part])
        self._stream = _PushedStream(self._source.reader())
        is_declared = self._schema is not None and element is not None
        self._search = FirstElement(str(element), punct_namespace) if is_declared else None
        self._slices: Iterator[Slice] | None = None
        self._columns = Schema.of([])
        self._error: XmlPunctError | None = None
        self._is_closed = False
        self.remaining: list[Tuple | Punctuation] = []

    def push(self, chunk: bytes) -> list[Tuple | Punctuation]:
        """Add bytes.

        Parameters
        ----------
        chunk : bytes
            The next bytes of the stream, of any number.

        Returns
        -------
        list of tuple or Punctuation
            The elements that are complete, in the order of the document, and were not returned before.

        Raises
        ------
        SourceError
            If the stream is not well formed. Elements before the error are returned first, and the next call raises it.
        UsageError
            After `close`.
        """
        if self._is_closed:
            raise UsageError("the feed is closed")
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise UsageError(f"a chunk is bytes, not {type(chunk).__name__}")
        self._pushed.push(chunk)
        return self._elements()

    def close(self) -> list[Tuple | Punctuation]:
        """End the stream.

        Returns
        -------
        list of tuple or Punctuation
            The remaining elements. The end of the stream is not among them, as with `parse`.

        Raises
        ------
        SourceError
            If the document is cut short. Elements that are returned nowhere else are in ``remaining``.
        """
        if self._is_closed:
            return []
        self._is_closed = self._pushed.is_ended = True
        self.remaining = self._complete()
        if self._error is not None:
            raise self._error
        return self.remaining

    def _elements(self) -> list[Tuple | Punctuation]:
        elements = self._complete()
        if self._error is not None and not elements:
            raise self._error
        return elements

    def _complete(self) -> list[Tuple | Punctuation]:
        """The elements that are complete. An error after them is in ``_error``."""
        elements: list[Tuple | Punctuation] = []
        if self._error is not None:
            return elements
        try:
            if self._slices is None and not self._has_begun():
                return elements
            self._stream.is_empty = False
            while not self._stream.is_empty and (part := next(self._slices or iter(()), None)) is not None:
                elements += elements_in_order(self._columns, part)
        except XmlPunctError as error:
            self._error = error
        return elements

    def _has_begun(self) -> bool:
        """Begin to parse, if the stream's element and columns are known."""
        head = bytearray()
        while data := self._stream.read_raw():
            head += data
        self._stream.head += head
        if not self._stream.is_at_end:
            if self._search is None:
                if len(self._stream.head) < SAMPLE_BYTES:
                    return False
            elif self._search.feed(bytes(head)) is None:
                return False
        known = Source.of(bytes(self._stream.head), _NAME)
        has_remedy = self._on_reject is None
        spec, _ = stream_of(known, self._schema, self._element, self._punct_namespace, has_remedy)
        reader = SliceReader(_PushedPart(self._source, self._stream), [spec], self._punct_namespace)
        self._columns = spec.schema
        self._slices = read_slices(reader, on_reject=self._on_reject, is_pushed=True)
        return True


class _PushedBytes(io.RawIOBase):
    """The file of the bytes that were pushed. A read raises `NoBytesYetError` if there are none."""

    def __init__(self) -> None:
        self._left, self.is_ended = bytearray(), False

    def push(self, chunk: bytes) -> None:
        self._left += chunk

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._left and not self.is_ended:
            raise NoBytesYetError
        size = len(self._left) if size < 0 else size
        data = bytes(self._left[:size])
        del self._left[:size]
        return data


class _PushedStream:
    """The UTF-8 bytes that were pushed: a `PartStream`. ``head``: bytes that were read already, to be parsed first.

    is_empty: the last read returned None.
    """

    ready, silent, at_end = True, 0.0, False

    def __init__(self, stream: Utf8Stream) -> None:
        self.head, self.is_empty, self.is_at_end = bytearray(), False, False
        self._stream, self._has_begun = stream, False

    @property
    def consumed(self) -> int:
        return self._stream.consumed

    def read(self, size: int) -> bytes | None:
        if self.head:
            data = bytes(self.head[:size])
            del self.head[:size]
            return data
        data_or_none = self.read_raw()
        self.is_empty = data_or_none is None
        return data_or_none

    def read_raw(self) -> bytes | None:
        """Bytes that follow ``head``; None if there are none yet, empty at the end."""
        try:
            if not self._has_begun:
                self._stream.begin()
                self._has_begun = True
            data = self._stream.read(_STEP)
        except NoBytesYetError:
            return None
        self.is_at_end = not data
        return data

    def close(self) -> None:
        self._stream.close()


class _PushedPart:
    """The only part of the source of a feed: a `PartOpener`."""

    resumes = False

    def __init__(self, source: Source, stream: _PushedStream) -> None:
        self.source, self._stream = source, stream

    def is_live(self, part: int) -> bool:
        return False

    def open(self, part: int, byte: int, trace: str | None) -> _PushedStream:
        return self._stream

    def trace(self, part: int, byte: int) -> str | None:
        return None

    def close(self) -> None:
        """Nothing to close."""

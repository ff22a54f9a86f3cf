"""Sends a source to a TCP peer at a given rate of tuples: a file as a live firehose."""

from __future__ import annotations

import socket
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.tcp import SocketAddress, listen, wait_for_peer
from xmlpunct.connectors.utf8_stream import Utf8Stream
from xmlpunct.firehose.native.tags import OpenElement, opened_element, tokens

_CHUNK_BYTES = 2**16
_LONGEST_SLEEP = 3600.0


class Replay:
    """Listens on ``address`` from construction on, and sends ``source`` to the first peer that connects.

    ``rate`` is in tuples per second (None: as fast as the peer receives). A tuple is a child of the root that is not a
    punctuation. It is sent together with all bytes up to the next tuple. A context manager. Raises `SourceError` for an
    address on which it cannot listen, and `UsageError` for a source that is not in UTF-8.
    """

    def __init__(
        self,
        source: Source,
        address: SocketAddress,
        rate: float | None = None,
        punct_namespace: str = PUNCT_NAMESPACE,
    ) -> None:
        self.source, self.rate, self.punct_namespace = source, rate, punct_namespace
        self._listening = listen(address, str(address))
        self.address = SocketAddress(address.host, self._listening.getsockname()[1], True)
        """The address on which it listens, with the actual port."""
        self.tuples = 0
        """The number of tuples sent. Without a rate they are not counted."""

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def run(self) -> bool:
        """Wait for a peer and send the whole source; False if the peer disconnected earlier."""
        try:
            peer = wait_for_peer(self._listening, threading.Event())
        except OSError as error:
            raise XmlPunctError(f"no client can connect to {self.address}: {error.strerror}") from None
        assert peer is not None
        with peer:
            try:
                self._send(peer)
            except ConnectionError:
                return False
        return True

    def _send(self, peer: socket.socket) -> None:
        """Raises ConnectionError if the peer has disconnected."""
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began, waiting, ends, count = time.monotonic(), bytearray(), list[int](), 0
        for piece in self._pieces():
            if self.rate is not None:
                early = began + count / self.rate - time.monotonic()
                if early > 0 or len(waiting) >= _CHUNK_BYTES:
                    self._send_tuples(peer, waiting, ends)
                    waiting, ends = bytearray(), []
                    while early > 0:  # the system limits the duration of a sleep
                        time.sleep(min(early, _LONGEST_SLEEP))
                        early = began + count / self.rate - time.monotonic()
                count += 1
                waiting += piece
                ends.append(len(waiting))
            else:
                peer.sendall(piece)
        self._send_tuples(peer, waiting, ends)

    def _send_tuples(self, peer: socket.socket, data: bytearray, ends: Sequence[int]) -> None:
        """Send tuples, each up to one of the ``ends``, and count the tuples that were sent as a whole."""
        sent, view = 0, memoryview(data)
        try:
            while sent < len(view):
                sent += peer.send(view[sent:])
        finally:
            self.tuples += bisect_right(ends, sent)

    def _pieces(self) -> Iterator[bytes]:
        """The units of sending: tuples, or chunks of bytes without a rate."""
        for part in range(len(self.source.parts)):
            with self.source.open(part) as reader:
                if reader.transcoded:
                    raise UsageError(f"{reader.name}: only UTF-8 can be replayed")
                if self.rate is not None:
                    yield from tuples(reader, self.punct_namespace)
                else:
                    yield from iter(lambda: reader.read(_CHUNK_BYTES), b"")


def tuples(reader: Utf8Stream, punct_namespace: str = PUNCT_NAMESPACE) -> Iterator[bytes]:
    """All bytes of a part, divided before each tuple except the first. Malformed input is not divided.

    >>> with Source.of(b"<r><t>1</t><x><t>2</t></x>\\n</r>").open() as reader:
    ...     list(tuples(reader))
    [b'<r><t>1</t>', b'<x><t>2</t></x>\\n</r>']
    """
    piece, unprocessed = bytearray(), b""
    depth, has_tuple = 0, False
    root: OpenElement | None = None
    while data := reader.read(_CHUNK_BYTES):
        unprocessed += data
        markup = tokens(unprocessed)
        before = depth + np.cumsum(markup.delta) - markup.delta
        opens = markup.element & (markup.delta >= 0)
        cut = 0
        for i in np.flatnonzero(opens & (before <= 1)):
            start = int(markup.start[i])
            child = opened_element(unprocessed[start : int(markup.end[i])].decode("utf-8", "replace"), root)
            if before[i] < 1:
                root = opened_element(child.raw, None)
            elif not child.name.startswith(f"{{{punct_namespace}}}"):
                if has_tuple:
                    yield bytes(piece) + unprocessed[cut:start]
                    piece, cut = bytearray(), start
                has_tuple = True
        depth += int(markup.delta.sum())
        piece += unprocessed[cut : markup.tail]
        unprocessed = unprocessed[markup.tail :]
        if markup.broken:
            yield bytes(piece) + unprocessed
            yield from iter(lambda: reader.read(_CHUNK_BYTES), b"")
            return
    yield bytes(piece) + unprocessed

"""Sending what a source holds to a peer, at the pace of tuples: a file as a live firehose."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import numpy as np

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.base.xml_names import PUNCT_NAMESPACE
from xmlpunct.connectors.open_source import PartReader, Source
from xmlpunct.connectors.tcp import Address, listen, wait_for_peer
from xmlpunct.firehose.native.tags import Element, element, tokens

_CHUNK_BYTES = 2**16
_LONGEST_SLEEP = 3600.0


class Replay:
    """Listens on ``address`` from the beginning on, and sends ``source`` to the first peer that connects.

    ``rate`` is in tuples a second (None: as fast as they are taken); a tuple is a child of the root that is no
    punctuation, and leaves together with what follows it, up to the next. A context manager. Raises
    `SourceError` for an address that cannot be listened on and `UsageError` for what is not in UTF-8.
    """

    def __init__(
        self,
        source: Source,
        address: Address,
        rate: float | None = None,
        punct_namespace: str = PUNCT_NAMESPACE,
    ) -> None:
        self.source, self.rate, self.punct_namespace = source, rate, punct_namespace
        self._listening = listen(address, str(address))
        self.address = Address(address.host, self._listening.getsockname()[1], True)
        """Where it listens; the port is the one that was free, if any was asked for."""
        self.tuples = 0
        """How many tuples have been sent; without a rate they are not counted."""

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def run(self) -> bool:
        """Wait for a peer and send everything; False if the peer left before that."""
        try:
            peer = wait_for_peer(self._listening, threading.Event())
        except OSError as error:
            raise XmlPunctError(f"nobody can connect to {self.address}: {error.strerror}") from None
        assert peer is not None
        with peer:
            try:
                self._send(peer)
            except ConnectionError:
                return False
        return True

    def _send(self, peer: socket.socket) -> None:
        """Raises ConnectionError when the peer has gone."""
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began, waiting, count = time.monotonic(), bytearray(), 0
        for piece in self._pieces():
            if self.rate is not None:
                early = began + count / self.rate - time.monotonic()
                if early > 0 or len(waiting) >= _CHUNK_BYTES:
                    peer.sendall(waiting)
                    self.tuples, waiting = count, bytearray()
                    while early > 0:  # the system's sleep has a longest time
                        time.sleep(min(early, _LONGEST_SLEEP))
                        early = began + count / self.rate - time.monotonic()
                count += 1
                waiting += piece
            else:
                peer.sendall(piece)
        peer.sendall(waiting)
        self.tuples = count

    def _pieces(self) -> Iterator[bytes]:
        """What is sent at a time: a tuple, or without a rate whatever is read at a time."""
        for part in range(len(self.source.parts)):
            with self.source.open(part) as reader:
                if reader.transcoded:
                    raise UsageError(f"{reader.name}: only UTF-8 can be sent on as it is")
                if self.rate is not None:
                    yield from tuples(reader, self.punct_namespace)
                else:
                    yield from iter(lambda: reader.read(_CHUNK_BYTES), b"")


def tuples(reader: PartReader, punct_namespace: str = PUNCT_NAMESPACE) -> Iterator[bytes]:
    """All bytes of a part, cut before each tuple but the first. What is malformed is not cut.

    >>> with Source.of(b"<r><t>1</t><x><t>2</t></x>\\n</r>").open() as reader:
    ...     list(tuples(reader))
    [b'<r><t>1</t>', b'<x><t>2</t></x>\\n</r>']
    """
    piece, rest = bytearray(), b""
    depth, has_tuple = 0, False
    root: Element | None = None
    while data := reader.read(_CHUNK_BYTES):
        rest += data
        found = tokens(rest)
        before = depth + np.cumsum(found.delta) - found.delta
        opens = found.element & (found.delta >= 0)
        cut = 0
        for i in np.flatnonzero(opens & (before <= 1)):
            start = int(found.start[i])
            this = element(rest[start : int(found.end[i])].decode("utf-8", "replace"), root)
            if before[i] < 1:
                root = element(this.raw, None)
            elif not this.name.startswith(f"{{{punct_namespace}}}"):
                if has_tuple:
                    yield bytes(piece) + rest[cut:start]
                    piece, cut = bytearray(), start
                has_tuple = True
        depth += int(found.delta.sum())
        piece += rest[cut : found.tail]
        rest = rest[found.tail :]
        if found.broken:
            yield bytes(piece) + rest
            yield from iter(lambda: reader.read(_CHUNK_BYTES), b"")
            return
    yield bytes(piece) + rest

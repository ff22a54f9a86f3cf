"""Sockets as sources: ``tcp://host:port`` connects, ``tcp-listen://host:port`` waits for peers.

``tls://host:port`` connects to a peer with a certificate for its name, from a trusted authority (see `tls`) or from
one in the file of ``?ca=FILE``. ``unix:PATH`` connects to the socket at a path.

The data of a peer are read like a file: the stream ends regularly if the peer closes the connection between two
documents, and fails if the connection is reset, or closed inside a document.
"""

from __future__ import annotations

import io
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from xmlpunct.base.errors import SourceError, TransientError, UsageError
from xmlpunct.connectors.contract import Connector
from xmlpunct.connectors.host_check import LOOPBACK
from xmlpunct.connectors.source import Source, UnopenedPart, assembled, binary, merged_source
from xmlpunct.connectors.tls import client_context, end_reads

CONNECT_SECONDS = 10.0
_GLANCE_SECONDS = 0.2  # how often waiting for a peer checks whether it was stopped
_EVERYWHERE = ("0.0.0.0", "::")
_log = logging.getLogger("xmlpunct")


class Sockets(Connector):
    """``tcp://``, ``tls://`` and ``tcp-listen://``."""

    def senders(self, spec: str) -> Sequence[str]:
        if not spec.lower().startswith("tcp-listen://"):
            return ("",)
        count = SocketAddress.parse(spec).connections
        return [str(1 + i) for i in range(count)] if count > 1 else ("",)

    def source(self, spec: str, name: str) -> Source:
        address = SocketAddress.parse(spec)
        if address.tls:
            client_context(address.ca)  # raises errors of its file now
        peer = Listener(address, name).peer if address.listen else lambda: connect(address, name)
        return merged_source(name, self.senders(spec), lambda _: peer(), once=True)


class UnixSockets(Connector):
    """``unix:`` and the path of a socket."""

    def source(self, spec: str, name: str) -> Source:
        path = spec.removeprefix("unix:")
        return assembled(
            name, [UnopenedPart(spec, None, lambda: binary(connect_unix(path, spec)), once=True)]
        )


@dataclass(frozen=True)
class SocketAddress:
    """The address to connect to, or (``listen``) on which to accept a number of ``connections``."""

    host: str
    port: int
    listen: bool = False
    connections: int = 1
    tls: bool = field(default=False, repr=False)
    ca: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, spec: str) -> SocketAddress:
        """Read ``tcp://host:port``, ``tls://host:port?ca=FILE`` or ``tcp-listen://host:port?connections=N``.

        Raises `UsageError`.

        Without a host it listens for this machine only; port 0 selects a free port.

        >>> SocketAddress.parse("tcp-listen://:7000?connections=2")
        SocketAddress(host='127.0.0.1', port=7000, listen=True, connections=2)
        """
        expected_form = "tcp://host:port, or tcp-listen://host:port with ?connections=N for several senders"
        if spec.startswith("tls://"):
            expected_form = (
                "tls://host:port, with ?ca=FILE for certificates from other authorities than the system's"
            )
        try:
            url = urlsplit(spec)
            host, port = url.hostname or "", url.port
            host.encode("idna")  # as the name resolution does
            options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
        except ValueError:
            raise UsageError(f"{spec} is no address: write {expected_form}") from None
        listen, tls = url.scheme == "tcp-listen", url.scheme == "tls"
        ca = options.pop("ca", None) if tls else None
        count = options.pop("connections", "1")
        wrong = (
            port is None
            or options
            or ca == ""
            or url.path
            or url.fragment
            or url.username is not None
            or not count.isdecimal()
            or not 0 < int(count) <= 1000
            or (not listen and (not host or not port or "connections" in url.query))
        )
        if wrong or port is None:
            raise UsageError(f"{spec} is no address: write {expected_form}")
        return cls(host or LOOPBACK, port, listen, int(count), tls, ca)


class Peer(io.RawIOBase):
    """The data of one peer. The first read connects, with ``connect``, which receives an event that stops it."""

    def __init__(self, connect: Callable[[threading.Event], socket.socket]) -> None:
        self._connect = connect
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes; 0 when the peer has closed the connection, or after `stop`.

        Raises `TransientError` if it cannot connect, and ConnectionError if the connection breaks: the peer's data
        after that are lost.
        """
        if self._socket is None:
            if self._stopped.is_set():
                return 0
            connection = self._connect(self._stopped)
            with self._lock:
                self._socket = connection
        if self._stopped.is_set():
            return 0
        try:
            return self._socket.recv_into(buffer)
        except OSError as error:
            raise ConnectionError(0, error.strerror or str(error)) from None

    def stop(self) -> None:
        """Let a read that waits in another thread return no bytes."""
        self._stopped.set()
        with self._lock:
            if self._socket is not None:
                end_reads(self._socket)

    def close(self) -> None:
        if not self.closed:
            self._stopped.set()
            if self._socket is not None:
                self._socket.close()
        super().close()


def connect(address: SocketAddress, name: str) -> Peer:
    """A peer to which the first read connects."""
    context = client_context(address.ca) if address.tls else None

    def open_connection(stopped: threading.Event) -> socket.socket:
        try:
            connection = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if context is not None:
                with connection:  # the TLS socket replaces it
                    connection = context.wrap_socket(connection, server_hostname=address.host)
        except ssl.SSLCertVerificationError as error:
            raise TransientError(name, f"its certificate is not valid: {error.verify_message}") from None
        except OSError as error:
            raise TransientError(name, f"cannot connect: {error.strerror or error}") from None
        connection.settimeout(None)
        return connection

    return Peer(open_connection)


def connect_unix(path: str, name: str) -> Peer:
    """The peer at the socket at a path."""

    def open_connection(stopped: threading.Event) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            raise TransientError(name, f"cannot connect: {error.strerror or error}") from None
        return connection

    return Peer(open_connection)


class Listener:
    """A port, open from the wait for the first peer until all ``address.connections`` peers are connected.

    For port 0, the port that was selected is logged.
    """

    def __init__(self, address: SocketAddress, name: str) -> None:
        self.address, self.name = address, name
        self._left = address.connections
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def peer(self) -> Peer:
        """The next peer to connect."""
        return Peer(self._accept)

    def _accept(self, stopped: threading.Event) -> socket.socket:
        with self._lock:
            if self._socket is None:
                self._socket = listen(self.address, self.name)
                if not self.address.port:
                    _log.warning("%s: listening on port %d", self.name, self._socket.getsockname()[1])
            listening = self._socket
        try:
            connection = wait_for_peer(listening, stopped)
        except OSError as error:
            raise TransientError(self.name, f"no sender can connect: {error.strerror or error}") from None
        finally:
            with self._lock:
                self._left -= 1
                if not self._left:
                    listening.close()
                    self._socket = None
        if connection is None:
            raise SourceError(self.name, "no sender connected")
        return connection


def listen(address: SocketAddress, name: str) -> socket.socket:
    """A listening socket. Raises `TransientError`."""
    try:
        family, *_, endpoint = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if endpoint[0] in _EVERYWHERE and address.host not in _EVERYWHERE:
            raise SourceError(name, f"write 0.0.0.0, or [::], for any machine to connect, not {address.host}")
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(endpoint)
            listening.listen(max(address.connections, 1))
            listening.settimeout(_GLANCE_SECONDS)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise TransientError(name, f"cannot listen on {address}: {error.strerror or error}") from None
    return listening


def wait_for_peer(listening: socket.socket, stopped: threading.Event) -> socket.socket | None:
    """The next peer of a socket that `listen` made; None once ``stopped`` is set. Raises OSError."""
    while not stopped.is_set():
        with suppress(TimeoutError):
            connection, _ = listening.accept()
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return connection
    return None

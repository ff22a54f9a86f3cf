"""The HTTP server under the live view and ``http-listen://``: one request parser, one limit on connections.

The parser is strict: two readings of one request would let a client hide a second request in the body of the first.
A request body is read to its end, or the connection is closed after the answer, so no byte of a body is ever parsed
as a request. A request with a Transfer-Encoding, with a repeated header of `_ONCE`, or with a malformed line is
refused.

A connection uses a thread and a file descriptor, and the run needs threads and descriptors too. So each server has at
most `MOST_CONNECTIONS` connections, and accepts none if fewer than `SPARE_DESCRIPTORS` descriptors would remain. At
the limit a new client replaces the connection that has been idle for the longest time; if none is idle, it is refused.
All servers of the process share the descriptors, so an idle connection of one is closed for a client of another.
"""

from __future__ import annotations

import errno
import io
import json
import math
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

from xmlpunct.base.secrets import hide
from xmlpunct.connectors.host_check import is_meant, is_own_page

JSON = "application/json"
MOST_CONNECTIONS = 64
SPARE_DESCRIPTORS = 64
"""Descriptors reserved for the run; half of all descriptors if the limit is below twice this number."""
IDLE_SECONDS = 30.0
"""A connection is closed if no complete request head arrives within this time."""
WRITE_SECONDS = 30.0
"""A client that does not read an answer within this time is disconnected."""
GRACE_SECONDS, SLOWEST_RATE = 10.0, 4096
"""A body is refused if it takes longer than the grace period and the time for its bytes at the slowest rate."""
HEAD_BYTES, MOST_FIELDS = 2**16, 100
_LINGER_SECONDS, _LINGER_BYTES = 2.0, 2**20
"""Limits for reading a body that was refused, before the connection is closed. A client whose data is not read may
receive a reset in place of the answer."""
_LAST_SECONDS = 1.0  # how long `stop` waits for answers in progress
_CLOSE_SECONDS = 1.0  # how long to wait for an idle connection's thread to close it
_PAUSE_SECONDS = 0.05  # between attempts to accept a connection while no descriptor is free
_READ_BYTES = 2**16
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(%b) (/[\x21-\x7e]*) HTTP/1\.([0-9])\r\n" % _TOKEN)
_FIELD = re.compile(rb"(%b):([\t\x20-\x7e\x80-\xff]*)\r\n" % _TOKEN)
_ONCE = re.compile("host|origin|content-.*|transfer-encoding|authorization|expect|xmlpunct-.*", re.IGNORECASE)
"""Headers that must not be repeated, because they determine how a request is handled."""


class RequestRefused(Exception):
    """A request is refused with a status. ``values`` are further values for an answer in JSON."""

    def __init__(self, status: HTTPStatus, reason: str, **values: Any) -> None:
        super().__init__(reason)
        self.status, self.reason, self.values = status, reason, values


_changed = threading.Condition()
_idle: dict[socket.socket, HttpServer] = {}
"""The idle connections of all servers in this process, the longest idle first."""


class HttpServer(ThreadingHTTPServer):
    """A server with a limit on its connections, which answers requests until `stop`.

    ``attributes`` are attributes of its request handlers. Raises OSError if it cannot listen.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, handler: type[RequestHandler], **attributes: Any) -> None:
        self._open: set[socket.socket] = set()
        self._busy: set[socket.socket] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), type("Handler", (handler,), {"host": host} | attributes))
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Accept no more connections, wait a moment for answers in progress, and close the port."""
        self.shutdown()
        with _changed:
            _changed.wait_for(lambda: not self._busy, _LAST_SECONDS)
        self.server_close()
        self._thread.join()

    def begin_request(self, connection: socket.socket) -> None:
        """The connection is not idle: a request is being answered."""
        with _changed:
            _idle.pop(connection, None)
            self._busy.add(connection)

    def end_request(self, connection: socket.socket) -> None:
        """The request is answered; the connection is idle."""
        with _changed:
            self._busy.discard(connection)
            _idle.pop(connection, None)
            _changed.notify_all()
        self.allow_closing(connection)

    def allow_closing(self, connection: socket.socket) -> None:
        """Count a connection as idle although its answer may continue: the client reconnects if it is closed."""
        with _changed:
            if connection in self._open:
                _idle[connection] = self

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            request, address = super().get_request()
            with _changed:
                if request.fileno() >= _descriptor_limit() and _close_first(_idle):
                    # The duplicate has the lowest free number, so that numbers show how many are in use.
                    lower = request.dup()
                    request.close()
                    request = lower
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                with _changed:
                    _close_first(_idle)
                # The client stays in the queue, and would be offered again at once.
                time.sleep(_PAUSE_SECONDS)
            raise
        return request, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        with _changed:
            own_idle = [connection for connection, server in _idle.items() if server is self]
            is_full = len(self._open) >= MOST_CONNECTIONS and not _close_first(own_idle)
            if is_full or request.fileno() >= _descriptor_limit():
                request.settimeout(0)  # the answer fits into the socket's buffer
                with suppress(OSError):
                    request.send(
                        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
                        b"Connection: close\r\n\r\n"
                    )
                return False
            self._open.add(request)
            _idle[request] = self
            return True

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with _changed:
            self._open.discard(request)
            self._busy.discard(request)
            _idle.pop(request, None)
            _changed.notify_all()

    def has_open(self, connection: socket.socket) -> bool:
        """True if a connection is open."""
        return connection in self._open

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a client that disconnected: they are no failure of the run."""


def _close_first(connections: Iterable[socket.socket]) -> bool:
    """Close the first of these idle connections; False if there is none, or it does not close in time."""
    first = next(iter(connections), None)
    if first is None:
        return False
    server = _idle.pop(first)
    with suppress(OSError):
        first.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
    return _changed.wait_for(lambda: not server.has_open(first), _CLOSE_SECONDS)


def _descriptor_limit() -> float:
    """The lowest descriptor number that no connection may have; the system assigns the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit - min(SPARE_DESCRIPTORS, limit // 2)


class _Incoming(io.RawIOBase):
    """The bytes that a client sends. Reading raises TimeoutError after the ``deadline``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self.deadline = connection, math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(self.deadline - time.monotonic(), 0.001))
        return self._connection.recv_into(buffer)


class RequestHandler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and calls `get` for GET and HEAD, and `post` for POST.

    These methods read a body with `read_body`, and answer with `answer` or raise `RequestRefused`. A request for
    another host is refused, and so is one from a page of another site unless it is a GET or HEAD: see `host_check`.
    """

    server: HttpServer
    host: str
    """The host that the server listens on."""
    protocol_version = request_version = "HTTP/1.1"
    server_version, sys_version = "xmlpunct", ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._incoming = _Incoming(self.connection)
        self.rfile = io.BufferedReader(self._incoming, _READ_BYTES)

    def handle_one_request(self) -> None:
        self.close_connection, self.command, self.requestline = True, "", ""
        self._left: float = math.inf  # unread bytes of the body
        self._is_answered = False
        try:
            self._answer_one()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        finally:
            self.server.end_request(self.connection)
        if self._is_answered and self._left:
            self._linger()

    def _answer_one(self) -> None:
        try:
            if not self._read_head():
                return
            self.server.begin_request(self.connection)
            self._check_host()
            methods = {"GET": self.get, "HEAD": self.get, "POST": self.post}
            methods.get(self.command, self._no_method)()
        except RequestRefused as refused:
            self.answer_refused(refused)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:
            self.close_connection = True
            if not self._is_answered:
                reason = hide(f"internal error: {type(error).__name__}: {error}")
                self.answer_refused(RequestRefused(HTTPStatus.INTERNAL_SERVER_ERROR, reason))

    def _read_head(self) -> bool:
        """Read the request line and the header fields; False if the client sends none. Raises `RequestRefused`."""
        self._incoming.deadline = time.monotonic() + IDLE_SECONDS
        left = HEAD_BYTES
        line = self.rfile.readline(left + 1)
        if line == b"\r\n":  # some clients send an empty line after a body
            line = self.rfile.readline(left + 1)
        if not line:
            return False
        left -= len(line)
        request = _REQUEST_LINE.fullmatch(line)
        if request is None:
            too_long = left < 0
            status = HTTPStatus.REQUEST_URI_TOO_LONG if too_long else HTTPStatus.BAD_REQUEST
            self._refuse(
                status, "the request line is too long" if too_long else "this is not a request of HTTP/1.1"
            )
        self.command, self.path = request[1].decode(), request[2].decode()
        self.headers = Message()
        while (line := self.rfile.readline(left + 1)) != b"\r\n":
            left -= len(line)
            if left < 0 or len(self.headers) >= MOST_FIELDS:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header fields are too long")
            field = _FIELD.fullmatch(line)
            if field is None:
                self._refuse(HTTPStatus.BAD_REQUEST, "a header field is malformed")
            name = field[1].decode()
            if name in self.headers and _ONCE.fullmatch(name):
                self._refuse(HTTPStatus.BAD_REQUEST, f"the header {name} is repeated")
            self.headers[name] = field[2].strip(b" \t").decode("latin-1")
        self._read_framing(is_old=request[3] == b"0")
        return True

    def _read_framing(self, is_old: bool) -> None:
        """Determine the body's length, and whether the connection stays open. Raises `RequestRefused`."""
        length = self.headers.get("Content-Length")
        if "Transfer-Encoding" in self.headers:
            if length is not None:
                self._refuse(HTTPStatus.BAD_REQUEST, "send Content-Length or Transfer-Encoding, not both")
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "send Content-Length")
        if length is not None and not re.fullmatch("[0-9]{1,18}", length):
            self._refuse(HTTPStatus.BAD_REQUEST, "Content-Length is no number of bytes")
        self._left = 0 if length is None else int(length)
        expected = self.headers.get("Expect", "").lower()
        if expected not in ("", "100-continue"):
            self._refuse(HTTPStatus.EXPECTATION_FAILED, "Expect allows only 100-continue")
        self._awaits_continue = expected == "100-continue" and not is_old and self._left > 0
        options = ",".join(self.headers.get_all("Connection", ())).lower()
        self.close_connection = is_old or "close" in (option.strip() for option in options.split(","))

    def _check_host(self) -> None:
        host = self.headers.get("Host", "")
        is_read = self.command in ("GET", "HEAD")
        if not is_meant(host, self.host):
            self._refuse(HTTPStatus.FORBIDDEN, "the Host header does not name this server")
        if not (is_read or is_own_page(self.headers.get("Origin"), host)):
            self._refuse(HTTPStatus.FORBIDDEN, "requests from pages of other sites are refused")

    def get(self) -> None:
        """Answer a GET or HEAD."""
        self._no_method()

    def post(self) -> None:
        """Answer a POST."""
        self._no_method()

    def _no_method(self) -> None:
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command} is not supported here")

    def _refuse(self, status: HTTPStatus, reason: str) -> NoReturn:
        raise RequestRefused(status, reason)

    def read_body(self, limit: int, count: Callable[[int], object] | None = None) -> bytes:
        """The body of the request. ``count`` is called with the size of each part that arrives.

        Raises `RequestRefused` if it has more than ``limit`` bytes, is cut, or arrives too slowly.
        """
        if self._left > limit:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {limit} bytes")
        self.connection.settimeout(WRITE_SECONDS)
        if self._awaits_continue:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body, began = bytearray(), time.monotonic()
        while self._left:
            self._incoming.deadline = began + GRACE_SECONDS + len(body) / SLOWEST_RATE
            try:
                data = self.rfile.read1(min(int(self._left), _READ_BYTES))
            except TimeoutError:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the body arrives too slowly")
            if not data:
                self._refuse(HTTPStatus.BAD_REQUEST, "the body ended early")
            if count is not None:
                count(len(data))
            body += data
            self._left -= len(data)
        return bytes(body)

    def answer_json(
        self, status: HTTPStatus, values: object, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with JSON."""
        self.answer(status, JSON, json.dumps(values).encode() + b"\n", headers)

    def answer_refused(self, refused: RequestRefused) -> None:
        """Answer a request that is refused."""
        self.answer(refused.status, "text/plain; charset=utf-8", f"{refused.reason}\n".encode())

    def answer(
        self, status: HTTPStatus, kind: str, body: bytes | None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with a body, or, if it is None, with a head that a body of unknown length follows."""
        self._is_answered = True
        self.close_connection |= body is None or self._left > 0
        self.connection.settimeout(WRITE_SECONDS)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if body is not None and self.command != "HEAD":
            self.wfile.write(body)

    def _linger(self) -> None:
        """Read for a while, so that a client that is still sending receives the answer."""
        left = _LINGER_BYTES
        self._incoming.deadline = time.monotonic() + _LINGER_SECONDS
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (data := self.rfile.read1(_READ_BYTES)):
                left -= len(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: standard error is for the run."""

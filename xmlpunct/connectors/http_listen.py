"""Receives a stream by POST: ``http-listen://HOST:PORT``.

The pieces posted, concatenated, are the stream, as over a socket. A piece is answered once it is durable::

    POST / HTTP/1.1
    Xmlpunct-Sequence: 17       the piece's number, from 0. A number that was accepted before is not accepted again
    Xmlpunct-Run: NAME          the run that numbers the pieces; a source accepts one run
    Xmlpunct-Last: 1            no piece follows
    Xmlpunct-Digest: HEX        identifies the piece and all pieces before it
    Xmlpunct-Link: HEX          the digest of the previous piece. A piece with another link is refused: the sender has
                                gone back to an older checkpoint

==================  =====================================================================
200                 the piece is durable: ``{"next": 18}``
400, 411, 413, 415  the request is invalid: too long, without a length, or of another encoding
408                 it arrived too slowly
401, 403, 404       wrong user or password, host, sender
409                 another number is next (``{"next": 16}``), or the number had another piece, or the link is wrong
429, 503            temporarily refused: send it again after the seconds in Retry-After
==================  =====================================================================

All headers are optional. A piece without a number is taken as the next piece: if it is sent twice, it is read twice.
"""

from __future__ import annotations

import base64
import codecs
import hmac
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

from xmlpunct.base.errors import TransientError
from xmlpunct.connectors.contract import Connector
from xmlpunct.connectors.host_check import LOOPBACK
from xmlpunct.connectors.http_server import HttpServer, RequestHandler, RequestRefused
from xmlpunct.connectors.inlet import Inlet, InletFile
from xmlpunct.connectors.source import Source, merged_source
from xmlpunct.connectors.url import Address, short
from xmlpunct.connectors.utf8_stream import encoding_of

RUN, SEQUENCE, LAST = "Xmlpunct-Run", "Xmlpunct-Sequence", "Xmlpunct-Last"
DIGEST, LINK = "Xmlpunct-Digest", "Xmlpunct-Link"
"""The headers of a piece."""
PIECE_BYTES = 2**25
"""Maximum size of a piece: the limit for an element."""
WAIT_SECONDS = 10.0
"""How long a piece waits until earlier pieces are accepted."""
HELD_BYTES = 4 * PIECE_BYTES
"""The most bytes of pieces in memory at once, arriving and waiting pieces together."""
_HEAD_BYTES = 4  # needed to detect an encoding
_FORM = "http-listen://HOST:PORT, and ?senders=a,b if several senders post, to /a and /b"
_log = logging.getLogger("xmlpunct")


class Listeners(Connector):
    """``http-listen://``."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        return Posted(Server(_address(spec)), sender)

    def senders(self, spec: str) -> Sequence[str]:
        return _address(spec).senders or ("",)

    def source(self, spec: str, name: str) -> Source:
        server = Server(_address(spec))  # one server for all senders
        senders = self.senders(spec)
        return merged_source(
            short(name), senders, lambda sender: InletFile(Posted(server, sender)), once=False
        )


def _address(spec: str) -> Address:
    return Address.parse(spec, _FORM, ("senders",), _is_port)


def _is_port(address: Address) -> bool:
    return (
        not address.path and address.port is not None and (address.user is None) == (address.password is None)
    )


class Posted(Inlet):
    """The pieces of one sender. A position holds the run, the next number, the last piece's digest and chain digest,
    the encoding, and whether the stream has ended."""

    can_seek = wants_acknowledgement = True

    def __init__(self, server: Server, sender: str) -> None:
        self._server, self._sender = server, sender
        self._turn = threading.Lock()  # held by the request whose piece is in progress
        self._changed = threading.Condition()
        self._offered: tuple[bytes, dict[str, Any]] | None = None
        self._is_reading = self._is_open = False
        self._stopped = False
        self._position: dict[str, Any] = {
            "run": None,
            "next": 0,
            "digest": None,
            "encoding": None,
            "ended": False,
        }

    def open(self, position: Any) -> None:
        self._position = position or self._position
        self._server.join(self._sender, self)
        self._is_open = True

    def read(self) -> tuple[bytes, Any] | None:
        with self._changed:
            if self._position["ended"]:
                return None
            self._changed.wait_for(
                lambda: self._stopped or (self._offered is not None and not self._is_reading)
            )
            if self._stopped or self._offered is None:
                return None
            self._is_reading = True
            self._changed.notify_all()
            return self._offered

    def acknowledge(self, position: Any) -> None:
        with self._changed:
            self._position = position
            self._offered, self._is_reading = None, False
            self._changed.notify_all()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Admits one piece at a time. Raises `RequestRefused`."""
        if not self._turn.acquire(timeout=WAIT_SECONDS):
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "another request is sending")
        try:
            yield
        finally:
            self._turn.release()

    def take(
        self,
        run: str | None,
        number: int | None,
        data: bytes,
        charset: str | None,
        is_last: bool,
        chain: tuple[str | None, str | None] = (None, None),
    ) -> int:
        """Wait until a piece is durable; returns the next number. Raises `RequestRefused`.

        ``chain``: the digests of the previous piece and of this one, as computed by the sender.
        """
        with self._changed:
            return self._take_locked(run, number, data, charset, is_last, chain)

    def _take_locked(
        self,
        run: str | None,
        number: int | None,
        data: bytes,
        charset: str | None,
        is_last: bool,
        chain: tuple[str | None, str | None],
    ) -> int:
        # A piece whose request timed out may still be in progress; only then can this one be compared with it.
        self._wait(lambda: self._offered is None)
        position = self._position
        digest = blake2b(data, digest_size=16).hexdigest()
        following: int = position["next"]
        if following and run != position["run"]:
            raise RequestRefused(
                HTTPStatus.CONFLICT,
                f"pieces of another run are being read: {position['run']}",
                next=following,
            )
        if number is not None and number < following:
            if is_last and not (position["ended"] and number == following - 1):
                raise RequestRefused(
                    HTTPStatus.CONFLICT, f"piece {number} was not the last one", next=following
                )
            if number == following - 1 and digest != position["digest"]:
                raise RequestRefused(HTTPStatus.CONFLICT, f"piece {number} had other content", next=following)
            return following
        if number is not None and number > following:
            raise RequestRefused(HTTPStatus.CONFLICT, f"piece {following} is next", next=following)
        if None not in (chain[0], position.get("chain")) and chain[0] != position["chain"]:
            reason = (
                f"piece {following - 1} had other content: the sender has returned to an older checkpoint"
            )
            raise RequestRefused(HTTPStatus.CONFLICT, reason, next=following)
        if position["ended"]:
            raise RequestRefused(HTTPStatus.CONFLICT, "nothing follows the last piece", next=following)
        if not following and (len(data) < _HEAD_BYTES or (data[:5] == b"<?xml" and b"?>" not in data)):
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, "the first piece is too short to detect its encoding", next=0
            )
        encoding = position["encoding"] if following else encoding_of(data)
        if charset is not None and not _agrees(charset, encoding):
            raise RequestRefused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"the charset in Content-Type is {charset}, but the stream began in {encoding}: send {encoding}",
                next=following,
            )
        next_position = {
            "run": run, "next": following + 1, "digest": digest, "encoding": encoding, "ended": is_last,
        } | ({} if chain[1] is None else {"chain": chain[1]})  # fmt: skip
        if not data:  # it only marks the end
            data = b"\n"
        self._offered = offered = data, next_position
        self._changed.notify_all()
        self._changed.wait_for(
            lambda: self._stopped or self._is_reading or self._offered is not offered, WAIT_SECONDS
        )
        if self._offered is offered and not self._is_reading:
            self._offered = None
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "the buffer is full", next=following)
        self._wait(lambda: self._position["next"] > following)
        return following + 1

    def _wait(self, is_so: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._stopped or is_so())
        if not is_so():
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the run is being stopped")

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        if self._is_open:
            self._is_open = False
            self._server.leave()


class Server:
    """A port, open from the first `join` of a sender until the last `leave`."""

    def __init__(self, address: Address) -> None:
        self.address, self.host = address, address.host or LOOPBACK
        self.inlets: dict[str, Posted] = {}
        self.most_bytes, self.held_bytes = PIECE_BYTES, HELD_BYTES
        self._used_bytes = self._open = 0
        self._lock = threading.Lock()
        self._server: HttpServer | None = None

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a piece in memory, with a function that raises `RequestRefused` above the limit."""
        piece_bytes = 0

        def count(size: int) -> None:
            nonlocal piece_bytes
            with self._lock:
                piece_bytes, self._used_bytes = piece_bytes + size, self._used_bytes + size
                if self._used_bytes > self.held_bytes:
                    raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "the buffer is full")

        try:
            yield count
        finally:
            with self._lock:
                self._used_bytes -= piece_bytes

    def join(self, sender: str, inlet: Posted) -> None:
        """Accept posts of a sender. Raises `SourceError` if the port cannot be opened."""
        with self._lock:
            self.inlets[sender] = inlet  # before the first post
            if self._server is None:
                self._server = self._begin()
            self._open += 1

    def _begin(self) -> HttpServer:
        try:
            server = HttpServer(self.host, self.address.port or 0, _Handler, pieces=self)
        except OSError as error:
            reason = f"cannot listen there: {error.strerror or error}"
            raise TransientError(self.address.name, reason) from None
        if not self.address.port:
            _log.warning("%s: listening on port %d", self.address.name, server.server_address[1])
        return server

    def leave(self) -> None:
        """Stop accepting posts of a sender. The last call waits for answers in progress, and closes the port."""
        with self._lock:
            self._open -= 1
            ending, self._server = (None, self._server) if self._open else (self._server, None)
        if ending is not None:
            ending.stop()


class _Handler(RequestHandler):
    pieces: Server

    def post(self) -> None:
        headers, pieces = self.headers, self.pieces
        inlet = self._addressed_inlet()
        if headers.get("Content-Encoding", "identity") != "identity":
            raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send it without Content-Encoding")
        if "Content-Length" not in headers:
            raise RequestRefused(HTTPStatus.LENGTH_REQUIRED, "send Content-Length")
        number = _number(text) if (text := headers.get(SEQUENCE)) is not None else None
        if text is not None and number is None:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{SEQUENCE} must be a number, 0 or more")
        with pieces.holding() as count:
            # Before its turn, so that other pieces need not wait for a slow body.
            data = self.read_body(pieces.most_bytes, count)
            with inlet.turn():
                is_last = headers.get(LAST, "0") == "1"
                charset, chain = headers.get_content_charset(), (headers.get(LINK), headers.get(DIGEST))
                following = inlet.take(headers.get(RUN), number, data, charset, is_last, chain)
        self.answer_json(HTTPStatus.OK, {"next": following})

    def _addressed_inlet(self) -> Posted:
        """The inlet that the request addresses. Raises `RequestRefused`."""
        headers, address = self.headers, self.pieces.address
        if address.user is not None:
            login = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
            if not hmac.compare_digest(headers.get("Authorization", "").encode(), f"Basic {login}".encode()):
                raise RequestRefused(
                    HTTPStatus.UNAUTHORIZED, "send the name and the password (Basic authentication)"
                )
        sender = self.path.partition("?")[0].removeprefix("/")
        if sender not in (address.senders or [""]):
            raise RequestRefused(HTTPStatus.NOT_FOUND, "no sender has this name")
        if (inlet := self.pieces.inlets.get(sender)) is None:
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the run is being started")
        return inlet

    def answer_refused(self, refused: RequestRefused) -> None:
        headers: dict[str, str] = {}
        if refused.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Basic realm="xmlpunct"'
        if refused.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            headers["Retry-After"] = "1"
        self.answer_json(refused.status, {"error": refused.reason} | refused.values, headers)


def _agrees(charset: str, encoding: str) -> bool:
    """True if bytes in a charset can be read as an encoding.

    >>> _agrees("us-ascii", "utf-8"), _agrees("utf-16le", "utf-16"), _agrees("iso-8859-1", "utf-8")
    (True, True, False)
    """
    try:
        sent, read = (codecs.lookup(name).name for name in (charset, encoding))
    except LookupError:
        return charset == encoding.lower()  # an unknown encoding: the run reports it
    is_wide = read.startswith(("utf-16", "utf-32"))
    return sent == read or (sent == "ascii" and not is_wide) or (is_wide and sent.startswith(read))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None

"""Pieces of a stream that are sent by POST: ``http-listen://HOST:PORT``.

What is posted, one piece behind the other, is the stream, as over a socket. A piece is answered once it is durable::

    POST / HTTP/1.1
    Xmlpunct-Sequence: 17       its number, from 0 on. A piece that was taken is not taken again
    Xmlpunct-Run: NAME          whose numbers they are; one source hears one run
    Xmlpunct-Last: 1            nothing follows
    Xmlpunct-Digest: HEX        tells it, and all pieces before it, from others
    Xmlpunct-Link: HEX          the digest of the piece before. Another one is refused: the sender has gone back to an
                                older checkpoint

==================  =====================================================================
200                 it is durable, or was before: ``{"next": 18}``
400, 411, 413, 415  it is no piece: too long, of unknown length, encoded otherwise
408                 it arrived too slowly
401, 403, 404       the wrong name or password, host, sender
409                 another number is next (``{"next": 16}``), or that one was another piece, or does not follow
429, 503            not now: send it again, after so many seconds as Retry-After says
==================  =====================================================================

All headers are optional. A piece without a number is the next one, whatever it is: who sends it again is heard twice.
"""

from __future__ import annotations

import base64
import codecs
import hmac
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

from xmlpunct.base.errors import TransientError, UsageError
from xmlpunct.connectors.contract import Connector, Inlet, InletFile
from xmlpunct.connectors.host_check import LOOPBACK
from xmlpunct.connectors.http_server import HttpServer, RequestHandler, RequestRefused
from xmlpunct.connectors.part_reader import encoding_of
from xmlpunct.connectors.source import Piece, Source, assembled, binary, merged
from xmlpunct.connectors.url import Address, short

RUN, SEQUENCE, LAST = "Xmlpunct-Run", "Xmlpunct-Sequence", "Xmlpunct-Last"
DIGEST, LINK = "Xmlpunct-Digest", "Xmlpunct-Link"
"""The headers of a piece."""
PIECE_BYTES = 2**25
"""So long a piece may be: as an element."""
WAIT_SECONDS = 10.0
"""So long a piece waits for those before it to be taken."""
HELD_BYTES = 4 * PIECE_BYTES
"""The most bytes of pieces in memory at once, arriving and waiting pieces together."""
_LAST_SECONDS = 1.0  # so long the end waits for those who are being answered
_HEAD_BYTES = 4  # by which an encoding is known
_WANTED = "http-listen://HOST:PORT, and ?senders=a,b where several post, to /a and /b"
_log = logging.getLogger("xmlpunct")


class Listeners(Connector):
    """``http-listen://``."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        return Posted(Server(_address(spec)), sender)

    def senders(self, spec: str) -> Sequence[str]:
        return _address(spec).senders or ("",)

    def source(self, spec: str, name: str) -> Source:
        server = Server(_address(spec))  # all senders post to one

        def one(sender: str) -> Source:
            called = f"{short(name)}#{sender}" if sender else short(name)
            return assembled(called, [Piece(called, None, lambda: binary(InletFile(Posted(server, sender))))])

        return merged(short(name), [one(sender) for sender in self.senders(spec)])


def _address(spec: str) -> Address:
    found = Address.parse(spec, _WANTED, ("senders",))
    if found.path or found.port is None or (found.user is None) != (found.password is None):
        raise UsageError(f"{found.name} is no address: write {_WANTED}")
    return found


class Posted(Inlet):
    """What one sender posts. A position holds the run, the number that is next, what the last piece was, the encoding,
    and whether it was the last of all."""

    can_seek = wants_acknowledgement = True

    def __init__(self, server: Server, sender: str) -> None:
        self._server, self._sender = server, sender
        self._turn = threading.Lock()  # of whoever posts
        self._changed = threading.Condition()
        self._offered: tuple[bytes, dict[str, Any]] | None = None
        self._is_reading = self._is_open = False
        self._stopped = False
        self._kept: dict[str, Any] = {
            "run": None,
            "next": 0,
            "digest": None,
            "encoding": None,
            "ended": False,
        }

    def open(self, position: Any) -> None:
        self._kept = position or self._kept
        self._server.join(self._sender, self)
        self._is_open = True

    def read(self) -> tuple[bytes, Any] | None:
        with self._changed:
            if self._kept["ended"]:
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
            self._kept = position
            self._offered, self._is_reading = None, False
            self._changed.notify_all()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One piece at a time. Raises `RequestRefused`."""
        if not self._turn.acquire(timeout=WAIT_SECONDS):
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "others are sending")
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
        """Come back when a piece is durable, with the number that is next. Raises `RequestRefused`.

        ``chain``: the digest of the piece before and its own, as the sender computes them.
        """
        with self._changed:
            return self._taken(run, number, data, charset, is_last, chain)

    def _taken(
        self,
        run: str | None,
        number: int | None,
        data: bytes,
        charset: str | None,
        is_last: bool,
        chain: tuple[str | None, str | None],
    ) -> int:
        # One that nobody waits for any more may still be on its way: then it is known whether this is the same.
        self._wait(lambda: self._offered is None)
        kept = self._kept
        digest = blake2b(data, digest_size=16).hexdigest()
        following: int = kept["next"]
        if following and run != kept["run"]:
            raise RequestRefused(
                HTTPStatus.CONFLICT, f"another run is being read: {kept['run']}", next=following
            )
        if number is not None and number < following:
            if is_last and not (kept["ended"] and number == following - 1):
                raise RequestRefused(HTTPStatus.CONFLICT, f"piece {number} was not the last", next=following)
            if number == following - 1 and digest != kept["digest"]:
                raise RequestRefused(HTTPStatus.CONFLICT, f"piece {number} was another one", next=following)
            return following
        if number is not None and number > following:
            raise RequestRefused(HTTPStatus.CONFLICT, f"piece {following} is next", next=following)
        if None not in (chain[0], kept.get("chain")) and chain[0] != kept["chain"]:
            reason = f"piece {following - 1} was another one: the sender has gone back to an older checkpoint"
            raise RequestRefused(HTTPStatus.CONFLICT, reason, next=following)
        if kept["ended"]:
            raise RequestRefused(HTTPStatus.CONFLICT, "nothing follows the last piece", next=following)
        if not following and (len(data) < _HEAD_BYTES or (data[:5] == b"<?xml" and b"?>" not in data)):
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, "the first piece is too short to be understood", next=0
            )
        encoding = kept["encoding"] if following else encoding_of(data)
        if charset is not None and not _agrees(charset, encoding):
            raise RequestRefused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"Content-Type says {charset}, and the stream is read as {encoding}, as it begins: send it so",
                next=following,
            )
        place = {
            "run": run, "next": following + 1, "digest": digest, "encoding": encoding, "ended": is_last,
        } | ({} if chain[1] is None else {"chain": chain[1]})  # fmt: skip
        if not data:  # it says no more than that it was the last
            data = b"\n"
        self._offered = offered = data, place
        self._changed.notify_all()
        self._changed.wait_for(
            lambda: self._stopped or self._is_reading or self._offered is not offered, WAIT_SECONDS
        )
        if self._offered is offered and not self._is_reading:
            self._offered = None
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "as much is held as may be", next=following)
        self._wait(lambda: self._kept["next"] > following)
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
    """A port, from when the first sender is waited for until the last one is not any more."""

    def __init__(self, address: Address) -> None:
        self.address, self.host = address, address.host or LOOPBACK
        self.inlets: dict[str, Posted] = {}
        self.most_bytes, self.held_bytes = PIECE_BYTES, HELD_BYTES
        self._held = self._open = 0
        self._lock = threading.Lock()
        self._server: HttpServer | None = None

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a piece that are in memory. The function that it gives raises `RequestRefused`."""
        own = 0

        def count(size: int) -> None:
            nonlocal own
            with self._lock:
                own, self._held = own + size, self._held + size
                if self._held > self.held_bytes:
                    raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, "as much is held as may be")

        try:
            yield count
        finally:
            with self._lock:
                self._held -= own

    def join(self, sender: str, inlet: Posted) -> None:
        """Let a sender post. Raises `SourceError` where that cannot be."""
        with self._lock:
            self.inlets[sender] = inlet  # before anybody can post
            if self._server is None:
                self._server = self._begin()
            self._open += 1

    def _begin(self) -> HttpServer:
        handler = type("Handler", (_Handler,), {"pieces": self, "host": self.host})
        try:
            made = HttpServer(self.host, self.address.port or 0, handler)
        except OSError as error:
            reason = f"cannot listen there: {error.strerror or error}"
            raise TransientError(self.address.name, reason) from None
        if not self.address.port:
            _log.warning("%s: listening on port %d", self.address.name, made.server_address[1])
        threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
        return made

    def leave(self) -> None:
        """Nobody reads any more what a sender posts. The last one to go waits for answers that are on their way."""
        with self._lock:
            self._open -= 1
            ending, self._server = (None, self._server) if self._open else (self._server, None)
        if ending is not None:
            ending.shutdown()
            ending.settle(_LAST_SECONDS)
            ending.server_close()


class _Handler(RequestHandler):
    pieces: Server

    def post(self) -> None:
        headers, pieces = self.headers, self.pieces
        inlet = self._meant()
        if headers.get("Content-Encoding", "identity") != "identity":
            raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send it as it is, not encoded")
        if "Content-Length" not in headers:
            raise RequestRefused(HTTPStatus.LENGTH_REQUIRED, "send Content-Length")
        number = _number(text) if (text := headers.get(SEQUENCE)) is not None else None
        if text is not None and number is None:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, f"{SEQUENCE} is a number, from 0 on")
        with pieces.holding() as count:
            data = self.read_body(
                pieces.most_bytes, count
            )  # before its turn: others need not wait for a slow one
            with inlet.turn():
                is_last = headers.get(LAST, "0") == "1"
                charset, chain = headers.get_content_charset(), (headers.get(LINK), headers.get(DIGEST))
                following = inlet.take(headers.get(RUN), number, data, charset, is_last, chain)
        self._answer(HTTPStatus.OK, {"next": following})

    def _meant(self) -> Posted:
        """The inlet that is to have the piece. Raises `RequestRefused`."""
        headers, address = self.headers, self.pieces.address
        if address.user is not None:
            who = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
            if not hmac.compare_digest(headers.get("Authorization", "").encode(), f"Basic {who}".encode()):
                raise RequestRefused(HTTPStatus.UNAUTHORIZED, "send the name and the password, as Basic")
        sender = self.path.partition("?")[0].removeprefix("/")
        if sender not in (address.senders or [""]):
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such sender")
        if (inlet := self.pieces.inlets.get(sender)) is None:
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the run is being started")
        return inlet

    def answer_refused(self, refused: RequestRefused) -> None:
        more: dict[str, str] = {}
        if refused.status == HTTPStatus.UNAUTHORIZED:
            more["WWW-Authenticate"] = 'Basic realm="xmlpunct"'
        if refused.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            more["Retry-After"] = "1"
        self._answer(refused.status, {"error": refused.reason} | refused.values, more)

    def _answer(
        self, status: HTTPStatus, values: Mapping[str, Any], more: Mapping[str, str] | None = None
    ) -> None:
        self.answer(status, "application/json", json.dumps(values).encode() + b"\n", more)


def _agrees(charset: str, encoding: str) -> bool:
    """Whether bytes that are in a charset can be read as an encoding.

    >>> _agrees("us-ascii", "utf-8"), _agrees("utf-16le", "utf-16"), _agrees("iso-8859-1", "utf-8")
    (True, True, False)
    """
    try:
        said, read = (codecs.lookup(name).name for name in (charset, encoding))
    except LookupError:
        return charset == encoding.lower()  # the run says that nobody knows it
    is_wide = read.startswith(("utf-16", "utf-32"))
    return said == read or (said == "ascii" and not is_wide) or (is_wide and said.startswith(read))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 19 else None

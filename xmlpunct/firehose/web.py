"""Documents that a web server sends: ``http://`` and ``https://``.

A connection that is cut is made again, some times and after longer and longer pauses, and the document read on from
where it was cut. That takes a server that says which document it sends, by ETag or Last-Modified: what is read on is
the same document, or it is an error. Certificates are checked (see `tls`).
"""

from __future__ import annotations

import base64
import http.client
import io
import socket
import ssl
import threading
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit

from xmlpunct.errors import SourceError, TransientError, UsageError, undoing
from xmlpunct.firehose.connectors import Connector
from xmlpunct.firehose.retries import Retries
from xmlpunct.firehose.source import Piece, Source, Window, assembled, bare, binary, pieces
from xmlpunct.firehose.steady import ChangedError
from xmlpunct.firehose.tls import client_context

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The seconds before each further try, as long as nothing comes."""
HEAD_SECONDS = 30.0
BODY_SECONDS = 60.0
"""How long to wait for more of a document whose length is known; others may be live, and silent."""
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_KEPT_BYTES = 2**18
_SKIPPED_BYTES = 2**18


class WebServers(Connector):
    """``http://`` and ``https://``: a document, or the members of an archive."""

    def source(self, spec: str, name: str) -> Source:
        return assembled(bare(name), _documents(spec))

    def is_endless(self, spec: str) -> bool:
        return False


def _documents(url: str) -> list[Piece]:
    """The document at a URL, which is connected to now, or its members."""
    first = WebFile(url)
    waiting, looking = [first], [Window(binary(first), 0)]

    def again() -> WebFile:
        return WebFile(url, first.entity)

    plain = Piece(first.name, None, lambda: binary(waiting.pop() if waiting else again()))
    with undoing(first.close):
        entity = first.start()
        if entity is None or entity.length is None:
            return [plain]  # it may be live, so that it is not waited for here
        parts = pieces(plain, lambda: binary(looking.pop() if looking else again()))
        first.seek(0)
    if parts[0] is not plain:
        first.close()
    return parts


@dataclass(frozen=True)
class Entity:
    """What a server sends: what tells it from others, and its length in bytes, as far as it says so."""

    validator: str | None
    length: int | None

    @classmethod
    def of(cls, headers: Mapping[str, str], length: int | None) -> Entity:
        """What an answer holds, or is a part of. A weak ETag does not say that the bytes are the same."""
        tag = headers.get("ETag", "")
        strong = tag if tag.startswith('"') else None
        return cls(strong or headers.get("Last-Modified"), length)

    def is_of(self, known: Entity, status: int) -> bool:
        """Whether an answer with this ``status`` gives the document known before."""
        if None not in (self.length, known.length) and self.length != known.length:
            return False
        # A part is sent on condition that the document is the same, and need not say again which it is.
        return self.validator == known.validator or (status == 206 and self.validator is None)


class WebFile(io.RawIOBase):
    """The document at a URL, from its first byte on; if it is known, that ``entity`` and no other.

    It is connected to by `start`, or by the first read.
    """

    def __init__(self, url: str, entity: Entity | None = None) -> None:
        self._url, self.name, self._authorization = read_url(url)
        self.entity = entity
        self._answer: http.client.HTTPResponse | None = None
        self._at = 0  # what is read next,
        self._coming = 0  # and what the answer gives next
        self._first = b""  # of the document, so that one can look at it and go back
        self._socket: socket.socket | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._retries = Retries(self.name, PAUSES)

    def readable(self) -> bool:
        return True

    def start(self) -> Entity | None:
        """Connect; what is sent, or None after `stop`. Raises `SourceError`."""
        self._persevere(lambda: b"")
        return self.entity

    def read(self, size: int = -1) -> bytes:
        """Some bytes, as soon as there are any; none at the end, or after `stop`. Raises `SourceError`."""
        if self.entity is not None and self.entity.length is not None and self._at >= self.entity.length:
            return b""
        if self._at < len(self._first):
            data = self._first[self._at : self._at + size]
        else:
            data = self._persevere(lambda: self._some(size))
            if self._at == len(self._first) < _KEPT_BYTES:
                self._first += data[: _KEPT_BYTES - len(self._first)]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte. Raises OSError where the end is not known."""
        if whence == io.SEEK_END and (self.entity is None or self.entity.length is None):
            raise io.UnsupportedOperation("the server does not say how long it is")
        length = self.entity.length if self.entity is not None and self.entity.length is not None else 0
        self._at = max({io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: length}[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def stop(self) -> None:
        """Let a read that waits in another thread come back, with nothing."""
        self._stopped.set()
        with self._lock:
            if self._socket is not None:
                with suppress(OSError):
                    # Not TLS's own, under which what is still to be read would come undeciphered.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        if not self.closed:
            self._stopped.set()
            self._drop()
        super().close()

    def _persevere(self, act: Any) -> bytes:
        """Connect if need be, and ``act``, as often as it takes."""
        while not self._stopped.is_set():
            try:
                if self._answer is None or not 0 <= self._at - self._coming <= _SKIPPED_BYTES:
                    self._drop()
                    self._connect()
                while self._coming < self._at and self._some(self._at - self._coming):
                    pass
                data: bytes = act()
                self._retries.progressed()
                return data
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                if self._stopped.is_set():
                    break
                if (pause := self._retries.failed(why(error))) is None:
                    what = f"cannot be read on from byte {self._at}" if self._at else "cannot be read"
                    raise TransientError(self.name, f"{what}: {why(error)}") from None
                self._stopped.wait(pause)
        return b""

    def _some(self, size: int) -> bytes:
        """What the answer gives next. Raises OSError where it is cut."""
        assert self._answer is not None
        left = None if self.entity is None or self._answer.chunked else self.entity.length
        if left is not None and not (size := min(size, left - self._coming)):
            return b""
        data = self._answer.read1(size)
        if not data and left is not None:
            raise OSError(0, f"the connection was cut at byte {self._coming} of {left}")
        self._coming += len(data)
        return data

    def _connect(self) -> None:
        """Ask for the document, from where it is to be read on."""
        begin, known = self._at, self.entity
        request = urllib.request.Request(
            self._url, headers={"User-Agent": "xmlpunct", "Accept-Encoding": "identity"}
        )
        if self._authorization:
            request.add_unredirected_header("Authorization", self._authorization)
        if begin and known is not None:
            if known.validator is None:
                what = "the server gives no ETag or Last-Modified by which to know it again"
                raise SourceError(
                    self.name, f"cannot be read on from byte {begin}, where the connection ended: {what}"
                )
            request.add_header("Range", f"bytes={begin}-")
            request.add_header("If-Range", known.validator)
        try:
            answer = opener(self._keep).open(request, timeout=HEAD_SECONDS)
        except HTTPError as error:
            with error:
                if error.code in TRY_AGAIN:
                    raise OSError(0, f"the server says {error.code} {error.reason}") from None
                raise TransientError(self.name, f"the server says {error.code} {error.reason}") from None
        except http.client.InvalidURL as error:
            raise UsageError(f"{self.name} is no address: {error}") from None
        except OSError as error:
            if isinstance(reason := getattr(error, "reason", error), ssl.SSLCertVerificationError):
                raise TransientError(
                    self.name, f"its certificate is not valid: {reason.verify_message}"
                ) from None
            raise
        self._answer, self._coming = answer, 0
        length = _length(answer)
        if answer.status == 206:
            self._coming, length = _range(answer)
        found = Entity.of(answer.headers, length)
        if (encoding := answer.headers.get("Content-Encoding", "identity")) not in (
            "identity",
            "gzip",
            "x-gzip",
        ):
            raise SourceError(
                self.name, f"the server sends it encoded as {encoding}, which it was not asked for"
            )
        if (
            known is not None
            and begin
            and not (found.is_of(known, answer.status) and self._coming in (0, begin))
        ):
            raise ChangedError.of(
                self.name, f"the server had another document when byte {begin} was asked for"
            )
        self.entity = known or found
        if self._socket is not None:
            self._socket.settimeout(None if length is None else BODY_SECONDS)

    def _keep(self, made: socket.socket) -> None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with self._lock:
            self._socket = made
        if self._stopped.is_set():
            raise OSError(0, "nobody wants it any more")

    def _drop(self) -> None:
        with self._lock:
            answer, self._answer, self._socket = self._answer, None, None
        if answer is not None:
            answer.close()


def _length(answer: http.client.HTTPResponse) -> int | None:
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and not answer.chunked else None


def _range(answer: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where a part of a document begins, and how long all of it is."""
    unit, _, told = answer.headers.get("Content-Range", "").partition(" ")
    place, _, length = told.partition("/")
    begin = place.partition("-")[0]
    if unit.lower() != "bytes" or not begin.isdecimal():
        raise OSError(0, "the server sends a part of it and does not say which")
    return int(begin), int(length) if length.isdecimal() else None


def read_url(url: str) -> tuple[str, str, str]:
    """A URL without name and password, without what follows #, and how it is told; and what says who asks."""
    try:
        found = urlsplit(url)
        if not found.hostname or (found.port is not None and not found.port):
            raise ValueError("it names no host")
    except ValueError as error:
        raise UsageError(f"{url} is no address: {error}") from None
    host = found.netloc.rpartition("@")[2]
    bare = urlunsplit(found._replace(netloc=host, fragment=""))
    if found.username is None:
        return bare, url, ""
    who = f"{unquote(found.username)}:{unquote(found.password or '')}"
    return bare, bare, "Basic " + base64.b64encode(who.encode()).decode()


def why(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection was cut"
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)


def opener(keep: Any, follows: bool = True) -> urllib.request.OpenerDirector:
    """What goes through proxies, and ``follows`` redirections, to web servers only. ``keep`` is given the socket."""

    class Plain(http.client.HTTPConnection):
        def connect(self) -> None:
            super().connect()
            keep(self.sock)

    class Safe(http.client.HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            keep(self.sock)

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(Plain, request)

    class SafeHandler(urllib.request.HTTPSHandler):
        def https_open(self, request: Any) -> Any:
            return self.do_open(Safe, request, context=client_context())

    made = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        *([urllib.request.HTTPRedirectHandler()] if follows else []),
        urllib.request.HTTPErrorProcessor(),
        PlainHandler(),
        SafeHandler(),
    ):
        made.add_handler(handler)
    return made

"""Documents of web servers: ``http://`` and ``https://``.

After a lost connection it connects again, a few times and with increasing pauses, and continues at the byte where the
connection ended. This requires that the server identifies the document, by ETag or Last-Modified: if it has another
document by then, that is an error. Certificates are verified (see `tls`).
"""

from __future__ import annotations

import base64
import http.client
import io
import re
import socket
import ssl
import threading
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, replace
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from xmlpunct.base.errors import SourceError, TransientError, UsageError, undoing
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.library_guard import library_reason as foreign_why
from xmlpunct.connectors.contract import Connector
from xmlpunct.connectors.retries import Retries
from xmlpunct.connectors.source import (
    ChangedError,
    FileWindow,
    Source,
    UnopenedPart,
    assembled,
    binary,
    member_pieces,
    without_password,
)
from xmlpunct.connectors.tls import client_context, end_reads

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The seconds before each further try, while no data arrive."""
HEAD_SECONDS = 30.0
BODY_SECONDS = 60.0
"""How long to wait for more of a document of known length; other documents may be live streams with long pauses."""
TRY_AGAIN = (408, 425, 429, 500, 502, 503, 504)
CUTS: tuple[type[Exception], ...] = (OSError, http.client.HTTPException)
"""The errors after which to try again: those of a connection, not of its data."""
_ENCODINGS = {"", "identity", "gzip", "x-gzip"}
_NUMBER = re.compile("[0-9]{1,18}")
_RANGE = re.compile("bytes +([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", re.IGNORECASE)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_BUFFERED_BYTES = 2**18
_SKIPPED_BYTES = 2**18


class WebServers(Connector):
    """``http://`` and ``https://``: a document, or the members of an archive."""

    def source(self, spec: str, name: str) -> Source:
        return assembled(without_password(name), _documents(spec))

    def is_endless(self, spec: str) -> bool:
        return False


def _documents(url: str) -> list[UnopenedPart]:
    """The document at a URL, or its members if it is an archive. It connects."""
    first = WebFile(url)
    unused, windows = [first], [FileWindow(binary(first), 0)]

    def reopen() -> WebFile:
        return WebFile(url, first.entity)

    plain = UnopenedPart(first.name, None, lambda: binary(unused.pop() if unused else reopen()))
    with undoing(first.close):
        entity = first.start()
        if entity is None or entity.length is None:
            return [plain]  # it may be a live stream, whose first bytes are not awaited here
        parts = member_pieces(plain, lambda: binary(windows.pop() if windows else reopen()))
        first.seek(0)
    if parts[0] is not plain:
        first.close()
    return parts


@dataclass(frozen=True)
class Entity:
    """The version of a document: its validator and its length in bytes, each None if unknown."""

    validator: str | None
    length: int | None

    @classmethod
    def of(cls, headers: Message, length: int | None) -> Entity:
        """The document in an answer, whole or in part. A weak ETag does not guarantee the same bytes."""
        tag = headers.get("ETag", "")
        strong = tag if tag.startswith('"') else None
        return cls(strong or headers.get("Last-Modified"), length)

    def is_of(self, earlier: Entity, status: int) -> bool:
        """True if an answer with this ``status`` holds the same document as an earlier one."""
        if None not in (self.length, earlier.length) and self.length != earlier.length:
            return False
        # A partial answer is conditional on the same document, and need not repeat the validator.
        return self.validator == earlier.validator or (status == 206 and self.validator is None)


class WebFile(io.RawIOBase):
    """The document at a URL as a file. With an ``entity``, it must be that version of the document.

    `start`, or the first read, connects.
    """

    def __init__(self, url: str, entity: Entity | None = None) -> None:
        self._url, self.name, self._authorization = read_url(url)
        self.entity = entity
        self._answer: http.client.HTTPResponse | None = None
        self._at = 0  # offset of the next byte to read
        self._coming = 0  # offset of the next byte in the answer
        self._first = b""  # the document's first bytes, to seek back after archive detection
        self._socket: socket.socket | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._retries = Retries(self.name, PAUSES)

    def readable(self) -> bool:
        return True

    def start(self) -> Entity | None:
        """Connect; returns the document's version, or None after `stop`. Raises `SourceError`."""
        self._persevere(lambda: b"")
        return self.entity

    def read(self, size: int = -1) -> bytes:
        """Wait for bytes; empty at the end, or after `stop`. Raises `SourceError`."""
        if self.entity is not None and self.entity.length is not None and self._at >= self.entity.length:
            return b""
        if self._at < len(self._first):
            data = self._first[self._at : self._at + size]
        else:
            data = self._persevere(lambda: self._read_some(size))
            if self._at == len(self._first) < _BUFFERED_BYTES:
                self._first += data[: _BUFFERED_BYTES - len(self._first)]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte. Raises OSError for an offset from an unknown end."""
        if whence == io.SEEK_END and (self.entity is None or self.entity.length is None):
            raise io.UnsupportedOperation("the server does not send its length")
        length = self.entity.length if self.entity is not None and self.entity.length is not None else 0
        self._at = max({io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: length}[whence] + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def stop(self) -> None:
        """Let a read that waits in another thread return no bytes."""
        self._stopped.set()
        with self._lock:
            if self._socket is not None:
                end_reads(self._socket)

    def close(self) -> None:
        if not self.closed:
            self._stopped.set()
            self._drop()
        super().close()

    def _persevere(self, act: Any) -> bytes:
        """Connect if necessary, and call ``act``; retry both after connection errors."""
        problem = f"cannot be read on from byte {self._at}" if self._at else "cannot be read"
        while not self._stopped.is_set():
            try:
                with guarded(self.name, problem, passing=CUTS):
                    if self._answer is None or not 0 <= self._at - self._coming <= _SKIPPED_BYTES:
                        self._drop()
                        self._connect()
                    while self._coming < self._at and self._read_some(self._at - self._coming):
                        pass
                    data: bytes = act()
                    self._retries.progressed()
                    return data
            except CUTS as error:
                self._drop()
                if self._stopped.is_set():
                    break
                if (pause := self._retries.failed(connection_reason(error))) is None:
                    raise TransientError(
                        self.name, f"{problem}: {connection_reason(error)}", None, self._at
                    ) from None
                self._stopped.wait(pause)
        return b""

    def _read_some(self, size: int) -> bytes:
        """The next bytes of the answer. Raises OSError if it is cut."""
        assert self._answer is not None
        length = None if self.entity is None else self.entity.length
        if length is not None and not (size := min(size, length - self._coming)):
            return b""
        data = self._answer.read1(size)
        if not data and length is not None:
            raise OSError(0, f"the connection was cut at byte {self._coming} of {length}")
        self._coming += len(data)
        return data

    def _connect(self) -> None:
        """Request the document from the current offset."""
        begin, prior = self._at, self.entity
        request = urllib.request.Request(
            self._url, headers={"User-Agent": "xmlpunct", "Accept-Encoding": "identity"}
        )
        if self._authorization:
            request.add_unredirected_header("Authorization", self._authorization)
        if begin and prior is not None:
            if prior.validator is None:
                cause = "the server sends no ETag or Last-Modified to identify the document"
                raise SourceError(
                    self.name, f"cannot be read on from byte {begin}, where the connection ended: {cause}"
                )
            request.add_header("Range", f"bytes={begin}-")
            request.add_header("If-Range", prior.validator)
        try:
            answer = opener(self._keep).open(request, timeout=HEAD_SECONDS)
        except HTTPError as error:
            with error:
                if error.code in TRY_AGAIN:
                    raise OSError(0, f"the server answered {error.code} {error.reason}") from None
                raise TransientError(self.name, f"the server answered {error.code} {error.reason}") from None
        except http.client.InvalidURL as error:
            raise UsageError(f"{self.name} is no address: {error}") from None
        except OSError as error:
            if isinstance(reason := getattr(error, "reason", error), ssl.SSLCertVerificationError):
                raise TransientError(
                    self.name, f"its certificate is not valid: {reason.verify_message}"
                ) from None
            raise
        self._answer = answer
        self._coming, length = self._content_range(answer, asked=begin)
        if (encodings := _header_values(answer, "Content-Encoding")) - _ENCODINGS:
            names = ", ".join(sorted(encodings))
            raise SourceError(
                self.name, f"the server sent it with the encoding {names}, which was not requested"
            )
        sent = Entity.of(answer.headers, length)
        if prior is not None and not sent.is_of(prior, answer.status):
            raise ChangedError.of(
                self.name, f"the server had another document when byte {begin} was requested"
            )
        # A whole document may be of unknown length; a partial answer has its length.
        self.entity = (
            sent if prior is None else replace(prior, length=length if prior.length is None else prior.length)
        )
        if self._socket is not None:
            self._socket.settimeout(None if length is None else BODY_SECONDS)

    def _content_range(self, answer: http.client.HTTPResponse, asked: int) -> tuple[int, int | None]:
        """The offset at which an answer begins, and the document's length if it has one.

        Raises `SourceError` for a part that does not begin at the byte ``asked`` (0: the whole document), and for an
        invalid length.
        """
        if answer.status == HTTPStatus.PARTIAL_CONTENT:
            text = answer.headers.get("Content-Range", "").strip()
            if (part := _RANGE.fullmatch(text)) is not None:
                begin, end, length = map(int, part.groups())
                if begin == asked <= end < length and (asked or end + 1 == length):
                    return begin, length
            sent = f"{text[:100]!r} as Content-Range" if text else "a part of it without Content-Range"
            requested = f"bytes {asked}- were requested" if asked else "the whole document was requested"
            raise SourceError(self.name, f"the server sent {sent}, but {requested}")
        lengths = set() if answer.chunked else _header_values(answer, "Content-Length")
        if any(not _NUMBER.fullmatch(length) for length in lengths) or len(lengths) > 1:
            text = ", ".join(sorted(lengths))[:100]
            raise SourceError(self.name, f"the server sends {text!r} as Content-Length, which is no length")
        return 0, int(lengths.pop()) if lengths else None

    def _keep(self, socket_: socket.socket) -> None:
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with self._lock:
            self._socket = socket_
        if self._stopped.is_set():
            raise OSError(0, "the read was cancelled")

    def _drop(self) -> None:
        with self._lock:
            answer, self._answer, self._socket = self._answer, None, None
        if answer is not None:
            answer.close()


def _header_values(answer: http.client.HTTPResponse, header: str) -> set[str]:
    """The distinct values of a header, in lower case: it may be repeated, and each may be a list."""
    texts = ",".join(answer.headers.get_all(header, [])).lower().split(",")
    return {text.strip() for text in texts} - {""}


def read_url(url: str) -> tuple[str, str, str]:
    """(request URL, displayed URL, Authorization header): without password and fragment; the request URL is ASCII."""
    try:
        ascii_url, user, password = _in_ascii(url)
    except Exception:  # its text may quote a part of a password
        raise UsageError(
            f"{url} is no address: write http://HOST:PORT/PATH, and %40, %2F for @, / in a password"
        ) from None
    if user is None:
        return ascii_url, url, ""
    credentials = f"{unquote(user)}:{unquote(password or '')}"
    parts = urlsplit(url)
    displayed = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    return ascii_url, displayed, "Basic " + base64.b64encode(credentials.encode()).decode()


def _in_ascii(url: str) -> tuple[str, str | None, str | None]:
    """A URL in ASCII, and the user and password in it. Raises ValueError for a URL without a valid host.

    Its host is encoded as IDNA, and other characters beyond ASCII as percent-encoded UTF-8.

    >>> _in_ascii("http://me:pw@b\u00fccher.example:80/\u00e4?q=\u00f6#x")
    ('http://xn--bcher-kva.example:80/%C3%A4?q=%C3%B6', 'me', 'pw')
    """
    parts = urlsplit(url)
    if not parts.hostname or (parts.port is not None and not parts.port):
        raise ValueError("it names no host")
    host = parts.hostname.encode("idna").decode()  # raises for an invalid host name
    netloc = parts.netloc.rpartition("@")[2]
    if not netloc.isascii():
        netloc = host if parts.port is None else f"{host}:{parts.port}"
    url_ = urlunsplit(parts._replace(netloc=netloc, fragment=""))
    return _BEYOND_ASCII.sub(lambda match: quote(match[0]), url_), parts.username, parts.password


def connection_reason(error: BaseException) -> str:
    """The reason of a connection error."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, http.client.IncompleteRead):
        return "the connection was cut"
    return foreign_why(reason) if isinstance(reason, BaseException) else str(reason)


def _decoded_header(header: str) -> str:
    """A header's text as UTF-8, if it is valid UTF-8: http.client decodes headers as Latin-1."""
    with suppress(UnicodeError):
        return header.encode("latin-1").decode()
    return header


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections to web servers, to each URL once."""

    max_repeats = 1
    inf_msg = "in a circle of redirections: "

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """Follow the answer's Location. Raises HTTPError if it is no URL of a web server."""
        location = _decoded_header(headers.get("Location", ""))
        try:
            url, _, _ = _in_ascii(urljoin(req.full_url, location))
            is_web = urlsplit(url).scheme in ("http", "https")
        except ValueError:
            is_web = False
        if not is_web:
            message = f"{msg}, to {location[:200]!r}, which is no address of a web server"
            raise HTTPError(req.full_url, code, message, headers, fp)
        fp.close()  # its body may be endless
        if location:
            headers.replace_header("Location", url)
        return super().http_error_302(req, io.BytesIO(), code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def opener(keep: Any, follows: bool = True) -> urllib.request.OpenerDirector:
    """An opener for web servers that uses proxies, and ``follows`` redirections. ``keep`` receives each socket."""

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

    director = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        *([Redirects()] if follows else []),
        urllib.request.HTTPErrorProcessor(),
        PlainHandler(),
        SafeHandler(),
    ):
        director.add_handler(handler)
    return director

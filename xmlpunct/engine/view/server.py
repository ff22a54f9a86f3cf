"""The live view over HTTP: the page, its events, the moment as JSON, numbers for Prometheus, and health.

==================  =====================================================================
``/``               the page, which updates itself
``/events``         each new moment, as server-sent events
``/state``          the latest moment, as JSON
``/metrics``        the same numbers for Prometheus
``/why?hour=17``    what the results that match wait for, as JSON
``/say``            POST: say a punctuation in a stream's place, ``{"input": ..., "punctuation": ...}``
``/partial``        what the query would still answer if all inputs ended now, as JSON
``/healthz``        200 while the run goes on or has ended well, 503 once it has failed
==================  =====================================================================

Nothing can be changed from here but by ``/say``, which a run has to allow. Browsers are asked by a Host header whom
they mean: a page of somebody else's, whose name was made to lead here, gets nothing.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from xmlpunct.engine.plan import Query
from xmlpunct.engine.stats import RunStats
from xmlpunct.engine.view.drawing import draw
from xmlpunct.engine.view.moment import Moment, waiting
from xmlpunct.engine.view.talk import Talk
from xmlpunct.engine.view.view import View
from xmlpunct.errors import UsageError, XmlPunctError
from xmlpunct.firehose import writer_for
from xmlpunct.firehose.hosts import LOOPBACK, is_meant, is_own_page
from xmlpunct.slice import Slice

MOST_SAID = 2**20
"""So many bytes a punctuation may take that is said."""
MOST_SHOWN = 1000
"""So many tuples of a provisional answer the page is sent."""
_BEAT_SECONDS = 5.0
"""After so long without news something is sent, so that a lost connection is noticed."""
_JSON = "application/json"
"""What is said is of this type, which a browser lets no other site's page send unasked."""
_LAST_SECONDS = 1.0
"""So long the end waits for those who look, to see the last moment."""


def read_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``PORT``; loopback unless told otherwise. Raises `UsageError`.

    >>> read_address("8080"), read_address("0.0.0.0:80"), read_address("[::1]:8080")
    (('127.0.0.1', 8080), ('0.0.0.0', 80), ('::1', 8080))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"--http {text}: write HOST:PORT, as in 127.0.0.1:8080, or a port from 0 to 65535")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def as_event(moment: Moment) -> dict[str, Any]:
    """What the page is sent: the moment, its picture, and who waits for whom in words."""
    return moment.as_dict() | {"picture": draw(moment), "waiting": list(waiting(moment))}


def _partial_of(stats: RunStats, query: Query) -> bytes:
    """The answer as JSON, whose rows are as in jsonl."""
    if stats.gauges is None:
        raise UsageError("the run has not begun")
    answer = stats.gauges.partial()
    shown = answer.head(MOST_SHOWN)
    rows = writer_for("jsonl", query.root.schema).body(Slice(shown)).splitlines()
    values = {"partial": True, "columns": answer.columns, "tuples": answer.height}
    return b'%s, "shown": [%s]}\n' % (json.dumps(values).encode()[:-1], b", ".join(rows))


class ViewServer:
    """Serves a view from when it is made until it is closed. Raises `UsageError` where it cannot listen."""

    def __init__(self, view: View, address: tuple[str, int], talk: Talk | None = None) -> None:
        self._over = threading.Event()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        handler = type(
            "Handler", (_Handler,), {"view": view, "over": self._over, "host": address[0], "talk": talk}
        )
        server = type("Server", (_Server,), {"address_family": family})
        try:
            self._server = server(address, handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"--http {address[0]}:{address[1]}: cannot listen there: {reason}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        host, port = self._server.server_address[:2]
        shown = f"[{host}]" if ":" in str(host) else host
        return f"http://{shown}:{port}/"

    def __enter__(self) -> ViewServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.settle(_LAST_SECONDS)
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._idle = threading.Condition()
        self._busy = 0
        super().__init__(address, handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._idle:
            self._busy += 1
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def settle(self, seconds: float) -> None:
        """Wait until nobody is being served, but no longer than that."""
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, seconds)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever looked has gone."""


class _Handler(BaseHTTPRequestHandler):
    view: View
    over: threading.Event
    host: str
    talk: Talk | None
    timeout = 30
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "xmlpunct", ""

    def do_GET(self) -> None:
        if not self._is_meant():
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"this is not the host you asked for\n")
            return
        path = self.path.partition("?")[0]
        pages: dict[str, Callable[[], None]] = {
            "/": self._page,
            "/events": self._events,
            "/state": self._state,
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/partial": self._partial,
            "/why": self._why,
        }
        if path in pages:
            with suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
                pages[path]()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"nothing is here\n")

    def do_POST(self) -> None:
        if not (self._is_meant() and self._is_ours()):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"other pages cannot say anything here\n")
        elif self.headers.get("Content-Type", "").partition(";")[0].strip().lower() != _JSON:
            self._told(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send it with Content-Type: {_JSON}")
        elif self.path != "/say":
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"nothing is here\n")
        elif self.talk is None or not self.talk.may_say:
            self._told(HTTPStatus.FORBIDDEN, "the run does not allow that: start it with --allow-say")
        else:
            self._say(self.talk)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def _is_meant(self) -> bool:
        """Whether the Host header names this server: by an address, or by the name it listens on."""
        return is_meant(self.headers.get("Host", ""), self.host)

    def _is_ours(self) -> bool:
        """Whether a request to change something comes from our page, or from no page."""
        return is_own_page(self.headers.get("Origin"), self.headers.get("Host", ""))

    def _say(self, talk: Talk) -> None:
        try:
            size = int(self.headers.get("Content-Length", 0))
            asked = json.loads(self.rfile.read(max(0, min(size, MOST_SAID))))
            talk.say(asked["input"], asked["punctuation"])
        except XmlPunctError as error:
            self._told(HTTPStatus.BAD_REQUEST, str(error))
        except (ValueError, TypeError, KeyError):
            self._told(HTTPStatus.BAD_REQUEST, 'send {"input": NAME, "punctuation": PATTERNS}')
        else:
            self._json(HTTPStatus.OK, {"said": True})

    def _why(self) -> None:
        if self.talk is None:
            self._told(HTTPStatus.NOT_FOUND, "nothing is here")
            return
        wanted = dict(parse_qsl(self.path.partition("?")[2], keep_blank_values=True))
        try:
            self._json(HTTPStatus.OK, self.talk.why(wanted))
        except XmlPunctError as error:
            self._told(HTTPStatus.BAD_REQUEST, str(error))

    def _told(self, status: HTTPStatus, text: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _page(self) -> None:
        page = files("xmlpunct.engine.view").joinpath("page.html").read_bytes()
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", page)

    def _state(self) -> None:
        self._json(HTTPStatus.OK, self.view.latest.as_dict())

    def _metrics(self) -> None:
        from xmlpunct.engine.view.metrics import CONTENT_TYPE, metrics  # few ask, and it takes a while

        self._answer(HTTPStatus.OK, CONTENT_TYPE, metrics(self.view.latest))

    def _health(self) -> None:
        state = self.view.latest.state
        bad = state == "failed"
        self._json(HTTPStatus.SERVICE_UNAVAILABLE if bad else HTTPStatus.OK, {"state": state})

    def _partial(self) -> None:
        try:
            answer = self.view.ask(lambda stats: _partial_of(stats, self.view.query))
        except XmlPunctError as error:
            self._json(HTTPStatus.CONFLICT, {"error": str(error)})
        except TimeoutError:
            self._json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the run is busy, or over"})
        else:
            self._answer(HTTPStatus.OK, _JSON, answer)

    def _events(self) -> None:
        self._head(HTTPStatus.OK, "text/event-stream", None)
        if self.command == "HEAD":
            return
        number = -1
        while True:
            last = self.over.is_set()
            later, moment = self.view.after(number, 0.0 if last else _BEAT_SECONDS)
            text = f"data: {json.dumps(as_event(moment))}\n\n" if later > number else ": still here\n\n"
            self.wfile.write(text.encode())
            self.wfile.flush()
            number = later
            if last or moment.state not in ("starting", "running"):
                return

    def _json(self, status: HTTPStatus, values: Any) -> None:
        self._answer(status, _JSON, json.dumps(values).encode() + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        else:
            self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header(
            "Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
        )
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Standard error is for the run."""

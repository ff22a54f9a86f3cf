"""The live view over HTTP: the page, its events, the moment as JSON, numbers for Prometheus, and health.

==================  =====================================================================
``/``               the page, which updates itself
``/events``         each new moment, as server-sent events
``/state``          the latest moment, as JSON
``/metrics``        the same numbers for Prometheus
``/why?hour=17``    the punctuations that matching results wait for, as JSON
``/say``            POST: inject a punctuation, ``{"input": ..., "punctuation": ...}``;
                    200 when it is durable
``/partial``        the results that would follow if all inputs ended now, as JSON
``/healthz``        503 if the run has failed, else 200
==================  =====================================================================

Only ``/say`` changes the run, and only with ``--allow-say``. `http_server` refuses requests from other sites.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl

from xmlpunct.base.errors import UsageError, XmlPunctError
from xmlpunct.connectors.host_check import LOOPBACK
from xmlpunct.connectors.http_server import JSON, HttpServer, RequestHandler, RequestRefused
from xmlpunct.engine.plan import Query
from xmlpunct.engine.run.stats import RunStats
from xmlpunct.engine.view.chart import draw_history
from xmlpunct.engine.view.drawing import draw
from xmlpunct.engine.view.moment import Moment, waiting
from xmlpunct.engine.view.talk import Talk
from xmlpunct.engine.view.view import View
from xmlpunct.firehose import writer_for
from xmlpunct.slice import Slice

MOST_SAID = 2**20
"""Maximum size of an injected punctuation, in bytes."""
MOST_SHOWN = 1000
"""Maximum number of tuples of a provisional result that are sent to the page."""
_BEAT_SECONDS = 5.0
"""Interval of keep-alive comments, by which a lost connection is detected."""


def read_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``:PORT`` or ``PORT``; the default host is loopback. Raises `UsageError`.

    >>> read_address("8080"), read_address("0.0.0.0:80"), read_address("[::1]:8080")
    (('127.0.0.1', 8080), ('0.0.0.0', 80), ('::1', 8080))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"--http {text}: write HOST:PORT, as in 127.0.0.1:8080, or a port from 0 to 65535")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


def as_event(moment: Moment) -> dict[str, Any]:
    """An event for the page: the moment, its pictures, and sentences about silent inputs."""
    pictures = {"picture": draw(moment), "charts": draw_history(moment.history)}
    return moment.as_dict() | pictures | {"waiting": list(waiting(moment))}


def _partial_of(stats: RunStats, query: Query) -> bytes:
    """The provisional result as JSON, with rows as in jsonl."""
    if stats.gauges is None:
        raise UsageError("the run has not begun")
    answer = stats.gauges.partial()
    first_tuples = answer.head(MOST_SHOWN)
    rows = writer_for("jsonl", query.root.schema).body(Slice(first_tuples)).splitlines()
    values = {"partial": True, "columns": answer.columns, "tuples": answer.height}
    return b'%s, "shown": [%s]}\n' % (json.dumps(values).encode()[:-1], b", ".join(rows))


class ViewServer:
    """Serves a view from construction until it is closed. Raises `UsageError` if it cannot listen."""

    def __init__(self, view: View, address: tuple[str, int], talk: Talk | None = None) -> None:
        self._is_over = threading.Event()
        try:
            self._server = HttpServer(*address, _Handler, view=view, over=self._is_over, talk=talk)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"--http {address[0]}:{address[1]}: cannot listen there: {reason}") from None

    @property
    def url(self) -> str:
        """The URL of the page."""
        host, port = self._server.socket.getsockname()[:2]
        url_host = f"[{host}]" if ":" in host else host
        return f"http://{url_host}:{port}/"

    def __enter__(self) -> ViewServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._server.stop()


class _Handler(RequestHandler):
    view: View
    over: threading.Event
    talk: Talk | None

    def get(self) -> None:
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
        if path not in pages:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such page")
        pages[path]()

    def post(self) -> None:
        # Browsers do not let other sites send JSON without asking the server first.
        if self.headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send it with Content-Type: {JSON}")
        if self.path != "/say":
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such page")
        if self.talk is None or not self.talk.may_say:
            reason = "the run does not allow that: start it with --allow-say"
            raise RequestRefused(HTTPStatus.FORBIDDEN, reason)
        try:
            request = json.loads(self.read_body(MOST_SAID))
            self.talk.say(request["input"], request["punctuation"])
        except XmlPunctError as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error)) from None
        except TimeoutError:
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the run is busy, or over") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            reason = 'send {"input": NAME, "punctuation": PATTERNS}'
            raise RequestRefused(HTTPStatus.BAD_REQUEST, reason) from None
        self.answer_json(HTTPStatus.OK, {"said": True})

    def _why(self) -> None:
        if self.talk is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such page")
        patterns = dict(parse_qsl(self.path.partition("?")[2], keep_blank_values=True))
        try:
            waits = self.talk.why(patterns)
        except XmlPunctError as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error)) from None
        self.answer_json(HTTPStatus.OK, waits)

    def _page(self) -> None:
        page = files("xmlpunct.engine.view").joinpath("page.html").read_bytes()
        self.answer(HTTPStatus.OK, "text/html; charset=utf-8", page)

    def _state(self) -> None:
        self.answer_json(HTTPStatus.OK, self.view.latest.as_dict())

    def _metrics(self) -> None:
        from xmlpunct.engine.view.metrics import CONTENT_TYPE, metrics  # rarely used and slow to import

        self.answer(HTTPStatus.OK, CONTENT_TYPE, metrics(self.view.latest))

    def _health(self) -> None:
        state = self.view.latest.state
        bad = state == "failed"
        self.answer_json(HTTPStatus.SERVICE_UNAVAILABLE if bad else HTTPStatus.OK, {"state": state})

    def _partial(self) -> None:
        try:
            answer = self.view.ask(lambda stats: _partial_of(stats, self.view.query))
        except XmlPunctError as error:
            self.answer_json(HTTPStatus.CONFLICT, {"error": str(error)})
        except TimeoutError:
            self.answer_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the run is busy, or over"})
        else:
            self.answer(HTTPStatus.OK, JSON, answer)

    def _events(self) -> None:
        self.answer(HTTPStatus.OK, "text/event-stream", None)
        if self.command == "HEAD":
            return
        self.server.allow_closing(self.connection)  # the page reconnects
        number = -1
        while True:
            last = self.over.is_set()
            latest_number, moment = self.view.after(number, 0.0 if last else _BEAT_SECONDS)
            text = (
                f"data: {json.dumps(as_event(moment))}\n\n" if latest_number > number else ": still here\n\n"
            )
            self.wfile.write(text.encode())
            number = latest_number
            if last or moment.state not in ("starting", "running"):
                return

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header(
            "Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
        )
        super().end_headers()

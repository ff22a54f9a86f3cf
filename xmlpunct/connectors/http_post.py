"""Sends results by POST: ``-o http://...`` and ``https://``.

Each group of results is one request, or several if it is long, with the headers that `http_listen` reads. A request
without an answer is sent again with the same number, and so are the requests that a killed run has sent since its last
checkpoint: a receiver that checks the numbers takes each piece once.
"""

from __future__ import annotations

import http.client
import time
import urllib.request
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.http import (
    HEAD_SECONDS,
    PAUSES,
    TRY_AGAIN,
    WebServers,
    connection_reason,
    opener,
    read_url,
)
from xmlpunct.connectors.http_listen import DIGEST, LAST, LINK, RUN, SEQUENCE
from xmlpunct.connectors.outlet import Form, Outlet, Results
from xmlpunct.connectors.retries import Retries

PIECE_BYTES = 2**23
"""Maximum size of a request's body."""
TYPES = {"xml": "application/xml", "jsonl": "application/x-ndjson", "csv": "text/csv"}
_MESSAGE_BYTES = 500


class Servers(WebServers):
    """``http://`` and ``https://``: input as in `http`, and output."""

    def outlet(self, spec: str, name: str) -> Outlet:
        return Poster(spec)


class Poster(Outlet):
    """A server. A position is the number of the next request."""

    def __init__(self, url: str) -> None:
        self._url, self._name, self._authorization = read_url(url)
        self._number = 0

    def open(self, form: Form, position: Any) -> None:
        self._form = form
        self._number = position["next"] if position else 0
        # A redirected POST would become a GET without a body.
        self._opener = opener(lambda _: None, follows=False)

    def write(self, results: Results, *, again: bool = False) -> None:
        offsets = range(0, len(results.data) or results.last, PIECE_BYTES)
        pieces = [results.data[offset : offset + PIECE_BYTES] for offset in offsets]
        for pieces_sent, (piece, digest, link) in enumerate(results.linked(pieces), 1):
            headers = {RUN: self._form.run, SEQUENCE: str(self._number)}
            headers |= {DIGEST: digest, LINK: link} if results.digest else {}
            headers |= {LAST: "1"} if results.last and pieces_sent == len(pieces) else {}
            self._persevere(piece, headers)
            self._number += 1

    def _persevere(self, piece: bytes, headers: dict[str, str]) -> None:
        """Send a piece until it is answered; a server that answers 429 is retried without limit."""
        retries = Retries(self._name, PAUSES)
        while True:
            try:
                self._post(piece, headers)
                retries.progressed()
                return
            except HTTPError as error:
                with error:
                    text = error.read(_MESSAGE_BYTES).decode(errors="replace").strip()
                    reason = f"the server answered {error.code} {error.reason}: {text}"
                if error.code == HTTPStatus.TOO_MANY_REQUESTS:
                    retries.waited(reason)
                    time.sleep(PAUSES[2])
                    continue
                is_transient = error.code in TRY_AGAIN
            except (OSError, http.client.HTTPException) as error:
                reason, is_transient = connection_reason(error), True
            pause = retries.failed(reason) if is_transient else None
            if pause is None:
                raise XmlPunctError(f"cannot write {self._name}: {hide(reason)}")
            time.sleep(pause)

    def _post(self, piece: bytes, headers: dict[str, str]) -> None:
        default_headers = {"Content-Type": TYPES[self._form.format], "User-Agent": "xmlpunct"}
        request = urllib.request.Request(self._url, piece, default_headers | headers)
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        with self._opener.open(request, timeout=HEAD_SECONDS) as answer:
            answer.read()

    def commit(self) -> Any:
        return {"next": self._number}

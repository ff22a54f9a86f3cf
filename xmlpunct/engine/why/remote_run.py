"""A client for the live view of a run, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.library_guard import guarded
from xmlpunct.connectors.http import read_url

SECONDS = 30.0
"""Timeout of a request."""


def ask(url: str, patterns: Mapping[str, str]) -> list[dict[str, Any]]:
    """The punctuations that matching results wait for, in the form of `Wait.as_dict`.

    Raises `UsageError` for an unknown column, and if no run answers at ``url``.
    """
    answer = _request(f"{url.rstrip('/')}/why?{urlencode(patterns)}")
    try:
        with guarded(url):
            waits: list[dict[str, Any]] = json.loads(answer)
    except SourceError as error:
        raise UsageError(f"{url} answers, but is no run of xmlpunct: {error.reason}") from None
    return waits


def send(url: str, stream: str, punctuation: str | Mapping[str, str]) -> None:
    """Inject a punctuation into a stream of a run.

    For the forms of ``punctuation`` see `xmlpunct.engine.run.inputs.injected_punctuations.parse_injection`.
    Raises `UsageError` for an invalid punctuation, and if no run answers at ``url``.
    """
    body = json.dumps({"input": stream, "punctuation": punctuation}).encode()
    headers = {"Content-Type": "application/json"}
    _request(f"{url.rstrip('/')}/say", body, headers)


def _request(url: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """The response to a GET, or to a POST if there is a ``body``. Raises `UsageError`."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is no address: write http://HOST:PORT")
    request = Request(read_url(url)[0], body, dict(headers))
    try:
        with (
            guarded(url, f"no answer from {url}", passing=(HTTPError,)),
            build_opener(ProxyHandler({})).open(request, timeout=SECONDS) as response,
        ):
            answer: bytes = response.read()
            return answer
    except HTTPError as error:
        reason = error.read().decode(errors="replace").strip() or error.reason
        raise UsageError(reason) from None
    except SourceError as error:
        raise UsageError(error.reason) from None

"""Asking a run that serves its live view, over HTTP."""

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
"""A run that does not answer for so long is not waited for."""


def ask(url: str, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the results that match some patterns wait for, as `Wait.as_dict` has it.

    Raises `UsageError` for an unknown column, and if nobody answers at ``url``.
    """
    answer = _answer(f"{url.rstrip('/')}/why?{urlencode(wanted)}")
    try:
        with guarded(url):
            found: list[dict[str, Any]] = json.loads(answer)
    except SourceError as error:
        raise UsageError(f"{url} answers, and is no run of xmlpunct: {error.reason}") from None
    return found


def send(url: str, stream: str, punctuation: str | Mapping[str, str]) -> None:
    """Say a punctuation of a stream to a run: as `xmlpunct.engine.run.inputs.injected_punctuations.read_said` takes it.

    Raises `UsageError` for what cannot be said, and if nobody answers at ``url``.
    """
    body = json.dumps({"input": stream, "punctuation": punctuation}).encode()
    headers = {"Content-Type": "application/json"}
    _answer(f"{url.rstrip('/')}/say", body, headers)


def _answer(url: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """What is answered at a URL; to a ``body``, a POST. Raises `UsageError`."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is no address: write http://HOST:PORT")
    request = Request(read_url(url)[0], body, dict(headers))
    try:
        with (
            guarded(url, f"nobody answers at {url}", passing=(HTTPError,)),
            build_opener(ProxyHandler({})).open(request, timeout=SECONDS) as response,
        ):
            answer: bytes = response.read()
            return answer
    except HTTPError as error:
        reason = error.read().decode(errors="replace").strip() or error.reason
        raise UsageError(reason) from None
    except SourceError as error:
        raise UsageError(error.reason) from None

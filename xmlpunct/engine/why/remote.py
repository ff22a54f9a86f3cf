"""Asking a run that serves its live view, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, Request, build_opener

from xmlpunct.errors import UsageError

SECONDS = 30.0
"""A run that does not answer for so long is not waited for."""


def ask(url: str, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the results that match some patterns wait for, as `Wait.as_dict` has it.

    Raises `UsageError` for an unknown column, and if nobody answers at ``url``.
    """
    found: list[dict[str, Any]] = json.loads(_answer(Request(f"{url.rstrip('/')}/why?{urlencode(wanted)}")))
    return found


def send(url: str, stream: str, punctuation: str | Mapping[str, str]) -> None:
    """Say a punctuation of a stream to a run: as `xmlpunct.engine.inputs.said.read_said` takes it.

    Raises `UsageError` for what cannot be said, and if nobody answers at ``url``.
    """
    body = json.dumps({"input": stream, "punctuation": punctuation}).encode()
    headers = {"Content-Type": "application/json"}
    _answer(Request(f"{url.rstrip('/')}/say", body, headers, method="POST"))


def _answer(request: Request) -> bytes:
    if not request.full_url.startswith(("http://", "https://")):
        raise UsageError(f"{request.full_url} is no address: write http://HOST:PORT")
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=SECONDS) as response:
            body: bytes = response.read()
            return body
    except HTTPError as error:
        reason = error.read().decode(errors="replace").strip() or error.reason
        raise UsageError(reason) from None
    except (URLError, OSError) as error:
        said = getattr(error, "reason", error)
        raise UsageError(f"nobody answers at {request.full_url}: {said}") from None

"""Secrets: values of ``${NAME}`` in URLs, and passwords that are typed into URLs. Neither is printed or stored.

A URL keeps its ``${NAME}`` wherever it is written: in a checkpoint, a plan, a message. It is expanded only when the
source is opened, and from then on `hide` replaces the value in every error. A typed password is stored and shown as
`MASK`: the password after the user's name, and the values of options such as ``?token=``.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, unquote

MASK = "***"
_NAME = re.compile(r"\$\{([^{}]*)\}")
_DIVIDES = re.compile(r"[/@:?#\[\]]")
"""The delimiters of a URL, which must not occur in an unquoted value."""
_SHORT = 8
"""A secret of fewer characters is hidden only as a whole word: else every 1 in a message might be replaced."""
_SHORTEST = 4
"""A typed password of fewer characters is hidden in URLs only."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
USER = re.compile(r"(?<=://)(?:(?P<named>[^\s:/?#@]*:)(?!\d*[/?#])(?P<password>\S*)|(?P<token>[^\s:/?#]*))@")
"""The user and password of a URL, up to the last ``@``. A password with ``@`` or ``/`` makes the URL malformed, and
the error must not show it. Digits before a ``/`` are a port; an ``@`` after them is part of the path."""
_OPTION = re.compile(r"(?<=[?&#;])(?P<name>[^\s=&#]+)=(?P<value>[^\s&]*?)(?=[:,.;)\]'\"]*(?:[\s&]|$))")
_IS_SECRET = re.compile(
    r"(?<![a-z])pass(?![a-z])|passw|passphrase|passcode|pwd|secret|token|auth(?!or)|credential|signature"
    r"|(?<![a-z])sig(?![a-z])|(?:api|access|account)[-_.]?key",
    re.IGNORECASE,
)
"""Names of options whose values are secrets, in any URL."""
_IS_SECRET_ON_THE_WEB = re.compile(r"key|code|session|sas", re.IGNORECASE)
"""Further names in ``http://`` and ``https://`` URLs. In other connectors a ``key`` is a column."""
_replacements: dict[str, str] = {}
_masked_urls: dict[str, str] = {}
"""URLs whose passwords have spaces, which would end the URL in a text, with their masked forms."""


def expanded(url: str, is_quoted: bool = True) -> str:
    """A URL with the values of its variables, percent-encoded if ``is_quoted``.

    Raises KeyError for a variable that is not set, and without ``is_quoted`` ValueError for a value with delimiters.

    >>> os.environ["EXAMPLE_PASSWORD"] = "s3cret&more"
    >>> expanded("kafka://host/topic?sasl.password=${EXAMPLE_PASSWORD}")
    'kafka://host/topic?sasl.password=s3cret%26more'
    >>> hide("refused: s3cret&more")
    'refused: ${EXAMPLE_PASSWORD}'
    """

    def value(match: re.Match[str]) -> str:
        raw = os.environ.get(match[1])
        if raw is None:
            raise KeyError(match[0])
        quoted = quote(raw, safe="")
        for text in (raw, quoted):
            if text:
                _replacements[text] = match[0]
        if not is_quoted and _DIVIDES.search(raw):
            raise ValueError(match[0])
        return quoted if is_quoted else raw

    return _NAME.sub(value, url)


def hide(text: str) -> str:
    """A text without secrets. The name of its variable replaces a value that was `expanded`."""
    for value in sorted(_replacements, key=len, reverse=True):
        if value not in text:
            continue
        if len(value) < _SHORT or _replacements[value] == MASK:
            parts = re.split(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text)
        else:
            parts = text.split(value)
        text = _replacements[value].join(parts)
    return without_passwords(text)


def without_passwords(text: str, is_url: bool = False) -> str:
    """A text with `MASK` in place of each password in a URL. ``is_url``: all of the text is one URL, even with spaces.

    >>> without_passwords("https://me:pw@host/feed?token=abc: not found")
    'https://me:***@host/feed?token=***: not found'
    >>> without_passwords("kafka://host/topic?sasl.password=${PASSWORD}")
    'kafka://host/topic?sasl.password=${PASSWORD}'
    """
    if "://" not in text:
        return text
    for typed, masked in _masked_urls.items():
        text = text.replace(typed, masked)
    for url in [(0, len(text))] if is_url else [url.span() for url in _URL.finditer(text)][::-1]:
        for begin, end in _passwords(text[slice(*url)])[::-1]:
            text = text[: url[0] + begin] + MASK + text[url[0] + end :]
    return text


def stored(value: Any) -> Any:
    """Plain values without the passwords of the URLs in them, safe to store."""
    if isinstance(value, str):
        return without_passwords(value, is_url=_URL.match(value) is not None)
    if isinstance(value, dict):
        return {stored(key): stored(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(stored, value))
    return value


def note_passwords(url: str) -> None:
    """Make `hide` replace the passwords of this URL in all texts from now on.

    A password that also occurs elsewhere in the URL is replaced in URLs only: messages need that name.
    """
    if "://" not in url:
        return
    masked = without_passwords(url, is_url=True)
    if without_passwords(url) != masked:
        _masked_urls[url] = masked
    for begin, end in _passwords(url):
        if url[end : end + 1] == "@" and url[begin - 3 : begin] == "://":
            continue  # more often a user's name than a token
        typed = unquote(url[begin:end])
        for text in (url[begin:end], typed, quote(typed, safe="")):
            if len(text) >= _SHORTEST and text not in masked:
                _replacements.setdefault(text, MASK)


def _passwords(url: str) -> list[tuple[int, int]]:
    """The spans of the passwords in a URL, in order."""
    flat = re.sub(r"\s", "_", url)
    spans = [user.span("token" if user["password"] is None else "password") for user in USER.finditer(flat)]
    is_web = flat.startswith(("http://", "https://"))
    for option in _OPTION.finditer(flat, spans[-1][1] if spans else 0):
        name = unquote(option["name"])
        if _IS_SECRET.search(name) or (is_web and _IS_SECRET_ON_THE_WEB.search(name)):
            spans.append(option.span("value"))
    return [(begin, end) for begin, end in spans if end > begin and not _NAME.fullmatch(url, begin, end)]

"""Secrets: values of ``${NAME}`` in URLs, and passwords that are typed into URLs. Neither is printed or stored.

A URL keeps its ``${NAME}`` wherever it is written: in a checkpoint, a plan, a message. It is expanded where something
is opened, and `hide` replaces the value in every error from then on. Of a typed password, `MASK` is stored and shown:
of what stands behind the user's name, and of the values of options such as ``?token=``.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, unquote

MASK = "***"
_NAME = re.compile(r"\$\{([^{}]*)\}")
_DIVIDES = re.compile(r"[/@:?#\[\]]")
"""What a URL is divided by, where nothing is quoted."""
_SHORT = 8
"""A secret of fewer characters is hidden where it is a word, lest every 1 in a message becomes one."""
_SHORTEST = 4
"""A typed password of fewer characters is hidden in URLs alone."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
USER = re.compile(r"(?<=://)(?:(?P<named>[^\s:/?#@]*:)(?!\d*[/?#])(?P<password>\S*)|(?P<token>[^\s:/?#]*))@")
"""The user and password of a URL, to the last ``@``: one with ``@`` or ``/`` in it makes the URL malformed, and must
not be shown in the error about that. Digits before a ``/`` are a port; an ``@`` behind them is part of the path."""
_OPTION = re.compile(r"(?<=[?&#;])(?P<name>[^\s=&#]+)=(?P<value>[^\s&]*?)(?=[:,.;)\]'\"]*(?:[\s&]|$))")
_IS_SECRET = re.compile(
    r"(?<![a-z])pass(?![a-z])|passw|passphrase|passcode|pwd|secret|token|auth(?!or)|credential|signature"
    r"|(?<![a-z])sig(?![a-z])|(?:api|access|account)[-_.]?key",
    re.IGNORECASE,
)
"""Names of options whose values are secrets, of any URL."""
_IS_SECRET_ON_THE_WEB = re.compile(r"key|code|session|sas", re.IGNORECASE)
"""Further ones of ``http://`` and ``https://``; to our own connectors a ``key`` is a column."""
_known: dict[str, str] = {}
_with_spaces: dict[str, str] = {}
"""URLs whose passwords have spaces, which end a URL in a text; and the same URLs without passwords."""


def expanded(url: str, is_quoted: bool = True) -> str:
    """A URL with the values of the variables that it names, quoted as in any URL, or as they are.

    Raises KeyError for one that is not set, and ValueError for one that has to be quoted, and may not be.

    >>> os.environ["EXAMPLE_PASSWORD"] = "s3cret&more"
    >>> expanded("kafka://host/topic?sasl.password=${EXAMPLE_PASSWORD}")
    'kafka://host/topic?sasl.password=s3cret%26more'
    >>> hide("refused: s3cret&more")
    'refused: ${EXAMPLE_PASSWORD}'
    """

    def value(found: re.Match[str]) -> str:
        given = os.environ.get(found[1])
        if given is None:
            raise KeyError(found[0])
        quoted = quote(given, safe="")
        for text in (given, quoted):
            if text:
                _known[text] = found[0]
        if not is_quoted and _DIVIDES.search(given):
            raise ValueError(found[0])
        return quoted if is_quoted else given

    return _NAME.sub(value, url)


def hide(text: str) -> str:
    """A text in which no secret stands any more: of one that was `expanded`, the name of its variable."""
    for value in sorted(_known, key=len, reverse=True):
        if value not in text:
            continue
        if len(value) < _SHORT or _known[value] == MASK:
            parts = re.split(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text)
        else:
            parts = text.split(value)
        text = _known[value].join(parts)
    return without_passwords(text)


def without_passwords(text: str, is_url: bool = False) -> str:
    """A text in which `MASK` stands for each password that was typed into a URL. All of a URL may be one, with spaces.

    >>> without_passwords("https://me:pw@host/feed?token=abc: not found")
    'https://me:***@host/feed?token=***: not found'
    >>> without_passwords("kafka://host/topic?sasl.password=${PASSWORD}")
    'kafka://host/topic?sasl.password=${PASSWORD}'
    """
    if "://" not in text:
        return text
    for typed, masked in _with_spaces.items():
        text = text.replace(typed, masked)
    for url in [(0, len(text))] if is_url else [url.span() for url in _URL.finditer(text)][::-1]:
        for begin, end in _passwords(text[slice(*url)])[::-1]:
            text = text[: url[0] + begin] + MASK + text[url[0] + end :]
    return text


def stored(value: Any) -> Any:
    """Plain values as they may be stored: without the passwords of the URLs in them."""
    if isinstance(value, str):
        return without_passwords(value, is_url=_URL.match(value) is not None)
    if isinstance(value, dict):
        return {stored(key): stored(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(stored, value))
    return value


def note_passwords(url: str) -> None:
    """Have `hide` replace the passwords that are typed into a URL wherever they stand, from now on.

    One that is also the name of something in the URL is replaced in URLs only: messages need that name.
    """
    if "://" not in url:
        return
    masked = without_passwords(url, is_url=True)
    if without_passwords(url) != masked:
        _with_spaces[url] = masked
    for begin, end in _passwords(url):
        if url[end : end + 1] == "@" and url[begin - 3 : begin] == "://":
            continue  # a user's name, more often than a token
        typed = unquote(url[begin:end])
        for text in (url[begin:end], typed, quote(typed, safe="")):
            if len(text) >= _SHORTEST and text not in masked:
                _known.setdefault(text, MASK)


def _passwords(url: str) -> list[tuple[int, int]]:
    """Where passwords stand in a URL, in order."""
    flat = re.sub(r"\s", "_", url)
    spans = [user.span("token" if user["password"] is None else "password") for user in USER.finditer(flat)]
    is_web = flat.startswith(("http://", "https://"))
    for option in _OPTION.finditer(flat, spans[-1][1] if spans else 0):
        name = unquote(option["name"])
        if _IS_SECRET.search(name) or (is_web and _IS_SECRET_ON_THE_WEB.search(name)):
            spans.append(option.span("value"))
    return [(begin, end) for begin, end in spans if end > begin and not _NAME.fullmatch(url, begin, end)]

"""Secrets: ``${NAME}`` in a URL stands for a variable of the environment, and is told to nobody.

A URL keeps its ``${NAME}`` wherever it is written: in a checkpoint, a plan, a message. It is expanded where something
is opened, and what was expanded once is hidden in every error from then on.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote

_NAME = re.compile(r"\$\{([^{}]*)\}")
_DIVIDES = re.compile(r"[/@:?#\[\]]")
"""What a URL is divided by, where nothing is quoted."""
_SHORT = 8
"""A secret of fewer characters is hidden where it is a word, lest every 1 in a message becomes one."""
_known: dict[str, str] = {}


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
    """A text in which no value that was `expanded` stands any more, but the name of its variable."""
    for value in sorted(_known, key=len, reverse=True):
        if value not in text:
            continue
        if len(value) < _SHORT:
            parts = re.split(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text)
        else:
            parts = text.split(value)
        text = _known[value].join(parts)
    return text

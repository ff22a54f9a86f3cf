"""How text is written in XML, and which text XML cannot hold."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
"""What no XML 1.0 document can hold."""
UNHOLDABLE = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x{FFFE}\x{FFFF}]"
"""`FORBIDDEN`, as polars writes it."""
IN_TEXT: dict[str, str] = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
IN_ATTRIBUTE = {**IN_TEXT, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
"""Reading makes a space of each tab and line end that is written as it is."""
_TEXT, _ATTRIBUTE = (str.maketrans(references) for references in (IN_TEXT, IN_ATTRIBUTE))


def in_text(text: str) -> str:
    """A text as it stands between tags.

    >>> in_text("a < b")
    'a &lt; b'
    """
    return text.translate(_TEXT)


def in_attribute(text: str) -> str:
    """A text as it stands in an attribute, without the quotes.

    >>> in_attribute('"a"')
    '&quot;a&quot;'
    """
    return text.translate(_ATTRIBUTE)


def escaped(text: pl.Expr, references: Mapping[str, str]) -> pl.Expr:
    """A polars expression: a text with references for what cannot stand in XML as it is."""
    for character, reference in references.items():
        text = text.str.replace_all(character, reference, literal=True)
    return text

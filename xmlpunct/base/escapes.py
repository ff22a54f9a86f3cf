"""Escaping of text in XML, and the characters that XML cannot hold."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
"""The characters that no XML 1.0 document can hold."""
UNHOLDABLE = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x{FFFE}\x{FFFF}]"
"""`FORBIDDEN` in the syntax of polars."""
IN_TEXT: dict[str, str] = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
IN_ATTRIBUTE = {**IN_TEXT, '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
"""Tabs and line ends too, because XML parsers replace unescaped ones in attributes by spaces."""
_TEXT, _ATTRIBUTE = (str.maketrans(references) for references in (IN_TEXT, IN_ATTRIBUTE))


def in_text(text: str) -> str:
    """A text, escaped for use between tags.

    >>> in_text("a < b")
    'a &lt; b'
    """
    return text.translate(_TEXT)


def in_attribute(text: str) -> str:
    """A text, escaped for use in an attribute, without the quotes.

    >>> in_attribute('"a"')
    '&quot;a&quot;'
    """
    return text.translate(_ATTRIBUTE)


def escaped(text: pl.Expr, references: Mapping[str, str]) -> pl.Expr:
    """A polars expression: a text with ``references`` in place of special characters."""
    for character, reference in references.items():
        text = text.str.replace_all(character, reference, literal=True)
    return text

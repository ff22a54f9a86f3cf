"""Foreign text on a terminal: control characters as escapes, so that they cannot move the cursor or forge a line."""

from __future__ import annotations

import re

_C1_IN_UTF8 = re.compile(b"\xc2([\x80-\x9f])")
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # changes of the direction of text
    "\u2028\u2029\ud800-\udfff\ufffe\uffff]"  # further line ends, surrogates and noncharacters
)


def printable(text: str, keep: str = "") -> str:
    r"""A text whose control characters are written ``\uXXXX``, as Python and JSON do, but for those in ``keep``.

    >>> print(printable("a\x1b[2J\nb\u202e"))
    a\u001b[2J\u000ab\u202e
    """
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text)


def printable_output(data: bytes, format_: str) -> bytes:
    r"""Results for a terminal: C1 control characters, which XML and JSON allow, as references or as ``\uXXXX``.

    >>> printable_output("a\x9b2J".encode(), "xml"), printable_output("a\x9b2J".encode(), "jsonl")
    (b'a&#x9b;2J', b'a\\u009b2J')
    """
    escape = b"&#x%02x;" if format_ == "xml" else rb"\u%04x"
    return _C1_IN_UTF8.sub(lambda match: escape % ord(match[1]), data)

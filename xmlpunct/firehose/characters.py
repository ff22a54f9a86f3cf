"""Finds bytes that are invalid anywhere in XML: invalid UTF-8, and characters that XML forbids."""

from __future__ import annotations

import re

_BLOCK = 2**16
_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n\r")
_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")


def forbidden(data: bytes) -> tuple[int, int]:
    """(start, end) of the first forbidden character; (-1, number of checked bytes) if there is none.

    An incomplete character at the end of ``data`` is not checked.

    >>> forbidden(b"x\\0y"), forbidden(b"x\\xff"), forbidden("\u20ac".encode()[:2])
    ((1, 2), (1, 2), (-1, 0))
    """
    at = 0
    while at < len(data):
        block, wrong = data[at : at + _BLOCK], 0
        try:
            block.decode()
            end = len(block)
        except UnicodeDecodeError as error:
            end = error.start
            wrong = 0 if error.reason == "unexpected end of data" else error.end
        if b"\xef\xbf" in block or len(block.translate(None, _CONTROLS)) != len(block):
            match = _FORBIDDEN.search(block, 0, end)
            if match is not None:
                end, wrong = match.span()
        if wrong:
            return at + end, at + wrong
        if not end:
            break
        at += end
    return -1, at

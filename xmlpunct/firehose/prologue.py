"""What stands before a root element, made ready for a parser that is to know neither encodings nor DOCTYPE."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xmlpunct.firehose.position import Split

NO_DOCTYPE = "DOCTYPE is not accepted"
_MISC = re.compile(rb"(?:[ \t\r\n]++|<!--.*?-->|<\?(?!xml[ \t\r\n?]).*?\?>)*+", re.DOTALL)
_ANY_DECLARATION = re.compile(rb"<\?xml[ \t\r\n].*?(?:\?>|[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff])", re.DOTALL)
"""A declaration up to its end, or to where it is seen to be none."""
_DECLARATION = re.compile(
    rb"""<\?xml \s+version\s*=\s*(?:"1\.[0-9]+"|'1\.[0-9]+')
       (?:\s+encoding\s*=\s*(?:"[A-Za-z][A-Za-z0-9._-]*"|'[A-Za-z][A-Za-z0-9._-]*'))?
       (?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))? \s*\?>""",
    re.VERBOSE,
)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Ready:
    """A split's ``data`` as the parser is to see it, of the same length, and whether it has an XML declaration.

    At ``refused``, if that is not None, is what we do not take, for a ``reason``.
    """

    data: bytes
    declared: bool = False
    refused: int | None = None
    reason: str = ""


def ready(split: Split) -> Ready:
    """A split without byte order mark and XML declaration.

    The declaration may name the encoding that the source had before it became UTF-8, and what stands between
    two documents of one source (the first one's comments, say) may come before the second's declaration.
    """
    data, declared = split.data, False
    if split.start.open:
        return Ready(data)
    misc = _MISC.match(data) if split.start.started else None
    at = misc.end() if misc else 0
    if data.startswith(_BOM, at):
        data = data[:at] + b"   " + data[at + 3 :]
        at += 3
    found = _ANY_DECLARATION.match(data, at)
    if found:
        declared = True
        if not _DECLARATION.fullmatch(found[0]):
            return Ready(data, declared, at, "malformed XML declaration")
        data = data[:at] + re.sub(rb"[^\n]", b" ", found[0]) + data[found.end() :]
    misc = _MISC.match(data)
    at = misc.end() if misc else 0
    is_doctype = data.startswith(b"<!DOCTYPE", at)
    return Ready(data, declared, at if is_doctype else None, NO_DOCTYPE if is_doctype else "")

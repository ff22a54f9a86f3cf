"""What stands before a root element, made ready for a parser that is to know neither encodings nor DTDs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.native.tags import IN_DOCTYPE
from xmlpunct.firehose.position import Split

_SUBSET = "the internal subset of a DOCTYPE is not accepted: nothing can be declared there"
_SECOND = "a second DOCTYPE is not accepted"
_MISC = re.compile(rb"(?:[ \t\r\n]++|<!--.*?-->|<\?(?!xml[ \t\r\n?]).*?\?>)*+", re.DOTALL)
_ANY_DECLARATION = re.compile(rb"<\?xml[ \t\r\n].*?(?:\?>|[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff])", re.DOTALL)
"""A declaration up to its end, or to where it is seen to be none."""
_DECLARATION = re.compile(
    rb"""<\?xml \s+version\s*=\s*(?:"1\.[0-9]+"|'1\.[0-9]+')
       (?:\s+encoding\s*=\s*(?:"[A-Za-z][A-Za-z0-9._-]*"|'[A-Za-z][A-Za-z0-9._-]*'))?
       (?:\s+standalone\s*=\s*(?:"(?:yes|no)"|'(?:yes|no)'))? \s*\?>""",
    re.VERBOSE,
)
_ANY_DOCTYPE = re.compile(rb"<!DOCTYPE%b[>\[]" % IN_DOCTYPE)
"""A DOCTYPE up to its end, or to its internal subset."""
_DOCTYPE = re.compile(
    rb"""<!DOCTYPE \s+ (?P<name>[^\s<>"'\[]+)
       (?:\s+ (?:SYSTEM | PUBLIC \s+ (?:"[-\ \r\n\w'()+,./:=?;!*\#@$%]*" | '[-\ \r\n\w()+,./:=?;!*\#@$%]*'))
         \s+ (?:"[^"]*"|'[^']*') )? \s*>""",
    re.VERBOSE,
)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Ready:
    """A split's ``data`` as the parser is to see it, of the same length, and whether it has an XML declaration or
    a DOCTYPE, which a root has to follow.

    At ``refused``, if that is not None, is what we do not take, for a ``reason``.
    """

    data: bytes
    declared: bool = False
    refused: int | None = None
    reason: str = ""


def ready(split: Split) -> Ready:
    """A split without byte order mark, XML declaration and DOCTYPE.

    The declaration may name the encoding that the source had before it became UTF-8, and what stands between
    two documents of one source (the first one's comments, say) may come before the second's declaration. A DOCTYPE
    without internal subset says nothing that we read; one that is malformed is left for the parser to say so.
    """
    data, declared = split.data, False
    if split.start.open:
        return Ready(data)
    at = _behind_misc(data, 0) if split.start.started else 0
    if data.startswith(_BOM, at):
        data = data[:at] + b"   " + data[at + 3 :]
        at += 3
    found = _ANY_DECLARATION.match(data, at)
    if found:
        declared = True
        if not _DECLARATION.fullmatch(found[0]):
            return Ready(data, declared, at, "malformed XML declaration")
        data = _blanked(data, at, found.end())
    at = _behind_misc(data, 0)
    if not data.startswith(b"<!DOCTYPE", at):
        return Ready(data, declared)
    found = _ANY_DOCTYPE.match(data, at)
    if found and found[0].endswith(b"["):
        return Ready(data, True, at, _SUBSET)
    if not found or not _is_doctype(found[0]):
        return Ready(data, True)
    data = _blanked(data, at, found.end())
    at = _behind_misc(data, at)
    return Ready(data, True, *((at, _SECOND) if data.startswith(b"<!DOCTYPE", at) else ()))


def _behind_misc(data: bytes, at: int) -> int:
    """Behind the white space, comments and processing instructions from a place on."""
    found = _MISC.match(data, at)
    return found.end() if found else at


def _blanked(data: bytes, begin: int, end: int) -> bytes:
    """The same without what stands there, but for its lines."""
    return data[:begin] + re.sub(rb"[^\n]", b" ", data[begin:end]) + data[end:]


def _is_doctype(data: bytes) -> bool:
    found = _DOCTYPE.fullmatch(data)
    if found is None or forbidden(data)[0] >= 0:
        return False
    return is_xml_name(found["name"].decode().replace(":", "_"))

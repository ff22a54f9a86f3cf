"""Reads DOCTYPEs: whether they are well formed, and whether the declarations in them have an effect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from lxml import etree

from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.firehose.characters import forbidden
from xmlpunct.firehose.libxml.dictionary import contained

_REFUSED = "the internal subset of a DOCTYPE is not accepted: "
_HEAD = re.compile(
    rb"""<!DOCTYPE \s+ (?P<name>[^\s<>"'\[]+)
       (?:\s+ (?:SYSTEM | PUBLIC \s+ (?:"[-\ \r\n\w'()+,./:=?;!*\#@$%]*" | '[-\ \r\n\w()+,./:=?;!*\#@$%]*'))
         \s+ (?:"[^"]*"|'[^']*') )? \s* (?P<end>[>\[])""",
    re.VERBOSE,
)
_PARTS = re.compile(
    rb"""[ \t\r\n]+ | <!--.*?--> | <\?.*?\?>
       | <!(?P<kind>ELEMENT|ATTLIST|ENTITY|NOTATION) (?P<text>(?:[^<>"']++|"[^"]*+"|'[^']*+')*+) >
       | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_OTHER_TYPES = set(b"ID IDREF IDREFS ENTITY ENTITIES NMTOKEN NMTOKENS NOTATION".split())
_LITERAL = re.compile(rb"""\"[^\"]*\"|'[^']*'""")


@dataclass(frozen=True, slots=True)
class Doctype:
    """A well-formed DOCTYPE. refused: why it is not accepted; empty if it is."""

    refused: str = ""


@lru_cache(maxsize=16)
def read_doctype(data: bytes) -> Doctype | None:
    """A DOCTYPE, up to its ``>``; None if it is malformed.

    Comments, notations, unparsed entities, element declarations, and attribute lists without defaults have no effect.

    >>> read_doctype(b"<!DOCTYPE r SYSTEM 'r.dtd' [<!NOTATION tif SYSTEM 'viewer'>]>")
    Doctype(refused='')
    >>> read_doctype(b"<!DOCTYPE r [<!ENTITY x SYSTEM 'file'>]>").refused
    'the internal subset of a DOCTYPE is not accepted: entity x is external, and nothing is fetched'
    """
    head = _HEAD.match(data)
    if head is None or forbidden(data)[0] >= 0 or not is_xml_name(head["name"].decode().replace(":", "_")):
        return None
    if head["end"] == b">":
        return Doctype() if head.end() == len(data) else None
    reason = _refusal(data[head.end() : data.rindex(b"]")])
    if reason:
        return Doctype(_REFUSED + reason)
    subset = b"<!DOCTYPE r [" + data[head.end() :]
    return Doctype() if contained(lambda: _is_well_formed(subset), subset, lambda: len(subset)) else None


def _refusal(subset: bytes) -> str:
    """Why the declarations of a subset are not accepted; empty if they are."""
    for part in _PARTS.finditer(subset):
        if part["other"] == b"%":
            return "it uses a parameter entity"
        if part["other"]:
            return ""  # it is malformed
        text = part["text"] or b""
        keywords = _LITERAL.sub(b"''", text).split()
        if part["kind"] == b"ENTITY":
            name = b" ".join(keywords[: 2 if text.split()[:1] == [b"%"] else 1]).decode("utf-8", "replace")
            if b"NDATA" in keywords:
                continue
            if b"SYSTEM" in keywords or b"PUBLIC" in keywords:
                return f"entity {name} is external, and nothing is fetched"
            return f"it declares entity {name}"
        if part["kind"] == b"ATTLIST" and (_LITERAL.search(text) or _has_other_types(keywords)):
            return "it declares defaults of attributes, or attributes that are no CDATA"
    return ""


def _has_other_types(attribute_list: list[bytes]) -> bool:
    """Whether attributes may be no CDATA, so that spaces in their values are normalized."""
    return any(b"(" in word or word in _OTHER_TYPES for word in attribute_list)


def _is_well_formed(doctype: bytes) -> bool:
    """Whether libxml2 accepts a DOCTYPE, without any reference in it to another file."""
    parser = etree.XMLParser(encoding="utf-8", no_network=True, load_dtd=False, resolve_entities=False)
    try:
        etree.fromstring(doctype + b"<r/>", parser)
    except etree.XMLSyntaxError:
        return False
    return True

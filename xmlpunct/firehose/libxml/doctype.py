"""Reads DOCTYPEs: whether they are well formed, and whether the declarations in them have an effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from lxml import etree

from xmlpunct.base.errors import UsageError
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
_CHARACTER = re.compile(r"&#(?:x0*([0-9a-fA-F]{1,6})|0*([0-9]{1,7}));")
_REFERENCE = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->|<\?.*?\?>|&([^#;&\s]+);", re.DOTALL)
_OWN_ENTITIES = ("lt", "gt", "amp", "quot", "apos")
_ENCODING = re.compile(rb"""<\?xml\s[^?>]*?encoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
_IGNORED = re.compile(rb"<!\[\s*IGNORE\s*\[.*?\]\]>", re.DOTALL)
_NAMED = re.compile(rb"""\s+(?P<name>[^\s%"']+)\s+(?P<literal>"[^"%]*"|'[^'%]*')\s*""")
"""Matches an internal general entity whose text has no parameter entity."""
_ESCAPES = {ord('"'): "&quot;", ord("'"): "&#39;", ord(">"): "&gt;"}
_MOST_BYTES = 2**16
"""Of a DOCTYPE with an effect: libxml2 reads it with each piece of its document."""
_LITERAL = re.compile(rb"""\"[^\"]*\"|'[^']*'""")


@dataclass(frozen=True)
class Doctype:
    """A well-formed DOCTYPE. refused: why it is not accepted; empty if it is.

    effective: the DOCTYPE to put before each piece of its document, so that libxml2 applies the declarations; empty if
    they have no effect. has_defaults: attributes may have defaults, or be normalized. entities: by name, the
    replacement text of internal entities.
    """

    refused: str = ""
    effective: bytes = b""
    has_defaults: bool = False
    entities: Mapping[str, str] = field(default_factory=dict)

    def expanded(self, xml: str) -> str:
        """A piece of well-formed XML with its entities expanded.

        >>> doctype = read_doctype(b"<!DOCTYPE r [<!ENTITY c '1>0'><!ENTITY d '&c;!'>]>")
        >>> doctype.expanded("<a b='&d;'/>")
        "<a b='1&gt;0!'/>"
        """
        return _REFERENCE.sub(self._replacement, xml) if self.entities else xml

    def _replacement(self, reference: re.Match[str]) -> str:
        text = self.entities.get(reference[1] or "")
        return reference[0] if text is None else self.expanded(text.translate(_ESCAPES))


NO_DOCTYPE = Doctype()


@lru_cache(maxsize=16)
def read_doctype(data: bytes, dtd: str = "") -> Doctype | None:
    """A DOCTYPE, up to its ``>``, and the declarations of a DTD behind its own; None if it is malformed.

    Comments, notations, unparsed entities, element declarations, and attribute lists without defaults have no effect.

    >>> read_doctype(b"<!DOCTYPE r SYSTEM 'r.dtd' [<!NOTATION tif SYSTEM 'viewer'>]>").effective
    b''
    >>> read_doctype(b"<!DOCTYPE r SYSTEM 'r.dtd' [<!ENTITY x 'y'>]>").effective
    b"<!DOCTYPE r [<!ENTITY x 'y'>]>"
    >>> read_doctype(b"<!DOCTYPE r [<!ENTITY x SYSTEM 'file'>]>").refused
    'the internal subset of a DOCTYPE is not accepted: entity x is external, and nothing is fetched'
    """
    head = _HEAD.match(data)
    if head is None or forbidden(data)[0] >= 0 or not is_xml_name(head["name"].decode().replace(":", "_")):
        return None
    own, has_subset = b"", head["end"] == b"["
    if has_subset:
        own = data[head.end() : data.rindex(b"]")]
    elif head.end() < len(data):
        return None
    if not (dtd or has_subset):
        return NO_DOCTYPE
    declarations = own + dtd.encode()
    try:
        has_defaults, entities = _effects(declarations)
    except UsageError as error:
        return Doctype(_REFUSED + str(error))
    end = data[data.rindex(b"]") :] if has_subset else b"]>"
    subset = b"<!DOCTYPE " + head["name"] + b" [" + declarations + end
    if not contained(lambda: _is_well_formed(subset), subset, lambda: len(subset)):
        return None
    if not (has_defaults or entities):
        return NO_DOCTYPE
    if len(subset) > _MOST_BYTES:
        return Doctype(f"{_REFUSED}it declares entities or defaults, in more than {_MOST_BYTES:,} bytes")
    return Doctype("", subset, has_defaults, entities)


def entities_of(path: str) -> str:
    """The declarations of the named entities in a DTD, which is a local file. Raises `UsageError`.

    Other declarations have no effect here. Entities are left out that are external, use parameter entities, or contain
    markup: a document that refers to one is malformed.
    """
    try:
        data = Path(path).read_bytes()
        declaration = _ENCODING.match(data)
        text = data.decode(declaration[1].decode() if declaration else "utf-8-sig")
    except (OSError, LookupError, ValueError) as error:  # a ValueError: it is not in its encoding
        raise UsageError(f"cannot read the DTD {path}: {getattr(error, 'strerror', None) or error}") from None
    literals = dict[str, str]()
    for part in _PARTS.finditer(_IGNORED.sub(b"", text.encode())):
        if part["kind"] == b"ENTITY" and (named := _NAMED.fullmatch(part["text"])):
            name, literal = named["name"].decode(), named["literal"].decode()
            if "<" not in _CHARACTER.sub(_character, literal) and name not in _OWN_ENTITIES:
                literals.setdefault(name, literal)
    declarations = "".join(f"<!ENTITY {name} {literal}>" for name, literal in literals.items())
    if not declarations:
        raise UsageError(f"the DTD {path} declares no entity with a text")
    judged = read_doctype(b"<!DOCTYPE r>", declarations)
    if judged is None or judged.refused:
        reason = "malformed" if judged is None else judged.refused.removeprefix(_REFUSED)
        raise UsageError(f"the entities of the DTD {path} cannot be used: {reason}")
    return declarations


def _effects(subset: bytes) -> tuple[bool, dict[str, str]]:
    """Whether a subset declares defaults of attributes, and its entities. `UsageError` if it is not accepted."""
    has_defaults, entities = False, dict[str, str]()
    for part in _PARTS.finditer(subset):
        if part["other"] == b"%":
            raise UsageError("it uses a parameter entity")
        if part["other"]:
            break  # it is malformed
        text = part["text"] or b""
        words = _LITERAL.sub(b" '' ", text).split()
        if part["kind"] == b"ATTLIST":
            if b"xmlns" in text:
                raise UsageError("it declares a default namespace, or a default of a prefix")
            has_defaults |= b"''" in words or _has_other_types(words)
        elif part["kind"] == b"ENTITY" and words and b"NDATA" not in words:
            is_parameter = words[0] == b"%"
            name = b" ".join(words[: 1 + is_parameter]).decode("utf-8", "replace")
            if b"SYSTEM" in words or b"PUBLIC" in words:
                raise UsageError(f"entity {name} is external, and nothing is fetched")
            literal = _LITERAL.search(text)
            if literal is not None and not is_parameter:
                replacement = _CHARACTER.sub(_character, literal[0][1:-1].decode("utf-8", "replace"))
                if "<" in replacement:
                    raise UsageError(f"entity {name} contains markup")
                if name not in _OWN_ENTITIES:
                    entities.setdefault(name, replacement)
    return has_defaults, entities


def _character(reference: re.Match[str]) -> str:
    """The character of a character reference; the reference itself if there is none."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    return chr(code) if code < 0x110000 else reference[0]


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

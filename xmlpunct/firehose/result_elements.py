"""The elements that a result is written as: the names of its columns, read as paths.

As in SQL Server's FOR XML PATH, a column ``"@id"`` is an attribute, ``"a/b"`` an element inside another, and what
has the same parent shares it. XML named ``"node()"`` or ``"a/node()"`` has no element of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import FORBIDDEN, in_attribute
from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.firehose.spec import Limits, expanded

NODES = "node()"
"""Names a column of XML that has no element of its own."""
XML = "http://www.w3.org/XML/1998/namespace"
_RESERVED = ("punct", "xml", "xmlns")
_DEEPEST = Limits().depth - 2
"""So many elements fit into each other inside a result, which is itself inside the root."""

Namespaces = Mapping[str, str]
"""The URI of each prefix."""


@dataclass(slots=True)
class Element:
    """An element: its name as it is written, the columns (by their places) that are its attributes and its text (-1:
    none is), and the elements in it. ``names`` are the expanded names of its attributes and children."""

    name: str
    attributes: list[tuple[str, int]] = field(default_factory=list)
    text: int = -1
    children: list[Element] = field(default_factory=list)
    names: dict[str, Element | None] = field(default_factory=dict)

    def columns(self) -> Iterator[int]:
        """The places of all columns in it."""
        yield from (place for _, place in self.attributes)
        if self.text >= 0:
            yield self.text
        for child in self.children:
            yield from child.columns()

    def walk(self) -> Iterator[Element]:
        """It and all elements in it."""
        yield self
        for child in self.children:
            yield from child.walk()


def is_column_path(name: str) -> bool:
    """Whether the name of a column says a place in XML, if its prefixes are declared.

    >>> [is_column_path(name) for name in ("a", "@id", "g:a/b/@g:id", "a/node()", "a/@b/c", "a b", "")]
    [True, True, True, True, False, False, False]
    """
    *steps, last = name.split("/")
    return all(map(_is_qualified, steps)) and (last == NODES or _is_qualified(last.removeprefix("@")))


def outline(row: str, columns: Sequence[str], namespaces: Namespaces) -> Element:
    """The element ``row`` with these columns; ``.`` is its own text. Raises `UsageError` for what XML cannot say.

    >>> item = outline("item", ["@id", "size/w", "size/h", "name"], {})
    >>> item.attributes, [(child.name, list(child.columns())) for child in item.children]
    ([('id', 0)], [('size', [1, 2]), ('name', [3])])
    """
    top = Element(row)
    for place, name in enumerate(columns):
        try:
            _add(top, name, place, namespaces)
        except ValueError as error:
            raise UsageError(f"column {name!r} cannot be written as XML: {error}") from None
    return top


def expand(name: str, namespaces: Namespaces, remedy: str = "--namespaces '{}=URI' does") -> str:
    """The expanded name of a name with or without a prefix. Raises ValueError, for a prefix with a ``remedy``."""
    prefix, colon, local = name.rpartition(":")
    if not _is_qualified(name):
        raise ValueError(f"{name!r} is not a name that an XML element can have")
    if not colon:
        return local
    if prefix == "xml":
        return f"{{{XML}}}{local}"
    if prefix not in namespaces:
        raise ValueError(f"{name!r} has a prefix that is not declared: {remedy.format(prefix)}")
    return f"{{{namespaces[prefix]}}}{local}"


def read_namespaces(text: str) -> dict[str, str]:
    """Prefixes and their URIs, from ``g=urn:x h=urn:y``. Raises `UsageError`.

    >>> read_namespaces("g=urn:x h=urn:y")
    {'g': 'urn:x', 'h': 'urn:y'}
    """
    namespaces: dict[str, str] = {}
    for part in text.split():
        prefix, equals, uri = part.partition("=")
        if not (equals and uri and is_xml_name(prefix)):
            raise UsageError(f"--namespaces {part!r}: write PREFIX=URI, with a space between two")
        if prefix in _RESERVED:
            raise UsageError(f"--namespaces {part!r}: the prefix {prefix} has a meaning of its own")
        if prefix in namespaces:
            raise UsageError(f"--namespaces {part!r}: {prefix} is given twice")
        namespaces[prefix] = uri
    return namespaces


def prefixed(name: str, namespaces: Namespaces) -> tuple[str, Namespaces]:
    """A name as it is written, and the namespaces with the one of a name ``{uri}local``, which needs a prefix.

    >>> prefixed("{urn:x}a", {}), prefixed("{urn:x}a", {"g": "urn:x"})[0]
    (('ns1:a', {'ns1': 'urn:x'}), 'g:a')
    """
    uri, local = expanded(name)
    if not uri:
        return name, namespaces
    known = next((prefix for prefix, other in namespaces.items() if other == uri), None)
    if known is None:
        known = next(p for n in range(1, len(namespaces) + 2) if (p := f"ns{n}") not in namespaces)
        namespaces = {**namespaces, known: uri}
    return f"{known}:{local}", namespaces


def check_uri(uri: str) -> None:
    """Raise `UsageError` for a namespace that cannot be declared, or that nobody could read, as libxml2 sees it."""
    reason = f"{uri!r} is no namespace that a prefix can stand for"
    if re.search(f"{FORBIDDEN}|[{{}}]", uri) or uri in (XML, "http://www.w3.org/2000/xmlns/"):
        raise UsageError(reason)
    if len(uri) > Limits().name:
        raise UsageError(f"a namespace of more than {Limits().name:,} characters cannot be read again")
    try:
        etree.fromstring(f'<a xmlns:p="{in_attribute(uri)}"/>')
    except etree.XMLSyntaxError:
        raise UsageError(f"{reason}: it has to be a URI, with other characters as %20") from None


def _is_qualified(name: str) -> bool:
    prefix, colon, local = name.rpartition(":")
    return is_xml_name(local) and (not colon or is_xml_name(prefix))


def _add(top: Element, name: str, place: int, namespaces: Namespaces) -> None:
    *steps, last = name.split("/")
    is_attribute = last.startswith("@")
    if not is_attribute and name != ".":
        steps.append(last)
    if len(steps) > _DEEPEST:
        raise ValueError(f"elements nest at most {_DEEPEST} deep in a result")
    here = top
    for step in steps:
        if here.text >= 0:
            raise ValueError(f"another column is the text of <{here.name}>, which then has no elements in it")
        key = step if step == NODES else expand(step, namespaces)
        below = here.names.get(key)
        if below is None:
            below = here.names[key] = Element(step)
            here.children.append(below)
        here = below
    if is_attribute:
        _add_attribute(here, last[1:], place, namespaces)
    elif here.text >= 0:
        raise ValueError("another column stands in the same place")
    elif here.children:
        raise ValueError(f"other columns are elements in <{here.name}>, which then has no text of its own")
    else:
        here.text = place


def _add_attribute(here: Element, name: str, place: int, namespaces: Namespaces) -> None:
    key = f"@{expand(name, namespaces)}"
    if name == "xmlns":
        raise ValueError("xmlns declares a namespace and is no attribute")
    if here.text >= 0 or here.children:
        raise ValueError(f"an attribute comes before what is in its element <{here.name}>: list it earlier")
    if key in here.names:
        raise ValueError("another column stands in the same place")
    here.names[key] = None
    here.attributes.append((name, place))

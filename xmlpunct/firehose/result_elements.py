"""The element structure of XML results: column names are paths.

As in SQL Server's FOR XML PATH, a column ``"@id"`` is an attribute and ``"a/b"`` is a nested element. Columns with the
same parent share its element. An XML column named ``"node()"`` or ``"a/node()"`` has no element of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import FORBIDDEN, in_attribute
from xmlpunct.base.xml_names import is_xml_name
from xmlpunct.firehose.spec import Limits, name_parts

NODES = "node()"
"""The last step of the name of an XML column without an element of its own."""
XML = "http://www.w3.org/XML/1998/namespace"
_RESERVED = ("punct", "xml", "xmlns")
_DEEPEST = Limits().depth - 2
"""Maximum nesting of elements inside a result element, which is itself inside the root."""

Namespaces = Mapping[str, str]
"""The URI of each prefix."""


@dataclass(slots=True)
class ResultElement:
    """An element: its name as written, the columns (by position) of its attributes and its text (-1: no text), and its
    child elements. ``names`` has the expanded names of its attributes and children."""

    name: str
    attributes: list[tuple[str, int]] = field(default_factory=list)
    text: int = -1
    children: list[ResultElement] = field(default_factory=list)
    names: dict[str, ResultElement | None] = field(default_factory=dict)

    def columns(self) -> Iterator[int]:
        """The positions of all columns in the element and its descendants."""
        yield from (position for _, position in self.attributes)
        if self.text >= 0:
            yield self.text
        for child in self.children:
            yield from child.columns()

    def walk(self) -> Iterator[ResultElement]:
        """The element and its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()


def is_column_path(name: str) -> bool:
    """Whether a column name is a valid path, provided that its prefixes are declared.

    >>> [is_column_path(name) for name in ("a", "@id", "g:a/b/@g:id", "a/node()", "a/@b/c", "a b", "")]
    [True, True, True, True, False, False, False]
    """
    *steps, last = name.split("/")
    return all(map(_is_qualified, steps)) and (last == NODES or _is_qualified(last.removeprefix("@")))


def result_outline(row: str, columns: Sequence[str], namespaces: Namespaces) -> ResultElement:
    """The element ``row`` with these columns; ``.`` is its own text. Raises `UsageError` for an invalid structure.

    >>> item = result_outline("item", ["@id", "size/w", "size/h", "name"], {})
    >>> item.attributes, [(child.name, list(child.columns())) for child in item.children]
    ([('id', 0)], [('size', [1, 2]), ('name', [3])])
    """
    top = ResultElement(row)
    for position, name in enumerate(columns):
        try:
            _add(top, name, position, namespaces)
        except ValueError as error:
            raise UsageError(f"column {name!r} cannot be written as XML: {error}") from None
    return top


def expanded_name(
    name: str, namespaces: Namespaces, remedy: str = "declare it with --namespaces '{}=URI'"
) -> str:
    """The expanded name of a name with an optional prefix. Raises ValueError; ``remedy``: advice on a prefix."""
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
            raise UsageError(f"--namespaces {part!r}: write PREFIX=URI, separated by spaces")
        if prefix in _RESERVED:
            raise UsageError(f"--namespaces {part!r}: the prefix {prefix} is reserved")
        if prefix in namespaces:
            raise UsageError(f"--namespaces {part!r}: {prefix} is given twice")
        namespaces[prefix] = uri
    return namespaces


def prefixed(name: str, namespaces: Namespaces) -> tuple[str, Namespaces]:
    """A name ``{uri}local`` with a prefix, and the namespaces, extended if the name needed a new prefix.

    >>> prefixed("{urn:x}a", {}), prefixed("{urn:x}a", {"g": "urn:x"})[0]
    (('ns1:a', {'ns1': 'urn:x'}), 'g:a')
    """
    uri, local = name_parts(name)
    if not uri:
        return name, namespaces
    prefix = next((p for p, other in namespaces.items() if other == uri), None)
    if prefix is None:
        prefix = next(p for n in range(1, len(namespaces) + 2) if (p := f"ns{n}") not in namespaces)
        namespaces = {**namespaces, prefix: uri}
    return f"{prefix}:{local}", namespaces


def check_uri(uri: str) -> None:
    """Raise `UsageError` for a namespace that cannot be declared, or that libxml2 would refuse to read."""
    reason = f"{uri!r} is no namespace that can have a prefix"
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


def _add(top: ResultElement, name: str, position: int, namespaces: Namespaces) -> None:
    *steps, last = name.split("/")
    is_attribute = last.startswith("@")
    if not is_attribute and name != ".":
        steps.append(last)
    if len(steps) > _DEEPEST:
        raise ValueError(f"elements nest at most {_DEEPEST} deep in a result")
    element = top
    for step in steps:
        if element.text >= 0:
            raise ValueError(
                f"another column is the text of <{element.name}>, so this element cannot contain elements"
            )
        key = step if step == NODES else expanded_name(step, namespaces)
        child = element.names.get(key)
        if child is None:
            child = element.names[key] = ResultElement(step)
            element.children.append(child)
        element = child
    if is_attribute:
        _add_attribute(element, last[1:], position, namespaces)
    elif element.text >= 0:
        raise ValueError("another column has the same path")
    elif element.children:
        raise ValueError(f"other columns are elements in <{element.name}>, so this element cannot have text")
    else:
        element.text = position


def _add_attribute(element: ResultElement, name: str, position: int, namespaces: Namespaces) -> None:
    key = f"@{expanded_name(name, namespaces)}"
    if name == "xmlns":
        raise ValueError("xmlns declares a namespace and is no attribute")
    if element.text >= 0 or element.children:
        raise ValueError(
            f"an attribute comes before the content of its element <{element.name}>: list it earlier"
        )
    if key in element.names:
        raise ValueError("another column has the same path")
    element.names[key] = None
    element.attributes.append((name, position))

"""XML names, and the paths made of them that say where a value stands in its tuple's element."""

from __future__ import annotations

import re

_START = (
    r"A-Z_a-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_XML_NAME = re.compile(rf"[{_START}][{_START}\-.0-9\u00B7\u0300-\u036F\u203F-\u2040]*")
_ELEMENT = re.compile(r"(?:\{[^{}]+\})?(?P<local>[^{}]*)")


def is_xml_name(name: str) -> bool:
    """Whether an element can be named so (without a prefix)."""
    return _XML_NAME.fullmatch(name) is not None


def check_element(name: str) -> None:
    """Raise ValueError unless elements can have this expanded name.

    >>> check_element("{urn:x}t")
    >>> check_element("a/b")
    Traceback (most recent call last):
    ValueError: a/b is no name of an XML element: name or {uri}name
    """
    found = _ELEMENT.fullmatch(name)
    if found is None or not is_xml_name(found["local"]):
        raise ValueError(f"{name} is no name of an XML element: name or {{uri}}name")


def read_path(path: str) -> tuple[tuple[str, ...], str | None]:
    """The elements that a path goes through, and the XML attribute in the last of them (None: its text).

    Raises ValueError for a path that is not understood.

    >>> read_path("a/b"), read_path("a/@id")
    ((('a', 'b'), None), (('a',), 'id'))
    """
    *elements, last = path.split("/")
    attribute = last[1:] if last[:1] == "@" else None
    if attribute is None:
        elements.append(last)
    names = elements if attribute is None else [*elements, attribute]
    if any(":" in name or "{" in name for name in names):
        raise ValueError(
            f"PATH '{path}': names with a prefix or a {{uri}} cannot be read yet; write the name alone, which "
            "stands for elements in the tuples' namespace or in none, and for XML attributes in none"
        )
    if not all(map(is_xml_name, names)):
        raise ValueError(f"PATH '{path}' is no path: a child, a/b, @id or a/@id")
    if attribute == "xmlns":
        raise ValueError(
            f"PATH '{path}': xmlns declares a namespace and is no XML attribute that can be read"
        )
    return tuple(elements), attribute

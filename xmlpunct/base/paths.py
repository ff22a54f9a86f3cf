"""Paths: the position of a value in its tuple's element. Only XPath's child and attribute steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from xmlpunct.base.xml_names import is_xml_name

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"

_STEP = re.compile(
    r"""(?P<at>@)?(?:\{(?P<uri>[^{}]+)\}|(?P<prefix>[^{}/@:\[\]'"]+):)?(?P<local>[^{}/@:\[\]'"]+)
        (?P<test>\[(?:(?P<position>[1-9][0-9]{0,8})
                   |@(?:\{(?P<auri>[^{}]+)\}|(?P<aprefix>[^{}/@:\[\]'"]+):)?(?P<alocal>[^{}/@:\[\]'"=\s]+)
                    \s*=\s*(?:'(?P<one>[^']*)'|"(?P<two>[^"]*)"))\])?(?:/(?=.)|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_FORMS = "a child, a/b, a[1], a[@rel='self'], @id, a/@id, ., a/text(), ../@id or ../a"


@dataclass(frozen=True, slots=True)
class ChildStep:
    """A step to a child element by name.

    A name that is not expanded fits elements in the tuples' namespace or in none. A ``position`` selects one of the
    elements with the name; an ``attribute`` selects the elements in which it has ``value``.
    """

    name: str
    position: int = 0
    attribute: str = ""
    value: str = ""

    @property
    def local(self) -> str:
        """The name without a namespace."""
        return self.name.rpartition("}")[2]

    @property
    def is_plain(self) -> bool:
        """True if it has no position and no condition."""
        return not (self.position or self.attribute)

    def names(self, space: str) -> tuple[str, ...]:
        """The expanded names of the elements that it fits, in tuples of a namespace (empty: none)."""
        return (self.name,) if self.name[:1] == "{" or not space else (self.name, f"{{{space}}}{self.name}")

    def __str__(self) -> str:
        if self.position:
            return f"{self.name}[{self.position}]"
        quote = '"' if "'" in self.value else "'"
        return f"{self.name}[@{self.attribute}={quote}{self.value}{quote}]" if self.attribute else self.name


@dataclass(frozen=True, slots=True)
class Path:
    """``up`` to an ancestor, down some children, then an ``attribute`` or text (``own_text``: not that of children).

    >>> str(read_path("../g:a[@rel='self']/@id", {"g": "urn:g"}))
    "../{urn:g}a[@rel='self']/@id"
    """

    up: int
    hops: tuple[ChildStep, ...]
    attribute: str | None = None
    own_text: bool = False

    def __str__(self) -> str:
        last = [] if self.attribute is None else [f"@{self.attribute}"]
        steps = [*[".."] * self.up, *map(str, self.hops), *last, *(["text()"] if self.own_text else [])]
        return "/".join(steps) or "."


def read_path(path: str, namespaces: Mapping[str, str] | None = None) -> Path:
    """Parse a path. ``namespaces`` maps its prefixes to URIs; the empty prefix is for names without a prefix.

    Raises ValueError for a malformed path.
    """
    if path == ".":
        return Path(0, ())
    spaces, up, offset = {"xml": XML_NAMESPACE, **(namespaces or {})}, 0, 0
    while path.startswith("../", offset):
        up, offset = up + 1, offset + 3
    hops: list[ChildStep] = []
    while offset < len(path):
        if path[offset:] == "text()" and (hops or not up):
            return Path(up, tuple(hops), own_text=True)
        match = _STEP.match(path, offset)
        if match is None or not is_xml_name(match["local"]) or (match["at"] and match["test"]):
            break
        name = _name(path, match["uri"], match["prefix"], match["local"], spaces, not match["at"])
        if match["at"]:
            if name == "xmlns":
                raise ValueError(
                    f"PATH '{path}': xmlns declares a namespace and is no XML attribute that can be read"
                )
            if match.end() < len(path):
                break
            return Path(up, tuple(hops), name)
        if match["alocal"]:
            if not is_xml_name(match["alocal"]):
                break
            attribute = _name(path, match["auri"], match["aprefix"], match["alocal"], spaces, False)
            value = match["one"] if match["one"] is not None else match["two"]
            hops.append(ChildStep(name, attribute=attribute, value=value))
        else:
            hops.append(ChildStep(name, int(match["position"] or 0)))
        offset = match.end()
        if offset == len(path):
            return Path(up, tuple(hops))
    raise ValueError(f"PATH '{path}' is no path: {_FORMS}")


_CONDITION = re.compile(r"\s*(@[^=]*?)\s*=\s*('[^']*'|\"[^\"]*\")\s*", re.DOTALL)


def read_condition(text: str, namespaces: Mapping[str, str] | None = None) -> tuple[str, str]:
    """The attribute and the value of a condition on tuples' elements. Raises ValueError.

    >>> read_condition("@type = 'bid'")
    ('type', 'bid')
    """
    match = _CONDITION.fullmatch(text)
    attribute = read_path(match[1], namespaces).attribute if match else None
    if match is None or attribute is None:
        raise ValueError(f"{text} is no condition: @name = 'value'")
    return attribute, match[2][1:-1]


def read_element(element: str, namespaces: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The expanded names of a tuple's element and of its nearest ancestors in the path, outermost first.

    >>> read_element("g:order/line", {"g": "urn:g"})
    ('{urn:g}order', 'line')
    >>> read_element("a|b")
    Traceback (most recent call last):
    ValueError: a|b is no name of an XML element: name, {uri}name or parent/name
    """
    try:
        path = read_path(element, namespaces)
    except ValueError as error:
        if "XMLNAMESPACES" in str(error):
            raise ValueError(str(error).replace("PATH", "element", 1)) from None
        path = Path(1, ())
    if (
        path.up
        or not path.hops
        or path.attribute is not None
        or path.own_text
        or not all(h.is_plain for h in path.hops)
    ):
        raise ValueError(f"{element} is no name of an XML element: name, {{uri}}name or parent/name")
    return tuple(hop.name for hop in path.hops)


def _name(
    path: str, uri: str | None, prefix: str | None, local: str, spaces: Mapping[str, str], is_element: bool
) -> str:
    """An expanded name."""
    if prefix is not None:
        if prefix not in spaces or not is_xml_name(prefix):
            raise ValueError(
                f"PATH '{path}': the prefix {prefix} has no namespace: XMLNAMESPACES('uri' AS {prefix})"
            )
        uri = spaces[prefix]
    elif uri is None and is_element:
        uri = spaces.get("")
    return f"{{{uri}}}{local}" if uri else local

"""What an XML Schema declares, by name, and the types of what is declared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.library_guard import guarded
from xmlpunct.base.paths import XML_NAMESPACE
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type, decimal

XS = "{http://www.w3.org/2001/XMLSchema}"
_INTEGERS = (
    *("integer", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
    *("long", "int", "short", "byte", "unsignedInt", "unsignedShort", "unsignedByte"),
)
_TYPES: dict[str, Type] = {
    **dict.fromkeys(_INTEGERS, INT),
    "unsignedLong": decimal(20, 0),
    "decimal": decimal(38, 18),  # any processor holds 18 digits
    "float": DOUBLE,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "date": DATE,
    "dateTime": TIMESTAMP,
}
DEEPEST = 50
"""How deep types and groups can refer to each other."""
DEEPEST_COPIES = 100
"""How deep types and groups, and the parts of each, can be inside each other once they are copied."""
MOST_PARTS = 1_000
"""The elements, attributes and simple types that may come together in a type or group, however few are declared.

A group is copied wherever one refers to it, so that forty groups, each twice in the next, would be 2**40 elements.
"""

Node = etree._Element


class Declarations:
    """An XML Schema file with those that it includes or imports from beside it. Raises `UsageError`.

    Nothing is fetched from elsewhere. ``declared`` has what is global, by its kind and its expanded name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.declared: dict[tuple[str, str], Node] = {}
        self.roots: list[Node] = []
        self.files: set[Path] = set()
        self._load(Path(path))

    def complex_of(self, node: Node) -> Node | None:
        """The complex type of an element, if it has one."""
        node = self._typed(node)
        named = self.types_named(node, "type")
        found = node.find(f"{XS}complexType") if named is None else named
        return found if found is not None and found.tag == f"{XS}complexType" else None

    def is_known(self, node: Node) -> bool:
        """Whether anything is known of what an element holds."""
        node = self._typed(node)
        is_inline = node.find(f"{XS}simpleType") is not None or node.find(f"{XS}complexType") is not None
        return is_inline or self.qualified(node, "type") not in (None, f"{XS}anyType")

    def simple(self, node: Node, depth: int = 0) -> Type:
        """The type of the text in an element or attribute, or in a type: what it is a restriction of."""
        node = self._typed(node)
        if next(node.iter(f"{XS}list", f"{XS}union"), None) is not None:
            return STRING
        derived = next(node.iter(f"{XS}restriction", f"{XS}extension"), None)
        for at, name in ((node, "type"), (derived, "base")):
            qualified = self.qualified(at, name)
            if at is None or qualified is None:
                continue
            if qualified.startswith(XS):
                return _narrowed(_TYPES.get(qualified.removeprefix(XS), STRING), derived)
            type_ = self.declared.get(("type", qualified))
            if type_ is not None and depth < DEEPEST:
                return _narrowed(self.simple(type_, depth + 1), derived)
        return STRING

    def check_size(self) -> None:
        """Raise `UsageError` for types and groups that are too many, or nested too deeply, once they are copied."""
        parts = (f"{XS}element", f"{XS}attribute", f"{XS}any", f"{XS}anyAttribute", f"{XS}simpleType")
        most = max(MOST_PARTS, sum(1 for root in self.roots for _ in root.iter(*parts)))
        known: dict[Node, tuple[int, int]] = {}  # by node, its parts and how deep they nest

        def measured(node: Node, around: int) -> tuple[int, int]:
            if node not in known:
                below = [n for n in node.iterchildren(f"{XS}*") if n.tag not in parts[:2]]
                inside = [*below, *(n for n in self._copied(node) if n is not None)]
                found = [measured(n, around + 1) for n in inside if around < DEEPEST_COPIES]
                size = sum(1 for _ in node.iterchildren(*parts)) + sum(size for size, _ in found)
                size = max(size, 1)
                depth = 1 + max((depth for _, depth in found), default=0)
                if size > most or around + depth > DEEPEST_COPIES:
                    what = f"comes to {size:,} parts, with what it refers to: at most {most:,} are read"
                    what = what if size > most else "is nested too deeply, with what it refers to"
                    raise UsageError(f"{self._place(node)}: <xs:{node.tag.removeprefix(XS)}> {what}")
                known[node] = size, depth
            return known[node]

        for root in self.roots:
            for node in root.iter(f"{XS}complexType", f"{XS}simpleType", f"{XS}group", f"{XS}attributeGroup"):
                measured(node, 0)

    def _copied(self, node: Node) -> Iterator[Node | None]:
        """The groups and types that a part of a schema refers to, and that become parts of it."""
        kind = str(node.tag).removeprefix(XS)
        if kind in ("group", "attributeGroup"):
            yield self.referred(kind, node, "ref")
        yield self.types_named(node, "base")
        yield self.types_named(node, "itemType")
        for name in node.get("memberTypes", "").split():
            yield self.declared.get(("type", self._expanded(node, name)))

    def _place(self, node: Node) -> str:
        return f"{self.path}, line {node.sourceline}"

    def _typed(self, node: Node) -> Node:
        """The declaration that says the type of an element: of one without a type that for which it may stand."""
        seen = [node]
        while node.get("type") is None and not len(node.findall(f"{XS}*")):
            head = self.referred("element", node, "substitutionGroup")
            if head is None or head in seen:
                break
            node = head
            seen.append(node)
        return node

    def types_named(self, node: Node, attribute: str) -> Node | None:
        """The global type that an attribute names."""
        qualified = self.qualified(node, attribute)
        return None if qualified is None else self.declared.get(("type", qualified))

    def referred(self, kind: str, node: Node, attribute: str) -> Any:
        """What an attribute names of a kind; None if it is not here."""
        return self.declared.get((kind, self.qualified(node, attribute) or ""))

    def qualified(self, node: Node | None, attribute: str) -> str | None:
        """The expanded name that an attribute of the schema says with a prefix."""
        text = None if node is None else node.get(attribute)
        return None if node is None or text is None else self._expanded(node, text)

    def _expanded(self, node: Node, name: str) -> str:
        prefix, _, local = name.strip().rpartition(":")
        uri = {"xml": XML_NAMESPACE, **node.nsmap}.get(prefix or None) or (
            "" if prefix else self._target(node)
        )
        return f"{{{uri}}}{local}" if uri else local

    def named(self, node: Node) -> str:
        """The expanded name of what is declared."""
        root, name = node.getroottree().getroot(), str(node.get("name", ""))
        is_global = node.getparent() is root
        default = root.get(f"{node.tag.removeprefix(XS)}FormDefault")
        is_qualified = is_global or node.get("form", default) == "qualified"
        target = self._target(node) if is_qualified else ""
        return f"{{{target}}}{name}" if target else name

    def _target(self, node: Node) -> str:
        root = node.getroottree().getroot()
        return str(root.get("targetNamespace") or self.roots[0].get("targetNamespace") or "")

    def _load(self, path: Path) -> None:
        """Read a file, and those beside it that it names."""
        path = path.resolve()
        if path in self.files:
            return
        self.files.add(path)
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True
        )
        try:
            with guarded(str(path), passing=(OSError, etree.XMLSyntaxError)):
                root = etree.fromstring(path.read_bytes(), parser)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except etree.XMLSyntaxError as error:
            raise UsageError(f"{path} is no XML Schema: {error.msg}") from None
        if root.tag != f"{XS}schema":
            raise UsageError(f"{path} is no XML Schema: its root is <{root.tag}>")
        self.roots.append(root)
        for node in root.iterchildren(f"{XS}*"):
            kind = node.tag.removeprefix(XS)
            kind = "type" if kind in ("complexType", "simpleType") else kind
            if node.get("name"):
                self.declared[kind, self.named(node) if kind != "type" else self._global(node)] = node
            place = node.get("schemaLocation")
            if kind in ("include", "import") and place and "://" not in place:
                self._load(path.parent / place)

    def _global(self, node: Node) -> str:
        target = self._target(node)
        return f"{{{target}}}{node.get('name')}" if target else str(node.get("name"))


def _narrowed(type_: Type, restriction: Node | None) -> Type:
    """A DECIMAL as narrow as a restriction says."""
    if not isinstance(type_, DecimalType) or restriction is None:
        return type_
    digits = restriction.find(f"{XS}totalDigits"), restriction.find(f"{XS}fractionDigits")
    total, fraction = (None if d is None else _count(d) for d in digits)
    if total is None:
        return type_ if fraction is None else decimal(38, min(fraction, 38))
    if not 0 < total <= 38:
        return type_
    return decimal(total, min(total, fraction)) if fraction is not None else type_


def _count(facet: Node) -> int:
    """The value of a facet that counts digits. Raises `UsageError`."""
    text = facet.get("value", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"line {facet.sourceline} of the XML Schema: {text[:60]!r} is no number of digits")
    return int(text)

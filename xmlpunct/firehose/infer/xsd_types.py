"""The declarations of an XML Schema, by name, and their types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    "decimal": decimal(38, 18),  # XML Schema requires processors to support 18 digits
    "float": DOUBLE,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "date": DATE,
    "dateTime": TIMESTAMP,
}
DEEPEST = 50
"""Maximum depth of references between types and groups."""
DEEPEST_COPIES = 100
"""Maximum nesting depth of types, groups and their parts, after references are replaced by copies."""
MOST_PARTS = 1_000
"""Elements, attributes and simple types that a type or group may have after copying, even if fewer are declared.

Each reference to a group copies it: forty groups, each referred to twice by the next, would be 2**40 elements.
"""

XsdNode = etree._Element


class Declarations:
    """An XML Schema file with the local files that it includes or imports. Raises `UsageError`.

    No file is fetched from a URL. ``declared`` maps (kind, expanded name) to each global declaration.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.declared: dict[tuple[str, str], XsdNode] = {}
        self.roots: list[XsdNode] = []
        self.files: set[Path] = set()
        self._load(Path(path))

    def complex_of(self, node: XsdNode) -> XsdNode | None:
        """The complex type of an element, if it has one."""
        node = self._typed(node)
        named = self.referred("type", node, "type")
        type_ = node.find(f"{XS}complexType") if named is None else named
        return type_ if type_ is not None and type_.tag == f"{XS}complexType" else None

    def is_known(self, node: XsdNode) -> bool:
        """True if an element has a declared type other than `xs:anyType`."""
        node = self._typed(node)
        is_inline = node.find(f"{XS}simpleType") is not None or node.find(f"{XS}complexType") is not None
        return is_inline or self.qualified(node, "type") not in (None, f"{XS}anyType")

    def simple(self, node: XsdNode, depth: int = 0) -> Type:
        """The type of the text in an element, attribute or type: the built-in type from which it is derived."""
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
        max_parts = max(MOST_PARTS, sum(1 for root in self.roots for _ in root.iter(*parts)))
        sizes: dict[XsdNode, tuple[int, int]] = {}  # by node, the number of its parts and their depth

        def measured(node: XsdNode, around: int) -> tuple[int, int]:
            if node not in sizes:
                below = [n for n in node.iterchildren(f"{XS}*") if n.tag not in parts[:2]]
                inside = [*below, *(n for n in self._copied(node) if n is not None)]
                measures = [measured(n, around + 1) for n in inside if around < DEEPEST_COPIES]
                size = sum(1 for _ in node.iterchildren(*parts)) + sum(size for size, _ in measures)
                size = max(size, 1)
                depth = 1 + max((depth for _, depth in measures), default=0)
                if size > max_parts or around + depth > DEEPEST_COPIES:
                    problem = f"has {size:,} parts, with its references: at most {max_parts:,} are read"
                    problem = problem if size > max_parts else "is nested too deeply, with its references"
                    raise UsageError(f"{self._location(node)}: <xs:{node.tag.removeprefix(XS)}> {problem}")
                sizes[node] = size, depth
            return sizes[node]

        for root in self.roots:
            for node in root.iter(f"{XS}complexType", f"{XS}simpleType", f"{XS}group", f"{XS}attributeGroup"):
                measured(node, 0)

    def _copied(self, node: XsdNode) -> Iterator[XsdNode | None]:
        """The groups and types whose content a reference in this node copies into it."""
        kind = str(node.tag).removeprefix(XS)
        if kind in ("group", "attributeGroup"):
            yield self.referred(kind, node, "ref")
        yield self.referred("type", node, "base")
        yield self.referred("type", node, "itemType")
        for name in node.get("memberTypes", "").split():
            yield self.declared.get(("type", self._expanded(node, name)))

    def _location(self, node: XsdNode) -> str:
        return f"{self.path}, line {node.sourceline}"

    def _typed(self, node: XsdNode) -> XsdNode:
        """The declaration with an element's type: its own, or that of the head of its substitution group."""
        visited = [node]
        while node.get("type") is None and not len(node.findall(f"{XS}*")):
            head = self.referred("element", node, "substitutionGroup")
            if head is None or head in visited:
                break
            node = head
            visited.append(node)
        return node

    def referred(self, kind: str, node: XsdNode, attribute: str) -> XsdNode | None:
        """The global declaration of a kind that an attribute names; None if it is not declared in these files."""
        return self.declared.get((kind, self.qualified(node, attribute) or ""))

    def qualified(self, node: XsdNode | None, attribute: str) -> str | None:
        """The expanded form of the prefixed name in an attribute of the schema."""
        text = None if node is None else node.get(attribute)
        return None if node is None or text is None else self._expanded(node, text)

    def _expanded(self, node: XsdNode, name: str) -> str:
        prefix, _, local = name.strip().rpartition(":")
        uri = {"xml": XML_NAMESPACE, **node.nsmap}.get(prefix or None) or (
            "" if prefix else self._target(node)
        )
        return f"{{{uri}}}{local}" if uri else local

    def named(self, node: XsdNode) -> str:
        """The expanded name of a declaration."""
        root, name = node.getroottree().getroot(), str(node.get("name", ""))
        is_global = node.getparent() is root
        default = root.get(f"{node.tag.removeprefix(XS)}FormDefault")
        is_qualified = is_global or node.get("form", default) == "qualified"
        target = self._target(node) if is_qualified else ""
        return f"{{{target}}}{name}" if target else name

    def _target(self, node: XsdNode) -> str:
        root = node.getroottree().getroot()
        return str(root.get("targetNamespace") or self.roots[0].get("targetNamespace") or "")

    def _load(self, path: Path) -> None:
        """Read a file and the local files that it includes or imports."""
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
                self.declared[kind, self.named(node)] = node
            location = node.get("schemaLocation")
            if kind in ("include", "import") and location and "://" not in location:
                self._load(path.parent / location)


def _narrowed(type_: Type, restriction: XsdNode | None) -> Type:
    """A DECIMAL with the precision and scale of a restriction."""
    if not isinstance(type_, DecimalType) or restriction is None:
        return type_
    digits = restriction.find(f"{XS}totalDigits"), restriction.find(f"{XS}fractionDigits")
    total, fraction = (None if d is None else _count(d) for d in digits)
    if total is None:
        return type_ if fraction is None else decimal(38, min(fraction, 38))
    if not 0 < total <= 38:
        return type_
    return decimal(total, min(total, fraction)) if fraction is not None else type_


def _count(facet: XsdNode) -> int:
    """The value of a facet that counts digits. Raises `UsageError`."""
    text = facet.get("value", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"line {facet.sourceline} of the XML Schema: {text[:60]!r} is no number of digits")
    return int(text)

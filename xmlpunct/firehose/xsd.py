"""What an XML Schema says of an element: the columns of its tuples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from xmlpunct.errors import UsageError
from xmlpunct.firehose.inferred import Inferred, named
from xmlpunct.firehose.spec import expanded
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DecimalType, Type, decimal

_XS = "{http://www.w3.org/2001/XMLSchema}"
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
_TRUE = ("true", "1")
_DEEPEST = 50
"""How deep types and groups can refer to each other."""

Node = etree._Element


@dataclass(frozen=True)
class _Item:
    """An element or attribute (``@name``) in a type, its declaration, and why it can be no column, if so."""

    name: str
    declaration: Node
    optional: bool
    reason: str | None = None


class XsdFile:
    """An XML Schema file with those that it includes or imports from beside it. Raises `UsageError`.

    Nothing is fetched from elsewhere.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._declared: dict[tuple[str, str], Node] = {}
        self._roots: list[Node] = []
        self.files: set[Path] = set()
        self._space = ""  # of the tuples' element
        self._load(Path(path))

    def infer(self, element: str) -> Inferred:
        """The columns of an element, ``name`` or ``{uri}name``."""
        declared = {self._named(node): node for root in self._roots for node in root.iter(f"{_XS}element")}
        if element not in declared:
            alike = sorted(name for name in declared if expanded(name)[1] == expanded(element)[1])
            raise UsageError(
                f"{self.path} has no element {element}; it has {', '.join(alike) or 'none so named'}"
            )
        return self._inferred(element, declared[element])

    def check_global(self, element: str) -> None:
        """Raise `UsageError` unless an element can be validated by itself, with all that is included at hand."""
        if ("element", element) not in self._declared:
            raise UsageError(
                f"{self.path} declares no <{element}> at its top level, so that it cannot be validated"
            )
        for root in self._roots:
            for node in root.iterchildren(f"{_XS}include", f"{_XS}import", f"{_XS}redefine"):
                if "://" in node.get("schemaLocation", ""):
                    place = node.get("schemaLocation")
                    raise UsageError(f"{self.path} includes {place}, which is not fetched: put it beside")

    def _inferred(self, name: str, node: Node) -> Inferred:
        self._space = expanded(name)[0]
        columns: dict[str, tuple[Type, bool]] = {}
        left_out: list[str] = []
        for path, type_, nullable, reason in self._columns(node, (), False):
            if reason is not None:
                left_out.append(f"{path}, {reason}")
            elif path in columns:  # in both branches of a choice, say
                before, _ = columns[path]
                columns[path] = (type_ if type_ is before else STRING), True
            else:
                columns[path] = type_, nullable
        if not columns:
            raise UsageError(
                f"{self.path} gives <{name}> no attributes and no children that could be columns"
            )
        names = named(columns)
        schema = Schema.of(Attribute(names[path], t, null, path) for path, (t, null) in columns.items())
        return Inferred(name, schema, left_out=tuple(dict.fromkeys(left_out)))

    def _columns(
        self, node: Node, steps: tuple[str, ...], nullable: bool, around: tuple[Node, ...] = ()
    ) -> Iterator[tuple[str, Type, bool, str | None]]:
        """The places in an element with their types, whether they may be missing, and why they can be no columns."""
        complex_ = self._complex(node)
        path = "/".join(steps) or "."
        if complex_ is None or complex_.find(f"{_XS}simpleContent") is not None:
            is_nil = node.get("nillable") in _TRUE
            type_ = STRING if is_nil else self._simple(node if complex_ is None else complex_)
            yield path, type_, nullable, None if steps else "the text of the element itself"
        elif complex_ in around or complex_.get("mixed") in _TRUE:
            reason = "which may hold itself" if complex_ in around else "which mixes text and elements"
            yield path, STRING, True, reason
            return
        if complex_ is None:
            return
        for item in self._items(complex_, 0):
            told = "/".join([*steps, item.name])
            missing = nullable or item.optional
            if item.reason is not None:
                yield told, STRING, True, item.reason
            elif item.name[:1] == "@":
                yield told, self._simple(item.declaration), missing, None
            else:
                inside = (*around, complex_)
                yield from self._columns(item.declaration, (*steps, item.name), missing, inside)

    def _items(
        self, complex_: Node, depth: int, optional: bool = False, repeated: bool = False
    ) -> Iterator[_Item]:
        """The attributes and child elements in a type, a group or a part of one."""
        if depth > _DEEPEST:
            raise UsageError(f"{self.path}, line {complex_.sourceline}: the types here are nested too deeply")
        for part in complex_.iterchildren(f"{_XS}*"):
            kind = part.tag.removeprefix(_XS)
            most = optional or complex_.tag == f"{_XS}choice", repeated or _most(part) > 1
            few = most[0] or part.get("minOccurs") == "0"
            if kind in ("element", "attribute"):
                yield self._item(
                    kind, part, few if kind == "element" else part.get("use") != "required", most[1]
                )
            elif kind in ("sequence", "choice", "all"):
                yield from self._items(part, depth + 1, few, most[1])
            elif kind in ("group", "attributeGroup") and part.get("ref"):
                yield from self._items(self._referred(kind, part, "ref"), depth + 1, few, most[1])
            elif kind in ("complexContent", "simpleContent"):
                yield from self._items(part, depth + 1)
            elif kind in ("extension", "restriction"):
                base = self._types_named(part, "base")
                if kind == "extension" and base is not None and base.tag == f"{_XS}complexType":
                    yield from self._items(base, depth + 1)
                yield from self._items(part, depth + 1)
            elif kind in ("any", "anyAttribute"):
                yield _Item("*", part, True, f"<xs:{kind}>, of which nothing is known")

    def _item(self, kind: str, part: Node, optional: bool, repeated: bool) -> _Item:
        node = self._referred(kind, part, "ref") if part.get("ref") else part
        if node is None:
            return _Item(str(part.get("ref")), part, True, "which is declared elsewhere")
        namespace, local = expanded(self._named(node))
        reason = None
        if namespace not in (("", self._space) if kind == "element" else ("",)):
            reason = f"in the namespace {namespace}"
        elif repeated:
            reason = "which may come more than once in one tuple"
        return _Item(local if kind == "element" else f"@{local}", node, optional, reason)

    def _complex(self, node: Node) -> Node | None:
        """The complex type of an element, if it has one."""
        named = self._types_named(node, "type")
        found = node.find(f"{_XS}complexType") if named is None else named
        return found if found is not None and found.tag == f"{_XS}complexType" else None

    def _simple(self, node: Node, depth: int = 0) -> Type:
        """The type of the text in an element or attribute, or in a type: what it is a restriction of."""
        if next(node.iter(f"{_XS}list", f"{_XS}union"), None) is not None:
            return STRING
        derived = next(node.iter(f"{_XS}restriction", f"{_XS}extension"), None)
        for at, name in ((node, "type"), (derived, "base")):
            qualified = self._qualified(at, name)
            if at is None or qualified is None:
                continue
            if qualified.startswith(_XS):
                return _narrowed(_TYPES.get(qualified.removeprefix(_XS), STRING), derived)
            type_ = self._declared.get(("type", qualified))
            if type_ is not None and depth < _DEEPEST:
                return _narrowed(self._simple(type_, depth + 1), derived)
        return STRING

    def _types_named(self, node: Node, attribute: str) -> Node | None:
        qualified = self._qualified(node, attribute)
        return None if qualified is None else self._declared.get(("type", qualified))

    def _referred(self, kind: str, node: Node, attribute: str) -> Any:
        return self._declared.get((kind, self._qualified(node, attribute) or ""))

    def _qualified(self, node: Node | None, attribute: str) -> str | None:
        """The expanded name that an attribute of the schema says with a prefix."""
        text = None if node is None else node.get(attribute)
        if node is None or text is None:
            return None
        prefix, _, local = text.strip().rpartition(":")
        uri = node.nsmap.get(prefix or None) or ("" if prefix else self._target(node))
        return f"{{{uri}}}{local}" if uri else local

    def _named(self, node: Node) -> str:
        """The expanded name of what is declared."""
        root, name = node.getroottree().getroot(), str(node.get("name", ""))
        is_global = node.getparent() is root
        default = root.get(f"{node.tag.removeprefix(_XS)}FormDefault")
        is_qualified = is_global or node.get("form", default) == "qualified"
        target = self._target(node) if is_qualified else ""
        return f"{{{target}}}{name}" if target else name

    def _target(self, node: Node) -> str:
        root = node.getroottree().getroot()
        return str(root.get("targetNamespace") or self._roots[0].get("targetNamespace") or "")

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
            root = etree.fromstring(path.read_bytes(), parser)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except etree.XMLSyntaxError as error:
            raise UsageError(f"{path} is no XML Schema: {error.msg}") from None
        if root.tag != f"{_XS}schema":
            raise UsageError(f"{path} is no XML Schema: its root is <{root.tag}>")
        self._roots.append(root)
        for node in root.iterchildren(f"{_XS}*"):
            kind = node.tag.removeprefix(_XS)
            kind = "type" if kind in ("complexType", "simpleType") else kind
            if node.get("name"):
                self._declared[kind, self._named(node) if kind != "type" else self._global(node)] = node
            place = node.get("schemaLocation")
            if kind in ("include", "import") and place and "://" not in place:
                self._load(path.parent / place)

    def _global(self, node: Node) -> str:
        target = self._target(node)
        return f"{{{target}}}{node.get('name')}" if target else str(node.get("name"))


def _most(node: Node) -> float:
    most = node.get("maxOccurs", "1")
    return float("inf") if most == "unbounded" else int(most)


def _narrowed(type_: Type, restriction: Node | None) -> Type:
    """A DECIMAL as narrow as a restriction says."""
    if not isinstance(type_, DecimalType) or restriction is None:
        return type_
    digits = restriction.find(f"{_XS}totalDigits"), restriction.find(f"{_XS}fractionDigits")
    total, fraction = (None if d is None else int(d.get("value", "0")) for d in digits)
    if total is None:
        return type_ if fraction is None else decimal(38, min(fraction, 38))
    if total > 38:
        return type_
    return decimal(total, min(total, fraction)) if fraction is not None else type_

"""Infers the columns of an element's tuples from an XML Schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import XML_NAMESPACE
from xmlpunct.firehose.infer.columns import (
    AMONG_TEXT,
    MOST_COLUMNS,
    ElementPart,
    Inferred,
    element_columns,
    element_step,
)
from xmlpunct.firehose.infer.xsd_types import DEEPEST, XS, Declarations, XsdNode
from xmlpunct.firehose.spec import name_parts
from xmlpunct.types import STRING, Type

_PARTS = [f"{XS}{name}" for name in (
    "element", "attribute", "any", "anyAttribute", "group", "attributeGroup", "sequence", "choice", "all",
    "complexContent", "simpleContent", "extension", "restriction",
)]  # fmt: skip
_TRUE = ("true", "1")
_RECURSIVE = "which may contain itself"


@dataclass(frozen=True)
class _Item:
    """An element or attribute (``@name``) in a type: its least and most occurrences, and its declarations.

    ``reason``: why it cannot be a column; None if it can.
    """

    min_occurs: float
    max_occurs: float
    declarations: tuple[XsdNode, ...] = ()
    reason: str | None = None


_Items = dict[str, _Item]
"""By their name in paths."""


class XsdFile(Declarations):
    """An XML Schema, and the columns of its elements. Raises `UsageError`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._space = ""  # namespace of the tuples' element
        self._items: dict[XsdNode, _Items] = {}

    def infer(self, element: str) -> Inferred:
        """The columns of an element, ``name`` or ``{uri}name``, to the greatest depth with few enough columns."""
        declared = {self.named(node): node for root in self.roots for node in root.iter(f"{XS}element")}
        if element not in declared:
            alike = sorted(name for name in declared if name_parts(name)[1] == name_parts(element)[1])
            raise UsageError(
                f"{self.path} has no element {element}; it has {', '.join(alike) or 'none of that name'}"
            )
        self._space, self._items = name_parts(element)[0], {}
        prefixes = {
            uri: prefix
            for root in self.roots
            for prefix, uri in root.nsmap.items()
            if prefix and f"{{{uri}}}" != XS
        }
        inferred: Inferred | None = None
        for deepest in count():
            expansion = _Expansion(self, element, deepest)
            root = _XsdElement(expansion, _Item(1, 1, (declared[element],)))
            try:
                inferred = element_columns(element, root, prefixes)
            except _TooManyError:
                break
            if not expansion.is_cut:
                break
        if inferred is None:
            raise UsageError(f"{self.path} gives <{element}> more than {MOST_COLUMNS:,} different places")
        if not len(inferred.schema):
            raise UsageError(
                f"{self.path} gives <{element}> no attributes and no children that could be columns"
            )
        return inferred

    def check_global(self, element: str) -> None:
        """Raise `UsageError` unless an element is global and all included files are local."""
        self.check_size()
        if ("element", element) not in self.declared:
            raise UsageError(
                f"{self.path} declares no <{element}> at its top level, so that it cannot be validated"
            )
        for root in self.roots:
            for node in root.iterchildren(f"{XS}include", f"{XS}import", f"{XS}redefine"):
                if "://" in node.get("schemaLocation", ""):
                    location = node.get("schemaLocation")
                    raise UsageError(
                        f"{self.path} includes {location}, which is not fetched: put it into the same directory"
                    )

    def items(self, part: XsdNode, depth: int = 0) -> _Items:
        """The attributes and child elements in a type, a group or a part of one; cached."""
        if part not in self._items:
            self._items[part] = self._read(part, depth)
        return self._items[part]

    def _read(self, part: XsdNode, depth: int) -> _Items:
        if depth > DEEPEST:
            raise UsageError(f"{self._location(part)}: the types here are nested too deeply")
        kind = str(part.tag).removeprefix(XS)
        if kind == "element":
            items = self._elements(part)
        elif kind == "attribute":
            return self._attribute(part)
        elif kind in ("any", "anyAttribute"):
            items = {"*": _Item(0, 1, reason=f"<xs:{kind}>, which declares no names")}
        elif kind in ("group", "attributeGroup") and part.get("ref"):
            referred = self.referred(kind, part, "ref")
            name = str(part.get("ref"))
            unknown = {name: _Item(0, 1, reason=f"a {kind} which is declared elsewhere")}
            items = unknown if referred is None else self.items(referred, depth + 1)
        else:
            parts = [self.items(inner, depth + 1) for inner in part.iterchildren(*_PARTS)]
            items = _choice_items(parts) if kind == "choice" else _sequence_items(parts)
            base = self.referred("type", part, "base")
            if base is not None and base.tag == f"{XS}complexType":
                inherited = self.items(base, depth + 1)
                if kind == "extension":
                    return _sequence_items([inherited, items])
                return {name: item for name, item in inherited.items() if name[:1] == "@"} | items
        min_occurs, max_occurs = self._occurs(part, "minOccurs"), self._occurs(part, "maxOccurs")
        return {
            name: replace(
                item,
                min_occurs=item.min_occurs * min_occurs,
                max_occurs=item.max_occurs * max_occurs if max_occurs else 0,
            )
            for name, item in items.items()
        }

    def _elements(self, part: XsdNode) -> _Items:
        """The elements that can occur for an element of a type: itself, or a member of its substitution group."""
        if not part.get("ref"):
            return {self._step_of(part): _Item(1, 1, (part,))}
        node = self.referred("element", part, "ref")
        if node is None:
            return {str(part.get("ref")): _Item(0, 1, reason="which is declared elsewhere")}
        waiting, nodes = [node], list[XsdNode]()
        while waiting:
            node = waiting.pop(0)
            if node not in nodes:
                nodes.append(node)
                name = self.named(node)
                declared = (other for (kind, _), other in self.declared.items() if kind == "element")
                waiting += [o for o in declared if self.qualified(o, "substitutionGroup") == name]
        concrete = [node for node in nodes if node.get("abstract") not in _TRUE]
        return _choice_items([{self._step_of(n): _Item(1, 1, (n,))} for n in concrete])

    def _attribute(self, part: XsdNode) -> _Items:
        node = self.referred("attribute", part, "ref") if part.get("ref") else part
        if node is None:
            qualified = self.qualified(part, "ref")
            if qualified is None or name_parts(qualified)[0] != XML_NAMESPACE:
                return {f"@{part.get('ref')}": _Item(0, 1, reason="which is declared elsewhere")}
            name, node = qualified, part  # xml:lang and similar attributes need no declaration
        else:
            name = self.named(node)
        use = part.get("use")
        return {f"@{name}": _Item(use == "required", use != "prohibited", (node,))}

    def _step_of(self, node: XsdNode) -> str:
        return element_step(self.named(node), self._space)

    def _occurs(self, part: XsdNode, name: str) -> float:
        text = part.get(name, "1").strip()
        if text == "unbounded":
            return float("inf")
        if not (text.isascii() and text.isdigit() and len(text) < 4000):
            raise UsageError(f"{self._location(part)}: {name} = {text[:60]!r} is no number")
        return int(text)


class _TooManyError(Exception):
    """An element has more paths than `MOST_COLUMNS`."""


@dataclass
class _Expansion:
    """The content of ``element`` and its descendants, to a depth of ``deepest`` elements. is_cut: it is deeper.

    places: the number of elements and attributes, which multiply with the depth.
    """

    file: XsdFile
    element: str
    deepest: int
    is_cut: bool = False
    places: int = 0

    def count_place(self) -> None:
        self.places += 1
        if self.places > MOST_COLUMNS:
            raise _TooManyError


@dataclass(frozen=True)
class _XsdElement:
    """An element of an expansion. around: the types of the enclosing elements."""

    expansion: _Expansion
    item: _Item
    around: tuple[XsdNode, ...] = ()

    def parts(self) -> Iterator[ElementPart]:
        """Implements `DescribedElement`."""
        expansion, node, around = self.expansion, self.item.declarations[0], self.around
        file = expansion.file
        expansion.count_place()
        type_ = file.complex_of(node)
        items = {} if type_ is None else {n: i for n, i in file.items(type_).items() if i.max_occurs}
        has_elements = any(name[:1] != "@" for name in items)
        is_mixed = type_ is not None and _is_mixed(type_)
        if type_ in around:
            yield ElementPart("", _RECURSIVE)
            return
        if has_elements and not is_mixed and len(around) > expansion.deepest:
            expansion.is_cut = True
            yield ElementPart("", f"which is nested too deeply for {MOST_COLUMNS:,} columns")
            return
        is_nil = any(d.get("nillable") in _TRUE for d in self.item.declarations)
        if is_mixed and has_elements and around:
            yield ElementPart("*", AMONG_TEXT)
            items, has_elements = {n: i for n, i in items.items() if n[:1] == "@"}, False
        if type_ is None or type_.find(f"{XS}simpleContent") is not None:
            if around or file.is_known(node):
                yield ElementPart("", self._text(is_nil))
        elif is_mixed or (around and not items):
            yield ElementPart("text()" if has_elements else "", STRING)
        enclosing = around if type_ is None else (*around, type_)
        for name, inner in items.items():
            is_optional = inner.min_occurs < 1 or (is_nil and name[:1] != "@")
            yield ElementPart(name, self._content(name, inner, enclosing), is_optional, inner.max_occurs > 1)

    def _content(self, name: str, item: _Item, around: tuple[XsdNode, ...]) -> Type | _XsdElement | str:
        expansion = self.expansion
        if item.reason is not None:
            return item.reason
        if name[:1] == "@":
            expansion.count_place()
            return expansion.file.simple(item.declarations[0])
        if any(expansion.file.named(declared) == expansion.element for declared in item.declarations):
            return _RECURSIVE
        return _XsdElement(expansion, item, around)

    def _text(self, is_nil: bool) -> Type:
        """The type of an element's text: STRING if it may be empty, because of a default or as nil."""
        file, nodes = self.expansion.file, self.item.declarations
        types = {file.simple(node if (type_ := file.complex_of(node)) is None else type_) for node in nodes}
        is_empty = is_nil or any({"default", "fixed"} & {*node.keys()} for node in nodes)
        return STRING if is_empty or len(types) > 1 else types.pop()


def _is_mixed(type_: XsdNode) -> bool:
    content = type_.find(f"{XS}complexContent")
    return any(node is not None and node.get("mixed") in _TRUE for node in (type_, content))


def _sequence_items(parts: Iterable[_Items]) -> _Items:
    """The items of a sequence of parts: occurrences are added."""
    totals: _Items = {}
    for items in parts:
        for name, item in items.items():
            before = totals.get(name, _Item(0, 0))
            totals[name] = _Item(
                before.min_occurs + item.min_occurs,
                before.max_occurs + item.max_occurs,
                tuple(dict.fromkeys((*before.declarations, *item.declarations))),
                before.reason or item.reason,
            )
    return totals


def _choice_items(parts: Sequence[_Items]) -> _Items:
    """The items of a choice between parts."""
    choice_items = _sequence_items(parts)
    for name, item in choice_items.items():
        alternatives = [part[name] for part in parts if name in part]
        min_occurs = min(a.min_occurs for a in alternatives) if len(alternatives) == len(parts) else 0
        choice_items[name] = replace(
            item, min_occurs=min_occurs, max_occurs=max(a.max_occurs for a in alternatives)
        )
    return choice_items

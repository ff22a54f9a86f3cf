"""What an XML Schema says of an element: the columns of its tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from xmlpunct.base.errors import UsageError
from xmlpunct.base.paths import XML_NAMESPACE
from xmlpunct.firehose.infer.columns import (
    AMONG_TEXT,
    MOST_ARRAYS,
    MOST_COLUMNS,
    Columns,
    Inferred,
    schema_of,
    shortened,
)
from xmlpunct.firehose.infer.xsd_types import DEEPEST, XS, Declarations, Node
from xmlpunct.firehose.spec import expanded
from xmlpunct.schema.arrays import array_of
from xmlpunct.types import STRING, Type

_PARTS = [f"{XS}{name}" for name in (
    "element", "attribute", "any", "anyAttribute", "group", "attributeGroup", "sequence", "choice", "all",
    "complexContent", "simpleContent", "extension", "restriction",
)]  # fmt: skip
_TRUE = ("true", "1")


@dataclass(frozen=True)
class _Item:
    """An element or attribute (``@name``) in a type: how often it can come there, and its declarations.

    ``reason`` says why it can be no column, if so.
    """

    least: float
    most: float
    declarations: tuple[Node, ...] = ()
    reason: str | None = None


_Items = dict[str, _Item]
"""By the name that a path has for them."""


class XsdFile(Declarations):
    """An XML Schema, which says what columns its elements come to. Raises `UsageError`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._space = ""  # of the tuples' element
        self._known: dict[Node, _Items] = {}

    def infer(self, element: str) -> Inferred:
        """The columns of an element, ``name`` or ``{uri}name``."""
        declared = {self.named(node): node for root in self.roots for node in root.iter(f"{XS}element")}
        if element not in declared:
            alike = sorted(name for name in declared if expanded(name)[1] == expanded(element)[1])
            raise UsageError(
                f"{self.path} has no element {element}; it has {', '.join(alike) or 'none so named'}"
            )
        return self._inferred(element, declared[element])

    def check_global(self, element: str) -> None:
        """Raise `UsageError` unless an element can be validated by itself, with all that is included at hand."""
        self.check_size()
        if ("element", element) not in self.declared:
            raise UsageError(
                f"{self.path} declares no <{element}> at its top level, so that it cannot be validated"
            )
        for root in self.roots:
            for node in root.iterchildren(f"{XS}include", f"{XS}import", f"{XS}redefine"):
                if "://" in node.get("schemaLocation", ""):
                    place = node.get("schemaLocation")
                    raise UsageError(f"{self.path} includes {place}, which is not fetched: put it beside")

    def _inferred(self, name: str, node: Node) -> Inferred:
        """As deep as the columns are not too many."""
        self._space, self._known = expanded(name)[0], {}
        best: tuple[_Columns, Columns] | None = None
        for deepest in count():
            reader = _Columns(self, name, deepest)
            try:
                best = reader, dict(reader.of(_Item(1, 1, (node,))))
            except _TooManyError:
                break
            if not reader.is_cut:
                break
        if best is None:
            raise UsageError(f"{self.path} gives <{name}> more than {MOST_COLUMNS:,} different places")
        reader, columns = best
        if not columns:
            raise UsageError(
                f"{self.path} gives <{name}> no attributes and no children that could be columns"
            )
        prefixes = {
            uri: prefix
            for root in self.roots
            for prefix, uri in root.nsmap.items()
            if prefix and f"{{{uri}}}" != XS
        }
        return Inferred(name, schema_of(columns), left_out=shortened(reader.left_out), prefixes=prefixes)

    def items(self, part: Node, depth: int = 0) -> _Items:
        """The attributes and child elements in a type, a group or a part of one, each looked at once."""
        if part not in self._known:
            self._known[part] = self._read(part, depth)
        return self._known[part]

    def _read(self, part: Node, depth: int) -> _Items:
        if depth > DEEPEST:
            raise UsageError(f"{self._place(part)}: the types here are nested too deeply")
        kind = str(part.tag).removeprefix(XS)
        if kind == "element":
            found = self._elements(part)
        elif kind == "attribute":
            return self._attribute(part)
        elif kind in ("any", "anyAttribute"):
            found = {"*": _Item(0, 1, reason=f"<xs:{kind}>, of which nothing is known")}
        elif kind in ("group", "attributeGroup") and part.get("ref"):
            referred = self.referred(kind, part, "ref")
            name = str(part.get("ref"))
            unknown = {name: _Item(0, 1, reason=f"a {kind} which is declared elsewhere")}
            found = unknown if referred is None else self.items(referred, depth + 1)
        else:
            parts = [self.items(inner, depth + 1) for inner in part.iterchildren(*_PARTS)]
            found = _either(parts) if kind == "choice" else _together(parts)
            base = self.types_named(part, "base")
            if base is not None and base.tag == f"{XS}complexType":
                inherited = self.items(base, depth + 1)
                if kind == "extension":
                    return _together([inherited, found])
                return {name: item for name, item in inherited.items() if name[:1] == "@"} | found
        least, most = self._occurs(part, "minOccurs"), self._occurs(part, "maxOccurs")
        return {
            name: replace(item, least=item.least * least, most=item.most * most if most else 0)
            for name, item in found.items()
        }

    def _elements(self, part: Node) -> _Items:
        """What an element of a type can be: itself, or one of those that may stand for it."""
        if not part.get("ref"):
            return {self._step(part): _Item(1, 1, (part,))}
        node = self.referred("element", part, "ref")
        if node is None:
            return {str(part.get("ref")): _Item(0, 1, reason="which is declared elsewhere")}
        waiting, nodes = [node], list[Node]()
        while waiting:
            node = waiting.pop(0)
            if node not in nodes:
                nodes.append(node)
                name = self.named(node)
                declared = (other for (kind, _), other in self.declared.items() if kind == "element")
                waiting += [o for o in declared if self.qualified(o, "substitutionGroup") == name]
        return _either([{self._step(n): _Item(1, 1, (n,))} for n in nodes if n.get("abstract") not in _TRUE])

    def _attribute(self, part: Node) -> _Items:
        node = self.referred("attribute", part, "ref") if part.get("ref") else part
        if node is None:
            qualified = self.qualified(part, "ref")
            if qualified is None or expanded(qualified)[0] != XML_NAMESPACE:
                return {f"@{part.get('ref')}": _Item(0, 1, reason="which is declared elsewhere")}
            name, node = qualified, part  # xml:lang and its like need no declaration
        else:
            name = self.named(node)
        use = part.get("use")
        return {f"@{name}": _Item(use == "required", use != "prohibited", (node,))}

    def _step(self, node: Node) -> str:
        """A path's name for an element: where it may be in the tuples' namespace or in none, it says none."""
        namespace, local = expanded(self.named(node))
        return local if namespace in ("", self._space) else self.named(node)

    def _occurs(self, part: Node, name: str) -> float:
        text = part.get(name, "1").strip()
        if text == "unbounded":
            return float("inf")
        if not (text.isascii() and text.isdigit() and len(text) < 4000):
            raise UsageError(f"{self._place(part)}: {name} = {text[:60]!r} is no number")
        return int(text)


class _TooManyError(Exception):
    """There are more places than there can be columns."""


class _Columns:
    """The columns of ``element`` and of what is in it, up to so many elements ``deepest`` inside each other."""

    def __init__(self, file: XsdFile, element: str, deepest: int) -> None:
        self._file, self._element, self._deepest = file, element, deepest
        self._count = 0
        self.left_out: dict[str, None] = {}
        self.is_cut = False

    def of(
        self,
        item: _Item,
        steps: tuple[str, ...] = (),
        missing: bool = False,
        arrays: tuple[str, ...] = (),
        around: tuple[Node | None, ...] = (),
    ) -> Iterator[tuple[str, tuple[Type, bool]]]:
        """The columns of an element: their paths in their row, to which ``steps`` lead, and what `Columns` say.

        ``missing`` says whether rows may have no such element. ``arrays`` are the paths of those around it, and
        ``around`` the types.
        """
        file, node = self._file, item.declarations[0]
        self._take()
        type_ = file.complex_of(node)
        items = {} if type_ is None else {n: i for n, i in file.items(type_).items() if i.most}
        has_elements = any(name[:1] != "@" for name in items)
        here = (*arrays, *steps)
        if type_ is not None and type_ in around:
            return self._leave_out(here, "which may hold itself")
        if has_elements and not (type_ is not None and _is_mixed(type_)) and len(around) > self._deepest:
            self.is_cut = True
            return self._leave_out(here, f"which is nested too deeply for {MOST_COLUMNS:,} columns")
        is_nil = any(d.get("nillable") in _TRUE for d in item.declarations)
        is_mixed = type_ is not None and _is_mixed(type_)
        if is_mixed and has_elements and here:
            self._leave_out((*here, "*"), AMONG_TEXT)
            items, has_elements = {n: i for n, i in items.items() if n[:1] == "@"}, False
        if type_ is None or type_.find(f"{XS}simpleContent") is not None:
            if here or file.is_known(node):
                yield "/".join(steps) or ".", (self._text(item, is_nil), missing)
        elif is_mixed or (here and not items):
            yield "/".join([*steps, *["text()"] * has_elements]) or ".", (STRING, missing)
        for name, inner in items.items():
            inside, path = (*steps, name), "/".join([*steps, name])
            is_optional = missing or inner.least < 1
            if inner.reason is not None:
                self._leave_out((*arrays, path), inner.reason)
            elif name[:1] == "@":
                self._take()
                yield path, (file.simple(inner.declarations[0]), is_optional)
            elif any(file.named(declared) == self._element for declared in inner.declarations):
                self._leave_out((*arrays, path), "which may hold itself")
            elif inner.most <= 1:
                yield from self.of(inner, inside, is_optional or is_nil, arrays, (*around, type_))
            elif len(arrays) == MOST_ARRAYS:
                self._leave_out((*arrays, path), f"which repeats inside {MOST_ARRAYS} arrays")
            elif columns := dict(self.of(inner, (), False, (*arrays, path), (*around, type_))):
                yield path, (array_of(schema_of(columns)), True)

    def _text(self, item: _Item, is_nil: bool) -> Type:
        """The type of the text of an element, which may be empty where it has a default, or is nil."""
        file, nodes = self._file, item.declarations
        types = {file.simple(node if (type_ := file.complex_of(node)) is None else type_) for node in nodes}
        is_empty = is_nil or any({"default", "fixed"} & {*node.keys()} for node in nodes)
        return STRING if is_empty or len(types) > 1 else types.pop()

    def _take(self) -> None:
        self._count += 1
        if self._count > MOST_COLUMNS:
            raise _TooManyError

    def _leave_out(self, steps: Iterable[str], reason: str) -> None:
        self.left_out[f"{'/'.join(steps)}, {reason}"] = None


def _is_mixed(type_: Node) -> bool:
    content = type_.find(f"{XS}complexContent")
    return any(node is not None and node.get("mixed") in _TRUE for node in (type_, content))


def _together(parts: Iterable[_Items]) -> _Items:
    """What there is in all of some parts."""
    found: _Items = {}
    for items in parts:
        for name, item in items.items():
            before = found.get(name, _Item(0, 0))
            found[name] = _Item(
                before.least + item.least,
                before.most + item.most,
                tuple(dict.fromkeys((*before.declarations, *item.declarations))),
                before.reason or item.reason,
            )
    return found


def _either(parts: Sequence[_Items]) -> _Items:
    """What there is in one of some parts."""
    every = _together(parts)
    for name, item in every.items():
        there = [part[name] for part in parts if name in part]
        least = min(one.least for one in there) if len(there) == len(parts) else 0
        every[name] = replace(item, least=least, most=max(one.most for one in there))
    return every

"""What the XML parser calls: tuples become rows of texts, punctuations small trees. No value is read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xmlpunct.errors import XmlPunctError
from xmlpunct.firehose.shape import Kind, LimitError, Names, Node
from xmlpunct.firehose.spec import expanded
from xmlpunct.overlooked import NAMESPACE, NESTED, UNDECLARED, Overlooked, gathered
from xmlpunct.types import SPACE

_PLAIN, _TUPLE, _PUNCTUATION, _INNER, _STRAY, _NESTED, _OTHER, _FOREIGN, _INSIDE, _UNDECLARED = map(int, Kind)

TEXT = "text()"
"""What text beside the columns that were guessed is overlooked as."""

END = "xmlpunct-end"
"""A processing instruction put behind the data: where it is not seen, markup before it never ended."""


class DoctypeError(XmlPunctError):
    """There is a DOCTYPE that has not been passed over: it is malformed."""


@dataclass(slots=True)
class Branch:
    """An element of a punctuation."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Found:
    """What was found of one stream. ``cells`` holds the tuples' texts, row after row of ``width``.

    ``at`` is, by row, the number of the start tag that it began with. ``faults`` gives, by row, the slot and
    what is wrong with a tuple's form. A punctuation is the number of its start tag, that of the tuples before
    it, and its tree. What was ``overlooked`` goes by the number of a start tag, its kind and its name.
    """

    width: int
    cells: list[str | None] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    faults: dict[int, tuple[int, str]] = field(default_factory=dict)
    punctuations: list[tuple[int, int, Branch]] = field(default_factory=list)
    overlooked: list[tuple[int, str, str]] = field(default_factory=list)

    def overlooked_before(self, number: float) -> Overlooked:
        """What was overlooked up to a start tag, by kind and name."""
        return gathered((kind, name) for at, kind, name in self.overlooked if at < number)


class Target:
    """The target of an ``lxml.etree.XMLParser``. It is called for each tag, so it is kept lean.

    ``data`` is ``list.append`` itself: text costs no Python call.
    """

    def __init__(self, outside: Node, names: Names, widths: list[int]) -> None:
        self.found = [Found(width) for width in widths]
        self.starts = 0
        self.reached = False
        self.node = self.outside = outside
        self.stack: list[Node] = []
        self.parts: list[str] = []
        self.data = self.parts.append
        self.names, self.limits = names, names.limits
        self.deepest, self.most_inside = names.limits.depth, names.limits.inside
        self.inside_count = self.declared = 0
        self.row: list[str | None] = []
        self.row_at = 0
        self.fault: tuple[int, str] | None = None
        self.foreign: set[tuple[int, str]] = set()
        self.saved: list[str] = []
        self.tree: list[Branch] = []

    @property
    def inside(self) -> bool:
        """Whether a tuple or punctuation is open."""
        return any(node.kind in (_TUPLE, _PUNCTUATION) for node in (*self.stack, self.node))

    def start_ns(self, prefix: str | None, uri: str) -> None:
        """A declaration in the start tag that comes next."""
        limits = self.limits
        self.declared += 1
        if self.declared > limits.namespaces:
            self.starts += 1
            raise LimitError(f"more than {limits.namespaces:,} namespaces declared in one place")
        if len(prefix or "") > limits.name or len(uri) > limits.name:
            self.starts += 1
            raise LimitError(f"a prefix or namespace longer than {limits.name:,} characters")

    def end_ns(self, prefix: str | None) -> None:
        self.declared -= 1

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.starts += 1
        node = self.node
        self.stack.append(node)
        self.node = node = node.children[name]
        if node.kind or attributes:
            self._begin(node, name, attributes)
        self.parts.clear()

    def end(self, name: str) -> None:
        node = self.node
        if node.kind:
            self._finish(node)
        elif node.slot >= 0:
            parts, row = self.parts, self.row
            if row[node.slot] is None:
                row[node.slot] = parts[0] if len(parts) == 1 else "".join(parts)
            else:
                self._wrong(node.slot, "given more than once")
            parts.clear()
        self.node = self.stack.pop()

    def pi(self, name: str, _: str | None = None) -> None:
        if name == END:
            self.reached = True

    def doctype(self, *_: object) -> None:
        raise DoctypeError

    def close(self) -> None:
        pass

    def _begin(self, node: Node, name: str, attributes: Mapping[str, str]) -> None:
        kind = node.kind
        if len(self.stack) > self.deepest:
            raise LimitError(f"elements nested more than {self.deepest} deep")
        if node is not self.outside:
            self.inside_count = 0 if self.stack[-1] is self.outside else self.inside_count + 1
            self.inside_count += len(attributes)
            if self.inside_count > self.most_inside:
                raise LimitError(f"more than {self.most_inside:,} elements and attributes inside another")
        if attributes:
            self._check(attributes)
        if kind == _TUPLE:
            self.row, self.row_at, self.fault = [None] * self.found[node.stream].width, self.starts, None
        elif kind == _PUNCTUATION:
            self.row_at = self.starts
            self.tree = [Branch(name, dict(attributes))]
        elif kind == _INNER:
            branch = Branch(name, dict(attributes))
            self.tree[-1].text += "".join(self.parts)
            self.tree[-1].children.append(branch)
            self.tree.append(branch)
        elif kind == _NESTED:
            self.saved.append("".join(self.parts))
        elif kind == _STRAY:
            self._wrong(self.stack[-1].slot, f"an element <{name}> inside its value")
        elif kind >= _FOREIGN:
            self.saved.append("".join(self.parts))
            if kind == _FOREIGN:
                self.foreign.update(node.below)
            else:
                self._overlook(node, NESTED if kind == _INSIDE else UNDECLARED, node.name)
        if node.attributes:
            for key, value in attributes.items():
                slot = node.attributes.get(key)
                if slot is not None:
                    self._set(slot, value)
                elif key[:1] == "{":
                    slot = node.attributes.get(expanded(key)[1])
                    self.foreign.update(below for below in node.below if below[0] == slot)
        if node.path is not None:
            for key in attributes:
                if key not in node.attributes:
                    self._overlook(node, UNDECLARED, f"{node.path}@{key}")

    def _finish(self, node: Node) -> None:
        kind, parts = node.kind, self.parts
        if kind == _TUPLE:
            found = self.found[node.stream]
            if self.fault:
                found.faults[len(found.at)] = self.fault
            if self.foreign:
                self._miss(found)
            if node.path is not None and "".join(parts).strip(SPACE):
                self._overlook(node, UNDECLARED, TEXT)
            found.cells += self.row
            found.at.append(self.row_at)
        elif kind == _INNER:
            self.tree.pop().text += "".join(parts)
        elif kind == _PUNCTUATION:
            found = self.found[node.stream]
            branch = self.tree.pop()
            branch.text += "".join(parts)
            found.punctuations.append((self.row_at, len(found.at), branch))
        elif kind == _NESTED or kind >= _FOREIGN:
            if node.slot >= 0:
                self._set(node.slot, "".join(parts))
            parts[:] = [self.saved.pop()]
            return
        parts.clear()

    def _miss(self, found: Found) -> None:
        """Of what stood in another namespace, what is missing in the tuple that ends here."""
        for slot, path in sorted(self.foreign):
            if self.row[slot] is None:
                found.overlooked.append((self.row_at, NAMESPACE, path))
        self.foreign.clear()

    def _overlook(self, node: Node, kind: str, name: str) -> None:
        self.found[node.stream].overlooked.append((self.starts, kind, name))

    def _set(self, slot: int, value: str) -> None:
        if self.row[slot] is None:
            self.row[slot] = value
        else:
            self._wrong(slot, "given more than once")

    def _wrong(self, slot: int, reason: str) -> None:
        if self.fault is None:
            self.fault = (slot, reason)

    def _check(self, attributes: Mapping[str, str]) -> None:
        limits = self.limits
        if len(attributes) > limits.attributes:
            raise LimitError(f"more than {limits.attributes:,} attributes in one element")
        for key, value in attributes.items():
            if len(value) > limits.attribute:
                raise LimitError(f"an attribute value longer than {limits.attribute:,} characters")
            if key not in self.names.seen:
                self.names.add(key)

"""Target of lxml's parser: collects tuples as rows of texts, and punctuations as trees. No value is parsed yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xmlpunct.base.errors import XmlPunctError
from xmlpunct.base.unread import (
    INNER,
    NAMESPACE,
    NESTED,
    STRANGER,
    UNDECLARED,
    Overlooked,
    gathered,
    kind_by_namespace,
)
from xmlpunct.firehose.ancestors import Ancestors, Branch
from xmlpunct.firehose.native.path_automaton import Kind, LimitError, PathState, SplitNames
from xmlpunct.firehose.shape import Shape
from xmlpunct.firehose.spec import name_parts
from xmlpunct.types import SPACE

(
    _PLAIN, _TUPLE, _PUNCTUATION, _INNER, _RICH, _OUTSIDE, _OTHER, _CHOICE, _FOREIGN, _INSIDE, _UNDECLARED
) = map(int, Kind)  # fmt: skip

TEXT = "text()"
"""The name under which text outside of inferred columns counts as overlooked."""

END = "xmlpunct-end"
"""A processing instruction appended to the data: if it does not arrive, markup before it is unterminated."""


class _Inner(str):
    """The text of a child in the list of its parent's text parts."""

    __slots__ = ()


class DoctypeError(XmlPunctError):
    """A DOCTYPE in the data reached the parser. `ready` blanks well-formed ones, so it is malformed."""


@dataclass(slots=True)
class ParsedStream:
    """The tuples and punctuations of one stream. Start tags are identified by their number in the split.

    cells: the tuples' texts, row after row of ``width``. at: by row, the start tag of the tuple.
    faults: by row, the slot and the reason why the tuple is malformed.
    items, of: by array table, the items' cells, and the parent row of each item.
    punctuations: (start tag, number of tuples before it, tree).
    late: (start tag, slot) of each ancestor value that arrived after its tuple.
    overlooked: (start tag, kind, name) of each undeclared element, attribute or text.
    """

    width: int
    tables: int = 1
    cells: list[str | None] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    faults: dict[int, tuple[int, str]] = field(default_factory=dict)
    items: list[list[str | None]] = field(default_factory=list)
    of: list[list[int]] = field(default_factory=list)
    punctuations: list[tuple[int, int, Branch]] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)
    overlooked: list[tuple[int, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.items, self.of = [[] for _ in range(self.tables)], [[] for _ in range(self.tables)]

    def overlooked_between(self, first: int, number: float) -> Overlooked:
        """The overlooked names between two start tags (exclusive), counted by kind and name."""
        return gathered((kind, name) for at, kind, name in self.overlooked if first < at < number)


class Target:
    """The target of an ``lxml.etree.XMLParser``. lxml calls it for each tag, so it does as little as possible.

    ``data`` is ``list.append`` itself, so that text costs no Python call. attribute_room: the most characters of
    attributes, where a DOCTYPE with an effect comes first; None if there is none.
    """

    def __init__(
        self,
        outside: PathState,
        names: SplitNames,
        shapes: list[Shape],
        unread: Sequence[frozenset[int]],
        punct_namespace: str,
        ancestors: Ancestors | None = None,
        attribute_room: int | None = None,
    ) -> None:
        self.found = [ParsedStream(shape.width, len(shape.tables)) for shape in shapes]
        self.shapes, self.ancestors, self.unread = shapes, ancestors, unread
        self.punct_namespace = punct_namespace
        self.starts = 0
        self.reached = False
        self.attribute_room = attribute_room
        if attribute_room is None:  # with this method, lxml would not pass the declarations on to libxml2
            self.doctype = self._refuse_doctype
        self.node = outside
        self.stack: list[PathState] = []
        self.parts: list[str] = []
        self.data = self.parts.append
        self.names, self.limits = names, names.limits
        self.deepest, self.most_inside = names.limits.depth, names.limits.inside
        self.inside_count = self.declared = 0
        self.row: list[str | None] = []
        self.row_at = 0
        self.fault: tuple[int, str] | None = None
        self.unread_slots = frozenset[int]()  # of the open tuple's stream
        self.foreign: set[tuple[int, str]] = set()
        self.marks: list[int] = []
        self.counts: list[dict[str, int]] = []
        self.tree: list[Branch] = []

    @property
    def inside(self) -> bool:
        """True if a tuple, a punctuation, or an element from which tuples may take values is open."""
        every = (*self.stack, self.node)
        return any(node.kind in (_TUPLE, _PUNCTUATION) or node.is_retained for node in every)

    @property
    def open_tuple(self) -> int | None:
        """The stream of the tuple that is open; None if there is none."""
        return next((node.stream for node in (*self.stack, self.node) if node.kind == _TUPLE), None)

    def start_ns(self, prefix: str | None, uri: str) -> None:
        """A namespace declaration of the next start tag."""
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
        else:
            self.parts.clear()

    def end(self, name: str) -> None:
        node = self.node
        if node.kind:
            self._finish(node)
        else:
            parts = self.parts
            if node.slot >= 0:
                row = self.row
                if row[node.slot] is None:
                    row[node.slot] = parts[0] if len(parts) == 1 else "".join(parts)
                else:
                    self._wrong(node.slot, "given more than once")
            parts.clear()
        self.node = self.stack.pop()

    def pi(self, name: str, _: str | None = None) -> None:
        if name == END:
            self.reached = True

    @staticmethod
    def _refuse_doctype(*_: object) -> None:
        raise DoctypeError

    def close(self) -> None:
        pass

    def _begin(self, node: PathState, name: str, attributes: Mapping[str, str]) -> None:
        if node.kind == _CHOICE:
            self.node = node = self._chosen(node, attributes)
        kind, parent = node.kind, self.stack[-1]
        if kind in (_TUPLE, _PUNCTUATION):
            self.row_at = self.starts
        if len(self.stack) > self.deepest:
            raise LimitError(f"elements nested more than {self.deepest} deep")
        if attributes:
            self._check(attributes)
        if kind != _OUTSIDE:
            self.inside_count = 0 if parent.kind == _OUTSIDE else self.inside_count + 1
            self.inside_count += len(attributes)
            if self.inside_count > self.most_inside:
                raise LimitError(f"more than {self.most_inside:,} elements and attributes inside another")
        if node.flows:
            self.marks.append(len(self.parts))
        elif kind == _INNER:
            self.tree[-1].text += "".join(self.parts)
            self.parts.clear()
        else:
            if self.ancestors is not None and parent.is_retained:
                self.ancestors.say(self.parts)
            self.parts.clear()
        if node.counts:
            self.counts.append({})
        if kind == _TUPLE:
            self.row, self.fault = [None] * self.found[node.stream].width, None
            self.unread_slots = self.unread[node.stream]
            if self.ancestors is not None:
                self._inherit(node.stream)
        elif kind == _PUNCTUATION:
            self.tree = [Branch(name, dict(attributes))]
        elif kind == _INNER:
            branch = Branch(name, dict(attributes))
            self.tree[-1].children.append(branch)
            self.tree.append(branch)
        elif kind == _OUTSIDE:
            if node.stream >= 0:
                self._overlook(node, kind_by_namespace(STRANGER, name, self.punct_namespace), name)
            if self.ancestors is not None:
                self.ancestors.begin(name, attributes, self.starts, node.is_retained)
        elif kind == _FOREIGN:
            self.foreign.update(node.below)
        elif kind >= _INSIDE:
            overlooked = kind_by_namespace(
                NESTED if kind == _INSIDE else UNDECLARED, name, self.punct_namespace
            )
            self._overlook(node, overlooked, name if overlooked == INNER else node.name)
        if node.attributes:
            for key, value in attributes.items():
                local = node.attributes.get(key)
                if local is not None:
                    for slot in local:
                        self._set(slot, value)
                elif key[:1] == "{":
                    same = node.attributes.get(name_parts(key)[1], ())
                    self.foreign.update(below for below in node.below if below[0] in same)
        if node.path is not None:
            for key in attributes:
                if key not in node.attributes:
                    self._overlook(node, UNDECLARED, f"{node.path}@{key}")
        for slot in node.raws:
            self._set(slot, str(self.starts))

    def _chosen(self, node: PathState, attributes: Mapping[str, str]) -> PathState:
        """The state that a CHOICE node selects for an element."""
        choice = node.chosen
        assert choice is not None
        counts = self.counts[-1] if choice.positions else {}
        for name in choice.positions:
            counts[name] = counts.get(name, 0) + 1
        return choice.node(
            tuple(
                counts[hop.name] == hop.position
                if hop.position
                else attributes.get(hop.attribute) == hop.value
                for hop in choice.conditions
            )
        )

    def _finish(self, node: PathState) -> None:
        kind, parts = node.kind, self.parts
        mark = self.marks.pop() if node.flows else 0
        if node.texts or node.owns:
            texts = parts[mark:]
            for slot in node.texts:
                self._set(slot, "".join(texts))
            for slot in node.owns:
                self._set(slot, "".join([text for text in texts if type(text) is not _Inner]))
        if node.counts:
            self.counts.pop()
        for item in node.items:
            self._take_item(node.stream, item)
        if kind == _TUPLE:
            parsed = self.found[node.stream]
            if self.fault:
                parsed.faults[len(parsed.at)] = self.fault
            if self.foreign:
                self._miss(parsed)
            is_read = node.path is None or node.texts or node.owns
            if not is_read and any(type(t) is not _Inner and t.strip(SPACE) for t in parts):
                self._overlook(node, UNDECLARED, TEXT)
            parsed.cells += self.row
            parsed.at.append(self.row_at)
        elif kind == _INNER:
            self.tree.pop().text += "".join(parts)
        elif kind == _PUNCTUATION:
            parsed = self.found[node.stream]
            branch = self.tree.pop()
            branch.text += "".join(parts)
            parsed.punctuations.append((self.row_at, len(parsed.at), branch))
        elif kind == _OUTSIDE and self.ancestors is not None:
            if node.is_retained:
                self.ancestors.say(parts)
            for stream, slot, number in self.ancestors.end():
                self.found[stream].late.append((number, slot))
        if node.flows:
            parts[mark:] = [_Inner("".join(parts[mark:]))]
        else:
            parts.clear()

    def _take_item(self, stream: int, number: int) -> None:
        """Append the array item that ends here, and clear its cells for the next item."""
        stream_rows, table = self.found[stream], self.shapes[stream].tables[number]
        stream_rows.items[number] += self.row[table.first : table.end]
        parent = stream_rows.of[table.parent] if table.parent else stream_rows.at
        stream_rows.of[number].append(len(parent))
        self.row[table.first : table.end] = [None] * (table.end - table.first)

    def _inherit(self, stream: int) -> None:
        """Set the values that a tuple takes from its ancestors."""
        assert self.ancestors is not None
        for slot, texts in self.ancestors.read(stream):
            for text in texts:
                self._set(slot, text)

    def _miss(self, stream: ParsedStream) -> None:
        """Count the values that the tuple ending here lacks because their elements have a wrong namespace."""
        for slot, path in sorted(self.foreign):
            if self.row[slot] is None:
                stream.overlooked.append((self.row_at, NAMESPACE, path))
        self.foreign.clear()

    def _overlook(self, node: PathState, kind: str, name: str) -> None:
        self.found[node.stream].overlooked.append((self.starts, kind, name))

    def _set(self, slot: int, value: str) -> None:
        if self.row[slot] is None:
            self.row[slot] = value
        else:
            self._wrong(slot, "given more than once")

    def _wrong(self, slot: int, reason: str) -> None:
        if self.fault is None and slot not in self.unread_slots:
            self.fault = (slot, reason)

    def _check(self, attributes: Mapping[str, str]) -> None:
        limits = self.limits
        if len(attributes) > limits.attributes:
            raise LimitError(f"more than {limits.attributes:,} attributes in one element")
        if self.attribute_room is not None:
            self.attribute_room -= sum(map(len, attributes.values()))
            if self.attribute_room < 0:
                raise LimitError("the defaults of attributes are many times as long as the document")
        for key, value in attributes.items():
            if len(value) > limits.attribute:
                raise LimitError(f"an attribute value longer than {limits.attribute:,} characters")
            if key not in self.names.cached:
                self.names.add(key)

"""Values of tuples from elements around them: an ancestor's attributes, and its children that ended earlier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xmlpunct.base.paths import ChildStep
from xmlpunct.firehose.position import AncestorValues
from xmlpunct.firehose.shape import Shape, Up
from xmlpunct.firehose.spec import StreamSpec

AncestorKey = tuple[int, int]
"""(stream number, slot of its tuples)."""


@dataclass(slots=True)
class Branch:
    """A stored element. ``text`` is its own text; ``all_text`` includes the text of its children."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    all_text: str = ""
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Ancestor:
    """An open element outside of tuples.

    ``texts_by_key`` has the values of children that have ended. ``read`` has the keys that tuples have read. ``branch``
    stores the element's content, if a path needs it. ``holds``: the element contains a tuple.
    """

    name: str
    number: int
    attributes: Mapping[str, str]
    branch: Branch | None = None
    holds: bool = False
    texts_by_key: dict[AncestorKey, list[str]] = field(default_factory=dict)
    read: set[AncestorKey] = field(default_factory=set)


class Ancestors:
    """The stack of open elements outside of tuples."""

    def __init__(
        self, specs: Sequence[StreamSpec], shapes: Sequence[Shape], saved_state: AncestorValues = ()
    ) -> None:
        self.ups: dict[AncestorKey, tuple[Up, str]] = {}
        self.by_stream: list[list[tuple[int, Up]]] = []
        for i, (spec, shape) in enumerate(zip(specs, shapes, strict=True)):
            self.ups |= {(i, up.slot): (up, spec.space) for up in shape.ups}
            self.by_stream.append([(up.slot, up) for up in shape.ups])
        self.stack: list[Ancestor] = []
        self.before = saved_state

    def begin(self, name: str, attributes: Mapping[str, str], number: int, is_stored: bool) -> None:
        """An element begins."""
        depth = len(self.stack)
        ancestor = Ancestor(name, number, dict(attributes))
        if is_stored:
            ancestor.branch = Branch(name, dict(attributes))
            parent = self.stack[-1].branch if self.stack else None
            if parent is not None:
                parent.children.append(ancestor.branch)
        if number <= len(self.before) and depth == number - 1:
            for stream, slot, texts, read in self.before[depth]:
                ancestor.texts_by_key[stream, slot] = [*texts]
                if read:
                    ancestor.read.add((stream, slot))
                    ancestor.holds = True
        self.stack.append(ancestor)

    def say(self, parts: Sequence[str]) -> None:
        """Add text to the innermost element, if it is stored."""
        branch = self.stack[-1].branch if self.stack else None
        if branch is not None and parts:
            text = "".join(parts)
            branch.text += text
            branch.all_text += text

    def end(self) -> Iterator[tuple[int, int, int]]:
        """An element ends. Yields (stream, slot, number of the element) for each value that comes after its tuples."""
        ancestor = self.stack.pop()
        branch = ancestor.branch
        if branch is None:
            return
        parent = self.stack[-1] if self.stack else None
        if parent is None:
            return
        if parent.branch is not None:
            parent.branch.all_text += branch.all_text
        if ancestor.holds:
            return
        for key, (up, space) in self.ups.items():
            if not up.path.hops or branch.name not in up.path.hops[0].names(space):
                continue
            texts = [*_texts(up, branch, space)]
            if not texts:
                continue
            texts_of_key = parent.texts_by_key.setdefault(key, [])
            if key in parent.read and not (up.needed and not texts_of_key):
                yield (*key, ancestor.number)
            texts_of_key += texts[: max(2 - len(texts_of_key), 0)]  # two texts suffice to detect an error

    def read(self, stream: int) -> Iterator[tuple[int, list[str]]]:
        """A tuple begins. Yields its values from ancestors as (slot, texts)."""
        for ancestor in reversed(self.stack):
            if ancestor.holds:
                break
            ancestor.holds = True
        for slot, up in self.by_stream[stream]:
            if up.path.up > len(self.stack):
                continue
            ancestor = self.stack[-up.path.up]
            if up.path.hops:
                ancestor.read.add((stream, slot))
                yield slot, ancestor.texts_by_key.get((stream, slot), [])
            elif (text := ancestor.attributes.get(up.path.attribute or "")) is not None:
                yield slot, [text]

    @property
    def said(self) -> AncestorValues:
        """The state of the open elements, for `Position.said`."""
        return tuple(
            tuple(
                (*key, tuple(ancestor.texts_by_key.get(key, ())), key in ancestor.read)
                for key in sorted({*ancestor.texts_by_key, *ancestor.read})
            )
            for ancestor in self.stack
        )


def _texts(up: Up, branch: Branch, space: str) -> Iterator[str]:
    """The texts at a path, given the child of the ancestor at which the path begins."""
    hops = up.path.hops
    elements = [branch] if _satisfies_predicate(hops[0], branch) else []
    for hop in hops[1:]:
        elements = [child for parent in elements for child in _matching(hop, parent, space)]
    for element in elements:
        if up.path.attribute is None:
            yield element.text if up.path.own_text else element.all_text
        elif up.path.attribute in element.attributes:
            yield element.attributes[up.path.attribute]


def _matching(hop: ChildStep, parent: Branch, space: str) -> list[Branch]:
    same = [child for child in parent.children if child.name in hop.names(space)]
    if hop.position:
        return same[hop.position - 1 : hop.position]
    return [child for child in same if _satisfies_predicate(hop, child)]


def _satisfies_predicate(hop: ChildStep, branch: Branch) -> bool:
    return not hop.attribute or branch.attributes.get(hop.attribute) == hop.value

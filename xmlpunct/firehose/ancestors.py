"""What the elements around tuples say of them: their attributes, and their children that ended before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xmlpunct.base.paths import Hop
from xmlpunct.firehose.position import Said
from xmlpunct.firehose.shape import Shape, Up
from xmlpunct.firehose.spec import StreamSpec

Key = tuple[int, int]
"""A stream, and a slot of its tuples."""


@dataclass(slots=True)
class Branch:
    """An element that was kept: with its own text, and perhaps with that of its children among it."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    whole: str = ""
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Ancestor:
    """An open element: what it has ``given`` so far, and what tuples in it have ``read`` of that.

    One that is kept whole has a ``branch``. It ``holds`` a tuple or not.
    """

    name: str
    number: int
    attributes: Mapping[str, str]
    branch: Branch | None = None
    holds: bool = False
    given: dict[Key, list[str]] = field(default_factory=dict)
    read: set[Key] = field(default_factory=set)


class Ancestors:
    """The elements that are open, outside of all tuples."""

    def __init__(self, specs: Sequence[StreamSpec], shapes: Sequence[Shape], said: Said = ()) -> None:
        self.ups: dict[Key, tuple[Up, str]] = {}
        self.by_stream: list[list[tuple[int, Up]]] = []
        for i, (spec, shape) in enumerate(zip(specs, shapes, strict=True)):
            self.ups |= {(i, up.slot): (up, spec.space) for up in shape.ups}
            self.by_stream.append([(up.slot, up) for up in shape.ups])
        self.stack: list[Ancestor] = []
        self.before = said

    def begin(self, name: str, attributes: Mapping[str, str], number: int, kept: bool) -> None:
        """An element begins."""
        depth = len(self.stack)
        found = Ancestor(name, number, dict(attributes))
        if kept:
            found.branch = Branch(name, dict(attributes))
            parent = self.stack[-1].branch if self.stack else None
            if parent is not None:
                parent.children.append(found.branch)
        if number <= len(self.before) and depth == number - 1:
            for stream, slot, texts, read in self.before[depth]:
                found.given[stream, slot] = [*texts]
                if read:
                    found.read.add((stream, slot))
                    found.holds = True
        self.stack.append(found)

    def say(self, parts: Sequence[str]) -> None:
        """Text of the innermost of them, if it is kept."""
        branch = self.stack[-1].branch if self.stack else None
        if branch is not None and parts:
            text = "".join(parts)
            branch.text += text
            branch.whole += text

    def end(self) -> Iterator[tuple[int, int, int]]:
        """An element ends: what tuples would have read of it, had it come before them, by stream, slot and number."""
        found = self.stack.pop()
        branch = found.branch
        if branch is None:
            return
        parent = self.stack[-1] if self.stack else None
        if parent is None:
            return
        if parent.branch is not None:
            parent.branch.whole += branch.whole
        if found.holds:
            return
        for key, (up, space) in self.ups.items():
            if not up.path.hops or branch.name not in up.path.hops[0].names(space):
                continue
            texts = [*_texts(up, branch, space)]
            if not texts:
                continue
            known = parent.given.setdefault(key, [])
            if key in parent.read and not (up.needed and not known):
                yield (*key, found.number)
            known += texts[: max(2 - len(known), 0)]  # one too many is as wrong as more

    def read(self, stream: int) -> Iterator[tuple[int, list[str]]]:
        """A tuple begins: what it is given by slot."""
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
                yield slot, ancestor.given.get((stream, slot), [])
            elif (text := ancestor.attributes.get(up.path.attribute or "")) is not None:
                yield slot, [text]

    @property
    def said(self) -> Said:
        """What is known of the elements that are open."""
        return tuple(
            tuple(
                (*key, tuple(ancestor.given.get(key, ())), key in ancestor.read)
                for key in sorted({*ancestor.given, *ancestor.read})
            )
            for ancestor in self.stack
        )


def _texts(up: Up, branch: Branch, space: str) -> Iterator[str]:
    """What a child of an ancestor gives."""
    hops = up.path.hops
    found = [branch] if _fits(hops[0], branch) else []
    for hop in hops[1:]:
        found = [child for parent in found for child in _matching(hop, parent, space)]
    for element in found:
        if up.path.attribute is None:
            yield element.text if up.path.own else element.whole
        elif up.path.attribute in element.attributes:
            yield element.attributes[up.path.attribute]


def _matching(hop: Hop, parent: Branch, space: str) -> list[Branch]:
    same = [child for child in parent.children if child.name in hop.names(space)]
    if hop.position:
        return same[hop.position - 1 : hop.position]
    return [child for child in same if _fits(hop, child)]


def _fits(hop: Hop, branch: Branch) -> bool:
    return not hop.attribute or branch.attributes.get(hop.attribute) == hop.value

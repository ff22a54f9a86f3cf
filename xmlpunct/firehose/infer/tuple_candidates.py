"""Finds the element of the tuples: the repeated element that holds most of a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xmlpunct.firehose.infer.sampled_values import SampleTarget
from xmlpunct.firehose.spec import name_parts

_FULL = 10
"""An element is a container if it has at least this number of repeated descendants per column of its own."""
_MOST_OF = 0.85
"""An element is a container, too, if repeated elements at one path hold this share of it; see `is_container_of`."""
_MOST_PATHS = 20_000
"""The number of paths to count, to bound memory."""


@dataclass(slots=True, eq=False)
class ElementPath:
    """The elements at one path from the root.

    count: their number. most: the maximum number in one parent. size: the elements and the characters of their
    attributes and texts, without their children.
    """

    name: str
    count: int = 0
    most: int = 0
    size: int = 0
    attributes: set[str] = field(default_factory=set)
    children: dict[str, ElementPath] = field(default_factory=dict)

    @property
    def repeats(self) -> bool:
        """True if it occurs more than once in a parent, and has attributes or children to be columns."""
        return self.most > 1 and bool(self.children or self.attributes)

    def is_container_of(self, inner: Sequence[ElementPath]) -> bool:
        """True if these repeated descendants are the tuples rather than itself.

        They are if there are many for each of its own columns, or if it is one of few and one path holds most of it.
        """
        if not inner:
            return False
        tuples = sum(path.count for path in self.outermost())
        own_columns = len(self.attributes) + sum(child.most == 1 for child in self.children.values())
        largest = max(inner, key=lambda path: path.whole_size)
        holds_most = largest.whole_size >= _MOST_OF * self.whole_size and largest.count >= self.count**2
        return holds_most or tuples >= _FULL * own_columns * self.count

    @property
    def whole_size(self) -> int:
        """The size with all descendants."""
        return self.size + sum(child.whole_size for child in self.children.values())

    def outermost(self) -> Iterator[ElementPath]:
        """The repeated paths below, without those that are below another."""
        for child in self.children.values():
            if child.repeats:
                yield child
            else:
                yield from child.outermost()

    def candidates(self) -> list[ElementPath]:
        """The paths of possible tuples: the outermost repeated paths that are no containers."""
        paths: list[ElementPath] = []
        for path in self.outermost():
            inner = path.candidates()
            paths += inner if path.is_container_of(inner) else [path]
        return paths


class TupleCandidates(SampleTarget):
    """Counts the elements of a sample by path."""

    def __init__(self, punct_namespace: str) -> None:
        super().__init__(punct_namespace)
        self._root = ElementPath("")
        self._open: list[tuple[ElementPath, Counter[str]]] = [
            (self._root, Counter())
        ]  # counts of children so far
        self._paths = 0
        self.first: dict[str, str] = {}  # by local name, the first expanded name

    def reset(self) -> None:
        super().reset()
        del self._open[1:]
        self._open[0][1].clear()

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        if self.is_punctuation(name):
            return False
        parent, counts = self._open[-1]
        path = parent.children.get(name)
        if path is None:
            if self._paths >= _MOST_PATHS:
                return False
            self._paths += 1
            path = parent.children[name] = ElementPath(name)
        self.first.setdefault(name_parts(name)[1], name)
        counts[name] += 1
        path.count += 1
        path.most = max(path.most, counts[name])
        path.size += 1 + sum(len(key) + len(text) for key, text in attributes.items())
        path.attributes.update(attributes)
        self._open.append((path, Counter()))
        return True

    def text(self, text: str) -> None:
        self._open[-1][0].size += len(text.strip())

    def finish(self, name: str) -> None:
        self._open.pop()

    def tuple_element(self) -> str | None:
        """The repeated element that holds most of the sample; None if there is none."""
        best = max(self._root.candidates(), key=lambda path: (path.whole_size, path.count), default=None)
        if best is None:
            return None
        while (
            self._is_above(best) and len(best.children) == 1
        ):  # of elements that nest in themselves, their only child
            (best,) = best.children.values()
        return best.name

    def local_names(self) -> list[str]:
        """The local names of all elements."""
        return [*self.first]

    def others(self, element: str) -> tuple[tuple[str, int], ...]:
        """The local names of the other repeated elements outside of ``element``, and their numbers; largest first."""
        counts: Counter[str] = Counter()
        paths = [*self._root.children.values()]
        for path in paths:
            if path.name != element:
                paths += path.children.values()
                counts[name_parts(path.name)[1]] += path.count if path.repeats else 0
        return tuple((name, count) for name, count in counts.most_common() if count)

    def _is_above(self, path: ElementPath) -> bool:
        """True if an element of the same name contains the elements at a path."""
        stack = [(self._root, False)]
        while stack:
            outer, is_inside = stack.pop()
            if outer is path:
                return is_inside
            is_inside = is_inside or outer.name == path.name
            stack += [(child, is_inside) for child in outer.children.values()]
        return False

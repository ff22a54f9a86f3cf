"""Templates: what regions of one kind have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from xmlpunct.firehose.markup import Tokens
from xmlpunct.firehose.target import TEXT, Branch, Found
from xmlpunct.overlooked import Overlooked

_TAG = re.compile(rb"""<[^\s/>"'=]+((?:\s+[^\s/>"'=]+="[^"<]*+")*)\s*/?>""")
_ATTRIBUTE = re.compile(rb"""\s+([^\s/>"'=]+)="([^"<]*+)\"""")

Trial = Callable[[bytes], Sequence[Found] | None]
"""What the conforming parser finds, by stream, in an element at the place in question; None for an error."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A region without its values: ``pieces`` are what stands around them.

    ``quoted`` says which values are those of XML attributes. ``height`` is how deep its elements are nested.
    """

    pieces: tuple[bytes, ...]
    quoted: tuple[bool, ...]
    height: int

    def filled(self, values: Sequence[bytes]) -> bytes:
        """A region with these values."""
        parts = [part for pair in zip(self.pieces, values, strict=False) for part in pair]
        return b"".join((*parts, self.pieces[-1]))


def skeleton(region: bytes, found: Tokens) -> Skeleton | None:
    """The skeleton of a region, whose tokens are given. None where something in it is out of the ordinary."""
    if not found.element.all():
        return None
    pieces: list[bytes] = []
    quoted: list[bool] = []
    at = 0
    starts, ends, deltas = found.start.tolist(), found.end.tolist(), found.delta.tolist()
    for i, (start, end, delta) in enumerate(zip(starts, ends, deltas, strict=True)):
        if delta < 0:
            continue
        tag = _TAG.fullmatch(region, start, end)
        if tag is None:
            return None
        for attribute in _ATTRIBUTE.finditer(region, *tag.span(1)):
            if attribute[1].startswith(b"xml"):  # declarations, and what has a meaning to parsers
                return None
            pieces.append(region[at : attribute.start(2)])
            quoted.append(True)
            at = attribute.end(2)
        if delta > 0 and deltas[i + 1] < 0:
            pieces.append(region[at:end])
            quoted.append(False)
            at = starts[i + 1]
    return Skeleton((*pieces, region[at:]), tuple(quoted), int(np.cumsum(found.delta).max(initial=1)))


class Tree:
    """The tree of a punctuation whose texts and attributes are values, or nothing but white space."""

    def __init__(self, branch: Branch, number: Mapping[str, int]) -> None:
        self._branch, self._number = branch, number

    def filled(self, values: Sequence[str]) -> Branch:
        """The tree with these values."""
        return self._fill(self._branch, values)

    def numbered(self) -> Branch:
        """The tree with the numbers of the values for values."""
        return self.filled([str(i) for i in range(len(self._number))])

    def _fill(self, branch: Branch, values: Sequence[str]) -> Branch:
        number = self._number
        attributes = {name: values[number[text]] for name, text in branch.attributes.items()}
        text = values[number[branch.text]] if branch.text in number else branch.text
        return Branch(branch.name, attributes, text, [self._fill(child, values) for child in branch.children])


class Template:
    """What regions of one kind have in common.

    ``tuples`` gives, by the number of each stream of which it is a tuple, the value of each slot (None: it
    has none); ``punctuations`` by stream the tree of a punctuation, whose texts are numbers of values.
    ``overlooked`` is, by stream, what each region has of that. ``end`` is what stands from the last end tag or
    quotation mark on.
    """

    def __init__(self, form: Skeleton, found: Sequence[Found], values: Sequence[str]) -> None:
        self.form = form
        self.tuples: dict[int, list[int | None]] = {}
        self.punctuations: dict[int, Tree] = {}
        self.overlooked: dict[int, Overlooked] = {}
        number = {value: i for i, value in enumerate(values)}
        for stream, one in enumerate(found):
            if one.at:
                self.tuples[stream] = [None if cell is None else number[cell] for cell in one.cells]
            for _, _, branch in one.punctuations:
                self.punctuations[stream] = Tree(branch, number)
            if one.overlooked:
                self.overlooked[stream] = one.overlooked_before(inf)
        self.literals = b"".join(form.pieces)
        self.gap = form.pieces[0][: form.pieces[0].find(b"<")]
        last = form.pieces[-1]
        self.end = last[max(last.rfind(b"</"), last.rfind(b'"')) :]


def learn(form: Skeleton, trial: Trial) -> Template | None:
    """The template of a skeleton, by what the conforming parser finds in it; None if it cannot serve."""
    if not form.quoted and b"</" not in form.pieces[-1]:
        return None
    values = [f"xmlpunct-{i}-" for i in range(len(form.quoted))]
    found = trial(form.filled([value.encode() for value in values]))
    if found is None or any(one.faults or len(one.at) > 1 for one in found):
        return None
    known: set[str | None] = {None, *values}
    if any(cell not in known for one in found for cell in one.cells):
        return None
    if not any(one.at or one.punctuations for one in found):
        return None
    if any(name == TEXT for one in found for _, _, name in one.overlooked):
        return None  # where it is white space, it is not overlooked
    return Template(form, found, values)

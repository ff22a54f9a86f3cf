"""Templates: what regions of one kind have in common, and the proof that a region is of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xmlpunct.firehose.cells import Flags, Ints, Words, gather
from xmlpunct.firehose.markup import Tokens
from xmlpunct.firehose.target import Branch, Found

_WORD = 8
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


@dataclass(slots=True)
class Matched:
    """Regions as a template sees them: which ones are of it, and their values: begin, size and first words."""

    proven: Flags
    begin: list[Ints] = field(default_factory=list)
    size: list[Ints] = field(default_factory=list)
    head: list[tuple[Words, Words]] = field(default_factory=list)

    def of(self, which: Flags) -> Matched:
        """Some of them."""
        begin, size = ([places[which] for places in column] for column in (self.begin, self.size))
        return Matched(self.proven[which], begin, size, [(a[which], b[which]) for a, b in self.head])


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
    """

    def __init__(self, form: Skeleton, found: Sequence[Found], values: Sequence[str]) -> None:
        self.form = form
        self.marks = any(form.quoted)
        self.tuples: dict[int, list[int | None]] = {}
        self.punctuations: dict[int, Tree] = {}
        number = {value: i for i, value in enumerate(values)}
        for stream, one in enumerate(found):
            if one.at:
                self.tuples[stream] = [None if cell is None else number[cell] for cell in one.cells]
            for _, _, branch in one.punctuations:
                self.punctuations[stream] = Tree(branch, number)
        self.literals = b"".join(form.pieces)
        self.gap = form.pieces[0][: form.pieces[0].find(b"<")]
        self._checks = [_check(piece, i == len(form.pieces) - 1) for i, piece in enumerate(form.pieces)]
        self._laid_out: bool | None = None

    def lay_out(self, marks: bool) -> None:
        """Find the anchors: ``</``, and with ``marks`` quotation marks too.

        ``anchors`` is how many a region has, ``ends`` by value the number of the one behind it, and ``end`` what
        stands from the last one on.
        """
        if self._laid_out is marks:
            return
        self._laid_out = marks
        pieces = self.form.pieces
        counts = [piece.count(b"</") + (piece.count(b'"') if marks else 0) for piece in pieces]
        before = np.cumsum(counts).tolist()
        self.anchors, self.ends = before[-1], before[:-1]
        last = pieces[-1]
        self.end = last[max(last.rfind(b"</"), last.rfind(b'"') if marks else -1) :]

    def match(self, buffer: bytes, start: Ints, end: Ints, anchor: Callable[[int], Ints]) -> Matched:
        """Look at regions with this number of anchors: ``anchor`` gives the place of the n-th of each."""
        found = Matched(np.zeros(len(start), np.bool_))
        at, wrong, good = start, np.zeros(len(start), np.uint64), np.ones(len(start), np.bool_)
        for i, (piece, check) in enumerate(zip(self.form.pieces, self._checks, strict=True)):
            last = len(buffer) - check.width
            if last < 0:
                return found
            at_word = at - check.lead
            words = gather(buffer, at_word if at_word[-1] <= last else np.minimum(at_word, last), check.width)
            for place, value, mask in check.words:
                difference = words[:, place] ^ value
                wrong |= difference if mask is None else difference & mask
            at = at + len(piece)
            if i < len(self.ends):
                after = anchor(self.ends[i])
                size = after - at
                good &= size >= 0
                found.begin.append(at)
                found.size.append(size)
                found.head.append((words[:, -2], words[:, -1]))
                at = after
        found.proven = good & (wrong == 0) & (at == end)
        return found


@dataclass(frozen=True, slots=True)
class _Check:
    """How to compare a piece: by words from ``lead`` bytes before it on, of ``width`` bytes."""

    lead: int
    width: int
    words: tuple[tuple[int, np.uint64, np.uint64 | None], ...]


def _check(piece: bytes, last: bool) -> _Check:
    lead = -len(piece) % _WORD
    size = lead + len(piece)
    padded, mask = bytes(lead) + piece, bytes(lead) + b"\xff" * len(piece)
    values, masks = np.frombuffer(padded, "<u8"), np.frombuffer(mask, "<u8")
    every = np.uint64(2**64 - 1)
    words = tuple(
        (i, v, None if m == every else m) for i, (v, m) in enumerate(zip(values, masks, strict=True))
    )
    return _Check(lead, size if last else size + 2 * _WORD, words)


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
    return Template(form, found, values)

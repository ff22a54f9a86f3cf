"""Reads the patterns of punctuations from their elements. Ambiguous punctuations are errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat

from xmlpunct.base.errors import PatternError, XmlPunctError
from xmlpunct.firehose.ancestors import Branch
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import SPACE, STRING, Type
from xmlpunct.types.pattern import EMPTY, WILDCARD, Pattern
from xmlpunct.types.pattern_text import parse_pattern

_SHORT = 64
"""Maximum length of cached texts, in characters. Longer texts rarely repeat, and may have any size."""


class PunctuationError(XmlPunctError):
    """A punctuation that cannot be read."""


def read_punctuation(
    spec: StreamSpec, shape: Shape, branch: Branch, punct_namespace: str
) -> Punctuation | None:
    """The punctuation that an element represents. Its children are in the punctuation namespace or in none.

    None if it constrains an undeclared attribute, because without this constraint it would close more tuples. A pattern
    on the condition of ``spec.where`` matches its value and is removed, or it does not and the result is empty. Raises
    `PunctuationError`.
    """
    reader = _Reader(shape, frozenset({"", punct_namespace, spec.space}), punct_namespace)
    if spec.where is not None and spec.where[0] not in shape.root.attributes:
        name, value = spec.where
        if is_of_others(value, branch.attributes.pop(name, "*")):
            return empty_punctuation(spec.schema)
    reader.read(branch, (shape.root,), is_root=True)
    if reader.undeclared:
        return None
    by_attribute = zip(spec.schema, reader.by_attribute(), strict=True)
    return Punctuation(spec.schema, [_pattern(a, text) for a, text in by_attribute])


def is_of_others(value: str, text: str) -> bool:
    """Whether a punctuation's pattern on the condition of the stream excludes the stream's tuples.

    ``value`` is the value that the condition requires. Raises `PunctuationError`.
    """
    try:
        return not _parse(STRING, text).matches(value)
    except PatternError as error:
        raise PunctuationError(f"wrong punctuation: {error}") from None


def empty_punctuation(schema: Schema) -> Punctuation | None:
    """An empty punctuation, which no tuple matches; None if the schema has no attributes."""
    return Punctuation(schema, [EMPTY] * len(schema)) if len(schema) else None


def punctuations_of(
    schema: Schema, count: int, texts_by_attribute: Iterable[Sequence[str] | None]
) -> list[Punctuation]:
    """``count`` punctuations from the texts of their patterns, by attribute."""
    if not len(schema):
        return [Punctuation(schema, ())] * count
    columns: list[Iterable[Pattern]] = []
    for attribute, texts in zip(schema, texts_by_attribute, strict=True):
        if texts is None or texts.count("*") == count:
            columns.append(repeat(WILDCARD, count))
        else:
            columns.append(_patterns(attribute, texts))
    return [Punctuation(schema, patterns) for patterns in zip(*columns, strict=True)]


def _pattern(attribute: Attribute, text: str | None) -> Pattern:
    if text is None or text == "*":
        return WILDCARD
    try:
        return _parse(attribute.type, text)
    except PatternError as error:
        named_error = PatternError(error.reason, error.text, error.position, attribute.name)
        raise PunctuationError(f"wrong punctuation: {named_error}") from None


def _patterns(attribute: Attribute, texts: Sequence[str]) -> list[Pattern]:
    """`_pattern` of each text."""
    try:
        patterns = {text: _parse(attribute.type, text) for text in dict.fromkeys(texts)}
        return [*map(patterns.__getitem__, texts)]
    except PatternError:
        return [_pattern(attribute, text) for text in texts]  # the error names the attribute


def _parse(type_: Type, text: str) -> Pattern:
    return _cached_pattern(type_, text) if len(text) <= _SHORT else parse_pattern(type_, text)


@lru_cache(maxsize=4096)
def _cached_pattern(type_: Type, text: str) -> Pattern:
    """`parse_pattern` with a cache; patterns are immutable."""
    return parse_pattern(type_, text)


class _Reader:
    """Reads the patterns of a punctuation. A pattern is at its column's path, or in an element named after it."""

    def __init__(self, shape: Shape, namespaces: frozenset[str], punct_namespace: str) -> None:
        self.shape, self.namespaces, self.punct_namespace = shape, namespaces, punct_namespace
        self.texts: list[str | None] = [None] * (shape.width + len(shape.pattern_slots))
        self.undeclared = False

    def by_attribute(self) -> list[str | None]:
        """The texts of the patterns, by attribute; None for an attribute without a pattern."""
        texts = []
        for a, slot in zip(self.shape.tables[0].schema, self.shape.slots, strict=True):
            name_slot = self.shape.pattern_slots.get(a.name)
            under_name = None if name_slot is None else self.texts[name_slot]
            at_path = self.texts[slot] if slot >= 0 else None
            if under_name is not None and at_path is not None:
                self.twice(a.name)
            texts.append(at_path if under_name is None else under_name)
        return texts

    def read(self, branch: Branch, reached: Sequence[Step], is_root: bool = False) -> None:
        """Read the patterns in an element that these steps have reached. Items of arrays cannot have patterns."""
        steps = [step for step in reached if step.item < 0]
        for name, text in branch.attributes.items():
            slots = [step.attributes[name] for step in steps if name in step.attributes]
            for slot in slots:
                self.give(slot, text)
            if not slots and name[:1] != "{" and text.strip(SPACE) != "*":
                self.undeclared = True
        values = {slot for step in steps for slot in (step.text, step.own_text) if slot >= 0}
        values = values or {step.raw for step in steps if step.raw >= 0}
        below = any(step.named for step in steps)
        for slot in values if branch.text.strip(SPACE) or not (below or is_root) else ():
            self.give(slot, branch.text)
        if len(steps) < len(reached) and not values:
            self.undeclared |= _constrains(branch)
            return
        if not values:
            _require_no_text(branch)
        counts: dict[str, int] = {}
        for child in branch.children:
            child_steps = self.reached(child, steps, counts)
            if child_steps:
                self.read(child, child_steps)
            elif is_root and self.said(child) in self.shape.pattern_slots:
                if child.children or child.attributes:
                    raise PunctuationError(f"wrong punctuation: <{self.said(child)}> has only a pattern")
                self.give(self.shape.pattern_slots[self.said(child)], child.text)
            elif values and not is_root:
                path = self.shape.paths[min(values)]
                raise PunctuationError(
                    f"wrong punctuation: an element <{child.name}> inside the pattern of {path}"
                )
            else:
                self.undeclared |= _constrains(child)

    def reached(self, child: Branch, steps: Sequence[Step], counts: dict[str, int]) -> list[Step]:
        """The steps that reach a child element."""
        uri, _, local = child.name.rpartition("}")
        uri = uri[1:]
        hops = [pair for step in steps for pair in step.named.get(local, ())]
        exact = [hop.name for hop, _ in hops if hop.name == child.name]
        if not exact and uri in self.namespaces:
            names = {hop.name for hop, _ in hops}
            exact = [*names] if len(names) == 1 else [name for name in names if name == local]
        arriving = []
        for name in dict.fromkeys(exact):
            counts[name] = counts.get(name, 0) + 1
            for hop, below in hops:
                if hop.name != name or (hop.position and hop.position != counts[name]):
                    continue
                if hop.attribute and child.attributes.get(hop.attribute) != hop.value:
                    continue
                arriving.append(below)
        chosen = {hop.attribute for hop, below in hops if below in arriving and hop.attribute}
        for name in chosen:  # it only selects the element and is not a pattern
            if not any(name in below.attributes for below in arriving):
                child.attributes.pop(name, None)
        return arriving

    def said(self, child: Branch) -> str:
        """The column name that an element represents; empty if it is not in the punctuation namespace."""
        uri, _, local = child.name.rpartition("}")
        return local if uri[1:] == self.punct_namespace else ""

    def give(self, slot: int, text: str) -> None:
        if self.texts[slot] is not None:
            names = [*self.shape.names, *self.shape.pattern_slots]
            self.twice(names[slot])
        self.texts[slot] = text

    @staticmethod
    def twice(name: str) -> None:
        raise PunctuationError(f"wrong punctuation: attribute {name} is given more than once")


def _constrains(branch: Branch) -> bool:
    """Whether an undeclared element contains a pattern other than ``*``."""
    has_pattern = any(n[:1] != "{" and t.strip(SPACE) != "*" for n, t in branch.attributes.items())
    if not branch.children:
        return has_pattern or branch.text.strip(SPACE) != "*"
    _require_no_text(branch)
    below = [
        _constrains(child) for child in branch.children
    ]  # no short circuit: each child must be validated
    return has_pattern or any(below)


def _require_no_text(branch: Branch) -> None:
    text = branch.text.strip(SPACE)
    if text:
        raise PunctuationError(f"wrong punctuation: text {text[:60]!r} where only elements belong")

"""The patterns of a punctuation, from its elements. Nothing is guessed: what is not clear is an error."""

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
"""Only such texts, in characters, are remembered: others come once, and may be of any size."""


class PunctuationError(XmlPunctError):
    """A punctuation that cannot be read."""


def read_punctuation(
    spec: StreamSpec, shape: Shape, branch: Branch, punct_namespace: str
) -> Punctuation | None:
    """The punctuation that an element says, whose parts may be in the namespace of punctuations or in none.

    None for one that constrains something that the schema does not declare: without that it would say more
    than it does. One that constrains the condition on tuples says nothing beside it, or nothing of them at all. Raises
    `PunctuationError`.
    """
    reader = _Reader(shape, frozenset({"", punct_namespace, spec.space}), punct_namespace)
    if spec.where is not None and spec.where[0] not in shape.root.attributes:
        name, value = spec.where
        if is_of_others(value, branch.attributes.pop(name, "*")):
            return nothing(spec.schema)
    reader.read(branch, (shape.root,), is_root=True)
    if reader.undeclared:
        return None
    by_attribute = zip(spec.schema, reader.by_attribute(), strict=True)
    return Punctuation(spec.schema, [_pattern(a, text) for a, text in by_attribute])


def is_of_others(value: str, said: str) -> bool:
    """Whether a punctuation says by the condition on tuples, of which these have that value, nothing of them.

    Raises `PunctuationError`.
    """
    try:
        return not _parsed(STRING, said).matches(value)
    except PatternError as error:
        raise PunctuationError(f"wrong punctuation: {error}") from None


def nothing(schema: Schema) -> Punctuation | None:
    """A punctuation that says nothing."""
    return Punctuation(schema, [EMPTY] * len(schema)) if len(schema) else None


def punctuations_of(
    schema: Schema, count: int, texts_by_attribute: Iterable[Sequence[str] | None]
) -> list[Punctuation]:
    """So many punctuations, whose patterns' texts are given by attribute."""
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
        return _parsed(attribute.type, text)
    except PatternError as error:
        named = PatternError(error.reason, error.text, error.position, attribute.name)
        raise PunctuationError(f"wrong punctuation: {named}") from None


def _patterns(attribute: Attribute, texts: Sequence[str]) -> list[Pattern]:
    """`_pattern`, of each."""
    try:
        patterns = {text: _parsed(attribute.type, text) for text in dict.fromkeys(texts)}
        return [*map(patterns.__getitem__, texts)]
    except PatternError:
        return [_pattern(attribute, text) for text in texts]  # which names the attribute


def _parsed(type_: Type, text: str) -> Pattern:
    return _known(type_, text) if len(text) <= _SHORT else parse_pattern(type_, text)


@lru_cache(maxsize=4096)
def _known(type_: Type, text: str) -> Pattern:
    """The pattern of a text: the same for everybody, for ever."""
    return parse_pattern(type_, text)


class _Reader:
    """Reads the patterns of a punctuation: each stands at its column's path, or under its name."""

    def __init__(self, shape: Shape, namespaces: frozenset[str], punct_namespace: str) -> None:
        self.shape, self.namespaces, self.punct_namespace = shape, namespaces, punct_namespace
        self.texts: list[str | None] = [None] * (shape.width + len(shape.said))
        self.undeclared = False

    def by_attribute(self) -> list[str | None]:
        """The texts of the patterns (None: there is none)."""
        found = []
        for a, slot in zip(self.shape.tables[0].schema, self.shape.slots, strict=True):
            said = self.shape.said.get(a.name)
            under_name = None if said is None else self.texts[said]
            at_path = self.texts[slot] if slot >= 0 else None
            if under_name is not None and at_path is not None:
                self.twice(a.name)
            found.append(at_path if under_name is None else under_name)
        return found

    def read(self, branch: Branch, reached: Sequence[Step], is_root: bool = False) -> None:
        """Read the patterns in an element at which some steps arrive. Of the items of an array none can be said."""
        steps = [step for step in reached if step.item < 0]
        for name, text in branch.attributes.items():
            slots = [step.attributes[name] for step in steps if name in step.attributes]
            for slot in slots:
                self.give(slot, text)
            if not slots and name[:1] != "{" and text.strip(SPACE) != "*":
                self.undeclared = True
        values = {slot for step in steps for slot in (step.text, step.own) if slot >= 0}
        values = values or {step.raw for step in steps if step.raw >= 0}
        below = any(step.named for step in steps)
        for slot in values if branch.text.strip(SPACE) or not (below or is_root) else ():
            self.give(slot, branch.text)
        if len(steps) < len(reached) and not values:
            self.undeclared |= _constrains(branch)
            return
        if not values:
            _no_text(branch)
        counts: dict[str, int] = {}
        for child in branch.children:
            found = self.reached(child, steps, counts)
            if found:
                self.read(child, found)
            elif is_root and self.said(child) in self.shape.said:
                if child.children or child.attributes:
                    raise PunctuationError(
                        f"wrong punctuation: <{self.said(child)}> has no more than a pattern"
                    )
                self.give(self.shape.said[self.said(child)], child.text)
            elif values and not is_root:
                path = self.shape.paths[min(values)]
                raise PunctuationError(
                    f"wrong punctuation: an element <{child.name}> inside the pattern of {path}"
                )
            else:
                self.undeclared |= _constrains(child)

    def reached(self, child: Branch, steps: Sequence[Step], counts: dict[str, int]) -> list[Step]:
        """The steps that arrive at an element."""
        uri, _, local = child.name.rpartition("}")
        uri = uri[1:]
        hops = [pair for step in steps for pair in step.named.get(local, ())]
        exact = [hop.name for hop, _ in hops if hop.name == child.name]
        if not exact and uri in self.namespaces:
            names = {hop.name for hop, _ in hops}
            exact = [*names] if len(names) == 1 else [name for name in names if name == local]
        found = []
        for name in dict.fromkeys(exact):
            counts[name] = counts.get(name, 0) + 1
            for hop, below in hops:
                if hop.name != name or (hop.position and hop.position != counts[name]):
                    continue
                if hop.attribute and child.attributes.get(hop.attribute) != hop.value:
                    continue
                found.append(below)
        chosen = {hop.attribute for hop, below in hops if below in found and hop.attribute}
        for name in chosen:  # which says which element it is, and constrains nothing
            if not any(name in below.attributes for below in found):
                child.attributes.pop(name, None)
        return found

    def said(self, child: Branch) -> str:
        """The column that an element is named by, perhaps."""
        uri, _, local = child.name.rpartition("}")
        return local if uri[1:] == self.punct_namespace else ""

    def give(self, slot: int, text: str) -> None:
        if self.texts[slot] is not None:
            names = [*self.shape.names, *self.shape.said]
            self.twice(names[slot])
        self.texts[slot] = text

    @staticmethod
    def twice(name: str) -> None:
        raise PunctuationError(f"wrong punctuation: attribute {name} is given more than once")


def _constrains(branch: Branch) -> bool:
    """Whether an undeclared element says anything but ``*``."""
    said = any(n[:1] != "{" and t.strip(SPACE) != "*" for n, t in branch.attributes.items())
    if not branch.children:
        return said or branch.text.strip(SPACE) != "*"
    _no_text(branch)
    below = [_constrains(child) for child in branch.children]  # all of them, lest a wrong one be overlooked
    return said or any(below)


def _no_text(branch: Branch) -> None:
    text = branch.text.strip(SPACE)
    if text:
        raise PunctuationError(f"wrong punctuation: text {text[:60]!r} where only elements belong")

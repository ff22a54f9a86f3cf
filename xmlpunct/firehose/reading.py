"""The patterns of a punctuation, from its elements. Nothing is guessed: what is not clear is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import repeat

from xmlpunct.errors import PatternError, XmlPunctError
from xmlpunct.firehose.shape import Shape, Step
from xmlpunct.firehose.target import Branch
from xmlpunct.punctuations.pattern import WILDCARD, Pattern
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.text import parse_pattern
from xmlpunct.schema import Attribute, Schema
from xmlpunct.types import SPACE, Type

_SHORT = 64
"""Only such texts, in characters, are remembered: others come once, and may be of any size."""


class PunctuationError(XmlPunctError):
    """A punctuation that cannot be read."""


def read_punctuation(
    schema: Schema, shape: Shape, branch: Branch, namespaces: frozenset[str]
) -> Punctuation | None:
    """The punctuation that an element says, whose parts may be in any of ``namespaces`` (empty: none).

    None for one that constrains something that the schema does not declare: without that it would say more
    than it does. Raises `PunctuationError`.
    """
    reader = _Reader(schema, shape, namespaces)
    reader.read(branch, shape.root)
    if reader.undeclared:
        return None
    return punctuation_of(schema, shape, reader.texts)


def punctuation_of(schema: Schema, shape: Shape, texts: Sequence[str | None]) -> Punctuation:
    """The punctuation whose patterns' texts are given by slot (None: ``*``). Raises `PunctuationError`."""
    by_attribute = zip(schema, shape.slots, strict=True)
    return Punctuation(schema, [_pattern(a, texts[slot]) for a, slot in by_attribute])


def punctuations_of(
    schema: Schema, shape: Shape, count: int, slots: Sequence[Sequence[str] | None]
) -> list[Punctuation]:
    """`punctuation_of`, for so many, whose texts are given by slot."""
    if not len(schema):
        return [Punctuation(schema, ())] * count
    columns: list[Iterable[Pattern]] = []
    for attribute, slot in zip(schema, shape.slots, strict=True):
        texts = slots[slot]
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


def _patterns(attribute: Attribute, texts: Iterable[str]) -> list[Pattern]:
    """`_pattern`, of each."""
    try:
        return [*map(partial(_parsed, attribute.type), texts)]
    except PatternError:
        return [_pattern(attribute, text) for text in texts]  # which names the attribute


def _parsed(type_: Type, text: str) -> Pattern:
    return _known(type_, text) if len(text) <= _SHORT else parse_pattern(type_, text)


@lru_cache(maxsize=4096)
def _known(type_: Type, text: str) -> Pattern:
    """The pattern of a text: the same for everybody, for ever."""
    return parse_pattern(type_, text)


class _Reader:
    def __init__(self, schema: Schema, shape: Shape, namespaces: frozenset[str]) -> None:
        self.schema, self.shape, self.namespaces = schema, shape, namespaces
        self.texts: list[str | None] = [None] * len(shape.paths)
        self.undeclared = False

    def read(self, branch: Branch, step: Step) -> None:
        for name, text in branch.attributes.items():
            if name in step.attributes:
                self.give(step.attributes[name], text)
            elif name[:1] != "{" and text.strip(SPACE) != "*":
                self.undeclared = True
        if step.slot >= 0:
            self.give(step.slot, branch.text)
        else:
            _no_text(branch)
        for child in branch.children:
            below = step.children.get(self.local(child.name))
            if below is not None:
                self.read(child, below)
            elif step.slot >= 0:
                path = self.shape.paths[step.slot]
                raise PunctuationError(
                    f"wrong punctuation: an element <{child.name}> inside the pattern of {path}"
                )
            else:
                self.undeclared |= _constrains(child)

    def give(self, slot: int, text: str) -> None:
        if self.texts[slot] is not None:
            name = next(a.name for a, s in zip(self.schema, self.shape.slots, strict=True) if s == slot)
            raise PunctuationError(f"wrong punctuation: attribute {name} is given more than once")
        self.texts[slot] = text

    def local(self, name: str) -> str:
        """The local name, or one that is nobody's if the namespace is foreign."""
        if name[:1] != "{":
            return name
        uri, _, local = name[1:].rpartition("}")
        return local if uri in self.namespaces else ""


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

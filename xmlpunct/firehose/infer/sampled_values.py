"""Statistics of the tuples in a sample (paths, counts, possible types of their texts), and the columns inferred."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from xmlpunct.base.errors import SourceError
from xmlpunct.base.paths import read_element
from xmlpunct.firehose.infer.columns import (
    AMONG_TEXT,
    MOST_COLUMNS,
    ElementPart,
    Inferred,
    MisfitText,
    element_columns,
    element_step,
)
from xmlpunct.firehose.spec import name_parts
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, SPACE, STRING, TIMESTAMP, Type

_NUMBER = r"-?(?:0|[1-9][0-9]*)"
_FORMS: tuple[tuple[Type, re.Pattern[str]], ...] = (
    (BOOLEAN, re.compile("true|false")),
    (INT, re.compile(_NUMBER)),  # 007 is a code, and +49 a prefix: as numbers they would lose characters
    (DOUBLE, re.compile(rf"{_NUMBER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|-?INF|NaN")),
    (DATE, re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    (TIMESTAMP, re.compile(r"[0-9]{4}-.*T.*")),
)
_EXACT_DIGITS = 15
"""A DOUBLE preserves this number of decimal digits."""


class SampleTarget:
    """A target of lxml's parser that skips elements of no interest, with their content."""

    def __init__(self, punct_namespace: str) -> None:
        self._punctuation = f"{{{punct_namespace}}}"
        self._skipped = 0  # number of open elements that are skipped
        self._number = 0  # of the last start tag in the sample

    def is_punctuation(self, name: str) -> bool:
        """True for an element in the punctuation namespace: outside of tuples, it contains no tuples."""
        return name.startswith(self._punctuation)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._number += 1
        if self._skipped or not self.begin(name, attributes):
            self._skipped += 1

    def end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        else:
            self.finish(name)

    def data(self, text: str) -> None:
        if not self._skipped:
            self.text(text)

    def close(self) -> None:
        pass

    def reset(self) -> None:
        """Start the next document."""
        self._skipped = 0

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Handle the start of an element; false to skip it."""
        raise NotImplementedError

    def finish(self, name: str) -> None:
        """Handle the end of the innermost open element that is not skipped."""
        raise NotImplementedError

    def text(self, text: str) -> None:
        """Handle text in the innermost open element that is not skipped."""


@dataclass
class _Texts:
    """The texts of an attribute or of elements: their count, and the types that all of them fit.

    misfit: the first text with which no type fits all. types_without_misfit: the types that all other texts fit.
    """

    count: int = 0
    types: list[tuple[Type, re.Pattern[str]]] = field(default_factory=lambda: list(_FORMS))
    is_blank: bool = True
    misfit: MisfitText | None = None
    types_without_misfit: list[tuple[Type, re.Pattern[str]]] = field(default_factory=list)
    _is_first_misfit: bool = False
    _has_others: bool = False

    def take(self, text: str, number: int = 0) -> None:
        """Add a text, in the element with this start tag."""
        trimmed = text.strip(SPACE)
        self.count += 1
        self.is_blank = self.is_blank and not trimmed
        if self.misfit is None:
            types = _that_read(trimmed, self.types)
            if not types:
                self.misfit, self.types_without_misfit = MisfitText(trimmed, number), self.types
                self._is_first_misfit = self.count == 1
            self.types = types
        elif trimmed != self.misfit.text:
            self._has_others = True
            if self.types_without_misfit:
                self.types_without_misfit = _that_read(trimmed, self.types_without_misfit)

    @property
    def reason(self) -> MisfitText | None:
        """The first text from which on only STRING fits.

        None if another type fits, or if it is the first text and the others fit only STRING, too.
        """
        fits_others = self._has_others and self.types_without_misfit
        return self.misfit if not self._is_first_misfit or fits_others else None

    @property
    def type(self) -> Type:
        return self.types[0][0] if self.types else STRING


def type_of_texts(texts: Iterable[str]) -> Type:
    """The most specific type that reads all of these texts.

    >>> type_of_texts(["17", "18"]), type_of_texts(["017", "18"])
    (INT, STRING)
    """
    all_texts = _Texts()
    for text in texts:
        all_texts.take(text)
    return all_texts.type


def _that_read(text: str, types: list[tuple[Type, re.Pattern[str]]]) -> list[tuple[Type, re.Pattern[str]]]:
    """The types that represent a text without loss."""
    return [(type_, form) for type_, form in types if _reads(text, type_, form)]


def _reads(text: str, type_: Type, form: re.Pattern[str]) -> bool:
    """True if a type represents a text without loss."""
    if not form.fullmatch(text):
        return False
    try:
        value = type_.read(text)
    except ValueError:
        return False
    if type_ is not DOUBLE or not text[-1].isdigit():
        return True
    digits = re.sub(r"[eE].*|[^0-9]", "", text).strip("0")
    is_held = math.isfinite(float(text)) and (value != 0 or not digits)
    return is_held and len(digits) <= _EXACT_DIGITS


@dataclass(slots=True)
class _Element:
    """A tuple, or an element in it. ``name`` is its name in paths, ``number`` that of its start tag in the sample."""

    name: str
    attributes: dict[str, str]
    is_tuple: bool
    number: int
    texts: list[str] = field(default_factory=list)
    children: list[_Element] = field(default_factory=list)


@dataclass
class _PathStats:
    """Statistics of the elements at one path.

    count: number of elements; holders: number of parents that have one; max_count: maximum number in one parent.
    is_mixed: an element inside a tuple has both text and child elements, which are then part of the text.
    """

    count: int = 0
    holders: int = 0
    max_count: int = 0
    is_mixed: bool = False
    texts: _Texts = field(default_factory=_Texts)
    attributes: dict[str, _Texts] = field(default_factory=dict)
    children: dict[str, _PathStats] = field(default_factory=dict)

    def take(self, element: _Element) -> None:
        """Add an element."""
        text = "".join(element.texts)
        self.count += 1
        self.is_mixed |= not element.is_tuple and bool(element.children) and bool(text.strip(SPACE))
        self.texts.take(text, element.number)
        for name, text in element.attributes.items():
            self.attributes.setdefault(name, _Texts()).take(text, element.number)
        if self.is_mixed:
            self.children.clear()
            return
        for name, times in Counter(child.name for child in element.children).items():
            stats = self.children.setdefault(name, _PathStats())
            stats.holders += 1
            stats.max_count = max(stats.max_count, times)
        for child in element.children:
            self.children[child.name].take(child)

    def parts(self) -> Iterator[ElementPart]:
        """Implements `DescribedElement`."""
        for name, texts in self.attributes.items():
            yield ElementPart(f"@{name}", texts.type, texts.count < self.count, misfit=texts.reason)
        if self._has_text:
            step = "text()" if self.children else ""
            misfit = None if self.is_mixed or self.children else self.texts.reason
            yield ElementPart(step, STRING if self.is_mixed else self.texts.type, misfit=misfit)
        for name, child in self.children.items():
            yield ElementPart(name, child, child.holders < self.count, child.max_count > 1)
        if self.is_mixed:
            yield ElementPart("*", AMONG_TEXT)

    @property
    def _has_text(self) -> bool:
        """True if its text is a column: a blank one only if there is no other column."""
        return not (self.texts.is_blank and (self.children or self.attributes))

    @property
    def width(self) -> int:
        """The number of its columns."""
        return sum(child.width for child in self.children.values()) + len(self.attributes) + self._has_text


class SampledValues(SampleTarget):
    """Collects statistics of the tuples of one element, by path."""

    def __init__(
        self, element: str, punct_namespace: str, source: str, where: tuple[str, str] | None, nested: bool
    ) -> None:
        super().__init__(punct_namespace)
        self.element, self._source, self._where, self._nested = element, source, where, nested
        self._names = read_element(element)
        self._namespace = name_parts(self._names[-1])[0]
        self._above: list[str] = []  # the names of all open elements
        self._open: list[_Element] = []  # the open elements from the tuple inwards
        self._tuples = _PathStats()
        self._left_out: dict[str, None] = {}
        self._prefixes: dict[str, str] = {}

    @property
    def tuples(self) -> int:
        return self._tuples.count

    def reset(self) -> None:
        super().reset()
        self._above, self._open = [], []

    def start_ns(self, prefix: str | None, uri: str) -> None:
        """Store the first prefix declared for a namespace."""
        if prefix:
            self._prefixes.setdefault(uri, prefix)

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        is_tuple = self._is_tuple(name, attributes)
        if not is_tuple and not self._open:
            if self.is_punctuation(name):
                return False
            self._above.append(name)
            return True
        if not is_tuple and name == self._names[-1]:
            return self._leave_out(f"<{name}> inside another")
        if (
            not is_tuple
            and self.is_punctuation(name)
            and name_parts(name)[1] == name_parts(self._names[-1])[1]
        ):
            return self._leave_out(f"<{name}> inside a tuple")
        element = _Element(element_step(name, self._namespace), {}, is_tuple, self._number)
        if not is_tuple and not _is_path_name(name):
            return self._leave_out_name(element.name)
        for key, value in attributes.items():
            if _is_path_name(key):
                element.attributes[key] = value
            else:
                self._leave_out_name(*([] if is_tuple else [element.name]), f"@{key}")
        if not is_tuple:
            self._open[-1].children.append(element)
        self._above.append(name)
        self._open.append(element)
        return True

    def finish(self, name: str) -> None:
        self._above.pop()
        if self._open:
            element = self._open.pop()
            if element.is_tuple:
                self._tuples.take(element)

    def text(self, text: str) -> None:
        if self._open:
            self._open[-1].texts.append(text)

    def inferred(self) -> Inferred:
        """The columns of all paths that can be columns."""
        tuples = self._tuples
        if tuples.width > MOST_COLUMNS:
            raise SourceError(
                self._source, f"<{self.element}> holds more than {MOST_COLUMNS:,} different places"
            )
        inferred = element_columns(self.element, tuples, self._prefixes, self._left_out)
        is_empty = not (tuples.attributes or tuples.children) and tuples.texts.is_blank
        if is_empty or not len(inferred.schema):
            raise SourceError(
                self._source, f"<{self.element}> has no attributes, children or text to be columns"
            )
        return inferred

    def _is_tuple(self, name: str, attributes: Mapping[str, str]) -> bool:
        if name != self._names[-1] or (self._open and not self._nested):
            return False
        where, count = self._where, len(self._names)
        is_there = [*self._above[len(self._above) - count + 1 :], name] == [*self._names]
        return is_there and (where is None or attributes.get(where[0]) == where[1])

    def _leave_out_name(self, *last: str) -> bool:
        """Leave out a child or attribute of the open element, because a path cannot name it."""
        steps = [*reversed(last)]
        for element in reversed(self._open):
            if element.is_tuple:
                break
            steps.append(element.name)
        return self._leave_out(f"{'/'.join(reversed(steps))}, in a namespace that a path cannot name")

    def _leave_out(self, description: str) -> bool:
        self._left_out[description] = None
        return False


def _is_path_name(name: str) -> bool:
    """True if a path can contain the name."""
    return name[:1] != "{" or name.count("{") == name.count("}") == 1

"""What the tuples of a sample hold: places, how often, and what their texts can be; and the columns of that."""

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
    MOST_ARRAYS,
    MOST_COLUMNS,
    Inferred,
    schema_of,
    shortened,
)
from xmlpunct.firehose.spec import expanded
from xmlpunct.schema.arrays import array_of
from xmlpunct.types import BOOLEAN, DATE, DOUBLE, INT, SPACE, STRING, TIMESTAMP, Type

_NUMBER = r"-?(?:0|[1-9][0-9]*)"
_FORMS: tuple[tuple[Type, re.Pattern[str]], ...] = (
    (BOOLEAN, re.compile("true|false")),
    (INT, re.compile(_NUMBER)),  # 007 is a code, and +49 a prefix: as numbers they would lose something
    (DOUBLE, re.compile(rf"{_NUMBER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|-?INF|NaN")),
    (DATE, re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
    (TIMESTAMP, re.compile(r"[0-9]{4}-.*T.*")),
)
_EXACT_DIGITS = 15
"""So many digits come back from a DOUBLE as they were."""


class Target:
    """What lxml's parser calls. What is of no interest is passed over, with all that is in it."""

    def __init__(self, punct_namespace: str) -> None:
        self._punctuation = f"{{{punct_namespace}}}"
        self._passed = 0  # the elements that are open and passed over

    def is_punctuation(self, name: str) -> bool:
        """Whether an element is one that no tuple is in, unless it is itself in a tuple."""
        return name.startswith(self._punctuation)

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if self._passed or not self.begin(name, attributes):
            self._passed += 1

    def end(self, name: str) -> None:
        if self._passed:
            self._passed -= 1
        else:
            self.finish(name)

    def data(self, text: str) -> None:
        if not self._passed:
            self.text(text)

    def close(self) -> None:
        pass

    def reset(self) -> None:
        """Another document begins."""
        self._passed = 0

    def begin(self, name: str, attributes: Mapping[str, str]) -> bool:
        """An element begins; whether it is of interest."""
        raise NotImplementedError

    def finish(self, name: str) -> None:
        """The element that began last, of those that are open and of interest, ends."""
        raise NotImplementedError

    def text(self, text: str) -> None:
        """Some text in it."""


@dataclass
class _Texts:
    """The texts of an attribute or of elements: how many there were, and what they can be."""

    count: int = 0
    types: list[tuple[Type, re.Pattern[str]]] = field(default_factory=lambda: list(_FORMS))
    is_blank: bool = True

    def take(self, text: str) -> None:
        """Add a text."""
        trimmed = text.strip(SPACE)
        self.count += 1
        self.is_blank = self.is_blank and not trimmed
        self.types = [(type_, form) for type_, form in self.types if _reads(trimmed, type_, form)]

    @property
    def type(self) -> Type:
        return self.types[0][0] if self.types else STRING


def type_of_texts(texts: Iterable[str]) -> Type:
    """The type that some texts can be values of.

    >>> type_of_texts(["17", "18"]), type_of_texts(["017", "18"])
    (INT, STRING)
    """
    found = _Texts()
    for text in texts:
        found.take(text)
    return found.type


def _reads(text: str, type_: Type, form: re.Pattern[str]) -> bool:
    """Whether a type holds the whole of what a text says."""
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
    """An element of a tuple, or the tuple itself, by the name that a path has for it."""

    name: str
    attributes: dict[str, str]
    is_tuple: bool
    texts: list[str] = field(default_factory=list)
    children: list[_Element] = field(default_factory=list)


@dataclass
class _Place:
    """The elements in one place: how many, how many of those around had one, and up to how many one of them had.

    It ``is_mixed`` if one of them has text beside elements.
    """

    count: int = 0
    holders: int = 0
    most: int = 0
    is_mixed: bool = False
    texts: _Texts = field(default_factory=_Texts)
    attributes: dict[str, _Texts] = field(default_factory=dict)
    children: dict[str, _Place] = field(default_factory=dict)

    def take(self, element: _Element) -> None:
        """Add an element."""
        text = "".join(element.texts)
        self.count += 1
        self.is_mixed = self.is_mixed or (bool(element.children) and bool(text.strip(SPACE)))
        self.texts.take(text)
        for name, text in element.attributes.items():
            self.attributes.setdefault(name, _Texts()).take(text)
        for name, times in Counter(child.name for child in element.children).items():
            place = self.children.setdefault(name, _Place())
            place.holders += 1
            place.most = max(place.most, times)
        for child in element.children:
            self.children[child.name].take(child)

    @property
    def text_path(self) -> str | None:
        """Where its text is a column: all of it, or where there are elements in it, its own."""
        if self.children:
            return None if self.texts.is_blank else "text()"
        return None if self.texts.is_blank and self.attributes else "."

    @property
    def width(self) -> int:
        """How many columns it comes to."""
        inside = sum(child.width for child in self.children.values())
        return inside + len(self.attributes) + (self.text_path is not None)


class Places(Target):
    """What the tuples of one element hold, where."""

    def __init__(
        self, element: str, punct_namespace: str, source: str, where: tuple[str, str] | None, nested: bool
    ) -> None:
        super().__init__(punct_namespace)
        self.element, self._source, self._where, self._nested = element, source, where, nested
        self._names = read_element(element)
        self._namespace = expanded(self._names[-1])[0]
        self._above: list[str] = []  # the names of all open elements
        self._open: list[_Element] = []  # those from the tuple on
        self._tuples = _Place()
        self._left_out: dict[str, None] = {}
        self._prefixes: dict[str, str] = {}

    @property
    def tuples(self) -> int:
        return self._tuples.count

    def reset(self) -> None:
        super().reset()
        self._above, self._open = [], []

    def start_ns(self, prefix: str | None, uri: str) -> None:
        """A namespace is declared."""
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
        element = _Element(self._step(name), {}, is_tuple)
        if not is_tuple and not _is_said(name):
            return self._leave_out_name(element.name)
        for key, value in attributes.items():
            if _is_said(key):
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
        """The columns of all that can be one."""
        tuples = self._tuples
        self._join_texts(tuples, ())
        if tuples.width > MOST_COLUMNS:
            raise SourceError(
                self._source, f"<{self.element}> holds more than {MOST_COLUMNS:,} different places"
            )
        has_columns = tuples.attributes or tuples.children or not tuples.texts.is_blank
        columns = dict(self._columns(tuples, (), False, ())) if has_columns else {}
        if not columns:
            raise SourceError(
                self._source, f"<{self.element}> has no attributes, children or text to be columns"
            )
        told = shortened(self._left_out)
        return Inferred(self.element, schema_of(columns), tuples.count, told, prefixes=self._prefixes)

    def _join_texts(self, place: _Place, steps: tuple[str, ...]) -> None:
        """Make one text of what is mixed inside of a place."""
        for name, child in place.children.items():
            if child.is_mixed:
                child.children.clear()
                child.texts.types.clear()
                self._leave_out(f"{'/'.join([*steps, name])}/*, {AMONG_TEXT}")
            self._join_texts(child, (*steps, name))

    def _columns(
        self, place: _Place, steps: tuple[str, ...], missing: bool, around: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[Type, bool]]]:
        """The columns of a place: their paths in their row, to which ``steps`` lead, and what `Columns` say.

        ``missing`` says whether rows may have no such place, and ``around`` are the paths of the arrays around.
        """
        for name, texts in place.attributes.items():
            yield "/".join([*steps, f"@{name}"]), (texts.type, missing or texts.count < place.count)
        if place.text_path is not None:
            own = [place.text_path] if place.text_path != "." else []
            yield "/".join([*steps, *own]) or ".", (place.texts.type, missing)
        for name, child in place.children.items():
            inside = (*steps, name)
            if child.most <= 1:
                yield from self._columns(child, inside, missing or child.holders < place.count, around)
                continue
            path = "/".join(inside)
            if len(around) == MOST_ARRAYS:
                self._leave_out(f"{'/'.join([*around, path])}, which repeats inside {MOST_ARRAYS} arrays")
            elif columns := dict(self._columns(child, (), False, (*around, path))):
                yield path, (array_of(schema_of(columns)), True)

    def _is_tuple(self, name: str, attributes: Mapping[str, str]) -> bool:
        if name != self._names[-1] or (self._open and not self._nested):
            return False
        where, count = self._where, len(self._names)
        is_there = [*self._above[len(self._above) - count + 1 :], name] == [*self._names]
        return is_there and (where is None or attributes.get(where[0]) == where[1])

    def _step(self, name: str) -> str:
        """A path's name for an element: where it may be in the tuples' namespace or in none, it says none."""
        namespace, local = expanded(name)
        return local if namespace in ("", self._namespace) else name

    def _leave_out_name(self, *last: str) -> bool:
        """Leave out what is named so, in the element that is open."""
        steps = [*reversed(last)]
        for element in reversed(self._open):
            if element.is_tuple:
                break
            steps.append(element.name)
        return self._leave_out(f"{'/'.join(reversed(steps))}, in a namespace that no path can name")

    def _leave_out(self, what: str) -> bool:
        self._left_out[what] = None
        return False


def _is_said(name: str) -> bool:
    """Whether a path can say a name."""
    return name[:1] != "{" or name.count("{") == name.count("}") == 1

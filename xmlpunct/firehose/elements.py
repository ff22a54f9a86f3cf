"""Tuples as XML elements: polars expressions of what is written, and of what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import IN_ATTRIBUTE, IN_TEXT, UNHOLDABLE, escaped
from xmlpunct.firehose.result_elements import NODES, Element, Namespaces, outline
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import STRING, XML, Type

INDENT = "  "
_PREFIXED = r"<[^\s<>/:]+:|\s[^\s<>/:=]+:[^\s<>/:=]+\s*="
"""What may be a name with a prefix, in the text of an element."""

Test = tuple[pl.Expr, str]
"""The tuples that cannot be written, and why."""


@dataclass(frozen=True)
class Elements:
    """How tuples of a schema are written as elements of an outline.

    ``declared`` are the declarations of ``namespaces`` and whatever else the root declares. ``value`` gives the column
    of a name. Raises `UsageError` where a type does not go with a place.
    """

    top: Element
    schema: Schema
    namespaces: Namespaces
    declared: str
    pretty: bool
    value: Callable[[str], pl.Expr] = pl.col

    def __post_init__(self) -> None:
        for element in self.top.walk():
            self._check(element)

    def whole(self, depth: int, lead: str) -> Iterator[pl.Expr]:
        """The element of a tuple so deep in the document, in parts, behind a lead."""
        yield pl.lit(f"{lead}<{self.top.name}")
        yield from self._inside(self.top, depth)

    def tests(self) -> Iterator[Test]:
        """A text may have a character that XML cannot hold, an element as it stood a prefix that is not declared.

        And where an element has a text and attributes, null cannot be told from the empty text if only the
        attributes are there.
        """
        for a in self.schema:
            if isinstance(a.type, ArrayType):
                for test, reason in self._items(a.name, a.type, a.name).tests():
                    within = self.value(a.name).list.eval(test.fill_null(False)).list.any()
                    yield within, f"column {a.name}: {reason}"
            if a.type in (STRING, XML):
                forbidden = self.value(a.name).str.contains(UNHOLDABLE)
                yield forbidden, f"column {a.name}: a character that XML cannot hold"
            if a.type is XML:
                unknown = self.value(a.name).map_batches(self._unknown, pl.Boolean(), is_elementwise=True)
                yield unknown, f"column {a.name}: a prefix that is not declared: --namespaces does"
        if self.top.text >= 0 and self.schema.attributes[self.top.text].nullable:
            missing = self.value(self.schema.names[self.top.text]).is_null()
            yield missing, f"null cannot be written as the text of <{self.top.name}>"
        for element in self.top.walk():
            if element is self.top:
                continue
            if element.attributes and element.text >= 0 and self.schema.attributes[element.text].nullable:
                name = self.schema.names[element.text]
                alone = self.value(name).is_null() & self._any(place for _, place in element.attributes)
                yield alone, f"column {name}: null cannot be written in an element that has attributes"

    def lead(self, depth: int) -> str:
        """What stands before a tag."""
        return "\n" + depth * INDENT if self.pretty else ""

    def _check(self, element: Element) -> None:
        """Raise `UsageError` where a type does not go with a place."""
        for _, place in element.attributes:
            if not self._type(place).comparable:
                self._refuse(place, f"{self._type(place).kind} is no attribute")
        if element.text < 0:
            return
        type_ = self._type(element.text)
        if element.name == NODES and type_ is not XML:
            self._refuse(element.text, f"node() is for XML, not {type_.kind}: name the element")
        if isinstance(type_, ArrayType):
            if element.attributes:
                self._refuse(
                    element.text, "the elements of an array have its columns as attributes, no others"
                )
            self._items(element.name, type_, self.schema.names[element.text])

    def _refuse(self, place: int, why: str) -> None:
        raise UsageError(f"column {self.schema.names[place]!r} cannot be written as XML: {why}")

    def _type(self, place: int) -> Type:
        return self.schema.attributes[place].type

    def _items(self, element: str, type_: ArrayType, column: str) -> Elements:
        """How the items of an array are written."""
        try:
            schema = Schema.of(type_.attributes)
            top = outline(element, schema.names, self.namespaces)
            return Elements(top, schema, self.namespaces, self.declared, self.pretty, _field)
        except UsageError as error:
            raise UsageError(f"array {column}: {error}") from None

    def _inside(self, element: Element, depth: int) -> Iterator[pl.Expr]:
        """An element behind its name: attributes, content, end tag."""
        for name, place in element.attributes:
            text = self._text(place, IN_ATTRIBUTE)
            yield pl.concat_str(pl.lit(f' {name}="'), text, pl.lit('"')).fill_null("")
        yield pl.lit(">")
        if element.text >= 0:
            yield self._text(element.text, IN_TEXT)
        yield from (self._child(child, depth + 1) for child in element.children)
        yield pl.lit(f"{self.lead(depth) if element.children else ''}</{element.name}>")

    def _child(self, element: Element, depth: int) -> pl.Expr:
        """An element in another one, the elements of an array, or XML without an element of its own."""
        type_ = self._type(element.text) if element.text >= 0 else None
        if isinstance(type_, ArrayType):
            items = self._items(element.name, type_, self.schema.names[element.text]).whole(
                depth, self.lead(depth)
            )
            array = self.value(self.schema.names[element.text])
            return array.list.eval(pl.concat_str(*items)).list.join("").fill_null("")
        if element.name == NODES:
            return pl.concat_str(pl.lit(self.lead(depth)), self._text(element.text, IN_TEXT)).fill_null("")
        whole = pl.concat_str(pl.lit(f"{self.lead(depth)}<{element.name}"), *self._inside(element, depth))
        if element.text >= 0:
            return whole.fill_null("")
        return pl.when(self._any(element.columns())).then(whole).otherwise(pl.lit(""))

    def _text(self, place: int, references: Mapping[str, str]) -> pl.Expr:
        """A value as it is written; XML as it is."""
        a = self.schema.attributes[place]
        text = a.type.format_column(self.value(a.name))
        return escaped(text, references) if a.type is STRING else text

    def _any(self, places: Iterator[int]) -> pl.Expr:
        """Whether any of these columns has something to write."""
        return pl.any_horizontal(self._is_there(place) for place in places)

    def _is_there(self, place: int) -> pl.Expr:
        value = self.value(self.schema.names[place])
        if isinstance(self._type(place), ArrayType):
            return (value.list.len() > 0).fill_null(False)
        return value.is_not_null()

    def _unknown(self, values: pl.Series) -> pl.Series:
        """For each element as it stood, whether it has a prefix that is not declared."""
        suspect = values.str.contains(_PREFIXED).fill_null(False)
        if not suspect.any():
            return suspect
        distinct = values.filter(suspect).unique()
        unknown = distinct.filter(pl.Series([not _is_complete(value, self.declared) for value in distinct]))
        return values.is_in(unknown.implode()).fill_null(False)


def _field(name: str) -> pl.Expr:
    """A column of an array's items, where polars evaluates each."""
    return pl.element().struct.field(name)


def _is_complete(value: str, declared: str) -> bool:
    """Whether XML declares all its prefixes that are not ``declared``."""
    try:
        etree.fromstring(f"<x{declared}>{value}</x>".encode(), etree.XMLParser(huge_tree=True))
    except etree.XMLSyntaxError:
        return False
    return True

"""Tuples as XML elements: polars expressions for the output, and for tuples that cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from lxml import etree

from xmlpunct.base.errors import UsageError
from xmlpunct.base.escapes import IN_ATTRIBUTE, IN_TEXT, UNHOLDABLE, escaped
from xmlpunct.firehose.result_elements import NODES, Namespaces, ResultElement, result_outline
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.types import STRING, XML, Type

INDENT = "  "
_PREFIXED = r"<[^\s<>/:]+:|\s[^\s<>/:=]+:[^\s<>/:=]+\s*="
"""Matches possible names with a prefix in the text of an element."""

UnwritableTest = tuple[pl.Expr, str]
"""(condition, reason): tuples that meet the condition cannot be written."""


@dataclass(frozen=True)
class ElementWriter:
    """Writes tuples of a schema as elements of the outline ``top``.

    ``declared`` has all namespace declarations of the root, also the ones of ``namespaces``. ``value`` maps a column
    name to its expression. Raises `UsageError` if a type is not allowed at a position of the outline.
    """

    top: ResultElement
    schema: Schema
    namespaces: Namespaces
    declared: str
    pretty: bool
    value: Callable[[str], pl.Expr] = pl.col

    def __post_init__(self) -> None:
        for element in self.top.walk():
            self._check(element)

    def tuple_expressions(self, depth: int, lead: str) -> Iterator[pl.Expr]:
        """The parts of a tuple's element at this depth of the document, after ``lead``."""
        yield pl.lit(f"{lead}<{self.top.name}")
        yield from self._element_body(self.top, depth)

    def tests(self) -> Iterator[UnwritableTest]:
        """Tests for characters that XML forbids, for undeclared prefixes in XML values, and for ambiguous nulls.

        If an element has a text and attributes, a null text cannot be distinguished from an empty one.
        """
        for a in self.schema:
            if isinstance(a.type, ArrayType):
                for test, reason in self._items(a.name, a.type, a.name).tests():
                    has_violation = self.value(a.name).list.eval(test.fill_null(False)).list.any()
                    yield has_violation, f"column {a.name}: {reason}"
            if a.type in (STRING, XML):
                forbidden = self.value(a.name).str.contains(UNHOLDABLE)
                yield forbidden, f"column {a.name}: a character that XML cannot hold"
            if a.type is XML:
                unknown = self.value(a.name).map_batches(
                    self._has_undeclared_prefix, pl.Boolean(), is_elementwise=True
                )
                yield unknown, f"column {a.name}: an undeclared prefix: declare it with --namespaces"
        if self.top.text >= 0 and self.schema.attributes[self.top.text].nullable:
            missing = self.value(self.schema.names[self.top.text]).is_null()
            yield missing, f"null cannot be written as the text of <{self.top.name}>"
        for element in self.top.walk():
            if element is self.top:
                continue
            if element.attributes and element.text >= 0 and self.schema.attributes[element.text].nullable:
                name = self.schema.names[element.text]
                has_attributes_only = self.value(name).is_null() & self._has_any_value(
                    position for _, position in element.attributes
                )
                yield (
                    has_attributes_only,
                    f"column {name}: null cannot be written in an element that has attributes",
                )

    def lead(self, depth: int) -> str:
        """The whitespace before a tag."""
        return "\n" + depth * INDENT if self.pretty else ""

    def _check(self, element: ResultElement) -> None:
        """Raise `UsageError` if a type is not allowed at its position."""
        for _, position in element.attributes:
            if not self._type(position).comparable:
                self._refuse(position, f"{self._type(position).kind} is no attribute")
        if element.text < 0:
            return
        type_ = self._type(element.text)
        if element.name == NODES and type_ is not XML:
            self._refuse(element.text, f"node() needs XML, not {type_.kind}: name the element")
        if isinstance(type_, ArrayType):
            if element.attributes:
                self._refuse(element.text, "the elements of an array have no attributes besides its columns")
            self._items(element.name, type_, self.schema.names[element.text])

    def _refuse(self, position: int, why: str) -> None:
        raise UsageError(f"column {self.schema.names[position]!r} cannot be written as XML: {why}")

    def _type(self, position: int) -> Type:
        return self.schema.attributes[position].type

    def _items(self, element: str, type_: ArrayType, column: str) -> ElementWriter:
        """The `ElementWriter` of an array's items."""
        try:
            schema = Schema.of(type_.attributes)
            top = result_outline(element, schema.names, self.namespaces)
            return ElementWriter(top, schema, self.namespaces, self.declared, self.pretty, _field)
        except UsageError as error:
            raise UsageError(f"array {column}: {error}") from None

    def _element_body(self, element: ResultElement, depth: int) -> Iterator[pl.Expr]:
        """An element after its name: attributes, content, end tag."""
        for name, position in element.attributes:
            text = self._text(position, IN_ATTRIBUTE)
            yield pl.concat_str(pl.lit(f' {name}="'), text, pl.lit('"')).fill_null("")
        yield pl.lit(">")
        if element.text >= 0:
            yield self._text(element.text, IN_TEXT)
        yield from (self._child(child, depth + 1) for child in element.children)
        yield pl.lit(f"{self.lead(depth) if element.children else ''}</{element.name}>")

    def _child(self, element: ResultElement, depth: int) -> pl.Expr:
        """A child element, the elements of an array, or an XML value without an element."""
        type_ = self._type(element.text) if element.text >= 0 else None
        if isinstance(type_, ArrayType):
            items = self._items(element.name, type_, self.schema.names[element.text]).tuple_expressions(
                depth, self.lead(depth)
            )
            array = self.value(self.schema.names[element.text])
            return array.list.eval(pl.concat_str(*items)).list.join("").fill_null("")
        if element.name == NODES:
            return pl.concat_str(pl.lit(self.lead(depth)), self._text(element.text, IN_TEXT)).fill_null("")
        text = pl.concat_str(
            pl.lit(f"{self.lead(depth)}<{element.name}"), *self._element_body(element, depth)
        )
        if element.text >= 0:
            return text.fill_null("")
        return pl.when(self._has_any_value(element.columns())).then(text).otherwise(pl.lit(""))

    def _text(self, position: int, references: Mapping[str, str]) -> pl.Expr:
        """A value as text; XML is not escaped."""
        a = self.schema.attributes[position]
        text = a.type.format_column(self.value(a.name))
        return escaped(text, references) if a.type is STRING else text

    def _has_any_value(self, positions: Iterator[int]) -> pl.Expr:
        """Whether any of these columns has a value."""
        return pl.any_horizontal(self._has_value(position) for position in positions)

    def _has_value(self, position: int) -> pl.Expr:
        value = self.value(self.schema.names[position])
        if isinstance(self._type(position), ArrayType):
            return (value.list.len() > 0).fill_null(False)
        return value.is_not_null()

    def _has_undeclared_prefix(self, values: pl.Series) -> pl.Series:
        """For each XML value, whether it has an undeclared prefix."""
        suspect = values.str.contains(_PREFIXED).fill_null(False)
        if not suspect.any():
            return suspect
        distinct = values.filter(suspect).unique()
        unknown = distinct.filter(pl.Series([not _is_complete(value, self.declared) for value in distinct]))
        return values.is_in(unknown.implode()).fill_null(False)


def _field(name: str) -> pl.Expr:
    """A column of an array's items, for use inside ``list.eval``."""
    return pl.element().struct.field(name)


def _is_complete(value: str, declarations: str) -> bool:
    """Whether an XML value declares all its prefixes, apart from the root's declarations."""
    try:
        etree.fromstring(f"<x{declarations}>{value}</x>".encode(), etree.XMLParser(huge_tree=True))
    except etree.XMLSyntaxError:
        return False
    return True

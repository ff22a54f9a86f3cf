"""Paths and nested columns: which place in an element a column of Spark's is, and the other way round.

The names are those of Spark's own source of XML: ``_id`` is the attribute ``id``, a struct is an element with others in
it, an array one that is repeated, and ``_VALUE`` the text of an element that has attributes or children, too. A field
with the metadata ``path`` is what stands there, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import types as spark

from xmlpunct.base.errors import SchemaError
from xmlpunct.base.paths import XML_NAMESPACE, read_path
from xmlpunct.engine.spark.table.spark_columns import Field, Layout, spark_type, type_of
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute

PATH = "path"
"""The key of a field's metadata that says where its value stands."""
_OWN_TEXT = "text()"
_ITEM = "."


@dataclass(frozen=True)
class Naming:
    """How columns are named: what attributes begin with, what a text is called, and what prefixes stand for."""

    attribute: str = "_"
    value: str = "_VALUE"
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def layout(self, columns: spark.StructType, writing: bool = False) -> Layout:
        """What stands where in a tuple's element for these columns. Raises `SchemaError`.

        Read is the text that is an element's own; in one that is written, there is no other.

        >>> line = spark.ArrayType(spark.StructType().add("_sku", "string").add("qty", "integer"))
        >>> buyer = spark.StructType().add("city", "string")
        >>> order = spark.StructType().add("_id", "integer").add("buyer", buyer).add("line", line)
        >>> [f"{a.name} {a.type}" for a in Naming().layout(order).schema]
        ['@id INT', 'buyer/city STRING', 'line ARRAY(@sku STRING, qty INT)']
        """
        fields, attributes = self._read(columns, (), writing)
        try:
            return Layout(fields, Schema.of(_written(attributes) if writing else attributes))
        except SchemaError as error:
            raise SchemaError(f"{error}: two columns stand in one place") from None

    def columns(self, schema: Schema, prefixes: Mapping[str, str]) -> spark.StructType:
        """Columns for a schema of paths, each sorted by name as Spark sorts what it infers.

        ``prefixes`` are those that a document has for namespaces.
        """
        top = _Element()
        for a in schema:
            top.add(a)
        known = {uri: prefix for prefix, uri in self.namespaces.items()}
        return self._struct(top, {**prefixes, **known, XML_NAMESPACE: "xml"}, "")

    def _read(
        self, columns: spark.StructType, steps: tuple[str, ...], writing: bool
    ) -> tuple[tuple[Field, ...], list[Attribute]]:
        fields: list[Field] = []
        attributes: list[Attribute] = []
        for column in columns.fields:
            path, given = self._path(column, steps, writing), column.dataType
            if isinstance(given, spark.StructType):
                inside, below = self._read(given, (path,), writing)
                fields.append(Field(column.name, given, None, inside))
                attributes += below
                continue
            if isinstance(given, spark.ArrayType):
                found, made = self._array(column.name, given, path, writing)
            else:
                found, made = Field(column.name, given, path), Attribute(path, type_of(given, column.name))
            fields.append(found)
            attributes.append(replace(made, nullable=column.nullable, path=path))
        return tuple(fields), attributes

    def _array(self, name: str, given: spark.ArrayType, path: str, writing: bool) -> tuple[Field, Attribute]:
        """An array's field, and its attribute."""
        if isinstance(given.elementType, spark.StructType):
            inside, below = self._read(given.elementType, (), writing)
            rows = Schema.of(_written(below) if writing else below)
            return Field(name, given, path, inside), Attribute(path, array_of(rows))
        if isinstance(given.elementType, spark.ArrayType):
            raise SchemaError(f"column {name}: an array of arrays has no place in XML: ARRAY<STRUCT<...>>")
        item = Attribute(_ITEM, type_of(given.elementType, name))
        return Field(name, given, path), Attribute(path, array_of([item]))

    def _path(self, column: spark.StructField, steps: tuple[str, ...], writing: bool = False) -> str:
        """Where a column's value stands in the tuple, or the row of an array."""
        said = (column.metadata or {}).get(PATH)
        name = column.name
        if said is None and name == self.value:
            if writing:
                return "/".join(steps) or _ITEM
            said = _OWN_TEXT
        elif said is None:
            is_attribute = bool(self.attribute) and name.startswith(self.attribute)
            said = f"@{name.removeprefix(self.attribute)}" if is_attribute else name
        try:
            return str(read_path("/".join([*steps, said]), self.namespaces))
        except ValueError as error:
            raise SchemaError(
                f"column {name}: {error}; option namespaces says what prefixes stand for"
            ) from None

    def _struct(self, element: _Element, prefixes: Mapping[str, str], at: str) -> spark.StructType:
        named: dict[str, spark.StructField] = {}
        for column in self._fields(element, prefixes):
            if column.name in named:
                raise SchemaError(
                    f"two places in <{at or 'the tuple'}> are both called {column.name}: declare a schema, or choose "
                    "another attributePrefix"
                )
            named[column.name] = column
        return spark.StructType([named[name] for name in sorted(named)])

    def _fields(self, element: _Element, prefixes: Mapping[str, str]) -> Iterator[spark.StructField]:
        for step, inside in element.children.items():
            uri, local = step.removeprefix("@").rpartition("}")[::2]
            prefix = prefixes.get(uri.removeprefix("{"), "") if uri else ""
            short = f"{prefix}:{local}" if prefix else local
            if step == _OWN_TEXT:
                name = self.value
            else:
                name = f"{self.attribute}{short}" if step[:1] == "@" else short
            if inside.children:
                if inside.attribute is not None:
                    inside.children[_OWN_TEXT] = _Element(attribute=inside.attribute)
                type_: spark.DataType = self._struct(inside, prefixes, name)
            else:
                type_ = self._type(inside.attribute, prefixes)
            found = spark.StructField(name, type_)
            if uri or self._path(spark.StructField(name, type_), ()) != step:
                found.metadata = {PATH: step}
            yield found

    def _type(self, attribute: Attribute | None, prefixes: Mapping[str, str]) -> spark.DataType:
        assert attribute is not None
        if not isinstance(attribute.type, ArrayType):
            return spark_type(attribute.type)
        rows = attribute.type.attributes
        if [a.path for a in rows] == [_ITEM]:
            return spark.ArrayType(spark_type(rows[0].type))
        top = _Element()
        for a in rows:
            top.add(a)
        return spark.ArrayType(self._struct(top, prefixes, attribute.name))


@dataclass
class _Element:
    """A place: what stands there, and the places in it, by the step to each."""

    attribute: Attribute | None = None
    children: dict[str, _Element] = field(default_factory=dict)

    def add(self, attribute: Attribute) -> None:
        """Add what stands at a path from here."""
        at = self
        for step in steps_of(attribute.path):
            at = at.children.setdefault(step, _Element())
        at.attribute = attribute

    def walk(self) -> Iterator[Attribute]:
        """All that stands here, in the order in which it is written: first what is in the start tag."""
        for step, inside in self.children.items():
            if step[:1] == "@":
                yield from inside.walk()
        if self.attribute is not None:
            yield self.attribute
        for step, inside in self.children.items():
            if step[:1] != "@":
                yield from inside.walk()


def _written(attributes: Iterable[Attribute]) -> Iterator[Attribute]:
    """Attributes in the order in which they are written."""
    top = _Element()
    for attribute in attributes:
        top.add(attribute)
    return top.walk()


def steps_of(path: str) -> Iterable[str]:
    """The steps of a path; of the text of the tuple's own element, one.

    >>> list(steps_of("{urn:a/b}c/@id")), list(steps_of("."))
    (['{urn:a/b}c', '@id'], ['text()'])
    """
    read = read_path(path)
    steps = [*[".."] * read.up, *map(str, read.hops)]
    if read.attribute is not None:
        steps.append(f"@{read.attribute}")
    elif read.own or not steps:
        steps.append(_OWN_TEXT)
    return steps

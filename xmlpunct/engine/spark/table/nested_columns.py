"""Converts between nested Spark columns and paths in an element.

The names are those of Spark's own XML source: ``_id`` is the attribute ``id``, a struct is an element with children, an
array is a repeated element, and ``_VALUE`` is the text of an element with attributes or children. A field with the
metadata ``path`` has its value at that path, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import types as spark

from xmlpunct.base.errors import SchemaError
from xmlpunct.base.paths import XML_NAMESPACE, read_path
from xmlpunct.engine.spark.table.spark_columns import Layout, SparkField, spark_type, type_of_spark
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType, array_of
from xmlpunct.schema.attribute import Attribute

PATH = "path"
"""Metadata key of a field with the path of its value."""
_OWN_TEXT = "text()"
_ITEM = "."


@dataclass(frozen=True)
class Naming:
    """Column naming: prefix of attributes, name of an element's text, and namespaces of prefixes."""

    attribute: str = "_"
    value: str = "_VALUE"
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def layout(self, columns: spark.StructType, writing: bool = False) -> Layout:
        """The layout of these columns: the paths of their values in a tuple's element. Raises `SchemaError`.

        ``_VALUE`` reads an element's own text, without that of children. With ``writing``, it is the element's content.

        >>> line = spark.ArrayType(spark.StructType().add("_sku", "string").add("qty", "integer"))
        >>> buyer = spark.StructType().add("city", "string")
        >>> order = spark.StructType().add("_id", "integer").add("buyer", buyer).add("line", line)
        >>> [f"{a.name} {a.type}" for a in Naming().layout(order).schema]
        ['@id INT', 'buyer/city STRING', 'line ARRAY(@sku STRING, qty INT)']
        """
        fields, attributes = self._read(columns, (), writing)
        try:
            return Layout(fields, Schema.of(_in_writing_order(attributes) if writing else attributes))
        except SchemaError as error:
            raise SchemaError(f"{error}: two columns have the same path") from None

    def columns(self, schema: Schema, prefixes: Mapping[str, str]) -> spark.StructType:
        """The columns for a schema of paths, sorted by name like the columns that Spark infers.

        ``prefixes`` are the document's prefixes by namespace.
        """
        top = _Element()
        for a in schema:
            top.add(a)
        own_prefixes = {uri: prefix for prefix, uri in self.namespaces.items()}
        return self._struct(top, {**prefixes, **own_prefixes, XML_NAMESPACE: "xml"}, "")

    def _read(
        self, columns: spark.StructType, steps: tuple[str, ...], writing: bool
    ) -> tuple[tuple[SparkField, ...], list[Attribute]]:
        fields: list[SparkField] = []
        attributes: list[Attribute] = []
        for column in columns.fields:
            path, type_ = self._path(column, steps, writing), column.dataType
            if isinstance(type_, spark.StructType):
                inside, inner_attributes = self._read(type_, (path,), writing)
                fields.append(SparkField(column.name, type_, None, inside))
                attributes += inner_attributes
                continue
            if isinstance(type_, spark.ArrayType):
                field_, attribute = self._array(column.name, type_, path, writing)
            else:
                field_ = SparkField(column.name, type_, path)
                attribute = Attribute(path, type_of_spark(type_, column.name))
            fields.append(field_)
            attributes.append(replace(attribute, nullable=column.nullable, path=path))
        return tuple(fields), attributes

    def _array(
        self, name: str, type_: spark.ArrayType, path: str, writing: bool
    ) -> tuple[SparkField, Attribute]:
        """The field and the attribute of an array."""
        if isinstance(type_.elementType, spark.StructType):
            inside, inner_attributes = self._read(type_.elementType, (), writing)
            rows = Schema.of(_in_writing_order(inner_attributes) if writing else inner_attributes)
            return SparkField(name, type_, path, inside), Attribute(path, array_of(rows))
        if isinstance(type_.elementType, spark.ArrayType):
            raise SchemaError(
                f"column {name}: an array of arrays cannot be written as XML: ARRAY<STRUCT<...>>"
            )
        item = Attribute(_ITEM, type_of_spark(type_.elementType, name))
        return SparkField(name, type_, path), Attribute(path, array_of([item]))

    def _path(self, column: spark.StructField, steps: tuple[str, ...], writing: bool = False) -> str:
        """The path of a column's value in the tuple, or in the row of an array."""
        path = (column.metadata or {}).get(PATH)
        name = column.name
        if path is None and name == self.value:
            if writing:
                return "/".join(steps) or _ITEM
            path = _OWN_TEXT
        elif path is None:
            is_attribute = bool(self.attribute) and name.startswith(self.attribute)
            path = f"@{name.removeprefix(self.attribute)}" if is_attribute else name
        try:
            return str(read_path("/".join([*steps, path]), self.namespaces))
        except ValueError as error:
            raise SchemaError(
                f"column {name}: {error}; declare prefixes with the option namespaces"
            ) from None

    def _struct(self, element: _Element, prefixes: Mapping[str, str], at: str) -> spark.StructType:
        named: dict[str, spark.StructField] = {}
        for column in self._fields(element, prefixes):
            if column.name in named:
                raise SchemaError(
                    f"two places in <{at or 'the tuple'}> have the name {column.name}: declare a schema, or choose "
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
            field_ = spark.StructField(name, type_)
            if uri or self._path(spark.StructField(name, type_), ()) != step:
                field_.metadata = {PATH: step}
            yield field_

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
    """A node of a path tree: its attribute, and its children by step."""

    attribute: Attribute | None = None
    children: dict[str, _Element] = field(default_factory=dict)

    def add(self, attribute: Attribute) -> None:
        """Add an attribute at its path below this node."""
        at = self
        for step in steps_of(attribute.path):
            at = at.children.setdefault(step, _Element())
        at.attribute = attribute

    def walk(self) -> Iterator[Attribute]:
        """All attributes below this node in writing order: XML attributes of the start tag first."""
        for step, inside in self.children.items():
            if step[:1] == "@":
                yield from inside.walk()
        if self.attribute is not None:
            yield self.attribute
        for step, inside in self.children.items():
            if step[:1] != "@":
                yield from inside.walk()


def _in_writing_order(attributes: Iterable[Attribute]) -> Iterator[Attribute]:
    """Attributes in writing order."""
    top = _Element()
    for attribute in attributes:
        top.add(attribute)
    return top.walk()


def steps_of(path: str) -> Iterable[str]:
    """The steps of a path; the tuple's own text is one step.

    >>> list(steps_of("{urn:a/b}c/@id")), list(steps_of("."))
    (['{urn:a/b}c', '@id'], ['text()'])
    """
    read = read_path(path)
    steps = [*[".."] * read.up, *map(str, read.hops)]
    if read.attribute is not None:
        steps.append(f"@{read.attribute}")
    elif read.own_text or not steps:
        steps.append(_OWN_TEXT)
    return steps

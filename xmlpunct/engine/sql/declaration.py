"""A schema as SQL: the column list, or the whole CREATE STREAM."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xmlpunct.engine.sql.dialect import PunctSQL
from xmlpunct.schema import Attribute, Schema

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {
    *(word for keyword in PunctSQL.tokenizer_class.KEYWORDS for word in keyword.split()),
    *PunctSQL.parser_class.NO_PAREN_FUNCTION_PARSERS,
}


def declaration(name: str, schema: Schema, source: str, element: str, comments: Iterable[str] = ()) -> str:
    """The CREATE STREAM of a stream, behind comments.

    >>> print(declaration("t", Schema.parse("id INT NOT NULL PATH '@id', day DATE"), "a.xml", "{urn:x}t", ["One."]))
    -- One.
    CREATE STREAM t (
      id INT NOT NULL PATH '@id',
      day DATE
    ) WITH (source = 'a.xml', element = '{urn:x}t');
    """
    lines = [f"-- {told if told.isprintable() else ascii(told)}" for told in comments]
    columns = ",\n".join(f"  {_column(attribute)}" for attribute in schema)
    options = f"source = {quoted(source)}, element = {quoted(element)}"
    return "\n".join([*lines, f"CREATE STREAM {identifier(name)} (", columns, f") WITH ({options});"])


def column_list(schema: Schema) -> str:
    """The columns without parentheses, as `Schema.parse` reads them. Domains are left out."""
    return ", ".join(map(_column, schema))


def identifier(name: str) -> str:
    """A name as it stands in SQL, in quotes if need be.

    >>> identifier("sid"), identifier("group"), identifier("a-b")
    ('sid', '"group"', '"a-b"')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    """A text as a string literal."""
    return "'" + text.replace("'", "''") + "'"


def _column(attribute: Attribute) -> str:
    parts = [identifier(attribute.name), str(attribute.type)]
    if not attribute.nullable:
        parts.append("NOT NULL")
    if attribute.path != attribute.name:
        parts.append(f"PATH {quoted(attribute.path)}")
    return " ".join(parts)

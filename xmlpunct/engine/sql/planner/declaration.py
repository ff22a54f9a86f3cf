"""Formats schemas as SQL: column lists and CREATE STREAM statements."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count

from xmlpunct.base.paths import XML_NAMESPACE
from xmlpunct.engine.sql.syntax.dialect import PunctSQL
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute

_NAMESPACE = re.compile(r"\{([^{}]+)\}")
_LONG = 100
"""A longer array is written with one line per column."""
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = {
    *(word for keyword in PunctSQL.tokenizer_class.KEYWORDS for word in keyword.split()),
    *PunctSQL.parser_class.NO_PAREN_FUNCTION_PARSERS,
}


def declaration(
    name: str,
    schema: Schema,
    source: str,
    element: str,
    comments: Iterable[str] = (),
    prefixes: Mapping[str, str] = {},
) -> str:
    """The CREATE STREAM statement of a stream, after comments; ``prefixes`` are preferred prefixes by namespace.

    >>> print(declaration("t", Schema.parse("id INT NOT NULL PATH '@id', day DATE"), "a.xml", "{urn:x}t", ["One."]))
    -- One.
    CREATE STREAM t (
      id INT NOT NULL PATH '@id',
      day DATE
    ) WITH (source = 'a.xml', element = '{urn:x}t');
    >>> lines = Schema.parse("line ARRAY(note STRING PATH '{urn:x}note')")
    >>> print(declaration("t", lines, "a.xml", "t", prefixes={"urn:x": "g"}))
    CREATE STREAM t (
      XMLNAMESPACES('urn:x' AS g),
      line ARRAY(note STRING PATH 'g:note')
    ) WITH (source = 'a.xml', element = 't');
    """
    lines = [f"-- {comment if comment.isprintable() else ascii(comment)}" for comment in comments]
    used_prefixes = _prefixes(schema, prefixes)
    spaces = [
        f"{string_literal(uri)} AS {identifier(prefix)}"
        for uri, prefix in used_prefixes.items()
        if uri != XML_NAMESPACE
    ]
    columns = [f"XMLNAMESPACES({', '.join(spaces)})"] if spaces else []
    columns += [_column(attribute, used_prefixes, "  ") for attribute in schema]
    options = f"source = {string_literal(source)}, element = {string_literal(element)}"
    body = ",\n  ".join(columns)
    return "\n".join([*lines, f"CREATE STREAM {identifier(name)} (", f"  {body}", f") WITH ({options});"])


def column_list(schema: Schema) -> str:
    """The columns without parentheses, as `Schema.parse` reads them. Domains are left out."""
    return ", ".join(_column(attribute) for attribute in schema)


def identifier(name: str) -> str:
    """A name as an SQL identifier, quoted if necessary.

    >>> identifier("sid"), identifier("group"), identifier("a-b")
    ('sid', '"group"', '"a-b"')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def clause(schemes: Iterable[Collection[str]]) -> str:
    """The PUNCTUATED BY clause for schemes.

    >>> clause([["hour", "sid"], ["group"]])
    'PUNCTUATED BY ("group"), (hour, sid)'
    """
    names = sorted((sorted(map(identifier, scheme)) for scheme in schemes), key=lambda s: (len(s), s))
    return "PUNCTUATED BY " + ", ".join(f"({', '.join(scheme)})" for scheme in names)


def string_literal(text: str) -> str:
    """A text as a string literal."""
    return "'" + text.replace("'", "''") + "'"


def _column(attribute: Attribute, prefixes: Mapping[str, str] = {}, indent: str = "") -> str:
    """The declaration of a column; with ``indent``, a long array has one line per column."""
    parts = [identifier(attribute.name), "", *([] if attribute.nullable else ["NOT NULL"])]
    if attribute.path != attribute.name:
        path = _NAMESPACE.sub(
            lambda match: f"{prefixes[match[1]]}:" if match[1] in prefixes else match[0], attribute.path
        )
        parts.append(f"PATH {string_literal(path)}")
    if not isinstance(attribute.type, ArrayType):
        parts[1] = str(attribute.type)
        return " ".join(parts)
    columns = attribute.type.attributes
    parts[1] = f"ARRAY({', '.join(_column(a, prefixes) for a in columns)})"
    if indent and len(" ".join(parts)) > _LONG:
        inner = indent + "  "
        lines = f",\n{inner}".join(_column(a, prefixes, inner) for a in columns)
        parts[1] = f"ARRAY(\n{inner}{lines}\n{indent})"
    return " ".join(parts)


def _prefixes(schema: Schema, preferred: Mapping[str, str]) -> dict[str, str]:
    """A prefix for each namespace in the paths of a schema."""
    prefixes = {XML_NAMESPACE: "xml"}
    for uri in _namespaces(schema):
        prefix = preferred.get(uri, "")
        used_prefixes = {*prefixes.values(), "", "xmlns"}
        numbers = count(1)
        while prefix in used_prefixes:
            prefix = f"ns{next(numbers)}"
        prefixes.setdefault(uri, prefix)
    return prefixes


def _namespaces(attributes: Iterable[Attribute]) -> Iterator[str]:
    for attribute in attributes:
        yield from _NAMESPACE.findall(attribute.path)
        if isinstance(attribute.type, ArrayType):
            yield from _namespaces(attribute.type.attributes)

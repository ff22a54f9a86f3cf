"""The columns that make a tuple a change of a relation: when it happens, and how many copies come or go.

No attribute has their names, for ``$`` cannot stand in an XML name.
"""

from __future__ import annotations

from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT, Type

AT = "$at"
"""The instant from which a change holds. Its type is that of the query's timestamps."""
DIFF = "$diff"
"""How many copies of the tuple come, or go if it is negative. It is never 0."""


def changes(schema: Schema, type_: Type) -> Schema:
    """The changes of a relation of ``schema``, whose instants are of a type.

    >>> changes(Schema.parse("ip STRING"), INT).names
    ('ip', '$at', '$diff')
    """
    return Schema.of((*schema, Attribute(AT, type_, False), Attribute(DIFF, INT, False)))


def tuple_of(schema: Schema) -> Schema:
    """The attributes of the tuples of changes, without what makes them changes."""
    return Schema.of(a for a in schema if a.name not in (AT, DIFF))

"""The columns of changes of a relation: the instant, and the number of copies that are inserted or deleted.

No attribute has these names, because ``$`` cannot occur in an XML name.
"""

from __future__ import annotations

from xmlpunct.schema import Schema
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import INT, Type

AT = "$at"
"""The instant from which a change holds. Its type is that of the query's timestamps."""
DIFF = "$diff"
"""The number of inserted copies of the tuple; negative for deleted ones. It is never 0."""


def changes(schema: Schema, type_: Type) -> Schema:
    """The schema of the changes of a relation; ``type_`` is the type of instants.

    >>> changes(Schema.parse("ip STRING"), INT).names
    ('ip', '$at', '$diff')
    """
    return Schema.of((*schema, Attribute(AT, type_, False), Attribute(DIFF, INT, False)))


def tuple_of(schema: Schema) -> Schema:
    """The schema of a relation, from the schema of its changes."""
    return Schema.of(a for a in schema if a.name not in (AT, DIFF))

"""Attribute types: their values, their XML Schema lexical forms, their order.

A type parses, prints and compares values, one by one and in columns. It is *discrete* or *dense*. A discrete type is
bounded, and each value has an ordinal, an int that grows by one from each value to the next; ranges over it are
canonical when closed. DOUBLE and STRING are dense.
"""

from __future__ import annotations

import copyreg
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl

from xmlpunct.types.attribute_type import NAN, SPACE, Type, Value
from xmlpunct.types.number_types import DecimalType, DoubleType, IntType
from xmlpunct.types.text_types import BooleanType, StringType, XmlType
from xmlpunct.types.time_types import DateType, TimestampType

__all__ = [
    "BOOLEAN", "DATE", "DOUBLE", "INT", "NAN", "SPACE", "STRING", "TIMESTAMP", "XML", "DecimalType", "Type", "Value",
    "decimal", "parse_type",
]  # fmt: skip

STRING: Type = StringType("STRING", pl.String(), False, "", None)
XML: Type = XmlType("XML", pl.String(), False, "", None)
INT: Type = IntType("INT", pl.Int64(), True, -(2**63), 2**63 - 1)
DOUBLE: Type = DoubleType("DOUBLE", pl.Float64(), False, float("-inf"), NAN)
BOOLEAN: Type = BooleanType("BOOLEAN", pl.Boolean(), True, False, True)
DATE: Type = DateType("DATE", pl.Date(), True, date.min, date.max)
TIMESTAMP: Type = TimestampType(
    "TIMESTAMP",
    pl.Datetime("us", "UTC"),
    True,
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
)

_NAMED = {t.name: t for t in (STRING, INT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, XML)}
_NAMED |= {"BIGINT": INT, "TEXT": STRING, "VARCHAR": STRING, "CHAR": STRING, "TIMESTAMPTZ": TIMESTAMP}
_DECIMALS: dict[tuple[int, int], DecimalType] = {}


def decimal(precision: int, scale: int) -> DecimalType:
    """The type DECIMAL(precision, scale), with 1 <= precision <= 38 and 0 <= scale <= precision.

    >>> decimal(5, 2).parse("-1.5")
    Decimal('-1.50')
    """
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise ValueError(f"DECIMAL({precision},{scale}): precision is 1 to 38, scale 0 to precision")
    key = (precision, scale)
    type_ = _DECIMALS.get(key)
    if type_ is None:
        bound = 10**precision - 1
        digits = tuple(map(int, str(bound)))
        high, low = Decimal((0, digits, -scale)), Decimal((1, digits, -scale))
        name = f"DECIMAL({precision},{scale})"
        new = DecimalType(name, pl.Decimal(precision, scale), True, low, high, precision, scale)
        type_ = _DECIMALS.setdefault(key, new)  # the object of the first thread
    return type_


def parse_type(name: str) -> Type:
    """The type with a SQL name. Raises ValueError for other names.

    >>> parse_type("decimal(5, 2)")
    DECIMAL(5,2)
    """
    spelling = re.sub(r"\s+", "", name).upper()
    if spelling in _NAMED:
        return _NAMED[spelling]
    match = re.fullmatch(r"DECIMAL\((\d{1,3}),(\d{1,3})\)", spelling)
    if not match:
        names = "STRING, INT, BIGINT, DOUBLE, DECIMAL(p,s), BOOLEAN, DATE, TIMESTAMP"
        raise ValueError(f"no type {name}: there are {names}")
    return decimal(int(match[1]), int(match[2]))


for _class in {*map(type, _NAMED.values()), DecimalType}:  # unpickling returns the one object of each type
    copyreg.pickle(_class, lambda type_: (parse_type, (type_.name,)))

"""Attribute types: their values, their XML Schema lexical forms, their order.

A type knows three things a pattern needs: how a value reads and prints, how values compare, and whether
they are *discrete*. A discrete type is bounded and every value has an ordinal, an int that grows by one
from each value to the next; ranges over it are canonical when closed. DOUBLE and STRING are *dense*.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import polars as pl

Value = Any
"""A value of an attribute: str, int, float, Decimal, bool, date or an aware UTC datetime; None is null."""

NAN = float("nan")
"""The one NaN that values use, so that it is identical to (and so equals) itself inside tuples."""

SPACE = " \t\r\n"
"""XML's white space."""


@dataclass(frozen=True, eq=False)
class Type(ABC):
    """A type of attribute values. There is one object of each, so types compare and hash by identity.

    ``name`` is its SQL spelling, ``dtype`` the polars type of its columns, ``discrete`` whether values
    have ordinals, ``lowest`` and ``highest`` the ends of its order (None where there is none).
    """

    name: str
    dtype: pl.DataType
    discrete: bool
    lowest: Value
    highest: Value

    comparable: ClassVar[bool] = True
    """Whether its values can be compared, grouped and put in order."""

    @property
    def kind(self) -> str:
        """Its name without what it is made of."""
        return self.name.partition("(")[0]

    @abstractmethod
    def parse(self, text: str) -> Value:
        """Read ``text`` in the XML Schema form. Raises ValueError, whose message gives the reason."""

    def read(self, text: str) -> Value:
        """Read the text of a value in a tuple: as `parse` does, but what is finer than the type is cut down."""
        return self.parse(text)

    @abstractmethod
    def accept(self, value: object) -> Value:
        """Take a Python value as one of this type, or raise ValueError."""

    def format(self, value: Value) -> str:
        """Print a value so that `parse` reads it back."""
        return str(value)

    def key(self, value: Value) -> Any:
        """What to compare instead of the value, where Python's own order is not ours (NaN)."""
        return value

    def ordinal(self, value: Value) -> int:
        """The place of a discrete value in its order."""
        raise TypeError(f"{self.name} is dense")

    def at(self, ordinal: int) -> Value:
        """The discrete value at a place (the inverse of `ordinal`)."""
        raise TypeError(f"{self.name} is dense")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Type], tuple[str]]:
        return (parse_type, (self.name,))

    def _wrong(self, value: object) -> ValueError:
        return ValueError(f"{value!r} is not of type {self.name}")


class _String(Type):
    def parse(self, text: str) -> str:
        return text

    def accept(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(value)
        return value


class _Xml(_String):
    """An element as it stood, which is compared with nothing."""

    comparable = False

    def parse(self, text: str) -> str:
        raise ValueError("XML has no pattern but *")

    def read(self, text: str) -> str:
        return text


_INTEGER = re.compile(r"[+-]?[0-9]+")


class _Int(Type):
    def parse(self, text: str) -> int:
        text = text.strip(SPACE)
        if not _INTEGER.fullmatch(text):
            raise self._wrong(text)
        if len(text) > 18:  # else it fits, and int() of a huge text would be refused by Python
            text = text[0].lstrip("+0123456789") + text.lstrip("+-0").rjust(1, "0")
            if len(text) > 20:
                raise ValueError(f"{text[:24]}... is out of range for {self.name}")
        return self.accept(int(text))

    def accept(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(value)
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{value} is out of range for {self.name}")
        return value

    def ordinal(self, value: int) -> int:
        return value

    def at(self, ordinal: int) -> int:
        return ordinal


_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?INF|NaN")


class _Double(Type):
    def parse(self, text: str) -> float:
        text = text.strip(SPACE)
        if not _DOUBLE.fullmatch(text):
            raise self._wrong(text)
        return self.accept(float(text))

    def accept(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(value)
        try:
            value = float(value)
        except OverflowError:
            raise ValueError(f"an int too large for {self.name}") from None
        return NAN if value != value else value + 0.0  # adding 0.0 makes -0 into 0

    def format(self, value: float) -> str:
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "INF" if value > 0 else "-INF"
        return repr(value)

    def key(self, value: float) -> tuple[bool, float]:
        return (True, 0.0) if value != value else (False, value)


_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")


@dataclass(frozen=True, repr=False, eq=False)
class DecimalType(Type):
    """DECIMAL(precision, scale): a step of 10^-scale."""

    precision: int
    scale: int

    def parse(self, text: str) -> Decimal:
        text = text.strip(SPACE)
        if not _DECIMAL.fullmatch(text):
            raise self._wrong(text)
        return self.accept(Decimal(text))

    def accept(self, value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self._wrong(value)
        _, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int):
            raise self._wrong(value)
        number = int("".join(map(str, digits))) if len(digits) < 4000 else 10**39
        places = exponent + self.scale
        if number == 0:
            unscaled = 0
        elif places >= 0:
            unscaled = number * 10 ** min(places, 40)
        else:
            unscaled, rest = divmod(number, 10 ** min(-places, 4000))
            if rest:
                raise ValueError(f"{value} has more than {self.scale} decimals, {self.name} allows no more")
        if unscaled >= 10**self.precision:
            raise ValueError(f"{value} is out of range for {self.name}")
        return self.at(-unscaled if value < 0 else unscaled)

    def format(self, value: Decimal) -> str:
        return format(value, "f")

    def ordinal(self, value: Decimal) -> int:
        sign, digits, _ = value.as_tuple()
        number = int("".join(map(str, digits)))
        return -number if sign else number

    def at(self, ordinal: int) -> Decimal:
        digits = tuple(map(int, str(abs(ordinal))))
        return Decimal((int(ordinal < 0), digits, -self.scale))


class _Boolean(Type):
    _words: dict[str, bool] = {"true": True, "1": True, "false": False, "0": False}  # noqa: RUF012

    def parse(self, text: str) -> bool:
        try:
            return self._words[text.strip(SPACE)]
        except KeyError:
            raise self._wrong(text) from None

    def accept(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self._wrong(value)
        return value

    def format(self, value: bool) -> str:
        return "true" if value else "false"

    def ordinal(self, value: bool) -> int:
        return int(value)

    def at(self, ordinal: int) -> bool:
        return bool(ordinal)


_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}" + _ZONE)


class _Date(Type):
    def parse(self, text: str) -> date:
        text = text.strip(SPACE)
        if not _DATE.fullmatch(text):
            raise self._wrong(text)
        try:
            return date.fromisoformat(text[:10])
        except ValueError:
            raise self._wrong(text) from None

    def accept(self, value: object) -> date:
        if isinstance(value, datetime) or not isinstance(value, date):
            raise self._wrong(value)
        return value

    def format(self, value: date) -> str:
        return value.isoformat()

    def ordinal(self, value: date) -> int:
        return value.toordinal()

    def at(self, ordinal: int) -> date:
        return date.fromordinal(ordinal)


_TIMESTAMP = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})T"
    r"(?:(?P<clock>(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9])(?:\.(?P<part>[0-9]+))?|24:00:00(?:\.0+)?)"
    + _ZONE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MINUTE, _DAY = 60 * 10**6, 24 * 3600 * 10**6  # in microseconds


class _Timestamp(Type):
    def parse(self, text: str) -> datetime:
        value, is_fine = self._read(text.strip(SPACE))
        if is_fine:
            raise ValueError(f"{text!r} is finer than a microsecond")
        return value

    def read(self, text: str) -> datetime:
        return self._read(text.strip(SPACE))[0]

    def _read(self, text: str) -> tuple[datetime, bool]:
        """The last microsecond that is not later, and whether the text says something later than that."""
        found = _TIMESTAMP.fullmatch(text)
        if not found:
            raise self._wrong(text)
        part, zone = (found["part"] or "").rstrip("0"), found["zone"] or "Z"
        minutes = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[4:])
        try:
            local = datetime.fromisoformat(f"{found['day']}T{found['clock'] or '00:00:00'}+00:00")
            since = self.ordinal(local) + int(part[:6].ljust(6, "0"))
            since += 0 if found["clock"] else _DAY
            # In microseconds, since the local time alone may be in a year that no datetime has.
            return self.at(since + (minutes if zone[0] == "-" else -minutes) * _MINUTE), len(part) > 6
        except (ValueError, OverflowError):
            raise self._wrong(text) from None

    def accept(self, value: object) -> datetime:
        if not isinstance(value, datetime):
            raise self._wrong(value)
        try:
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{value} is out of range for {self.name}") from None

    def format(self, value: datetime) -> str:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"

    def ordinal(self, value: datetime) -> int:
        return (value - _EPOCH) // _MICROSECOND

    def at(self, ordinal: int) -> datetime:
        return _EPOCH + ordinal * _MICROSECOND


STRING: Type = _String("STRING", pl.String(), False, "", None)
XML: Type = _Xml("XML", pl.String(), False, "", None)
INT: Type = _Int("INT", pl.Int64(), True, -(2**63), 2**63 - 1)
DOUBLE: Type = _Double("DOUBLE", pl.Float64(), False, float("-inf"), NAN)
BOOLEAN: Type = _Boolean("BOOLEAN", pl.Boolean(), True, False, True)
DATE: Type = _Date("DATE", pl.Date(), True, date.min, date.max)
TIMESTAMP: Type = _Timestamp(
    "TIMESTAMP",
    pl.Datetime("us", "UTC"),
    True,
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
)

_NAMED = {t.name: t for t in (STRING, INT, DOUBLE, BOOLEAN, DATE, TIMESTAMP, XML)} | {"BIGINT": INT}
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
        made = DecimalType(name, pl.Decimal(precision, scale), True, low, high, precision, scale)
        type_ = _DECIMALS.setdefault(key, made)  # whichever thread was first
    return type_


def parse_type(name: str) -> Type:
    """The type of that SQL name; ValueError for any other.

    >>> parse_type("decimal(5, 2)")
    DECIMAL(5,2)
    """
    spelling = re.sub(r"\s+", "", name).upper()
    if spelling in _NAMED:
        return _NAMED[spelling]
    found = re.fullmatch(r"DECIMAL\((\d{1,3}),(\d{1,3})\)", spelling)
    if not found:
        raise ValueError(f"{name} is no type: use {', '.join(_NAMED)} or DECIMAL(p,s)")
    return decimal(int(found[1]), int(found[2]))

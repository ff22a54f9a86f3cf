"""The types of numbers: INT, DOUBLE and DECIMAL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from xmlpunct.base.doubles import canonical_column
from xmlpunct.types.attribute_type import NAN, SPACE, Type, sql_string

MANY_DIGITS = 4000
"""A number with this many digits is not computed: Python refuses `int` of 4,300. No DECIMAL has as many."""


class _Number(Type):
    numeric = True

    def json_column(self, values: pl.Expr) -> pl.Expr:
        return self.format_column(values)


class IntType(_Number):
    form = re.compile("[+-]?[0-9]+")
    _common = "[+-]?[0-9]{1,18}"

    def parse(self, text: str) -> int:
        text = text.strip(SPACE)
        if not self.form.fullmatch(text):
            raise self._wrong(text)
        if len(text) > 18:  # it may not fit; and Python refuses int() of a huge text
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


class DoubleType(_Number):
    form = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
    _common = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?"
    sql_forms = (
        ("([+-]?)[iI][nN][fF](?:[iI][nN][iI][tT][yY])?", "${1}INF"),
        ("[+-]?[nN][aA][nN]", "NaN"),
    )

    def parse(self, text: str) -> float:
        text = text.strip(SPACE)
        if not self.form.fullmatch(text):
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

    def sql(self, value: float) -> str:
        text = self.format(value)
        if text.lstrip("-").replace(".", "").isdigit():
            return f"{text}e0"
        return text if "e" in text else f"CAST({sql_string(text)} AS DOUBLE)"

    def format_column(self, values: pl.Expr) -> pl.Expr:
        """As `format`, except near zero: 0.00001 instead of 1e-05."""
        infinite = pl.when(values > 0).then(pl.lit("INF")).otherwise(pl.lit("-INF"))
        number = pl.when(values.is_infinite()).then(infinite).otherwise(values.cast(pl.String))
        return pl.when(values.is_nan()).then(pl.lit("NaN")).otherwise(number)

    def json_column(self, values: pl.Expr) -> pl.Expr:
        text = self.format_column(values)
        return pl.when(values.is_finite()).then(text).otherwise(Type.json_column(self, values))

    def _convert(self, texts: pl.Series) -> pl.Series:
        return canonical_column(texts.cast(pl.Float64, strict=False))

    def key(self, value: float) -> tuple[bool, float]:
        return (True, 0.0) if value != value else (False, value)


@dataclass(frozen=True, repr=False, eq=False)
class DecimalType(_Number):
    """DECIMAL(precision, scale): multiples of 10^-scale."""

    precision: int
    scale: int

    form = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")

    @property
    def _common(self) -> str:
        integer_digits = self.precision - self.scale
        digits = f"[0-9]{{1,{integer_digits}}}" if integer_digits else "0"
        return rf"[+-]?{digits}(?:\.[0-9]{{0,{self.scale}}})?"

    def parse(self, text: str) -> Decimal:
        text = text.strip(SPACE)
        if not self.form.fullmatch(text):
            raise self._wrong(text)
        return self.accept(Decimal(text))

    def accept(self, value: object) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self._wrong(value)
        _, digits, exponent = Decimal(value).as_tuple()
        if not isinstance(exponent, int):
            raise self._wrong(value)
        number = int("".join(map(str, digits))) if len(digits) < MANY_DIGITS else 10**39
        shift = exponent + self.scale
        if number == 0:
            unscaled = 0
        elif shift >= 0:
            unscaled = number * 10 ** min(shift, 40)
        else:
            unscaled, remainder = divmod(number, 10 ** min(-shift, MANY_DIGITS))
            if remainder:
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

"""The types of moments: DATE and TIMESTAMP."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import polars as pl

from xmlpunct.types.attribute_type import SPACE, Type, sql_string

_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"  # Python's dates begin with year 1
_DAY = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"


class _Moment(Type):
    def sql(self, value: date) -> str:
        return f"{self.name} {sql_string(self.format(value))}"


class DateType(_Moment):
    form = re.compile(f"{_DAY}{_ZONE}")
    _common = _DAY

    def parse(self, text: str) -> date:
        text = text.strip(SPACE)
        if not self.form.fullmatch(text):
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

    def _convert(self, texts: pl.Series) -> pl.Series:
        return texts.str.to_date("%Y-%m-%d", strict=False)

    def ordinal(self, value: date) -> int:
        return value.toordinal()

    def at(self, ordinal: int) -> date:
        return date.fromordinal(ordinal)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_A_MINUTE, _A_DAY = 60 * 10**6, 24 * 3600 * 10**6  # in microseconds


class TimestampType(_Moment):
    form = re.compile(
        rf"(?P<day>{_DAY})T(?:(?P<clock>{_CLOCK})(?:\.(?P<part>[0-9]+))?|24:00:00(?:\.0+)?){_ZONE}"
    )
    _common = rf"{_DAY}T{_CLOCK}(?:\.[0-9]+)?Z?"
    sql_forms = (
        (f"({_DAY})", "${1}T00:00:00"),
        (f"({_DAY}) +([0-9].*)", "${1}T${2}"),
        (f"({_DAY}T[0-9]{{2}}:[0-9]{{2}})(Z|[+-].*)?", "${1}:00${2}"),
    )

    def parse(self, text: str) -> datetime:
        value, is_fine = self._read(text.strip(SPACE))
        if is_fine:
            raise ValueError(f"{text!r} is finer than a microsecond")
        return value

    def read(self, text: str) -> datetime:
        return self._read(text.strip(SPACE))[0]

    def _read(self, text: str) -> tuple[datetime, bool]:
        """The value of a text, truncated to microseconds; and True if digits were truncated."""
        match = self.form.fullmatch(text)
        if not match:
            raise self._wrong(text)
        fraction, zone = (match["part"] or "").rstrip("0"), match["zone"] or "Z"
        minutes = 0 if zone == "Z" else int(zone[1:3]) * 60 + int(zone[4:])
        try:
            local = datetime.fromisoformat(f"{match['day']}T{match['clock'] or '00:00:00'}+00:00")
            since = self.ordinal(local) + int(fraction[:6].ljust(6, "0"))
            since += 0 if match["clock"] else _A_DAY
            # In microseconds, because the local time may be in a year that datetime does not support.
            return self.at(since + (minutes if zone[0] == "-" else -minutes) * _A_MINUTE), len(fraction) > 6
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

    def format_column(self, values: pl.Expr) -> pl.Expr:
        without_fraction, with_fraction = (
            values.dt.to_string(f"%Y-%m-%dT%H:%M:%S{digits}Z") for digits in ("", "%.6f")
        )
        return pl.when(values.dt.microsecond() == 0).then(without_fraction).otherwise(with_fraction)

    def _convert(self, texts: pl.Series) -> pl.Series:
        local = texts.str.strip_suffix("Z").str.head(len("2026-01-31T12:00:00.123456"))
        values = local.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")
        return values.dt.replace_time_zone("UTC")

    def ordinal(self, value: datetime) -> int:
        return (value - _EPOCH) // _MICROSECOND

    def at(self, ordinal: int) -> datetime:
        return _EPOCH + ordinal * _MICROSECOND

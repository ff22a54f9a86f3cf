"""The base class of types: parsing, printing and comparison of values, one by one and in columns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

Value = Any
"""A value of an attribute: str, int, float, Decimal, bool, date or an aware UTC datetime; None is null."""

NAN = float("nan")
"""The NaN of all values. As one object, it is identical to itself, so that tuples with NaN compare equal."""

SPACE = " \t\r\n"
"""XML's white space."""


@dataclass(frozen=True, eq=False)
class Type(ABC):
    """A type of attribute values. There is one object of each, so types compare and hash by identity.

    ``name`` is its SQL spelling, ``dtype`` the polars type of its columns, ``discrete`` True if values have ordinals,
    ``lowest`` and ``highest`` the ends of its order (None if there is none).
    """

    name: str
    dtype: pl.DataType
    discrete: bool
    lowest: Value
    highest: Value

    comparable: ClassVar[bool] = True
    """True if its values can be compared, grouped and sorted."""
    numeric: ClassVar[bool] = False
    """True for INT, DOUBLE and DECIMAL."""
    form: ClassVar[re.Pattern[str]]
    """The lexical form."""
    sql_forms: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Further forms in SQL: a pattern of the whole text, and its XML Schema form, in which ``${1}`` is a group."""

    @property
    def kind(self) -> str:
        """Its name without parameters."""
        return self.name.partition("(")[0]

    # Values one by one

    @abstractmethod
    def parse(self, text: str) -> Value:
        """Read ``text`` in the XML Schema form. Raises ValueError, whose message gives the reason."""

    def read(self, text: str) -> Value:
        """Read the text of a value in a tuple. As `parse`, but truncates to the resolution of the type."""
        return self.parse(text)

    def parse_sql(self, text: str) -> Value:
        """Read the text of a SQL literal, in the XML Schema form or in SQL's. Raises ValueError."""
        text = text.strip(SPACE)
        for pattern, form in self.sql_forms:
            if match := re.fullmatch(pattern, text):
                text = match.expand(re.sub(r"\$\{(\d)\}", r"\\\1", form))
        return self.parse(text)

    @abstractmethod
    def accept(self, value: object) -> Value:
        """Convert a Python value to a value of this type, or raise ValueError."""

    def format(self, value: Value) -> str:
        """Print a value so that `parse` reads it back."""
        return str(value)

    def sql(self, value: Value) -> str:
        """Print a value as a SQL literal."""
        return self.format(value)

    # Columns

    def read_column(self, texts: pl.Series) -> pl.Series:
        """Apply `read` to texts; null if it fails.

        polars converts texts in the common form. For other texts, `read` is called once for each distinct one.
        """
        texts = texts.str.strip_chars(SPACE)
        common = texts.str.contains(f"^(?:{self._common})$").fill_null(False)
        common_texts = (
            texts if common.all() else texts.to_frame("").select(pl.when(common).then("")).to_series()
        )
        values = self._convert(common_texts).alias(texts.name)
        if values.null_count() == texts.null_count():
            return values
        rows = (
            (values.is_null() & texts.str.contains(f"^(?:{self.form.pattern})$")).fill_null(False).arg_true()
        )
        uncommon = texts.gather(rows)
        value_of = {text: self._attempt(text) for text in uncommon.unique()}
        return values.scatter(rows, pl.Series([value_of[text] for text in uncommon], dtype=self.dtype))

    def read_sql_column(self, texts: pl.Series) -> pl.Series:
        """`read_column` that also accepts the forms of SQL, as CAST does."""
        texts = texts.str.strip_chars(SPACE)
        for pattern, form in self.sql_forms:
            texts = texts.str.replace(f"^(?:{pattern})$", form)
        return self.read_column(texts)

    def format_column(self, values: pl.Expr) -> pl.Expr:
        """A polars expression: the texts of values, in a form that `parse` reads (null stays null)."""
        return values.cast(pl.String)

    def json_column(self, values: pl.Expr) -> pl.Expr:
        """A polars expression: the values in JSON (null stays null)."""
        return pl.concat_str(pl.lit('"'), self.format_column(values), pl.lit('"'))

    @property
    def _common(self) -> str:
        """The common lexical form, a regular expression of the texts that polars can convert."""
        return self.form.pattern

    def _convert(self, texts: pl.Series) -> pl.Series:
        """The values of texts in the common form; null for invalid ones (2023-02-29)."""
        return texts.cast(self.dtype, strict=False)

    def _attempt(self, text: str) -> Value:
        try:
            return self.read(text)
        except ValueError:
            return None

    # Order

    def key(self, value: Value) -> Any:
        """A key that sorts like the value, also where Python's order differs (NaN)."""
        return value

    def ordinal(self, value: Value) -> int:
        """The ordinal of a discrete value."""
        raise TypeError(f"{self.name} is dense")

    def at(self, ordinal: int) -> Value:
        """The discrete value with an ordinal, the inverse of `ordinal`."""
        raise TypeError(f"{self.name} is dense")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def _wrong(self, value: object) -> ValueError:
        return ValueError(f"{value!r} is not of type {self.name}")


def sql_string(text: str) -> str:
    """A text as a SQL string.

    >>> sql_string("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"

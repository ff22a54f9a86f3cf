"""What every type knows: how its values read and print, one by one and in columns, and how they compare."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
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
    numeric: ClassVar[bool] = False
    """Whether it is INT, DOUBLE or a DECIMAL."""
    form: ClassVar[re.Pattern[str]]
    """The lexical form."""
    sql_forms: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Further forms that SQL reads: a pattern of the whole text, and its form in XML Schema (``${1}`` is a group)."""

    @property
    def kind(self) -> str:
        """Its name without what it is made of."""
        return self.name.partition("(")[0]

    # Values one by one

    @abstractmethod
    def parse(self, text: str) -> Value:
        """Read ``text`` in the XML Schema form. Raises ValueError, whose message gives the reason."""

    def read(self, text: str) -> Value:
        """Read the text of a value in a tuple, as `parse` does; but cut down what is finer than the type."""
        return self.parse(text)

    def parse_sql(self, text: str) -> Value:
        """Read the text of a SQL literal, in the XML Schema form or in SQL's. Raises ValueError."""
        text = text.strip(SPACE)
        for pattern, form in self.sql_forms:
            if found := re.fullmatch(pattern, text):
                text = found.expand(re.sub(r"\$\{(\d)\}", r"\\\1", form))
        return self.parse(text)

    @abstractmethod
    def accept(self, value: object) -> Value:
        """Take a Python value as one of this type, or raise ValueError."""

    def format(self, value: Value) -> str:
        """Print a value so that `parse` reads it back."""
        return str(value)

    def sql(self, value: Value) -> str:
        """Print a value as a SQL literal."""
        return self.format(value)

    # Columns

    def read_column(self, texts: pl.Series) -> pl.Series:
        """Read texts as `read` reads each; null where that fails.

        Texts in the common form are converted together. The others are read one by one, each once.
        """
        texts = texts.str.strip_chars(SPACE)
        common = texts.str.contains(f"^(?:{self._common})$").fill_null(False)
        plain = texts if common.all() else texts.to_frame("").select(pl.when(common).then("")).to_series()
        values = self._convert(plain).alias(texts.name)
        if values.null_count() == texts.null_count():
            return values
        rows = (
            (values.is_null() & texts.str.contains(f"^(?:{self.form.pattern})$")).fill_null(False).arg_true()
        )
        rest = texts.gather(rows)
        known = {text: self._attempt(text) for text in rest.unique()}
        return values.scatter(rows, pl.Series([known[text] for text in rest], dtype=self.dtype))

    def read_sql_column(self, texts: pl.Series) -> pl.Series:
        """`read_column`, which also reads the forms of SQL, as CAST does."""
        texts = texts.str.strip_chars(SPACE)
        for pattern, form in self.sql_forms:
            texts = texts.str.replace(f"^(?:{pattern})$", form)
        return self.read_column(texts)

    def format_column(self, values: pl.Expr) -> pl.Expr:
        """A polars expression: the texts of values, which `parse` reads back (null stays null)."""
        return values.cast(pl.String)

    def json_column(self, values: pl.Expr) -> pl.Expr:
        """A polars expression: the values in JSON (null stays null)."""
        return pl.concat_str(pl.lit('"'), self.format_column(values), pl.lit('"'))

    @property
    def _common(self) -> str:
        """The common lexical form, a regular expression that polars converts by itself."""
        return self.form.pattern

    def _convert(self, texts: pl.Series) -> pl.Series:
        """The values of texts in the common form, null for those that are none (2023-02-29)."""
        return texts.cast(self.dtype, strict=False)

    def _attempt(self, text: str) -> Value:
        try:
            return self.read(text)
        except ValueError:
            return None

    # Order

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

    def _wrong(self, value: object) -> ValueError:
        return ValueError(f"{value!r} is not of type {self.name}")


def quoted(text: str) -> str:
    """A text as a SQL string.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"

"""The types of text: STRING, XML and BOOLEAN."""

from __future__ import annotations

import re
from typing import ClassVar

import polars as pl

from xmlpunct.types.attribute_type import SPACE, Type, sql_string


class StringType(Type):
    form = re.compile("(?s:.*)")

    def parse(self, text: str) -> str:
        return text

    def accept(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(value)
        return value

    def sql(self, value: str) -> str:
        return sql_string(value)

    def read_column(self, texts: pl.Series) -> pl.Series:
        return texts

    def format_column(self, values: pl.Expr) -> pl.Expr:
        return values

    def json_column(self, values: pl.Expr) -> pl.Expr:
        encoded = pl.struct(values.alias("")).struct.json_encode()
        return pl.when(values.is_not_null()).then(encoded.str.strip_prefix('{"":').str.strip_suffix("}"))


class XmlType(StringType):
    """The unchanged XML of an element. Its values cannot be compared."""

    comparable = False

    def parse(self, text: str) -> str:
        raise ValueError("XML has no pattern but *")

    def read(self, text: str) -> str:
        return text


class BooleanType(Type):
    form = re.compile("true|false|1|0")
    sql_forms = (
        ("[tT](?:[rR][uU][eE])?|[yY](?:[eE][sS])?", "true"),
        ("[fF](?:[aA][lL][sS][eE])?|[nN][oO]?", "false"),
    )
    _words: ClassVar = {"true": True, "1": True, "false": False, "0": False}

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

    def sql(self, value: bool) -> str:
        return self.format(value).upper()

    def json_column(self, values: pl.Expr) -> pl.Expr:
        return self.format_column(values)

    def _convert(self, texts: pl.Series) -> pl.Series:
        return texts.is_in(["true", "1"]).set(texts.is_null(), None)

    def ordinal(self, value: bool) -> int:
        return int(value)

    def at(self, ordinal: int) -> bool:
        return bool(ordinal)

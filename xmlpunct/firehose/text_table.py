"""Results as an aligned table, for a person at a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import polars as pl

from xmlpunct.base.errors import UsageError
from xmlpunct.base.printable import printable
from xmlpunct.schema import Schema
from xmlpunct.schema.arrays import ArrayType
from xmlpunct.schema.attribute import Attribute
from xmlpunct.slice import Slice
from xmlpunct.types import STRING, XML

_GAP = 2
"""The number of spaces between two columns."""
_LEAST_TEXT = 12
"""A column of texts is not narrower than this, or than its texts in the first rows, for the sake of later rows."""
_WIDEST_PADDED = 60
"""Without a terminal, longer texts are written whole, and the columns after them are not aligned."""
_BOLD, _DIM = "\x1b[1m", "\x1b[2m"


class TextTableWriter:
    """An aligned table of the tuples, without punctuations. Control characters are escaped.

    The first tuples decide the width of each column. ``width`` is that of the terminal: longer texts are shortened,
    and counted in the last line. Numbers and times are never shortened. None: nothing is shortened.

    >>> writer = TextTableWriter(Schema.parse("title STRING, year INT"))
    >>> sample = Slice(writer.schema.frame([("Dune", 1965), (None, 812)]))
    >>> print((writer.start() + writer.body(sample) + writer.end()).decode(), end="")
    title  year
    ─────  ────
    Dune   1965
    NULL    812
    2 rows
    """

    def __init__(self, schema: Schema, width: int | None = None, has_colours: bool = False) -> None:
        self.schema, self._width, self._has_colours = schema, width, has_colours
        self._flexible = [a.type in (STRING, XML) or isinstance(a.type, ArrayType) for a in schema]
        self._widths: list[int] = []
        self._rows = self._shortened = 0

    @classmethod
    def for_terminal(cls, schema: Schema) -> TextTableWriter:
        """A writer for standard output: colours and the width only matter if that is a terminal."""
        if sys.stdout is None or not sys.stdout.isatty():
            return cls(schema)
        has_colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(schema, shutil.get_terminal_size().columns, has_colours)

    def start(self) -> bytes:
        return b""

    def body(self, slice_: Slice) -> bytes:
        if not slice_.tuples.height:
            return b""
        columns = [self._texts(attribute, slice_.tuples) for attribute in self.schema]
        head = b"" if self._widths else self._head(columns)
        self._rows += slice_.tuples.height
        rows = zip(*columns, strict=True) if columns else [()] * slice_.tuples.height
        return head + "".join(self._line(row) for row in rows).encode()

    def messages(self, slice_: Slice) -> tuple[list[bytes], list[bytes]]:
        raise UsageError("a table is for a terminal: write xml or jsonl")

    def end(self) -> bytes:
        head = b"" if self._rows else self._head([[] for _ in self.schema])
        count = f"{self._rows:,} row{'' if self._rows == 1 else 's'}"
        if self._shortened:
            values = "1 value was" if self._shortened == 1 else f"{self._shortened:,} values were"
            count += f"; {values} shortened to fit: --format jsonl writes them whole"
        return head + f"{self._styled(count, _DIM)}\n".encode()

    def unfit(self, tuples: pl.DataFrame) -> None:
        return None

    def _texts(self, attribute: Attribute, tuples: pl.DataFrame) -> list[str | None]:
        type_, values = attribute.type, pl.col(attribute.name)
        texts = type_.json_column(values) if isinstance(type_, ArrayType) else type_.format_column(values)
        return [None if text is None else printable(text) for text in tuples.select(texts).to_series()]

    def _head(self, columns: list[list[str | None]]) -> bytes:
        """The names and a rule; sets the widths."""
        names = [printable(name) for name in self.schema.names]
        contents = [
            max(map(_width, [name, *("NULL" if text is None else text for text in texts)]))
            for name, texts in zip(names, columns, strict=True)
        ]
        if self._width is None:
            self._widths = [min(width, _WIDEST_PADDED) for width in contents]
        else:
            self._widths = self._fitted(contents, self._width)
            names = [_cut(name, width) for name, width in zip(names, self._widths, strict=True)]
        rule = (" " * _GAP).join("─" * width for width in self._widths)
        return f"{self._joined(names, _BOLD)}\n{self._styled(rule, _DIM)}\n".encode()

    def _fitted(self, contents: list[int], width: int) -> list[int]:
        """The widths of columns in a terminal: columns of texts share the space that the others leave."""
        texts = [i for i, is_flexible in enumerate(self._flexible) if is_flexible]
        free = width - _GAP * (len(contents) - 1) - sum(contents) + sum(contents[i] for i in texts)
        widths = list(contents)
        for left, i in zip(range(len(texts), 0, -1), sorted(texts, key=contents.__getitem__), strict=True):
            share = max(free // left, _LEAST_TEXT // 2)
            widths[i] = min(max(contents[i], _LEAST_TEXT), share)
            free -= widths[i]
        return widths

    def _line(self, row: tuple[str | None, ...]) -> str:
        cells = []
        for index, text in enumerate(row):
            is_cut = text is not None and self._flexible[index] and self._width is not None
            cell = "NULL" if text is None else _cut(text, self._limit(index)) if is_cut else text
            self._shortened += text is not None and cell != text
            cells.append(cell)
        return f"{self._joined(cells, '', row)}\n"

    def _limit(self, index: int) -> int:
        """The width of a text: the last column extends to the edge of the terminal."""
        if index < len(self._widths) - 1 or self._width is None:
            return self._widths[index]
        return max(self._widths[index], self._width - sum(self._widths[:-1]) - _GAP * index)

    def _joined(self, cells: list[str], style: str, row: tuple[str | None, ...] = ()) -> str:
        return "".join(self._padded(cells, style, row)).rstrip(" ")

    def _padded(self, cells: list[str], style: str, row: tuple[str | None, ...]) -> Iterator[str]:
        for index, (cell, attribute) in enumerate(zip(cells, self.schema, strict=True)):
            blank = " " * (self._widths[index] - _width(cell))
            is_null = bool(row) and row[index] is None
            text = self._styled(cell, _DIM if is_null else style)
            yield " " * _GAP * bool(index)
            yield blank + text if attribute.type.numeric else text + blank

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}\x1b[0m" if style and self._has_colours else text


def _width(text: str) -> int:
    """The number of cells that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # slow to import

    return cell_len(text)


def _cut(text: str, width: int) -> str:
    """A text of at most ``width`` cells, with an ellipsis if it was longer."""
    if _width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1).rstrip()}…"

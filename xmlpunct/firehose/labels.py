"""Values in file names: for ``dir/hour={hour}.xml`` all tuples of a file have the hour in its name.

The values in the name of a part are its *label*. The end of the last part with a label closes the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import polars as pl

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.forks import polars_works
from xmlpunct.connectors.source import Texts
from xmlpunct.firehose.cells import Cells, shown_text, typed_column
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Type, Value
from xmlpunct.types.pattern import constant


@dataclass(frozen=True)
class Label:
    """The values in a part's name for a stream's tuples, and the punctuation that closes them.

    ``closes``: the punctuation holds at the end of the part, because no later part has the same label.
    """

    closing: Punctuation
    values: tuple[tuple[str, Value], ...]
    closes: bool

    @cached_property
    def by_name(self) -> dict[str, Value]:
        """The values by the names of their attributes."""
        return dict(self.values)


@lru_cache(maxsize=16)
def labels_of(
    specs: tuple[StreamSpec, ...], parts: tuple[tuple[str, Texts], ...]
) -> tuple[tuple[Label, ...], ...]:
    """The labels of each part, one per stream; empty without values in names. ``parts``: (name, values in it).

    Raises `UsageError` if a stream lacks the column of a value, and `SourceError` for an invalid value.

    >>> from xmlpunct.schema import Schema
    >>> spec = StreamSpec("s", Schema.parse("hour INT NOT NULL, a INT"), "t")
    >>> parts = (("7.xml", (("hour", "7"),)), ("07.xml", (("hour", "07"),)))
    >>> [(str(label.closing), label.closes) for (label,) in labels_of((spec,), parts)]
    [('<7, *>', False), ('<7, *>', True)]
    """
    if not any(texts for _, texts in parts):
        return ()
    by_stream = [_labels(spec, parts) for spec in specs]
    return tuple(zip(*by_stream, strict=True))


def _labels(spec: StreamSpec, parts: Sequence[tuple[str, Texts]]) -> list[Label]:
    """The label of each part for a stream."""
    read = [tuple((name, _value(spec, part, name, text)) for name, text in texts) for part, texts in parts]
    closing = [
        Punctuation.of(spec.schema, **{name: constant(spec.schema[name].type, v) for name, v in values})
        for values in read
    ]
    last = {p: number for number, p in enumerate(closing)}
    return [Label(p, read[i], last[p] == i) for i, p in enumerate(closing)]


def _value(spec: StreamSpec, part: str, name: str, text: str) -> Value:
    if name not in spec.schema:
        raise UsageError(f"{part}: its name contains {name}, which is not a column of {spec.name}")
    attribute = spec.schema[name]
    try:
        value = attribute.type.read(text)
    except ValueError as error:
        raise SourceError(part, f"{name} in its name: {error}") from None
    if not attribute.domain.matches(value):
        raise SourceError(
            part, f"{name} in its name: {shown_text(text)} is outside its domain {attribute.domain}"
        )
    return value


def labelled(attribute: Attribute, cells: Cells, value: Value) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute with a value in the label, and faults by row.

    A tuple may lack the value. It must not have a different one.

    >>> from xmlpunct.schema import Schema
    >>> hour = Schema.parse("hour INT NOT NULL")["hour"]
    >>> values, wrong = labelled(hour, Cells.of([None, "17", "18"]), 17)
    >>> values.to_list()[:2], wrong
    ([17, 17], {2: "attribute hour: '18', but the name of the file has 17"})
    """
    values, wrong = typed_column(attribute.weakened(), cells)
    label_column = pl.Series(attribute.name, [value], dtype=values.dtype).new_from_index(0, len(values))
    if values.null_count() < len(values):
        label_text = attribute.type.format(value)
        for row in _differing_rows(attribute.type, values, label_column):
            difference = f"{shown_text(cells.text(row))}, but the name of the file has {label_text}"
            wrong[row] = f"attribute {attribute.name}: {difference}"
    return label_column, wrong


def _differing_rows(type_: Type, values: pl.Series, label_column: pl.Series) -> list[int]:
    """The rows that have a value other than the label's."""
    if polars_works():
        return (values.is_not_null() & (values != label_column)).arg_true().to_list()
    pairs = enumerate(zip(values, label_column, strict=True))
    return [
        row for row, (v, label_value) in pairs if v is not None and type_.key(v) != type_.key(label_value)
    ]

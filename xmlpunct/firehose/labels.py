"""Values in the names of files: in ``dir/hour={hour}.xml`` all tuples of a file have the hour of its name.

What the name of a part says is its *label*. The end of the last part with a label closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import polars as pl

from xmlpunct.base.errors import SourceError, UsageError
from xmlpunct.base.forks import polars_works
from xmlpunct.connectors.source import Texts
from xmlpunct.firehose.cells import Cells
from xmlpunct.firehose.spec import StreamSpec
from xmlpunct.firehose.typed_columns import column, shown
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema.attribute import Attribute
from xmlpunct.types import Type, Value
from xmlpunct.types.pattern import WILDCARD, constant


@dataclass(frozen=True)
class Label:
    """What the name of a part says of a stream's tuples in it, as the punctuation that closes them.

    It ``closes`` at the end of the part if no later part has it too.
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
    """For each part, given its name and what that carries, its label for each stream; empty where there is none.

    Raises `UsageError` where a stream has no such column, and `SourceError` for a value that does not fit it.

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
        raise UsageError(f"{part}: its name carries {name}, which is no column of {spec.name}")
    attribute = spec.schema[name]
    try:
        value = attribute.type.read(text)
    except ValueError as error:
        raise SourceError(part, f"{name} in its name: {error}") from None
    if not attribute.domain.matches(value):
        raise SourceError(part, f"{name} in its name: {shown(text)} is outside its domain {attribute.domain}")
    return value


def labelled(attribute: Attribute, cells: Cells, value: Value) -> tuple[pl.Series, dict[int, str]]:
    """The column of an attribute that a label gives a value, and what is wrong by row.

    Tuples need not have the value, but those that have another one are wrong.

    >>> from xmlpunct.schema import Schema
    >>> hour = Schema.parse("hour INT NOT NULL")["hour"]
    >>> values, wrong = labelled(hour, Cells.of([None, "17", "18"]), 17)
    >>> values.to_list()[:2], wrong
    ([17, 17], {2: "attribute hour: '18', but the name of the file says 17"})
    """
    values, wrong = column(replace(attribute, nullable=True, domain=WILDCARD), cells)
    given = pl.Series(attribute.name, [value], dtype=values.dtype).new_from_index(0, len(values))
    if values.null_count() < len(values):
        named = attribute.type.format(value)
        for row in _others(attribute.type, values, given):
            told = f"{shown(cells.text(row))}, but the name of the file says {named}"
            wrong[row] = f"attribute {attribute.name}: {told}"
    return given, wrong


def _others(type_: Type, values: pl.Series, given: pl.Series) -> list[int]:
    """The rows whose values, if they have one, are others than those given."""
    if polars_works():
        return (values.is_not_null() & (values != given)).arg_true().to_list()
    pairs = enumerate(zip(values, given, strict=True))
    return [row for row, (v, wanted) in pairs if v is not None and type_.key(v) != type_.key(wanted)]

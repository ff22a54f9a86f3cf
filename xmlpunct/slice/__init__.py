"""A slice: consecutive tuples of a stream, in columns, and the punctuations among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from xmlpunct.base.codec import pack, unpack
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema
from xmlpunct.slice.tabular_forms import TabularForms

_TUPLES, _PUNCTUATIONS = "tuples", "punctuations"


@dataclass(slots=True, init=False, repr=False)
class Slice(TabularForms):
    """Consecutive tuples of a stream as columns, and the punctuations among them.

    Parameters
    ----------
    tuples : polars.DataFrame
        One row for each tuple; names and dtypes are those of ``Schema.dtypes``.
    punctuations : iterable of Punctuation
        The punctuations, in the order of the stream.
    before : list of int, optional
        For each punctuation the number of the slice's tuples that precede it in the stream. Empty if the order is
        unknown, as behind an operator.

    Notes
    -----
    In a grammatical stream no tuple behind a punctuation matches it, so the order of tuples and punctuations inside a
    slice carries no information. Only the check for late tuples reads ``before``. See semantics 1.

    At the end of a ``with`` block, the slice releases its tuples.

    Examples
    --------
    >>> with Slice(pl.DataFrame({"sku": ["a7"], "n": [3]})) as part:
    ...     print(part, part.columns, part.to_arrow().to_pylist())
    Slice(tuples: 1, punctuations: 0, columns: sku, n) ['sku', 'n'] [{'sku': 'a7', 'n': 3}]
    """

    tuples: pl.DataFrame
    punctuations: PunctuationBatch
    before: list[int]

    def __init__(
        self, tuples: pl.DataFrame, punctuations: Iterable[Punctuation] = (), before: list[int] | None = None
    ) -> None:
        self.tuples, self.punctuations = tuples, PunctuationBatch.of(punctuations)
        self.before = [] if before is None else before

    def __bool__(self) -> bool:
        return bool(self.punctuations) or self.tuples.height > 0

    def __repr__(self) -> str:
        counts = f"tuples: {self.tuples.height:,}, punctuations: {len(self.punctuations):,}"
        return f"Slice({counts}, columns: {', '.join(self.columns)})"

    def __enter__(self) -> Slice:
        return self

    def __exit__(self, *_: object) -> None:
        self.tuples = self.tuples.clear()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.tuples.columns

    def to_polars(self) -> pl.DataFrame:
        """The tuples as a data frame."""
        return self.tuples

    def parts(self, size: int) -> Iterator[Slice]:
        """Smaller slices of about ``size`` bytes of tuples; at least one. The last one has the punctuations.

        >>> numbers = Slice(pl.DataFrame({"n": [1, 2, 3]}))
        >>> [part.tuples.rows() for part in numbers.parts(16)]
        [[(1,), (2,)], [(3,)]]
        """
        height, bytes_ = self.tuples.height, self.tuples.estimated_size()
        rows = max(1, height if bytes_ <= size else height * size // int(bytes_))
        last = max(0, height - 1) // rows * rows
        for offset in range(0, last, rows):
            yield Slice(self.tuples.slice(offset, rows))
        yield Slice(self.tuples.slice(last), self.punctuations)

    def to_bytes(self) -> bytes:
        """The slice as named frames: its tuples, and its punctuations if there are any."""
        frames = {_TUPLES: self.tuples}
        if self.punctuations:
            frames[_PUNCTUATIONS] = self.punctuations.to_frame(self.punctuations.schema)
        return pack(frames)

    @classmethod
    def from_bytes(cls, schema: Schema, data: bytes) -> Slice:
        """The inverse of `to_bytes`, for punctuations of ``schema``."""
        frames = unpack(data)
        punctuations = frames.get(_PUNCTUATIONS)
        return cls(
            frames[_TUPLES], () if punctuations is None else PunctuationBatch.from_frame(schema, punctuations)
        )


def without(tuples: pl.DataFrame, marked: pl.Series) -> pl.DataFrame:
    """The tuples that are not marked. Free if none is marked, which is the common case."""
    return tuples.filter(~marked) if marked.any() else tuples


def concat(schema: Schema, slices: Iterable[Slice]) -> Slice:
    """One slice of all tuples and all punctuations. It has ``before`` if all slices have it."""
    parts = list(slices)
    if len(parts) == 1:
        return parts[0]
    frames = [s.tuples for s in parts if s.tuples.height]
    tuples = pl.concat(frames) if frames else schema.empty()
    before, height = list[int](), 0
    for s in parts:
        before += (height + n for n in s.before)
        height += s.tuples.height
    punctuations = PunctuationBatch.concat(s.punctuations for s in parts)
    return Slice(tuples, punctuations, before if len(before) == len(punctuations) else [])

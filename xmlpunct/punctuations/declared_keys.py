"""Declared keys: each tuple implies a punctuation on its key value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from xmlpunct.punctuations.forms import has_column
from xmlpunct.punctuations.promised import Promised, earliest, scheme_of
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.schema import Schema


class Keys:
    """The keys of a stream: sets of NOT NULL attributes.

    ``said`` holds the punctuations of earlier slices. Without it only duplicates within a slice are detected.

    >>> ids = Keys(Schema.parse("id INT NOT NULL, v INT"), [("id",)])
    >>> tuples = pl.DataFrame({"id": [1, 2, 1], "v": [5, 5, 6]})
    >>> ids.judge(tuples).to_list(), list(ids.promises(tuples))
    ([None, None, 'id'], [PunctuationBatch([<1, *>, <2, *>])])
    """

    def __init__(self, schema: Schema, keys: Sequence[Sequence[str]], said: Promised | None = None) -> None:
        self.schema, self.keys, self.said = schema, keys, said

    def judge(self, tuples: pl.DataFrame) -> pl.Series:
        """For each tuple the scheme of a key whose value an earlier tuple has; null if there is none."""
        schemes = pl.Series([None], dtype=pl.String()).new_from_index(0, tuples.height)
        if self.said is not None:
            schemes = self.said.schemes(tuples)
        for key in self.keys:
            is_duplicate = ~tuples.select(pl.struct(key).is_first_distinct()).to_series()
            schemes = earliest(schemes, is_duplicate, scheme_of(self.schema, map(self.schema.index, key)))
        return schemes

    def promises(self, tuples: pl.DataFrame) -> Iterator[PunctuationBatch]:
        """For each key the punctuations that these tuples imply; they are added to ``said``."""
        for key in self.keys:
            values = tuples.select(key).unique(maintain_order=True)
            if len(key) == 1 and has_column(self.schema[key[0]].type):
                news = PunctuationBatch.of_column(self.schema, self.schema.index(key[0]), values.to_series())
            else:
                news = PunctuationBatch(
                    Punctuation.of(self.schema, **row) for row in values.iter_rows(named=True)
                )
            if self.said is not None:
                self.said.add(news)
            yield news

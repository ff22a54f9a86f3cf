"""Which of many keys each of many punctuations is about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from xmlpunct.frames import join
from xmlpunct.operators.hash_index import Rows
from xmlpunct.punctuations.pattern import Constant
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.set import PunctuationSet
from xmlpunct.schema import Schema

_KEY, _Q = "$key", "$q"


def pairs(
    schema: Schema, qs: Sequence[Punctuation], keys: pl.DataFrame, of_key: Rows | None = None
) -> tuple[Rows, Rows]:
    """All pairs of the place of a punctuation and of a key that it matches; ``of_key``: of what has that key.

    Punctuations constrain no column but those of ``keys``. Those of constants alone are looked up together.

    >>> s = Schema.parse("k INT, ts INT")
    >>> qs = [Punctuation.of(s, k=k) for k in (7, "[1,2]", "*")]
    >>> [places.tolist() for places in pairs(s, qs, pl.DataFrame({"k": [1, 7]}))]
    [[1, 2, 2, 0], [0, 0, 1, 1]]
    """
    owners = np.arange(keys.height) if of_key is None else of_key
    of_q, matched = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    constants: dict[tuple[int, ...], list[int]] = {}
    for i, q in enumerate(qs):
        if q.constrained and all(isinstance(q.patterns[place], Constant) for place in q.constrained):
            constants.setdefault(tuple(q.constrained), []).append(i)
            continue
        found = np.arange(len(owners))
        if q.constrained:
            found = np.flatnonzero(PunctuationSet(schema, [q]).mask(keys).to_numpy()[owners])
        matched.append(found)
        of_q.append(np.full(len(found), i))
    for places, numbers in constants.items():
        attributes = [schema.attributes[place] for place in places]
        columns = [
            pl.Series(a.name, [qs[i].patterns[place].value for i in numbers], dtype=a.type.dtype)  # type: ignore[attr-defined]
            for a, place in zip(attributes, places, strict=True)
        ]
        said = pl.DataFrame([*columns, pl.Series(_Q, numbers, dtype=pl.Int64)])
        names = [a.name for a in attributes]
        here = keys.select(names).with_columns(pl.Series(_KEY, np.arange(keys.height), dtype=pl.Int64))
        owned = pl.DataFrame({_KEY: owners, "$owned": np.arange(len(owners))})
        met = join(here, said, names, "inner").join(owned, on=_KEY)
        matched.append(met["$owned"].to_numpy())
        of_q.append(met[_Q].to_numpy())
    return np.concatenate(of_q), np.concatenate(matched)

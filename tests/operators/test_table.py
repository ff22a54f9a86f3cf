"""Retained tuples in segments: the same as a plain list of them, of which little changes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import polars as pl
import pytest

from xmlpunct.codec import pack, unpack
from xmlpunct.operators import table
from xmlpunct.operators.table import Table

EMPTY = pl.DataFrame(schema={"n": pl.Int64(), "text": pl.String()})


def rows(first: int, count: int) -> pl.DataFrame:
    numbers = pl.Series("n", range(first, first + count), dtype=pl.Int64)
    return pl.DataFrame([numbers, numbers.cast(pl.String()).alias("text")])


def kept(before: dict[str, pl.DataFrame], after: dict[str, pl.DataFrame]) -> int:
    """How many rows of a snapshot need not be written, since the one before had them."""
    return sum(f.height for name, f in after.items() if before.get(name) is f)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FEW", 4)


def test_it_holds_what_a_list_holds() -> None:
    told = [told for seed in range(30) for told in compared(random.Random(seed))]
    assert sum(told) > len(told) / 20, "some are marked as dead"


def compared(rng: random.Random) -> Iterator[int]:
    """Do this and that to a table and to a list; how many segments have dead rows."""
    held, model = Table(EMPTY), list[tuple[int, str]]()
    for step in range(60):
        kind = rng.random()
        if kind < 0.5:
            fresh = rows(step * 100, rng.choice([0, 1, 3, 30]))
            held.append(fresh)
            model += fresh.rows()
        elif kind < 0.8:
            share = rng.choice([0.05, 0.3, 0.9, 1])
            marked = [rng.random() < share for _ in model]
            held.purge(pl.Series(marked, dtype=pl.Boolean))
            model = [t for t, mark in zip(model, marked, strict=True) if not mark]
        elif kind < 0.9:
            marked = [rng.random() < 0.1 for _ in model]
            model = [(-n if mark else n, s) for (n, s), mark in zip(model, marked, strict=True)]
            to = pl.DataFrame(model, EMPTY.schema, orient="row")
            held.change(pl.Series(marked, dtype=pl.Boolean), to)
        else:
            again = Table(EMPTY)
            again.restore("it", unpack(pack(held.snapshot("it"))) | held.snapshot("its"))
            held = again
        assert held.frame.rows() == model
        assert held.frame.schema == EMPTY.schema
        assert held.height == len(model)
        frames = held.snapshot("it")
        stored = [f.height for name, f in frames.items() if not name.endswith("dead")]
        assert len(stored) <= len(model).bit_length() + 1, "few segments"
        assert sum(stored) <= max(2 * len(model) + len(stored), 4), "not more dead than alive"
        yield len(frames) - len(stored)


def test_what_is_new_is_added_once() -> None:
    held = Table(EMPTY)
    null = pl.DataFrame({"n": [None, 1, None], "text": ["a", None, "a"]}, EMPTY.schema)
    assert held.add(null).rows() == [(None, "a"), (1, None)]
    assert held.add(pl.concat([rows(1, 2), null])).rows() == [(1, "1"), (2, "2")]
    assert held.frame.rows() == [(None, "a"), (1, None), (1, "1"), (2, "2")]


def test_most_of_it_stays_as_it_is() -> None:
    held, before, written = Table(EMPTY), dict[str, pl.DataFrame](), 0
    for step in range(64):
        held.append(rows(step * 100, 100))
        after = held.snapshot("it")
        written += sum(f.height for f in after.values()) - kept(before, after)
        before = after
    assert written <= 6400 * 7, "each row is written a logarithmic number of times"

    numbers = held.frame["n"]
    held.purge((numbers % 10 == 0) & (numbers < 3000))
    after = held.snapshot("it")
    assert kept(before, after) == 6400
    (dead,) = (f for name, f in after.items() if name.endswith("dead"))
    assert dead.to_series().sum() == 300

    before, numbers = after, held.frame["n"]
    held.purge(numbers < 5000)
    assert not any(name.endswith("dead") for name in held.snapshot("it"))
    assert held.frame.equals(rows(5000, 1400))

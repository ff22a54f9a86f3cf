"""ClosedSet with a limit against the plain set of the same punctuations."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, column_in
from xmlpunct import Punctuation, Schema, match
from xmlpunct.punctuations.closed_set import REMEMBERED, ClosedSet
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch

ITEMS = Schema.parse("item INT, t STRING")


@pytest.mark.parametrize("most", [1, 4, REMEMBERED])
@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_what_it_implies_was_said(space: Space, most: int, data: st.DataObject) -> None:
    """What it has in common with a punctuation matches tuples that were closed; all of them, if it forgot nothing."""
    said, past = data.draw(st.lists(space.punctuations(), max_size=12)), ClosedSet(space.schema, limit=most)
    for p in said:
        past.update([p])
    if (batch := column_in(said)) is not None:
        past.update(batch)
    again = ClosedSet(space.schema, limit=most)
    again.restore(past.snapshot())
    assert len(again) == len(past)
    asked = data.draw(space.punctuations())
    found = past.overlapping(asked)
    assert set(again.overlapping(asked)) == set(found)
    for t in space.tuples():
        closed = any(match(t, p) for p in found)
        was = any(match(t, p) for p in said)
        assert was or not closed
        if most == REMEMBERED and match(t, asked):
            assert closed == was
    assert past.has_end == any(p.is_everything for p in said)


def test_it_stays_small() -> None:
    """Items closed one by one fuse; of items that do not, it forgets some."""
    past, gaps = ClosedSet(ITEMS, limit=REMEMBERED), ClosedSet(ITEMS, limit=REMEMBERED)
    for n in range(10 * REMEMBERED):
        past.update([Punctuation.of(ITEMS, item=n, t="a")])
        gaps.update([Punctuation.of(ITEMS, item=2 * n)])
        assert max(len(past), len(gaps)) <= REMEMBERED
    assert [str(p) for p in past.overlapping(Punctuation.of(ITEMS, item="[5,7]"))] == [
        f"<[0,{10 * REMEMBERED - len(past)}], a>"
    ]


def test_a_batch_is_remembered_in_a_column() -> None:
    past = ClosedSet(ITEMS, limit=REMEMBERED)
    past.update(PunctuationBatch.of_column(ITEMS, 0, pl.Series([*range(1000, 3000), *range(1000), 5000])))
    assert len(past) == 2
    assert past.may_overlap(PunctuationBatch.of_column(ITEMS, 0, pl.Series([2999, 9000])))
    assert not past.may_overlap(PunctuationBatch.of_column(ITEMS, 0, pl.Series([6000, 9000])))
    past.update(PunctuationBatch.of_column(ITEMS, 0, pl.Series(range(10_000, 20_000, 2))))
    assert len(past) == 2, "what does not fuse is forgotten at once"

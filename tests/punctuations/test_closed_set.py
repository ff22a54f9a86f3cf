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


@pytest.mark.parametrize("limit", [1, 4, REMEMBERED])
@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_overlapping_matches_only_closed_tuples(space: Space, limit: int, data: st.DataObject) -> None:
    """`overlapping` matches only closed tuples, and all of them if nothing was forgotten."""
    punctuations = data.draw(st.lists(space.punctuations(), max_size=12))
    past = ClosedSet(space.schema, limit=limit)
    for p in punctuations:
        past.update([p])
    if (batch := column_in(punctuations)) is not None:
        past.update(batch)
    restored = ClosedSet(space.schema, limit=limit)
    restored.restore(past.snapshot())
    assert len(restored) == len(past)
    probe = data.draw(space.punctuations())
    overlapping = past.overlapping(probe)
    assert set(restored.overlapping(probe)) == set(overlapping)
    for t in space.tuples():
        is_matched = any(match(t, p) for p in overlapping)
        is_closed = any(match(t, p) for p in punctuations)
        assert is_closed or not is_matched
        if limit == REMEMBERED and match(t, probe):
            assert is_matched == is_closed
    assert past.has_end == any(p.is_everything for p in punctuations)


def test_it_stays_small() -> None:
    """Consecutive items fuse into one range; of items with gaps, some are forgotten."""
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
    assert len(past) == 2, "entries that do not fuse are forgotten at once"

"""Batches: whatever is done to them, it is what is done to the list of their punctuations."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, column_in
from xmlpunct.punctuations.batch import PunctuationBatch, range_key
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


def parts(space: Space) -> st.SearchStrategy[list[list[Punctuation]]]:
    return st.lists(st.lists(space.punctuations(), max_size=5), max_size=4)


@every_space
@given(data=st.data())
def test_a_batch_is_the_sequence_of_its_punctuations(space: Space, data: st.DataObject) -> None:
    batches = [PunctuationBatch.of(column_in(ps) or ps) for ps in data.draw(parts(space))]
    lists = [list(batch) for batch in batches]
    whole = [p for ps in lists for p in ps]
    assert PunctuationBatch.concat(batches) == whole
    assert PunctuationBatch.union(batches) == list(dict.fromkeys(whole))
    other = Schema.of(space.schema.attributes[::-1])
    places = data.draw(st.lists(st.sampled_from(range(len(other))), min_size=len(other), max_size=len(other)))
    for batch, listed in zip(batches, lists, strict=True):
        again = PunctuationBatch(listed)
        assert batch.has_end == again.has_end == any(p.is_everything for p in listed)
        assert batch.rename(space.schema) == listed
        assert PunctuationBatch.from_frame(space.schema, batch.to_frame(space.schema)) == listed
        assert pickle.loads(pickle.dumps(batch)) == listed
        assert batch.unique() == list(dict.fromkeys(listed))
        assert batch.ordered() == again.ordered()
        assert set(batch.ordered()) == {p for p in listed if not p.is_everything}
        for kept in range(len(other)):
            assert batch.closing([kept]) == again.closing([kept])
        if [a.type for a in other] == [space.schema.attributes[i].type for i in places]:
            assert batch.rebase(other, places) == [p.rebase(other, places) for p in listed]
        nothing = [None] * len(other)
        assert batch.rebase(other, nothing) == [p.rebase(other, nothing) for p in listed]
        assert len(batch) == len(listed)
        if batch.place is not None:
            assert (
                PunctuationBatch.from_frame(space.schema, batch.to_frame(space.schema)).place == batch.place
            )
            keys = [range_key(p) if batch.ranged else p.constants[0] for p in batch]  # type: ignore[index]
            assert batch.keys == keys
            lows, highs = batch.columns
            ranges = [p.patterns[batch.place] for p in batch] if batch.ranged else []
            assert not ranges or lows.to_list() == [p.low for p in ranges]  # type: ignore[attr-defined]
            assert not ranges or highs.to_list() == [p.high for p in ranges]  # type: ignore[attr-defined]
            assert batch.of_some(batch.keys) == listed
            again = batch.of_some(batch.keys)
            assert all(one.equals(other) for one, other in zip(again.columns, batch.columns, strict=True))
            assert batch[0] == listed[0]
            assert batch[:2] == listed[:2]


def test_columns_of_one_attribute_stay_a_column() -> None:
    schema = Schema.parse("a INT, b INT")
    some, more = (column_in([Punctuation.of(schema, a=i) for i in numbers]) for numbers in ((1, 2), (2, 3)))
    others = column_in([Punctuation.of(schema, b=1)])
    assert some is not None
    assert more is not None
    assert others is not None
    assert PunctuationBatch.concat([some, []]).place == 0
    assert PunctuationBatch.concat([some, more.of_some([3])]).place == 0
    assert PunctuationBatch.concat([some, more]).place is None  # each is in it once
    assert PunctuationBatch.union([some, more]).place == 0
    assert PunctuationBatch.union([some, others]).place is None

"""Bundles: whatever is done to them, it is what is done to the list of their punctuations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, bundle_in
from xmlpunct.punctuations.bundle import Bundle, chained, distinct, has_end, loaded, rebased, renamed, stored
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


def parts(space: Space) -> st.SearchStrategy[list[list[Punctuation]]]:
    return st.lists(st.lists(space.punctuations(), max_size=5), max_size=4)


@every_space
@given(data=st.data())
def test_a_bundle_is_the_sequence_of_its_punctuations(space: Space, data: st.DataObject) -> None:
    single = [bundle_in(ps) or ps for ps in data.draw(parts(space))]
    lists = [list(ps) for ps in single]
    whole = [p for ps in lists for p in ps]
    assert list(chained(single)) == whole
    assert list(distinct(single)) == list(dict.fromkeys(whole))
    other = Schema.of(space.schema.attributes[::-1])
    places = data.draw(st.lists(st.sampled_from(range(len(other))), min_size=len(other), max_size=len(other)))
    for ps, listed in zip(single, lists, strict=True):
        assert has_end(ps) == has_end(listed)
        assert list(renamed(ps, space.schema)) == listed
        assert list(loaded(space.schema, stored(space.schema, ps))) == listed
        if [a.type for a in other] == [space.schema.attributes[i].type for i in places]:
            assert list(rebased(ps, other, places)) == [p.rebase(other, places) for p in listed]
        nothing = [None] * len(other)
        assert list(rebased(ps, other, nothing)) == [p.rebase(other, nothing) for p in listed]
        if isinstance(ps, Bundle):
            assert isinstance(loaded(space.schema, stored(space.schema, ps)), Bundle)
            assert [p.constants for p in ps] == [(key,) for key in ps.keys]
            assert ps[0] == listed[0]
            assert ps[:2] == listed[:2]


def test_bundles_of_one_attribute_stay_a_bundle() -> None:
    schema = Schema.parse("a INT, b INT")
    some, more = (bundle_in([Punctuation.of(schema, a=i) for i in numbers]) for numbers in ((1, 2), (2, 3)))
    others = bundle_in([Punctuation.of(schema, b=1)])
    assert isinstance(some, Bundle)
    assert isinstance(more, Bundle)
    assert isinstance(others, Bundle)
    assert isinstance(chained([some, []]), Bundle)
    assert isinstance(chained([some, more.of([3])]), Bundle)
    assert not isinstance(chained([some, more]), Bundle)  # each is in it once
    assert isinstance(distinct([some, more]), Bundle)
    assert not isinstance(distinct([some, others]), Bundle)

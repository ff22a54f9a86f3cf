"""Lateness against the definition, a tuple at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.test_coverage import SCHEMA, TUPLES, punctuations
from xmlpunct import Punctuation, Slice, match
from xmlpunct.lateness import Lateness

ELEMENTS = st.lists(TUPLES | punctuations(), max_size=30)


@given(ELEMENTS, st.sets(st.integers(0, 30)))
def test_a_tuple_is_late_behind_a_punctuation_that_matches_it(elements: list[object], cuts: set[int]) -> None:
    said: list[Punctuation] = []
    expected, found = [], []
    lateness = Lateness(SCHEMA)
    tuples: list[tuple[object, ...]] = []
    pending: list[Punctuation] = []
    before: list[int] = []
    for i, element in enumerate([*elements, None]):
        if i in cuts or element is None:
            found += lateness.judge(Slice(SCHEMA.frame(tuples), pending, before)).to_list()
            tuples, pending, before = [], [], []
        if isinstance(element, Punctuation):
            said.append(element)
            pending.append(element)
            before.append(len(tuples))
        elif isinstance(element, tuple):
            expected.append(any(match(element, p) for p in said))
            tuples.append(element)
    assert found == expected

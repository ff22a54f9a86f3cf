"""Alignment combines the same punctuations for few and many inputs, in columns and one by one."""

from __future__ import annotations

import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, column_in
from xmlpunct.punctuations import alignment
from xmlpunct.punctuations.alignment import Alignment
from xmlpunct.punctuations.ownership import Ownership
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.punctuations.punctuation_batch import PunctuationBatch
from xmlpunct.punctuations.single_attribute import columnar
from xmlpunct.schema import Schema

every_space = pytest.mark.parametrize("space", SPACES, ids=str)


@every_space
@given(data=st.data())
def test_a_tally_changes_nothing(space: Space, data: st.DataObject) -> None:
    ports, alike = data.draw(st.integers(2, 4)), data.draw(st.booleans())
    plain, tallied = (Alignment(space.schema, ports, alike) for _ in range(2))
    if data.draw(st.booleans()):
        for candidate in (plain, tallied):
            candidate.ownership = Ownership(space.schema, [space.schema.names[:1]])
    for _ in range(data.draw(st.integers(1, 6))):
        port, ps = data.draw(st.integers(0, ports - 1)), data.draw(st.lists(space.punctuations(), max_size=3))
        batch = PunctuationBatch.of((column_in(ps) or ps) if data.draw(st.booleans()) else ps)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(alignment, "MANY", 100)
            expected = plain.update(port, batch)
            patch.setattr(alignment, "MANY", 0)
            assert tallied.update(port, batch) == expected
        assert [list(received) for received in plain.inputs] == [
            list(received) for received in tallied.inputs
        ]
        assert len(plain) == len(tallied)


def test_ranges_in_columns_are_aligned_as_they_are_one_by_one() -> None:
    schema = Schema.parse("a INT")
    for second in ("[6,9]", "[3,9]", "[1,5]"):  # apart from the first, overlapping it, equal to it
        texts = [["[1,5]", second], ["[1,5]"], [second]]
        together, single = Alignment(schema, 2), Alignment(schema, 2)
        for port in (0, 1):
            for batch in texts:
                ps = list(dict.fromkeys(Punctuation.of(schema, a=text) for text in batch))
                combined = together.update(port, column_in(ps) or ps)
                one_by_one = [c for p in ps for c in single.add(port, p)]
                assert list(combined) == list(dict.fromkeys(one_by_one))
        assert len(together) == len(single)


INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4)), min_size=1, max_size=4, unique=True)


@given(
    received=st.lists(st.tuples(st.integers(0, 1), INTERVALS), max_size=12),
    threshold=st.sampled_from([0, alignment.SORTED_PER_RANGE]),
)
def test_ranges_in_columns_combine_as_they_do_one_by_one(
    received: list[tuple[int, list[tuple[int, int]]]], threshold: int
) -> None:
    schema = Schema.parse("k INT, v INT")
    in_columns, singly = (Alignment(schema, 2) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "SORTED_PER_RANGE", threshold)
        for port, intervals in received:
            lows, lengths = (pl.Series(ends, dtype=pl.Int64()) for ends in zip(*intervals, strict=True))
            batch = PunctuationBatch.of_ranges(schema, 0, lows, lows + lengths)
            expected = dict.fromkeys(c for p in list(batch) for c in singly.add(port, p))
            assert set(in_columns.update(port, batch)) == expected.keys()
            assert [set(ps) for ps in in_columns.inputs] == [set(ps) for ps in singly.inputs]


def test_a_thousand_inputs_agree() -> None:
    schema = Schema.parse("sid STRING, hour INT")
    alignment = Alignment(schema, 1000, alike=True)
    for hour in range(3):
        p = Punctuation.of(schema, hour=f"(,{hour}]")
        assert [c for port in range(1000) for c in alignment.add(port, p)] == [p]
    assert len(alignment) == 0


def test_an_update_of_a_thousand_inputs_makes_few_calls_per_input() -> None:
    schema = Schema.parse("sid STRING, hour INT")
    for text in ("{0}", "[{0}0,{0}9]", "(,{0}]"):
        alignment, calls = Alignment(schema, 1000, alike=True), 0

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        for hour in (1, 2):
            p = Punctuation.of(schema, hour=text.format(hour))
            before, calls = sys.getprofile(), 0
            sys.setprofile(count)
            try:
                combined = [c for port in range(1000) for c in alignment.update(port, [p])]
            finally:
                sys.setprofile(before)
            assert combined == [p]
            assert calls < 500 * 1000


def test_a_range_is_dropped_once_its_input_emits_a_larger_one() -> None:
    """Only the latest bounds of an input that is ahead are retained, and they are combined once."""
    s = Schema.parse("sid STRING, hour INT")
    alignment = Alignment(s, 2)
    for hour in range(100):
        batch = [Punctuation.of(s, hour=f"(,{hour}]"), Punctuation.of(s, sid="S1", hour=f"(,{hour + 1}]")]
        assert not alignment.update(0, batch)
        assert len(alignment) == 2
    assert alignment.update(1, [Punctuation.of(s, hour="(,50]")]) == [
        Punctuation.of(s, hour="(,50]"),
        Punctuation.of(s, sid="S1", hour="(,50]"),
    ]


CONSTANTS_AND_RANGES = st.lists(
    st.one_of(
        st.integers(0, 12).map(str),
        st.integers(0, 12).map("(,{}]".format),
        st.tuples(st.integers(0, 12), st.integers(1, 4)).map(lambda ends: f"[{ends[0]},{sum(ends)}]"),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)


@given(st.lists(st.tuples(st.integers(0, 1), CONSTANTS_AND_RANGES), min_size=1, max_size=8))
def test_constants_in_columns_combine_with_ranges_as_objects_do(
    batches: list[tuple[int, list[str]]],
) -> None:
    schema = Schema.parse("a INT")
    together, single = Alignment(schema, 2), Alignment(schema, 2)
    for port, texts in batches:
        batch = columnar(list(dict.fromkeys(Punctuation.of(schema, a=text) for text in texts)))
        objects = [PunctuationBatch([*part]) for part in batch.parts]
        combined = together.update(port, batch)
        assert set(combined) == {c for part in objects for c in single.update(port, part)}
        assert [set(received) for received in together.inputs] == [
            set(received) for received in single.inputs
        ]


def test_a_constant_within_a_retained_range_costs_no_punctuation(monkeypatch: pytest.MonkeyPatch) -> None:
    """One input closes a prefix, the other value by value, as do bids on auctions."""
    schema, created = Schema.parse("a INT"), 0
    original = Punctuation.__init__

    def counted(*arguments: object) -> None:
        nonlocal created
        created += 1
        original(*arguments)  # type: ignore[arg-type]

    received = Alignment(schema, 2)
    received.update(
        0, PunctuationBatch.of_ranges(schema, 0, pl.Series([None], dtype=pl.Int64), pl.Series([9_999]))
    )
    monkeypatch.setattr(Punctuation, "__init__", counted)
    constants = PunctuationBatch.of_column(schema, 0, pl.Series(range(0, 10_000, 2)))
    assert received.update(1, constants).is_same(constants)
    assert created < 100

"""Slices: their bytes, and the packing of named frames that snapshots use."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import SPACES, Space, punctuations_of, slice_of, streams, tuples_of
from xmlpunct.base.codec import pack, unpack
from xmlpunct.punctuations.punctuation import Punctuation
from xmlpunct.schema import Schema
from xmlpunct.slice import Slice, concat


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_bytes_read_back(space: Space, data: st.DataObject) -> None:
    given = slice_of(space.schema, data.draw(streams(space)))
    found = Slice.from_bytes(space.schema, given.to_bytes())
    assert found.tuples.equals(given.tuples, null_equal=True)
    assert found.tuples.schema == given.tuples.schema
    assert found.punctuations == given.punctuations
    assert all(p.schema == space.schema for p in found.punctuations)
    assert bool(found) == bool(given)


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_concat_keeps_everything_in_order(space: Space, data: st.DataObject) -> None:
    parts = data.draw(st.lists(streams(space, most=5), max_size=3))
    found = concat(space.schema, [slice_of(space.schema, part) for part in parts])
    whole = [e for part in parts for e in part]
    assert found.tuples.equals(space.schema.frame(tuples_of(whole)), null_equal=True)
    assert found.punctuations == punctuations_of(whole)
    before = [len(tuples_of(whole[:i])) for i, e in enumerate(whole) if isinstance(e, Punctuation)]
    assert found.before == before


def test_what_one_part_does_not_know_the_whole_does_not() -> None:
    schema = Schema.parse("a INT")
    said, rows = Punctuation.of(schema, a=1), schema.frame([(1,), (2,)])
    assert concat(schema, [Slice(rows, [said], [1]), Slice(rows, [said], [0])]).before == [1, 2]
    assert concat(schema, [Slice(rows, [said], [1]), Slice(rows, [said])]).before == []


def test_truth_of_a_slice() -> None:
    schema = Schema.parse("a INT")
    assert not Slice(schema.empty())
    assert Slice(schema.frame([(None,)]))
    assert Slice(schema.empty(), [Punctuation.everything(schema)])


NAMES = st.text(alphabet="ab/.é0", max_size=5)
FRAMES = st.lists(st.none() | st.integers(-9, 9), max_size=4).map(
    lambda v: pl.DataFrame({"x": v}, schema={"x": pl.Int64()})
)


@given(st.dictionaries(NAMES, FRAMES, max_size=4))
def test_unpack_is_the_inverse_of_pack(frames: dict[str, pl.DataFrame]) -> None:
    found = unpack(pack(frames))
    assert list(found) == list(frames)
    for name, frame in frames.items():
        assert found[name].equals(frame, null_equal=True)
        assert found[name].schema == frame.schema


def test_pack_keeps_wide_types() -> None:
    frame = pl.DataFrame({"i": [2**100, None]}, schema={"i": pl.Int128()})
    assert unpack(pack({"wide": frame}))["wide"].equals(frame, null_equal=True)

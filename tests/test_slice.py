"""Slices: serialization, concatenation, and the packing of named frames for snapshots."""

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
    original = slice_of(space.schema, data.draw(streams(space)))
    decoded = Slice.from_bytes(space.schema, original.to_bytes())
    assert decoded.tuples.equals(original.tuples, null_equal=True)
    assert decoded.tuples.schema == original.tuples.schema
    assert decoded.punctuations == original.punctuations
    assert all(p.schema == space.schema for p in decoded.punctuations)
    assert bool(decoded) == bool(original)


@pytest.mark.parametrize("space", SPACES, ids=str)
@given(data=st.data())
def test_concat_keeps_everything_in_order(space: Space, data: st.DataObject) -> None:
    parts = data.draw(st.lists(streams(space, most=5), max_size=3))
    joined = concat(space.schema, [slice_of(space.schema, part) for part in parts])
    elements = [e for part in parts for e in part]
    assert joined.tuples.equals(space.schema.frame(tuples_of(elements)), null_equal=True)
    assert joined.punctuations == punctuations_of(elements)
    before = [len(tuples_of(elements[:i])) for i, e in enumerate(elements) if isinstance(e, Punctuation)]
    assert joined.before == before


def test_concat_has_positions_only_if_every_part_has_them() -> None:
    schema = Schema.parse("a INT")
    punctuation, rows = Punctuation.of(schema, a=1), schema.frame([(1,), (2,)])
    assert concat(schema, [Slice(rows, [punctuation], [1]), Slice(rows, [punctuation], [0])]).before == [1, 2]
    assert concat(schema, [Slice(rows, [punctuation], [1]), Slice(rows, [punctuation])]).before == []


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
    unpacked = unpack(pack(frames))
    assert list(unpacked) == list(frames)
    for name, frame in frames.items():
        assert unpacked[name].equals(frame, null_equal=True)
        assert unpacked[name].schema == frame.schema


def test_pack_keeps_wide_types() -> None:
    frame = pl.DataFrame({"i": [2**100, None]}, schema={"i": pl.Int128()})
    assert unpack(pack({"wide": frame}))["wide"].equals(frame, null_equal=True)
